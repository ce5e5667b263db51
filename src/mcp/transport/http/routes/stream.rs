//! The body of an event stream: polls the exchange and encodes its messages as events.
//!
//! The first event of a stream that can be resumed contains its id. A quiet stream sends a comment every 15
//! seconds, which keeps the connection open and detects a client that has gone. Before each comment it checks
//! whether its session still exists. If the store can be shared, a busy stream does the same. This module
//! must not know the meaning of the messages.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::exchange::{Exchange, ExchangeResult, wait_until_closed};
use crate::limits::memory_budget::MemoryReservation;
use crate::mcp::session::in_flight::CloseReason;
use crate::mcp::transport::http::connections::detached_stream;
use crate::mcp::transport::sse;
use crate::mcp::transport::sse::StreamPosition;
use crate::mcp::wire::jsonrpc;
use crate::metrics::OpenStream;

/// Keep-alive interval of a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client waits before it reconnects to a broken stream, in milliseconds. Some clients try only
/// twice, so a server has twice this time to restart.
const RETRY_MS: u32 = 2_500;

/// How long the stream of a request may continue after the caller's credential expired: clients renew a token
/// when it is refused, not before. A listening stream has no such time.
const GRACE: Duration = Duration::from_secs(60);

/// A stream with its exchange.
struct EventStream {
    exchange: Exchange,
    keep_alive: Interval,
    stage: Stage,
    _metric: OpenStream,
}

enum Stage {
    /// Nothing was sent. Contains the ending if the handler has already finished.
    Unsent(Option<ExchangeResult>),
    /// The handler is running.
    Running,
    /// The handler has finished. Its buffered messages are sent, then its answer.
    Draining(ExchangeResult),
    /// Nothing follows.
    Done,
}

/// Returns a stream that polls the exchange, or sends only its remaining messages if the handler has
/// finished.
pub(in crate::mcp::transport::http) fn respond(
    exchange: Exchange,
    result: Option<ExchangeResult>,
) -> Response {
    let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_long_lived = exchange.queue.is_long_lived();
    let _metric = exchange.http.bridge.metrics.stream(is_long_lived);
    let stream = EventStream { exchange, keep_alive, stage: Stage::Unsent(result), _metric };
    let events = futures_util::stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((event, stream))
    });
    match is_long_lived {
        true => detached_stream::make_detachable(with_headers(Body::empty()), events.boxed()),
        false => with_headers(Body::from_stream(events.map(Ok::<_, Infallible>))),
    }
}

/// Returns an empty stream, for a request whose answer the client no longer wants.
pub(in crate::mcp::transport::http) fn empty() -> Response {
    with_headers(Body::empty())
}

fn with_headers(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    // Proxies of the nginx family buffer a whole response unless this header disables that.
    let unbuffered = [("x-accel-buffering", HeaderValue::from_static("no"))];
    (headers, unbuffered, body).into_response()
}

impl EventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Stage::Unsent(result) = &mut self.stage {
            self.stage = result.take().map_or(Stage::Running, Stage::Draining);
            return Some(self.first_event());
        }
        if let Stage::Running = self.stage
            && let Some(event) = self.run().await
        {
            return Some(event);
        }
        let Stage::Draining(result) = &mut self.stage else { return None };
        if let Some(message) = self.exchange.queue.take() {
            return Some(self.encode_queued(message));
        }
        let result = result.take();
        self.stage = Stage::Done;
        let (id, outcome) = result?;
        if let Some(position) = &mut self.exchange.position {
            position.last = true;
        }
        let text = jsonrpc::pieces(&id, outcome).concat();
        Some(match self.exchange.reserve_for_answer(text.len()) {
            Ok(None) => self.message(&text),
            Ok(Some(reservation)) => reservation.attach_to(self.message(&text)),
            Err(refusal) => self.message(&refusal.for_request(Some(id)).message()),
        })
    }

    /// Returns the next event of a running handler, or `None` if the stage changed without one.
    async fn run(&mut self) -> Option<Bytes> {
        let Exchange { guard, queue, work, http, principal, position, .. } = &mut self.exchange;
        // Other streams are still answered during shutdown: their clients could not resume them.
        let resumable = position.is_some() || queue.resume().is_some();
        let grace = if queue.is_long_lived() { Duration::ZERO } else { GRACE };
        tokio::select! {
            biased;
            reason = wait_until_closed(guard.as_ref()) => {
                self.stage = Stage::Done;
                match (reason, position) {
                    (CloseReason::Cancelled, Some(position)) => http.in_flight.note_cancelled(&position.stream),
                    (CloseReason::Resumed, _) => queue.supersede(),
                    (CloseReason::Cancelled, None) => {}
                }
            }
            () = http.access_control.wait_until_revoked(principal, grace) => self.stage = Stage::Done,
            message = queue.next() => return Some(self.encode_queued(message)),
            result = work => self.stage = Stage::Draining(result),
            () = http.shutdown.cancelled(), if resumable => {
                self.stage = Stage::Done;
                return Some(sse::retry(RETRY_MS));
            }
            _ = self.keep_alive.tick() => {
                // Boxed, so that the stream does not keep memory for it.
                if Box::pin(self.exchange.refresh()).await {
                    return Some(sse::COMMENT);
                }
                self.stage = Stage::Done;
            }
        }
        None
    }

    /// Returns the first event: the id without data, or a comment. The latter if the stream cannot be
    /// resumed, or if its revision's clients try to parse an event without data.
    fn first_event(&mut self) -> Bytes {
        let accepts_empty =
            self.exchange.session.as_ref().is_some_and(|session| session.revision.accepts_empty_events());
        match self.next_id() {
            Some(id) if accepts_empty => sse::priming(&id, RETRY_MS),
            _ => sse::COMMENT,
        }
    }

    /// Encodes a message of the handler, and keeps its reserved memory.
    fn encode_queued(&mut self, (message, reservation): (Value, Option<MemoryReservation>)) -> Bytes {
        let event = self.message(message.to_string().as_bytes());
        match reservation {
            Some(reservation) => reservation.resize(event.len()).attach_to(event),
            None => event,
        }
    }

    fn message(&mut self, json: &[u8]) -> Bytes {
        // With a shared store, a busy stream must also check for changes made by other replicas.
        if !self.exchange.http.bridge.sessions.is_shared {
            self.keep_alive.reset();
        }
        let id = self.next_id();
        sse::message(id.as_deref(), json)
    }

    /// Returns an id for the next event, if the stream can be resumed.
    fn next_id(&mut self) -> Option<String> {
        let Exchange { http, session, queue, position, guard, .. } = &mut self.exchange;
        if position.is_none() {
            let nonce = &session.as_ref()?.nonce;
            let new_position = StreamPosition::start(nonce, queue.resume()?, &*http.bridge.context.entropy);
            if let Some(guard) = guard {
                guard.name(&new_position.stream);
            }
            *position = Some(new_position);
        }
        let position = position.as_mut()?;
        if let Some(resume) = queue.resume() {
            position.resume = resume;
        }
        Some(position.advance(&http.bridge.context.seal))
    }
}
