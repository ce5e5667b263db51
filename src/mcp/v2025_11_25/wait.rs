//! Waits for a task on an open stream. Meanwhile it sends the task's questions, progress and log messages
//! there. It must not decide how the request is answered.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::questions::QuestionSender;
use super::{SessionCall, logging, to_wire, wire};
use crate::mcp::log_cursor::LogCursor;
use crate::mcp::message_sink::MessageSink;
use crate::mcp::progress::{ProgressReport, ProgressReporter, Reports};
use crate::mcp::session::Session;
use crate::tasks::service::View;
use crate::tasks::store::{SessionChange, StoreError};
use crate::tasks::streams::StreamNote;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// How long a request waits, and what it sends meanwhile.
pub(super) struct WaitOptions {
    /// Deadline; `None` waits without a limit.
    pub(super) until: Option<Timestamp>,
    /// Progress to report, if any.
    pub(super) reports: Option<Reports>,
    /// Log cursor of the task, if the request sends its log messages; see `hears`.
    pub(super) heard: Option<LogCursor>,
}

/// Waits until the task has ended or the deadline has passed. Returns the task as it is then; `None` once the
/// caller has no such task.
///
/// # Errors
/// If the store fails.
pub(super) async fn wait(
    call: &SessionCall<'_>,
    id: &TaskId,
    patience: WaitOptions,
    outlet: &dyn MessageSink,
) -> Result<Option<View>, StoreError> {
    let bridge = call.bridge;
    let now = || bridge.clock.now();
    let until = patience.until.map(|until| Instant::now() + until.since(now()));
    let mut carrier = QuestionSender::new(call, outlet, Duration::ZERO, Some(id));
    // The task's row contains neither the state of the client's own tasks nor whether the client is ready.
    let of_session = call.client().makes_tasks() || bridge.initializing.may_have(call.session, now());
    let mut changes = of_session.then(|| bridge.service.changes(&call.session.nonce));
    let mut heard = patience.heard;
    let mut attend_at: Option<Instant> = None;
    let mut heart =
        patience.reports.map(|reports| ProgressReporter::new(reports, bridge.settings().progress_every));
    loop {
        let wake =
            [until, attend_at, heart.as_ref().map(ProgressReporter::look_at)].into_iter().flatten().min();
        let at_most = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
        let actor = call.actor();
        let news = bridge.service.wait(&actor, id, at_most, |task| {
            task.has_ended()
                || carrier.is_behind(task)
                || heart.as_ref().is_some_and(|heart| heart.is_due(task))
                || (hears(call, task) && heard.as_ref().is_some_and(|heard| heard.is_behind(task)))
        });
        let view = tokio::select! {
            biased;
            view = news => view?,
            () = others(changes.as_mut()) => bridge.service.get(&call.actor(), id).await?,
        };
        let Some(view) = view else { return Ok(None) };
        let look = carrier.attend(&view.task).await?.into_iter().chain(carrier.collect().await?).min();
        attend_at = look.map(|at| Instant::now() + at.since(now()));
        if let Some(heard) = heard.as_mut().filter(|_| hears(call, &view.task)) {
            logging::send_log_messages(call, heard.catch_up(&view.task), None, outlet).await?;
        }
        let over = view.task.has_ended() || until.is_some_and(|until| Instant::now() >= until);
        let due = |heart: &&mut ProgressReporter| match over {
            // The job's last progress is sent before the answer. A heartbeat is not.
            true => heart.has_news(&view.task),
            false => heart.is_due(&view.task),
        };
        if let Some(heart) = heart.as_mut().filter(due) {
            outlet.send(report(heart, &view, now())).await;
        }
        if over {
            if let Some(heard) = heard {
                // From here on the session's listening stream sends the log messages.
                bridge.speakers.store_request_cursor(&call.session.nonce, &view.task, heard);
                keep(call, &view.task, heard).await?;
            }
            carrier.leave().await?;
            return Ok(Some(view));
        }
    }
}

/// If the store can be shared, stores the log cursor of a task for a listening stream in another process.
async fn keep(call: &SessionCall<'_>, task: &Task, heard: LogCursor) -> Result<(), StoreError> {
    if let Some(told) = heard.sent_by_request(task).filter(|_| call.bridge.store.is_shared()) {
        let Session { nonce, expires, .. } = call.session;
        call.bridge.store.set(nonce, SessionChange::Streams(StreamNote::Told(vec![told])), *expires).await?;
    }
    Ok(())
}

/// Waits until the session's settings may have changed.
async fn others(changes: Option<&mut ChangeSubscription>) {
    let Some(changes) = changes else { return std::future::pending().await };
    while !changes.next().await.others {}
}

/// Returns true if the stream that waits for the task sends its log messages. Its client does not know it as
/// a task, so no listening stream sends them.
fn hears(call: &SessionCall<'_>, task: &Task) -> bool {
    task.undelivered.is_some() || !call.has_tasks()
}

fn report(heart: &mut ProgressReporter, view: &View, now: Timestamp) -> Value {
    let ProgressReport { progress, total, message } = heart.beat(view, now);
    let params =
        wire::Progress { progress_token: &heart.token, progress, total, message: Some(message), meta: None };
    to_wire::notification("notifications/progress", params)
}
