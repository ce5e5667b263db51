//! Waits for a task while its call is answered, and sends progress and log messages on the call's own stream.
//! It must not decide how the call is answered.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::{StatelessCall, logging, questions, to_wire, wire};
use crate::mcp::log_cursor::LogCursor;
use crate::mcp::message_sink::MessageSink;
use crate::mcp::progress::{ProgressReport, ProgressReporter, Reports};
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};

/// Maximum time that a call still waits once shutdown has begun. Its stream cannot be resumed elsewhere, so
/// it is then answered with the current state.
const GRACE: Duration = Duration::from_millis(500);

/// How long a request waits, and what it sends meanwhile.
pub(super) struct WaitOptions {
    /// Deadline.
    pub(super) until: Timestamp,
    /// Progress token, if progress is reported.
    pub(super) progress_token: Option<Value>,
    /// Log messages up to this time count as sent.
    pub(super) hears_since: Timestamp,
}

/// Waits until the task has ended, asks something that this client can be asked, or the deadline has passed.
/// Returns the task as it is then; `None` once the caller has no such task.
///
/// # Errors
/// If the store fails.
pub(super) async fn wait(
    call: &StatelessCall<'_>,
    id: &TaskId,
    patience: WaitOptions,
    outlet: &dyn MessageSink,
) -> Result<Option<View>, StoreError> {
    let bridge = call.bridge;
    let began = bridge.clock.now();
    let mut until = Instant::now() + patience.until.since(began);
    let mut stopping = pin!(bridge.service.stopping());
    let mut stops = false;
    let settles = |task: &Task| task.has_ended() || questions::asks(call, task);
    let mut heard = call.asker.log_level.map(|_| LogCursor::by_request(patience.hears_since));
    let mut heart = patience.progress_token.map(|token| {
        let reports = Reports { token, began, resumed: false };
        ProgressReporter::new(reports, bridge.settings().progress_every)
    });
    loop {
        let wake = heart.as_ref().map_or(until, |heart| heart.look_at().min(until));
        let at_most = wake.saturating_duration_since(Instant::now());
        let settled = |task: &Task| {
            settles(task)
                || heart.as_ref().is_some_and(|heart| heart.is_due(task))
                || heard.as_ref().is_some_and(|heard| heard.is_behind(task))
        };
        let actor = call.actor();
        let view = tokio::select! {
            biased;
            () = &mut stopping, if !stops => {
                stops = true;
                until = until.min(Instant::now() + GRACE);
                continue;
            }
            view = bridge.service.wait(&actor, id, Some(at_most), settled) => view?,
        };
        let Some(view) = view else { return Ok(None) };
        if let Some(heard) = &mut heard {
            logging::send_log_messages(call, heard.catch_up(&view.task), outlet).await;
        }
        let over = settles(&view.task) || Instant::now() >= until;
        let due = |heart: &&mut ProgressReporter| match over {
            // The job's last progress is sent before the answer. A heartbeat is not.
            true => heart.has_news(&view.task),
            false => heart.is_due(&view.task),
        };
        if let Some(heart) = heart.as_mut().filter(due) {
            outlet.send(report(heart, &view, bridge.clock.now())).await;
        }
        if over {
            return Ok(Some(view));
        }
    }
}

fn report(heart: &mut ProgressReporter, view: &View, now: Timestamp) -> Value {
    let ProgressReport { progress, total, message } = heart.beat(view, now);
    let params = wire::Progress { progress_token: &heart.token, progress, total, message };
    to_wire::notification("notifications/progress", params)
}
