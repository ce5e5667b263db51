//! Streams of one session at several replicas. What one of them does that others must know is kept in the session's row:
//! that a stream was opened, or taken up, and that a request was cancelled. Each replica looks into the row when a hint
//! tells it to, and else with each sign of life that a stream gives, so that a hint that is lost makes it late and no more.
//! Where no other process uses the store, nothing is kept and nothing looked at.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::refusal::Refusal;
use super::{Http, Result};
use crate::mcp::jsonrpc::Id;
use crate::mcp::outlet::Resume;
use crate::mcp::session::Session;
use crate::mcp::sse::Place;
use crate::tasks::store::{Setting, Settings};
use crate::tasks::streams::{LISTENS_FOR, StreamNote};

/// The longest id of a request that is kept. Clients count, or take a UUID.
const LONGEST_NAME: usize = 200;

/// How far apart the clocks of two processes are that have asked the store for the time, as a rule.
const ROUGHLY: Duration = Duration::from_millis(250);

/// A stream is about to be opened by a GET. Returns its number among those of its session, 0 where none is counted, and since
/// when it listens.
///
/// # Errors
/// If its request was cancelled or the session has ended, wherever that was said.
pub(super) async fn opened(
    http: &Http,
    session: &Session,
    place: &Place,
    taken_up: bool,
) -> Result<(u64, Timestamp)> {
    let bridge = &http.bridge;
    let now = bridge.clock.now();
    if !bridge.store.is_shared() {
        return Ok((0, now));
    }
    let listens = matches!(place.resume, Resume::Listen { .. }).then(|| now + LISTENS_FOR);
    let note = StreamNote::Opened { taken_up: taken_up.then(|| place.stream.clone()), listens, now };
    let set = bridge.store.set(&session.nonce, Setting::Streams(note), session.expires).await;
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
    // What a job says has the time of the process that saw it. Where no stream has told of it, what was said just before is
    // better told too than what was said just after not at all.
    let since = if settings.streams.others_listen(n, now) { now } else { now - ROUGHLY };
    Ok((n, since))
}

/// A request was cancelled.
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
    if let Err(error) = bridge.store.set(&session.nonce, Setting::Streams(note), session.expires).await {
        tracing::warn!(%error, "other replicas do not hear that a request was cancelled");
    }
}

/// Looks what was said elsewhere of a session that has a stream here, and says that the stream listens still, if that is
/// its number. False once the session has ended.
pub(super) async fn look(http: &Http, session: &Session, listens: Option<u64>) -> bool {
    let bridge = &http.bridge;
    if !bridge.store.is_shared() {
        // A store that does not answer says nothing about the session.
        return !bridge.store.has_ended(&session.nonce).await.unwrap_or(false);
    }
    let Ok(settings) = bridge.store.settings(&session.nonce).await else { return true };
    let Some(settings) = settings else { return false };
    heed(http, &session.nonce, &settings);
    let now = bridge.clock.now();
    // Otherwise there is nobody who would want to know.
    let asked = |n: &u64| settings.streams.others_listen(*n, now) || session.client.makes_tasks();
    if let Some(n) = listens.filter(asked) {
        let note = Setting::Streams(StreamNote::Listens { n, until: now + LISTENS_FOR });
        if let Err(error) = bridge.store.set(&session.nonce, note, session.expires).await {
            tracing::warn!(%error, "other replicas do not hear that a stream is open still");
        }
    }
    true
}

/// Looks into the rows of sessions that other replicas have said something of, for as long as it is polled.
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

/// Does what follows from it for the streams that are open here.
fn heed(http: &Http, session: &str, settings: &Settings) {
    http.live.heed(session, &settings.streams);
    http.bridge.speakers.heed(session, settings.streams.speaker(http.bridge.clock.now()));
}

/// A request's id, as it is kept.
fn name(id: &Id) -> String {
    serde_json::to_string(id).unwrap_or_default()
}
