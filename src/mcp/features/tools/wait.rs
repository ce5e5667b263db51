//! Waits for a task while its request is open, and sends progress, log messages and what the generation adds
//! on the request's own stream. It must not decide how the request is answered.

use std::pin::pin;
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::progress::{ProgressParams, ProgressReporter};
use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::MessageSink;
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// Maximum time that a request still waits once shutdown has begun, if its stream cannot be resumed
/// elsewhere.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// How long a request waits, and what it sends meanwhile.
#[derive(Default)]
pub struct WaitOptions {
    /// Deadline; `None` waits without a limit.
    pub deadline: Option<Timestamp>,
    /// Progress to report, if any.
    pub progress: Option<ProgressParams>,
    /// Log cursor of the task, if the request may send its log messages.
    pub log_cursor: Option<LogCursor>,
}

/// Waits until the task has ended, needs input that the answer can request, or the deadline has passed.
/// Returns the task as it is then; `None` once the caller has no such task.
///
/// # Errors
/// If the store fails.
pub async fn wait(
    request: &dyn Dialect,
    id: &TaskId,
    options: WaitOptions,
    sink: &dyn MessageSink,
) -> Result<Option<View>, StoreError> {
    let WaitOptions { deadline, progress, mut log_cursor } = options;
    let context = request.context();
    let now = || context.clock.now();
    let mut deadline = deadline.map(|deadline| Instant::now() + deadline.since(now()));
    let mut channel = request.wait_channel(id, sink);
    let mut changes = channel.changes();
    let mut hints = context.service.listen(id);
    let mut sync_at: Option<Instant> = None;
    let mut reporter =
        progress.map(|params| ProgressReporter::new(params, context.settings().progress_every));
    let mut stopping = pin!(context.service.stopping());
    let mut ends_with_server = !request.resumes_streams();
    let is_settled = |task: &Task| task.has_ended() || request.is_input_required(task);
    loop {
        let next_check = reporter.as_ref().map(ProgressReporter::next_check);
        let wake_at = [deadline, sync_at, next_check].into_iter().flatten().min();
        let max_wait = wake_at.map(|wake_at| wake_at.saturating_duration_since(Instant::now()));
        let actor = request.actor();
        let must_wake = |task: &Task| {
            is_settled(task)
                || channel.has_work(task)
                || reporter.as_ref().is_some_and(|reporter| reporter.is_due(task))
                || log_cursor.is_some_and(|cursor| channel.sends_logs(task) && cursor.is_behind(task))
        };
        let view = tokio::select! {
            biased;
            () = &mut stopping, if ends_with_server => {
                ends_with_server = false;
                let latest = Instant::now() + SHUTDOWN_GRACE;
                deadline = Some(deadline.map_or(latest, |deadline| deadline.min(latest)));
                continue;
            }
            view = context.service.wait(&actor, id, max_wait, must_wake) => view?,
            () = hints.hint(), if channel.follows_hints() => context.service.get(&request.actor(), id).await?,
            () = next_change(changes.as_mut()) => context.service.get(&request.actor(), id).await?,
        };
        let Some(view) = view else { return Ok(None) };
        sync_at = channel.sync(&view.task).await?.map(|at| Instant::now() + at.since(now()));
        if let Some(cursor) = log_cursor.as_mut().filter(|_| channel.sends_logs(&view.task)) {
            channel.send_logs(cursor.catch_up(&view.task)).await?;
        }
        let is_done = is_settled(&view.task) || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_due = |reporter: &&mut ProgressReporter| match is_done {
            // The job's last progress is sent before the answer. A heartbeat is not.
            true => reporter.has_news(&view.task),
            false => reporter.is_due(&view.task),
        };
        if let Some(reporter) = reporter.as_mut().filter(is_due) {
            let report = reporter.next_report(&view, now());
            channel.send_progress(&reporter.token, report).await;
        }
        if is_done {
            channel.finish(&view.task, log_cursor).await?;
            return Ok(Some(view));
        }
    }
}

/// Waits until something outside of the task's row may have changed.
async fn next_change(changes: Option<&mut ChangeSubscription>) {
    let Some(changes) = changes else { return std::future::pending().await };
    while !changes.next().await.others {}
}
