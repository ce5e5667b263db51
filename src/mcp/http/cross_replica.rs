//! Coordinates the streams of one session across replicas. The session's row records opened and resumed
//! streams and cancelled requests. Each replica reads the row on a notification, and on each keep-alive of a
//! stream, so a lost notification only causes a delay. If the store cannot be shared, nothing is recorded,
//! and only whether a session has ended is read.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::refusal::Refusal;
use super::{Http, Result};
use crate::mcp::jsonrpc::Id;
use crate::mcp::message_sink::Resume;
use crate::mcp::session::Session;
use crate::mcp::sse::StreamPosition;
use crate::tasks::store::{SessionChange, SessionSettings};
use crate::tasks::streams::{LISTENS_FOR, StreamNote};

/// The longest request id that is recorded, in bytes of JSON. Clients use counters or UUIDs.
const LONGEST_NAME: usize = 200;

/// Usual clock difference between two processes that took the time from the store.
const ROUGHLY: Duration = Duration::from_millis(250);

/// Records that a GET opens a stream. Returns the number of the stream within its session (0 if streams are
/// not counted) and the time from which it listens.
///
/// # Errors
/// If the request was cancelled or the session has ended, on any replica, or if the store fails.
pub(super) async fn opened(
    http: &Http,
    session: &Session,
    place: &StreamPosition,
    taken_up: bool,
) -> Result<(u64, Timestamp)> {
    let bridge = &http.bridge;
    let now = bridge.clock.now();
    if !bridge.store.is_shared() {
        return Ok((0, now));
    }
    let listens = matches!(place.resume, Resume::Listen { .. }).then(|| now + LISTENS_FOR);
    let note = StreamNote::Opened { taken_up: taken_up.then(|| place.stream.clone()), listens, now };
    let set = bridge.store.set(&session.nonce, SessionChange::Streams(note), session.expires).await;
    let settings = set
        .map_err(Refusal::store)?
        .ok_or_else(|| Refusal::no_session("this session was ended: begin with initialize"))?;
    if let Resume::Wait { id, .. } = &place.resume
        && settings.streams.cancelled().any(|(request, _)| request == name(id))
    {
        return Err(Refusal::stream_over());
    }
    heed(http, &session.nonce, &settings);
    let n = settings.streams.newest();
    // The messages of a job have the clock of the process that observed it. If no other stream has reported
    // them, a repeated message is better than a lost one.
    let since = if settings.streams.others_listen(n, now) { now } else { now - ROUGHLY };
    Ok((n, since))
}

/// Records that a request was cancelled. A failure is only logged.
pub(super) async fn cancelled(http: &Http, session: &Session, id: &Id) {
    let bridge = &http.bridge;
    if !bridge.store.is_shared() {
        return;
    }
    let request = name(id);
    if request.len() > LONGEST_NAME {
        tracing::debug!("other replicas do not hear that a request was cancelled whose id is that long");
        return;
    }
    let note = StreamNote::Cancelled { request, at: bridge.clock.now() };
    if let Err(error) = bridge.store.set(&session.nonce, SessionChange::Streams(note), session.expires).await
    {
        tracing::warn!(%error, "other replicas do not hear that a request was cancelled");
    }
}

/// Applies the changes that other replicas recorded for a session. If another stream listens, or the client
/// creates tasks, also records that the listening stream with this number is still open. Returns false if the
/// session has ended, and true if the store fails.
pub(super) async fn sync_session(http: &Http, session: &Session, listens: Option<u64>) -> bool {
    let bridge = &http.bridge;
    if !bridge.store.is_shared() {
        // If the store fails, the session counts as active.
        return !bridge.store.has_ended(&session.nonce).await.unwrap_or(false);
    }
    let Ok(settings) = bridge.store.settings(&session.nonce).await else { return true };
    let Some(settings) = settings else { return false };
    heed(http, &session.nonce, &settings);
    let now = bridge.clock.now();
    // In other cases, no other process needs to know.
    let asked = |n: &u64| settings.streams.others_listen(*n, now) || session.client.makes_tasks();
    if let Some(n) = listens.filter(asked) {
        let note = SessionChange::Streams(StreamNote::Listens { n, until: now + LISTENS_FOR });
        if let Err(error) = bridge.store.set(&session.nonce, note, session.expires).await {
            tracing::warn!(%error, "other replicas do not hear that a stream is open still");
        }
    }
    true
}

/// Applies the changes that other replicas record for sessions, while it is polled.
pub(super) async fn follow(http: Arc<Http>) -> Infallible {
    let mut sessions = http.bridge.service.sessions_elsewhere();
    loop {
        let Some(session) = sessions.recv().await else { return std::future::pending().await };
        if !http.live.has(&session) {
            continue;
        }
        match http.bridge.store.settings(&session).await {
            Ok(Some(settings)) => heed(&http, &session, &settings),
            Ok(None) => http.live.end(&session),
            Err(error) => tracing::debug!(%error, "what was said of a session elsewhere is seen later"),
        }
    }
}

/// Applies recorded changes to the open streams of this process.
fn heed(http: &Http, session: &str, settings: &SessionSettings) {
    http.live.apply_remote_changes(session, &settings.streams);
    http.bridge.speakers.set_newest_stream(session, settings.streams.speaker(http.bridge.clock.now()));
}

/// Returns the recorded form of a request id.
fn name(id: &Id) -> String {
    serde_json::to_string(id).unwrap_or_default()
}
