//! Coordinates the streams of one session across replicas. The session's row records opened and resumed
//! streams and cancelled requests. Each replica reads the row on a notification, and on each keep-alive of a
//! stream, so a lost notification only causes a delay. If the store cannot be shared, nothing is recorded,
//! and only whether a session has ended is read.

use std::convert::Infallible;
use std::sync::Arc;

use taskbridge_sdk::Timestamp;

use crate::mcp::session::USUAL_CLOCK_SKEW;
use crate::mcp::session::message_sink::Resume;
use crate::mcp::session::token::Session;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::{Http, Result};
use crate::mcp::transport::sse::StreamPosition;
use crate::mcp::wire::jsonrpc::Id;
use crate::sessions::streams::{LISTENER_LEASE, StreamEvent};
use crate::sessions::{SessionChange, SessionSettings};

/// The longest request id that is recorded, in bytes of JSON. Clients use counters or UUIDs.
const MAX_ID_BYTES: usize = 200;

/// Records that a GET opens a stream. Returns the number of the stream within its session (0 if streams are
/// not counted) and the time from which it listens.
///
/// # Errors
/// If the request was cancelled or the session has ended, on any replica, or if the store fails.
pub(in crate::mcp::transport::http) async fn record_opened(
    http: &Http,
    session: &Session,
    position: &StreamPosition,
    is_resumed: bool,
) -> Result<(u64, Timestamp)> {
    let bridge = &http.bridge;
    let now = bridge.context.clock.now();
    if !bridge.sessions.is_shared {
        return Ok((0, now));
    }
    let listens_until = matches!(position.resume, Resume::Listen { .. }).then(|| now + LISTENER_LEASE);
    let note = StreamEvent::Opened {
        resumed: is_resumed.then(|| position.stream.clone()),
        lease_until: listens_until,
        now,
    };
    let result =
        bridge.sessions.store.set(&session.nonce, SessionChange::Streams(note), session.expires).await;
    let settings = result
        .map_err(Refusal::store)?
        .ok_or_else(|| Refusal::no_session("this session was ended: begin with initialize"))?;
    if let Resume::Wait { id, .. } = &position.resume
        && settings.streams.cancelled().any(|(request, _)| request == encode_id(id))
    {
        return Err(Refusal::stream_over());
    }
    apply_settings(http, &session.nonce, &settings);
    let n = settings.streams.newest();
    // The messages of a job have the clock of the process that observed it. If no other stream has reported
    // them, a repeated message is better than a lost one.
    let since = if settings.streams.has_other_listeners(n, now) { now } else { now - USUAL_CLOCK_SKEW };
    Ok((n, since))
}

/// Records that a request was cancelled. A failure is only logged.
pub(in crate::mcp::transport::http) async fn record_cancelled(http: &Http, session: &Session, id: &Id) {
    let bridge = &http.bridge;
    if !bridge.sessions.is_shared {
        return;
    }
    let request = encode_id(id);
    if request.len() > MAX_ID_BYTES {
        tracing::debug!("other replicas do not learn of a cancelled request: its id is too long to record");
        return;
    }
    let note = StreamEvent::Cancelled { request, at: bridge.context.clock.now() };
    if let Err(error) =
        bridge.sessions.store.set(&session.nonce, SessionChange::Streams(note), session.expires).await
    {
        tracing::warn!(%error, "other replicas do not learn of a cancelled request");
    }
}

/// Applies the changes that other replicas recorded for a session. If another stream listens, or the client
/// creates tasks, also records that the listening stream with this number is still open. Returns false if the
/// session has ended, and true if the store fails.
pub(in crate::mcp::transport::http) async fn sync_session(
    http: &Http,
    session: &Session,
    listening_stream: Option<u64>,
) -> bool {
    let bridge = &http.bridge;
    if !bridge.sessions.is_shared {
        // If the store fails, the session counts as active.
        return !bridge.sessions.store.has_ended(&session.nonce).await.unwrap_or(false);
    }
    let Ok(settings) = bridge.sessions.store.settings(&session.nonce).await else { return true };
    let Some(settings) = settings else { return false };
    apply_settings(http, &session.nonce, &settings);
    let now = bridge.context.clock.now();
    // In other cases, no other process needs to know.
    let must_record =
        |n: &u64| settings.streams.has_other_listeners(*n, now) || session.client.can_run_tasks();
    if let Some(n) = listening_stream.filter(must_record) {
        let note = SessionChange::Streams(StreamEvent::LeaseRenewed { n, until: now + LISTENER_LEASE });
        if let Err(error) = bridge.sessions.store.set(&session.nonce, note, session.expires).await {
            tracing::warn!(%error, "other replicas do not learn that a stream is still open");
        }
    }
    true
}

/// Applies the changes that other replicas record for sessions, while it is polled.
pub(in crate::mcp::transport::http) async fn follow_remote_changes(http: Arc<Http>) -> Infallible {
    let mut sessions = http.bridge.context.service.remote_channel_changes();
    loop {
        let Some(session) = sessions.recv().await else { return std::future::pending().await };
        if !http.in_flight.has(&session) {
            continue;
        }
        match http.bridge.sessions.store.settings(&session).await {
            Ok(Some(settings)) => apply_settings(&http, &session, &settings),
            Ok(None) => http.in_flight.end(&session),
            Err(error) => {
                tracing::debug!(%error, "changes to a session from other replicas cannot be read now")
            }
        }
    }
}

/// Applies recorded changes to the open streams of this process.
fn apply_settings(http: &Http, session: &str, settings: &SessionSettings) {
    http.in_flight.apply_remote_changes(session, &settings.streams);
    http.bridge
        .sessions
        .stream_election
        .set_newest_stream(session, settings.streams.active_listener(http.bridge.context.clock.now()));
}

/// Returns the recorded form of a request id.
fn encode_id(id: &Id) -> String {
    serde_json::to_string(id).unwrap_or_default()
}
