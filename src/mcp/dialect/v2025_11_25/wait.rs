//! Waits for a task on an open stream. Meanwhile it sends the task's questions, progress and log messages
//! there. It must not decide how the request is answered.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::questions::QuestionSender;
use super::{SessionCall, logging, to_wire, wire};
use crate::mcp::features::tools::progress::{ProgressParams, ProgressReport, ProgressReporter};
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::Session;
use crate::tasks::service::View;
use crate::tasks::store::{SessionChange, StoreError};
use crate::tasks::streams::StreamEvent;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// How long a request waits, and what it sends meanwhile.
pub(super) struct WaitOptions {
    /// Deadline; `None` waits without a limit.
    pub(super) deadline: Option<Timestamp>,
    /// Progress to report, if any.
    pub(super) progress: Option<ProgressParams>,
    /// Log cursor of the task, if the request sends its log messages; see `hears`.
    pub(super) log_cursor: Option<LogCursor>,
}

/// Waits until the task has ended or the deadline has passed. Returns the task as it is then; `None` once the
/// caller has no such task.
///
/// # Errors
/// If the store fails.
pub(super) async fn wait(
    call: &SessionCall<'_>,
    id: &TaskId,
    options: WaitOptions,
    sink: &dyn MessageSink,
) -> Result<Option<View>, StoreError> {
    let bridge = call.bridge;
    let now = || bridge.clock.now();
    let deadline = options.deadline.map(|deadline| Instant::now() + deadline.since(now()));
    let mut question_sender = QuestionSender::new(call, sink, Duration::ZERO, Some(id));
    // The task's row contains neither the state of the client's own tasks nor whether the client is ready.
    let watches_session =
        call.client().can_run_tasks() || bridge.uninitialized_sessions.may_have(call.session, now());
    let mut changes = watches_session.then(|| bridge.service.changes(&call.session.nonce));
    let mut log_cursor = options.log_cursor;
    let mut questions_due: Option<Instant> = None;
    let mut reporter =
        options.progress.map(|params| ProgressReporter::new(params, bridge.settings().progress_every));
    loop {
        let wake_at = [deadline, questions_due, reporter.as_ref().map(ProgressReporter::next_check)]
            .into_iter()
            .flatten()
            .min();
        let max_wait = wake_at.map(|wake_at| wake_at.saturating_duration_since(Instant::now()));
        let actor = call.actor();
        let update = bridge.service.wait(&actor, id, max_wait, |task| {
            task.has_ended()
                || question_sender.has_work(task)
                || reporter.as_ref().is_some_and(|reporter| reporter.is_due(task))
                || (sends_logs(call, task)
                    && log_cursor.as_ref().is_some_and(|log_cursor| log_cursor.is_behind(task)))
        });
        let view = tokio::select! {
            biased;
            view = update => view?,
            () = settings_changed(changes.as_mut()) => bridge.service.get(&call.actor(), id).await?,
        };
        let Some(view) = view else { return Ok(None) };
        let next_check =
            question_sender.sync(&view.task).await?.into_iter().chain(question_sender.collect().await?).min();
        questions_due = next_check.map(|at| Instant::now() + at.since(now()));
        if let Some(log_cursor) = log_cursor.as_mut().filter(|_| sends_logs(call, &view.task)) {
            logging::send_log_messages(call, log_cursor.catch_up(&view.task), None, sink).await?;
        }
        let is_done = view.task.has_ended() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_due = |reporter: &&mut ProgressReporter| match is_done {
            // The job's last progress is sent before the answer. A heartbeat is not.
            true => reporter.has_news(&view.task),
            false => reporter.is_due(&view.task),
        };
        if let Some(reporter) = reporter.as_mut().filter(is_due) {
            sink.send(report(reporter, &view, now())).await;
        }
        if is_done {
            if let Some(log_cursor) = log_cursor {
                // From here on the session's listening stream sends the log messages.
                bridge.stream_election.store_request_cursor(&call.session.nonce, &view.task, log_cursor);
                store_log_cursor(call, &view.task, log_cursor).await?;
            }
            question_sender.finish().await?;
            return Ok(Some(view));
        }
    }
}

/// If the store can be shared, stores the log cursor of a task for a listening stream in another process.
async fn store_log_cursor(
    call: &SessionCall<'_>,
    task: &Task,
    log_cursor: LogCursor,
) -> Result<(), StoreError> {
    if let Some(report) = log_cursor.request_report(task).filter(|_| call.bridge.store.is_shared()) {
        let Session { nonce, expires, .. } = call.session;
        call.bridge
            .store
            .set(nonce, SessionChange::Streams(StreamEvent::Reported(vec![report])), *expires)
            .await?;
    }
    Ok(())
}

/// Waits until the session's settings may have changed.
async fn settings_changed(changes: Option<&mut ChangeSubscription>) {
    let Some(changes) = changes else { return std::future::pending().await };
    while !changes.next().await.others {}
}

/// Returns true if the stream that waits for the task sends its log messages. Its client does not know it as
/// a task, so no listening stream sends them.
fn sends_logs(call: &SessionCall<'_>, task: &Task) -> bool {
    task.undelivered.is_some() || !call.has_tasks()
}

fn report(reporter: &mut ProgressReporter, view: &View, now: Timestamp) -> Value {
    let ProgressReport { progress, total, message } = reporter.next_report(view, now);
    let params = wire::Progress {
        progress_token: &reporter.token,
        progress,
        total,
        message: Some(message),
        meta: None,
    };
    to_wire::notification("notifications/progress", params)
}
