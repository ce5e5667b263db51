//! [`Exchange`]: a handler that serves one HTTP request. The connection that waits for the response polls it,
//! so no task is spawned, and the handler is dropped when the client disconnects.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use taskbridge_sdk::Timestamp;

use super::batch::{self, Answers};
use super::{cross_replica, post, stream};
use crate::auth::Principal;
use crate::limits::caller_key::CallerKey;
use crate::limits::in_flight_limit::InFlightPermit;
use crate::limits::memory_budget::{CallerBudget, MemoryReservation, SMALL};
use crate::mcp::dialect::v2026_07_28::StatelessCaller;
use crate::mcp::dialect::{v2025_11_25, v2026_07_28};
use crate::mcp::session::edition::Edition;
use crate::mcp::session::in_flight::{CloseReason, InFlightGuard, OpenParams};
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::session::token::{Caller, Session};
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::{Http, Result};
use crate::mcp::transport::outbound_queue::OutboundQueue;
use crate::mcp::transport::sse::StreamPosition;
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{Error, Id, Outcome, Payload, Request};

/// How long an answer may take before the client gets a stream. Answers without a wait take a few
/// milliseconds. A slower answer usually waits for a job, and its client needs the resume information early.
const STREAM_AFTER: Duration = Duration::from_millis(250);

/// The result of an exchange: the response to a request, or nothing.
pub(in crate::mcp::transport::http) type ExchangeResult = Option<(Id, Outcome<Payload>)>;

/// A running handler.
pub(in crate::mcp::transport::http) struct Exchange {
    pub(in crate::mcp::transport::http) http: Arc<Http>,
    /// The caller.
    pub(in crate::mcp::transport::http) principal: Principal,
    /// The session. `None` in the generation without sessions.
    pub(in crate::mcp::transport::http) session: Option<Session>,
    pub(in crate::mcp::transport::http) queue: Arc<OutboundQueue>,
    pub(in crate::mcp::transport::http) work: Pin<Box<dyn Future<Output = ExchangeResult> + Send>>,
    /// The position in the stream, once the stream can be resumed.
    pub(in crate::mcp::transport::http) position: Option<StreamPosition>,
    /// The number of the stream within its session. 0 if no other replica tracks it.
    n: u64,
    /// True for a listening stream.
    is_listening: bool,
    /// Ends the exchange when its request is cancelled, its session ends, or its stream is resumed on another
    /// connection. `None` without a session.
    pub(in crate::mcp::transport::http) guard: Option<InFlightGuard>,
    /// The HTTP status of an error that is answered without a stream.
    status: fn(&Error) -> u16,
    /// Counts the request until the exchange ends. The entries of a batch have their own.
    _permit: Option<InFlightPermit>,
}

impl Exchange {
    /// Creates an exchange of the generation with sessions.
    fn new<W>(
        http: &Arc<Http>,
        permit: Option<InFlightPermit>,
        caller: Caller,
        position: Option<StreamPosition>,
        work: impl FnOnce(Arc<Http>, Caller, Arc<OutboundQueue>) -> W,
    ) -> Self
    where
        W: Future<Output = ExchangeResult> + Send + 'static,
    {
        let (principal, session) = (caller.principal.clone(), caller.session.clone());
        let (http, queue) = (Arc::clone(http), new_queue(http, &principal));
        let work = Box::pin(work(Arc::clone(&http), caller, Arc::clone(&queue)));
        Self {
            http,
            principal,
            session,
            queue,
            work,
            position,
            n: 0,
            is_listening: false,
            guard: None,
            status: |_| 200,
            _permit: permit,
        }
    }

    /// Answers a request with a single response, or with a stream if the answer takes time.
    pub(in crate::mcp::transport::http) async fn handle(
        http: &Arc<Http>,
        permit: InFlightPermit,
        caller: Caller,
        request: Request,
    ) -> Response {
        let id = request.id.clone();
        let exchange = Self::new(http, Some(permit), caller, None, |http, caller, queue| async move {
            let id = request.id.clone();
            Some((id, v2025_11_25::handle(&http.bridge, &caller, request, &*queue).await))
        });
        exchange.answer(&id, STREAM_AFTER).await
    }

    /// Answers a request of the stateless generation.
    pub(in crate::mcp::transport::http) async fn handle_stateless(
        http: &Arc<Http>,
        permit: InFlightPermit,
        caller: StatelessCaller,
        request: Request,
    ) -> Response {
        let id = request.id.clone();
        let principal = caller.principal.clone();
        let (http, queue) = (Arc::clone(http), new_queue(http, &principal));
        // Such a call may first wait a short time for the result, to avoid creating a task.
        let stream_after = STREAM_AFTER + http.bridge.context.settings().quick_wait;
        let work = {
            let (http, queue, id) = (Arc::clone(&http), Arc::clone(&queue), id.clone());
            Box::pin(
                async move { Some((id, v2026_07_28::handle(&http.bridge, &caller, request, &*queue).await)) },
            )
        };
        let status = v2026_07_28::status;
        let exchange = Self {
            http,
            principal,
            session: None,
            queue,
            work,
            position: None,
            n: 0,
            is_listening: false,
            guard: None,
            status,
            _permit: Some(permit),
        };
        exchange.answer(&id, stream_after).await
    }

    /// Answers the requests of a batch: with one response or, if one of them takes time, with one message per
    /// answer on a stream. `answers` already exist.
    pub(in crate::mcp::transport::http) async fn handle_batch(
        http: &Arc<Http>,
        caller: Caller,
        requests: Vec<(usize, Request, InFlightPermit)>,
        answers: Vec<(usize, Vec<u8>)>,
    ) -> Response {
        let answers = Arc::new(Answers::new(answers));
        let shared_answers = Arc::clone(&answers);
        let mut exchange = Self::new(http, None, caller, None, |http, caller, queue| async move {
            let (http, caller, queue, answers) = (&*http, &caller, &*queue, &*shared_answers);
            let entries = requests.into_iter().map(|(n, request, permit)| async move {
                let answer = handle_entry(http, caller, queue, request).await;
                drop(permit);
                if let Some(answer) = answer {
                    answers.add(n, answer, queue).await;
                }
            });
            futures_util::future::join_all(entries).await;
            None
        });
        exchange.register(None);
        tokio::select! {
            biased;
            _ = wait_until_closed(exchange.guard.as_ref()) => return stream::empty(),
            _ = &mut exchange.work => {
                if exchange.queue.is_empty() {
                    return exchange.batch_response(answers.take());
                }
                exchange.work = Box::pin(std::future::ready(None));
            }
            () = exchange.queue.wait_for_message() => {}
            () = tokio::time::sleep(STREAM_AFTER) => {}
        }
        let (ready_answers, queue) = (answers.take(), Arc::clone(&exchange.queue));
        let remaining = std::mem::replace(&mut exchange.work, Box::pin(std::future::ready(None)));
        exchange.work = Box::pin(async move {
            let first = async {
                for answer in ready_answers {
                    batch::send(answer, &queue).await;
                }
            };
            futures_util::join!(first, remaining).1
        });
        stream::respond(exchange, None)
    }

    /// Returns the answers to a batch in one response. The response is empty if all requests were cancelled.
    fn batch_response(self, answers: Vec<Vec<u8>>) -> Response {
        if answers.is_empty() {
            return stream::empty();
        }
        let text = [b"[", answers.join(&b","[..]).as_slice(), b"]"].concat();
        match self.reserve_for_answer(text.len()) {
            Ok(None) => post::complete_response(200, text.into()),
            Ok(Some(reservation)) => post::complete_response(200, reservation.attach_to(text)),
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn answer(mut self, id: &Id, stream_after: Duration) -> Response {
        // Most handlers finish at the first poll. They need no registration and no timer.
        if let std::task::Poll::Ready(result) = futures_util::poll!(&mut self.work) {
            return self.finish(result);
        }
        self.register(Some(id));
        tokio::select! {
            biased;
            _ = wait_until_closed(self.guard.as_ref()) => stream::empty(),
            result = &mut self.work => self.finish(result),
            () = self.queue.wait_for_message() => stream::respond(self, None),
            () = tokio::time::sleep(stream_after) => stream::respond(self, None),
        }
    }

    /// Resumes the stream of a request.
    pub(in crate::mcp::transport::http) fn resume(
        http: &Arc<Http>,
        permit: InFlightPermit,
        caller: Caller,
        (position, n): (StreamPosition, u64),
        id: &Id,
    ) -> Response {
        let resume = position.resume.clone();
        let mut exchange =
            Self::new(http, Some(permit), caller, Some(position), |http, caller, queue| async move {
                let (id, outcome) = v2025_11_25::resume(&http.bridge, &caller, resume, &*queue).await?;
                Some((id, outcome.map(Payload::Value)))
            });
        exchange.n = n;
        exchange.register(Some(id));
        stream::respond(exchange, None)
    }

    /// Opens a listening stream. It sends messages from `since` on, which is before the client knows that it
    /// listens. `lists` is as in `v2025_11_25::listen`.
    pub(in crate::mcp::transport::http) fn listen(
        http: &Arc<Http>,
        permit: InFlightPermit,
        caller: Caller,
        (position, n, since): (StreamPosition, u64, Timestamp),
        lists: (Option<Edition>, bool),
    ) -> Response {
        let mut exchange =
            Self::new(http, Some(permit), caller, Some(position), move |http, caller, queue| async move {
                v2025_11_25::listen(&http.bridge, &caller, (n, since), lists, &*queue).await;
                None
            });
        (exchange.n, exchange.is_listening) = (n, true);
        exchange.queue.set_long_lived();
        exchange.register(None);
        stream::respond(exchange, None)
    }

    fn register(&mut self, request_id: Option<&Id>) {
        let Self { http, session, position, n, .. } = &*self;
        let stream = position.as_ref().map(|position| (position.stream.as_str(), *n));
        let now = http.bridge.context.clock.now();
        let opening = |session| OpenParams { session, request_id, stream, now };
        self.guard = session.as_ref().map(|session| http.in_flight.open(opening(&session.nonce)));
    }

    /// Records that the stream is still open, and applies changes made by other replicas. Returns false if
    /// the session has ended or expired.
    pub(in crate::mcp::transport::http) async fn refresh(&mut self) -> bool {
        let Some(session) = &self.session else { return true };
        let listening_stream = Some(self.n).filter(|n| self.is_listening && *n > 0);
        self.http.bridge.context.clock.now() < session.expires
            && cross_replica::sync_session(&self.http, session, listening_stream).await
    }

    /// Reserves memory budget for an answer of this size. Returns `None` for a small answer. Uses the budget
    /// that the handler has already reserved for a large answer.
    pub(in crate::mcp::transport::http) fn reserve_for_answer(
        &self,
        bytes: usize,
    ) -> Result<Option<MemoryReservation>> {
        match bytes <= SMALL {
            true => Ok(None),
            false => self.queue.reserve_for_answer(bytes).map(Some).ok_or_else(Refusal::no_memory_for_answer),
        }
    }

    /// Returns the response of a handler that finished before a stream was opened. It is a stream only if the
    /// handler sent messages before its answer.
    fn finish(self, result: ExchangeResult) -> Response {
        match result {
            Some((id, outcome)) if self.queue.is_empty() => {
                let status = outcome.as_ref().err().map_or(200, self.status);
                let pieces = jsonrpc::pieces(&id, outcome);
                let [text] = pieces.as_slice() else { return post::response_in_pieces(status, pieces) };
                match self.reserve_for_answer(text.len()) {
                    Ok(None) => post::complete_response(status, text.clone()),
                    Ok(Some(reservation)) => {
                        post::complete_response(status, reservation.attach_to(text.clone()))
                    }
                    Err(refusal) => refusal.for_request(Some(id)).into_response(),
                }
            }
            result => stream::respond(self, Some(result)),
        }
    }
}

/// Handles one request of a batch. Returns `None` if it was cancelled.
async fn handle_entry(
    http: &Http,
    caller: &Caller,
    queue: &OutboundQueue,
    request: Request,
) -> Option<Vec<u8>> {
    let (id, session) = (request.id.clone(), caller.session.as_ref()?);
    let now = http.bridge.context.clock.now();
    let guard =
        http.in_flight.open(OpenParams { session: &session.nonce, request_id: Some(&id), stream: None, now });
    let sink = BatchEntrySink(queue);
    tokio::select! {
        biased;
        _ = guard.closed() => None,
        outcome = v2025_11_25::handle(&http.bridge, caller, request, &sink) => {
            Some(jsonrpc::pieces(&id, outcome).concat())
        }
    }
}

/// The message sink of one batch entry. The stream of a batch serves several requests, so it cannot be
/// resumed.
struct BatchEntrySink<'a>(&'a OutboundQueue);

#[async_trait]
impl MessageSink for BatchEntrySink<'_> {
    async fn send(&self, message: Value) -> bool {
        self.0.send(message).await
    }

    fn set_resume(&self, _resume: Resume) {}

    fn reserve(&self, bytes: usize) -> bool {
        self.0.reserve(bytes)
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn is_superseded(&self) -> bool {
        self.0.is_superseded()
    }
}

/// Creates the message sink of one exchange.
fn new_queue(http: &Http, principal: &Principal) -> Arc<OutboundQueue> {
    let max_bytes = http.bridge.context.settings().limits.max_bytes_in_hand;
    Arc::new(OutboundQueue::new(CallerBudget {
        budget: http.memory_budget.clone(),
        caller_key: CallerKey::of(principal),
        limit: max_bytes,
    }))
}

/// Waits until the client cancels the request, the session ends, or another connection takes over the stream.
pub(in crate::mcp::transport::http) async fn wait_until_closed(guard: Option<&InFlightGuard>) -> CloseReason {
    match guard {
        Some(guard) => guard.closed().await,
        None => std::future::pending().await,
    }
}
