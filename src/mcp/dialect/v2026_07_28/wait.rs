//! Waits for a task while its call is answered, and sends progress and log messages on the call's own stream.
//! It must not decide how the call is answered.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::{StatelessCall, logging, questions, to_wire, wire};
use crate::mcp::features::tools::progress::{ProgressParams, ProgressReport, ProgressReporter};
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::MessageSink;
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};

/// Maximum time that a call still waits once shutdown has begun. Its stream cannot be resumed elsewhere, so
/// it is then answered with the current state.
const GRACE: Duration = Duration::from_millis(500);

/// How long a request waits, and what it sends meanwhile.
pub(super) struct WaitOptions {
    /// Deadline.
    pub(super) deadline: Timestamp,
    /// Progress token, if progress is reported.
    pub(super) progress_token: Option<Value>,
    /// Log messages up to this time count as sent.
    pub(super) logs_since: Timestamp,
}

/// Waits until the task has ended, asks something that this client can be asked, or the deadline has passed.
/// Returns the task as it is then; `None` once the caller has no such task.
///
/// # Errors
/// If the store fails.
pub(super) async fn wait(
    call: &StatelessCall<'_>,
    id: &TaskId,
    options: WaitOptions,
    sink: &dyn MessageSink,
) -> Result<Option<View>, StoreError> {
    let bridge = call.bridge;
    let started_at = bridge.clock.now();
    let mut deadline = Instant::now() + options.deadline.since(started_at);
    let mut stopping = pin!(bridge.service.stopping());
    let mut is_stopping = false;
    let is_settled = |task: &Task| task.has_ended() || questions::has_questions(call, task);
    let mut log_cursor = call.caller.log_level.map(|_| LogCursor::for_request(options.logs_since));
    let mut reporter = options.progress_token.map(|token| {
        let params = ProgressParams { token, started_at, resumed: false };
        ProgressReporter::new(params, bridge.settings().progress_every)
    });
    loop {
        let wake_at = reporter.as_ref().map_or(deadline, |reporter| reporter.next_check().min(deadline));
        let max_wait = wake_at.saturating_duration_since(Instant::now());
        let must_wake = |task: &Task| {
            is_settled(task)
                || reporter.as_ref().is_some_and(|reporter| reporter.is_due(task))
                || log_cursor.as_ref().is_some_and(|log_cursor| log_cursor.is_behind(task))
        };
        let actor = call.actor();
        let view = tokio::select! {
            biased;
            () = &mut stopping, if !is_stopping => {
                is_stopping = true;
                deadline = deadline.min(Instant::now() + GRACE);
                continue;
            }
            view = bridge.service.wait(&actor, id, Some(max_wait), must_wake) => view?,
        };
        let Some(view) = view else { return Ok(None) };
        if let Some(log_cursor) = &mut log_cursor {
            logging::send_log_messages(call, log_cursor.catch_up(&view.task), sink).await;
        }
        let is_done = is_settled(&view.task) || Instant::now() >= deadline;
        let is_due = |reporter: &&mut ProgressReporter| match is_done {
            // The job's last progress is sent before the answer. A heartbeat is not.
            true => reporter.has_news(&view.task),
            false => reporter.is_due(&view.task),
        };
        if let Some(reporter) = reporter.as_mut().filter(is_due) {
            sink.send(report(reporter, &view, bridge.clock.now())).await;
        }
        if is_done {
            return Ok(Some(view));
        }
    }
}

fn report(reporter: &mut ProgressReporter, view: &View, now: Timestamp) -> Value {
    let ProgressReport { progress, total, message } = reporter.next_report(view, now);
    let params = wire::Progress { progress_token: &reporter.token, progress, total, message };
    to_wire::notification("notifications/progress", params)
}
