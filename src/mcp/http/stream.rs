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

use super::detached_stream;
use super::exchange::{Ending, Exchange, over};
use crate::mcp::in_flight::CloseReason;
use crate::mcp::jsonrpc;
use crate::mcp::memory_budget::MemoryReservation;
use crate::mcp::sse::{self, StreamPosition};
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
    quiet: Interval,
    stage: Stage,
    _counted: OpenStream,
}

enum Stage {
    /// Nothing was sent. Contains the ending if the handler has already finished.
    Opening(Option<Ending>),
    /// The handler is running.
    Running,
    /// The handler has finished. Its buffered messages are sent, then its answer.
    Ending(Ending),
    /// Nothing follows.
    Over,
}

/// Returns a stream that polls the exchange, or sends only its remaining messages if the handler has
/// finished.
pub(super) fn respond(exchange: Exchange, ending: Option<Ending>) -> Response {
    let mut quiet = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let lasts = exchange.feed.is_lasting();
    let _counted = exchange.http.bridge.metrics.stream(lasts);
    let stream = EventStream { exchange, quiet, stage: Stage::Opening(ending), _counted };
    let events = futures_util::stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((event, stream))
    });
    match lasts {
        true => detached_stream::offer(with_headers(Body::empty()), events.boxed()),
        false => with_headers(Body::from_stream(events.map(Ok::<_, Infallible>))),
    }
}

/// Returns an empty stream, for a request whose answer the client no longer wants.
pub(super) fn empty() -> Response {
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
        if let Stage::Opening(ending) = &mut self.stage {
            self.stage = ending.take().map_or(Stage::Running, Stage::Ending);
            return Some(self.opening());
        }
        if let Stage::Running = self.stage
            && let Some(event) = self.run().await
        {
            return Some(event);
        }
        let Stage::Ending(ending) = &mut self.stage else { return None };
        if let Some(message) = self.exchange.feed.take() {
            return Some(self.sent(message));
        }
        let ending = ending.take();
        self.stage = Stage::Over;
        let (id, outcome) = ending?;
        if let Some(place) = &mut self.exchange.place {
            place.last = true;
        }
        let text = jsonrpc::pieces(&id, outcome).concat();
        Some(match self.exchange.room_for(text.len()) {
            Ok(None) => self.message(&text),
            Ok(Some(spot)) => spot.hold(self.message(&text)),
            Err(refusal) => self.message(&refusal.to(Some(id)).message()),
        })
    }

    /// Returns the next event of a running handler, or `None` if the stage changed without one.
    async fn run(&mut self) -> Option<Bytes> {
        let Exchange { open, feed, work, http, principal, place, .. } = &mut self.exchange;
        // Other streams are still answered during shutdown: their clients could not resume them.
        let resumable = place.is_some() || feed.resume().is_some();
        let grace = if feed.is_lasting() { Duration::ZERO } else { GRACE };
        tokio::select! {
            biased;
            why = over(open.as_ref()) => {
                self.stage = Stage::Over;
                match (why, place) {
                    (CloseReason::Unwanted, Some(place)) => http.live.note_cancelled(&place.stream),
                    (CloseReason::TakenUp, _) => feed.supersede(),
                    (CloseReason::Unwanted, None) => {}
                }
            }
            () = http.entrance.wait_until_revoked(principal, grace) => self.stage = Stage::Over,
            message = feed.next() => return Some(self.sent(message)),
            ending = work => self.stage = Stage::Ending(ending),
            () = http.shutdown.cancelled(), if resumable => {
                self.stage = Stage::Over;
                return Some(sse::retry(RETRY_MS));
            }
            _ = self.quiet.tick() => {
                // Boxed, so that the stream does not keep memory for it.
                if Box::pin(self.exchange.lives()).await {
                    return Some(sse::COMMENT);
                }
                self.stage = Stage::Over;
            }
        }
        None
    }

    /// Returns the first event: the id without data, or a comment. The latter if the stream cannot be
    /// resumed, or if its revision's clients try to parse an event without data.
    fn opening(&mut self) -> Bytes {
        let primes = self.exchange.session.as_ref().is_some_and(|session| session.revision.primes_streams());
        match self.next_id() {
            Some(id) if primes => sse::priming(&id, RETRY_MS),
            _ => sse::COMMENT,
        }
    }

    /// Encodes a message of the handler, and keeps its reserved memory.
    fn sent(&mut self, (message, spot): (Value, Option<MemoryReservation>)) -> Bytes {
        let event = self.message(message.to_string().as_bytes());
        match spot {
            Some(spot) => spot.resized(event.len()).hold(event),
            None => event,
        }
    }

    fn message(&mut self, json: &[u8]) -> Bytes {
        // With a shared store, a busy stream must also check for changes made by other replicas.
        if !self.exchange.http.bridge.store.is_shared() {
            self.quiet.reset();
        }
        let id = self.next_id();
        sse::message(id.as_deref(), json)
    }

    /// Returns an id for the next event, if the stream can be resumed.
    fn next_id(&mut self) -> Option<String> {
        let Exchange { http, session, feed, place, open, .. } = &mut self.exchange;
        if place.is_none() {
            let nonce = &session.as_ref()?.nonce;
            let started = StreamPosition::start(nonce, feed.resume()?, &*http.bridge.entropy);
            if let Some(open) = open {
                open.name(&started.stream);
            }
            *place = Some(started);
        }
        let place = place.as_mut()?;
        if let Some(resume) = feed.resume() {
            place.resume = resume;
        }
        Some(place.advance(&http.bridge.seal))
    }
}
