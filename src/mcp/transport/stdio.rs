//! MCP over stdio: one message or batch per line in each direction, with one client. It uses the same
//! handlers as HTTP, and one future runs them all. Nothing but messages may be written to the output.
//!
//! The end of the input ends the server, never a job.

mod lines;
mod output;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::lines::{Lines, TooLong};
use self::output::{Batch, Reply, Stdout};
use crate::auth::Principal;
use crate::mcp::Bridge;
use crate::mcp::dialect::{v2025_11_25, v2026_07_28};
use crate::mcp::session::in_flight::{InFlight, OpenParams};
use crate::mcp::session::token::Caller;
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{
    Error, INTERNAL_ERROR, INVALID_REQUEST, Id, Malformed, Message, Outcome, Request,
};
use crate::mcp::wire::revision;
use crate::mcp::wire::revision::Generation;

/// Capacity of the output queue in lines. Senders wait while it is full.
const OUTPUT_CAPACITY: usize = 64;

/// Maximum number of concurrent messages. Further requests are refused. With [`OUTPUT_CAPACITY`] more
/// pending, no input is read.
const MAX_CONCURRENT: usize = 4096;

/// How long pending requests may continue after the end of the input or after shutdown begins. The rest is
/// dropped.
const GRACE: Duration = Duration::from_secs(1);

/// Session name in `InFlight` of requests of the stateless generation. No real session has it.
const STATELESS_SESSION: &str = "";

/// Serves one client until the input ends or `shutdown` is cancelled.
///
/// # Errors
/// If reading the input or writing the output fails.
pub async fn serve(
    input: impl AsyncBufRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send,
    bridge: &Bridge,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (lines, queued_lines) = mpsc::channel(OUTPUT_CAPACITY);
    // The end of the input stops the server too.
    let stop = shutdown.child_token();
    bridge.context.service.set_stop_token(stop.clone());
    let server = StdioServer {
        bridge,
        in_flight: InFlight::default(),
        lines,
        caller: None,
        pending: FuturesUnordered::new(),
        listening: None,
    };
    let mut writing = std::pin::pin!(write(output, queued_lines));
    // All output goes through one queue of whole lines. A handler that is dropped while it sends leaves no
    // partial line.
    let result = tokio::select! {
        biased;
        result = &mut writing => return result,
        result = server.read(Lines::new(input), stop) => result,
    };
    writing.await?;
    result
}

/// The client, and the work in progress for it.
struct StdioServer<'a> {
    bridge: &'a Bridge,
    in_flight: InFlight,
    lines: mpsc::Sender<Vec<u8>>,
    /// Set by `initialize`.
    caller: Option<Arc<Caller>>,
    pending: FuturesUnordered<BoxFuture<'a, ()>>,
    /// Set by `notifications/initialized`.
    listening: Option<BoxFuture<'a, ()>>,
}

impl<'a> StdioServer<'a> {
    async fn read(
        mut self,
        mut input: Lines<impl AsyncBufRead + Unpin + Send>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        loop {
            let listening = async {
                match &mut self.listening {
                    Some(listening) => listening.await,
                    None => std::future::pending().await,
                }
            };
            let max_bytes = self.bridge.context.settings().max_body_bytes;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(()) = self.pending.next() => {}
                () = listening => self.listening = None,
                line = input.next(max_bytes), if self.pending.len() < MAX_CONCURRENT + OUTPUT_CAPACITY => match line? {
                    Some(line) => self.handle_line(line),
                    None => break,
                },
            }
        }
        stop.cancel();
        self.listening = None;
        // A client that pipes a few requests in expects their responses. Requests that still wait for a job
        // after `GRACE` are dropped.
        let _ = tokio::time::timeout(GRACE, async { while self.pending.next().await.is_some() {} }).await;
        Ok(())
    }

    fn handle_line(&mut self, line: Result<Vec<u8>, TooLong>) {
        let limits = &self.bridge.context.settings().limits;
        let parsed = match line {
            Ok(line) if jsonrpc::batch::is_batch(&line) && self.accepts_batches() => {
                match limits.read_batch(&line) {
                    Ok(entries) => return self.handle_batch(entries),
                    Err(malformed) => Err(malformed),
                }
            }
            Ok(line) => limits.read(&line),
            Err(TooLong(max_bytes)) => {
                let message =
                    format!("the message is larger than the {max_bytes} bytes that this server takes");
                Err(Malformed { id: None, error: Error::new(INVALID_REQUEST, message) })
            }
        };
        match parsed {
            Ok(message) => self.dispatch(message, Reply::Single),
            Err(malformed) => self.refuse(malformed, Reply::Single),
        }
    }

    fn accepts_batches(&self) -> bool {
        let session = self.caller.as_ref().and_then(|caller| caller.session.as_ref());
        session.is_some_and(|session| session.revision.has_batches())
    }

    /// Handles each entry like a single message, but refuses `initialize` and requests of the stateless
    /// generation. The responses are sent together.
    fn handle_batch(&mut self, entries: Vec<Result<Message, Malformed>>) {
        let is_answered =
            |entry: &&Result<Message, Malformed>| matches!(entry, Err(_) | Ok(Message::Request(_)));
        let batch = Batch::of(entries.iter().filter(is_answered).count());
        for entry in entries {
            let reply = Reply::Batch(Arc::clone(&batch));
            match entry {
                Ok(Message::Request(Request { id, method, params })) => {
                    match revision::batch_refusal(&method, &params) {
                        Some(reason) => self.refuse(invalid(id, reason), reply),
                        None => self.dispatch(Message::Request(Request { id, method, params }), reply),
                    }
                }
                Ok(message) => self.dispatch(message, reply),
                Err(malformed) => self.refuse(malformed, reply),
            }
        }
    }

    fn dispatch(&mut self, message: Message, reply: Reply) {
        match (message, self.caller.clone()) {
            // Notifications and responses may end or answer a request, so they are never refused.
            (Message::Request(request), _) if self.pending.len() >= MAX_CONCURRENT => {
                let message = format!("more than {MAX_CONCURRENT} requests are open: wait for some of them");
                let error = Error::new(INTERNAL_ERROR, message);
                self.refuse(Malformed { id: Some(request.id), error }, reply);
            }
            (Message::Request(request), caller)
                if Generation::of(&request.method, &request.params, None, caller.is_some())
                    == Generation::Stateless =>
            {
                self.handle_stateless(request);
            }
            (Message::Request(request), None) => self.handle_uninitialized(request),
            (Message::Request(request), Some(_)) if request.method == "initialize" => {
                let reason = "this session has begun already: start the server again for another";
                self.refuse(invalid(request.id, reason), reply);
            }
            (Message::Request(request), Some(caller)) => self.handle(caller, request, reply),
            (Message::Notification { method, params }, _) if method == "notifications/cancelled" => {
                self.cancel(&params);
            }
            (Message::Notification { method, params }, Some(caller)) => {
                self.handle_notification(caller, method, params)
            }
            (Message::Response { id: Some(id), outcome }, Some(caller)) => {
                self.handle_response(caller, id, outcome)
            }
            // The content of a message may be secret.
            (Message::Notification { method, .. }, None) => {
                tracing::debug!(method, "a notification before the session");
            }
            (Message::Response { .. }, _) => tracing::debug!("a response to nothing that was asked"),
        }
    }

    /// Handles a request before the session begins.
    fn handle_uninitialized(&mut self, request: Request) {
        match request.method.as_str() {
            "initialize" => {
                let principal = Principal::single_user();
                let outcome = v2025_11_25::initialize(self.bridge, &principal, &request.params);
                let outcome = outcome.map(|(session, result)| {
                    self.caller = Some(Arc::new(Caller { principal, session: Some(session) }));
                    result
                });
                self.write(jsonrpc::response(&request.id, &outcome));
            }
            "ping" => self.write(jsonrpc::response(&request.id, &Ok(Value::Object(serde_json::Map::new())))),
            _ => self.refuse(invalid(request.id, "begin with initialize"), Reply::Single),
        }
    }

    fn handle(&mut self, caller: Arc<Caller>, request: Request, reply: Reply) {
        let (bridge, sink) = (self.bridge, Stdout(self.lines.clone()));
        let guard = self.in_flight.open(open_params(self.bridge, nonce(&caller), &request.id));
        self.pending.push(Box::pin(async move {
            let id = request.id.clone();
            let answer = tokio::select! {
                biased;
                _ = guard.closed() => None,
                outcome = v2025_11_25::handle(bridge, &caller, request, &sink) => {
                    Some(jsonrpc::pieces(&id, outcome).concat())
                }
            };
            reply.send(answer, &sink).await;
        }));
    }

    /// Handles a request of the stateless generation.
    fn handle_stateless(&mut self, request: Request) {
        let caller = match v2026_07_28::admit(self.bridge, Principal::single_user(), &request, None) {
            Ok(caller) => caller,
            Err(rejected) => return self.write(jsonrpc::response(&request.id, &Err(rejected.error))),
        };
        let (bridge, lines) = (self.bridge, self.lines.clone());
        let guard = self.in_flight.open(open_params(self.bridge, STATELESS_SESSION, &request.id));
        self.pending.push(Box::pin(async move {
            let id = request.id.clone();
            let sink = Stdout(lines);
            tokio::select! {
                biased;
                _ = guard.closed() => {}
                outcome = v2026_07_28::handle(bridge, &caller, request, &sink) => {
                    sink.write_line(jsonrpc::pieces(&id, outcome).concat()).await;
                }
            }
        }));
    }

    /// Cancels a pending request of either generation.
    fn cancel(&self, params: &Value) {
        let Ok(id) = Id::deserialize(&params["requestId"]) else { return };
        tracing::debug!(?id, reason = params["reason"].as_str(), "a request was cancelled");
        self.in_flight.cancel(STATELESS_SESSION, &id);
        if let Some(caller) = &self.caller {
            self.in_flight.cancel(nonce(caller), &id);
        }
    }

    fn handle_notification(&mut self, caller: Arc<Caller>, method: String, params: Value) {
        let bridge = self.bridge;
        // The listening stream starts only when the client reports that it is ready.
        if method == "notifications/initialized" && self.listening.is_none() {
            let (caller, sink) = (Arc::clone(&caller), Stdout(self.lines.clone()));
            let since = bridge.context.clock.now();
            self.listening = Some(Box::pin(async move {
                v2025_11_25::listen(bridge, &caller, (0, since), (None, false), &sink).await
            }));
        }
        self.pending.push(Box::pin(async move {
            if let Err(error) = v2025_11_25::handle_notification(bridge, &caller, &method, &params).await {
                tracing::error!(%error, method, "a notification could not be kept");
            }
        }));
    }

    fn handle_response(&mut self, caller: Arc<Caller>, id: Id, outcome: Outcome) {
        let bridge = self.bridge;
        self.pending.push(Box::pin(async move {
            let replied = v2025_11_25::handle_response(bridge, &caller, id, outcome).await;
            tracing::debug!(?replied, "a response to a request of ours");
        }));
    }

    fn refuse(&mut self, Malformed { id, error }: Malformed, reply: Reply) {
        self.answer(jsonrpc::failure(id.as_ref(), &error), reply);
    }

    fn write(&mut self, line: Vec<u8>) {
        self.answer(line, Reply::Single);
    }

    /// Queues a response without waiting for it: reading the input must not depend on the output.
    fn answer(&mut self, answer: Vec<u8>, reply: Reply) {
        let sink = Stdout(self.lines.clone());
        self.pending.push(Box::pin(async move { reply.send(Some(answer), &sink).await }));
    }
}

fn invalid(id: Id, message: &str) -> Malformed {
    Malformed { id: Some(id), error: Error::new(INVALID_REQUEST, message) }
}

fn open_params<'a>(bridge: &Bridge, session: &'a str, id: &'a Id) -> OpenParams<'a> {
    OpenParams { session, request_id: Some(id), stream: None, now: bridge.context.clock.now() }
}

fn nonce(caller: &Caller) -> &str {
    caller.session.as_ref().map_or("", |session| &session.nonce)
}

async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        output.write_all(&line).await?;
        while let Ok(line) = lines.try_recv() {
            output.write_all(&line).await?;
        }
        output.flush().await?;
    }
    Ok(())
}
