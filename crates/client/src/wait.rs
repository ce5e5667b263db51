//! Waits until a task ends, across broken connections, server restarts and lost sessions. It must not show
//! anything; it reports events as [`WaitEvent`].

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use serde_json::json;
use taskbridge_wire::jsonrpc::Outcome;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use super::error::ServerCallError;
use super::session::{ServerMessageSender, Session};
use super::task::{Status, Task, get_task};

/// The first and the longest delay between attempts to reach an unavailable server.
const MIN_BACKOFF: Duration = Duration::from_millis(250);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// Duration of a request after which the connection counts as stable, and the backoff starts anew.
const STABLE_AFTER: Duration = Duration::from_secs(20);
/// Minimum and maximum poll interval, whatever the server requests.
const POLL_INTERVAL_RANGE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// An event during the wait.
#[derive(Debug)]
pub(super) enum WaitEvent {
    /// The current task.
    TaskStatus(Task),
    /// The work done so far, and the total.
    Progress(f64, Option<f64>),
    /// The server cannot be reached.
    Disconnected(String),
    /// The server can be reached again.
    Reconnected,
}

/// Returns an exponential backoff without an end.
fn backoff() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(MIN_BACKOFF).with_max_delay(MAX_BACKOFF);
    builder.without_max_times().build()
}

/// Waits until the task has ended, and returns the answer of its call.
///
/// # Errors
/// If the server does not know the task, or no longer accepts this client.
pub(super) async fn wait_for_result(
    session: &Session,
    id: &str,
    message_sender: &ServerMessageSender,
    event_sender: &UnboundedSender<WaitEvent>,
) -> Result<Outcome, ServerCallError> {
    let mut pauses = backoff();
    loop {
        let started_at = Instant::now();
        let call_error =
            match session.request("tasks/result", json!({ "taskId": id }), Some(message_sender)).await {
                Ok(result) => return Ok(Ok(result)),
                Err(call_error @ ServerCallError::JsonRpc(_)) => call_error,
                Err(call_error) if call_error.is_transient() => call_error,
                Err(call_error) => return Err(call_error),
            };
        if started_at.elapsed() >= STABLE_AFTER {
            pauses = self::backoff();
        }
        if !matches!(call_error, ServerCallError::JsonRpc(_)) {
            send_event(event_sender, WaitEvent::Disconnected(call_error.to_string()));
            sleep(pauses.next().unwrap_or(MAX_BACKOFF)).await;
        }
        let task = poll_until_reached(session, id, &mut pauses).await?;
        match call_error {
            // The error is the outcome of the task.
            ServerCallError::JsonRpc(error) if task.status == Status::Failed => return Ok(Err(error)),
            // The server could not answer; the next attempt may succeed.
            ServerCallError::JsonRpc(_) => sleep(pauses.next().unwrap_or(MAX_BACKOFF)).await,
            _ => send_event(event_sender, WaitEvent::Reconnected),
        }
        send_event(event_sender, WaitEvent::TaskStatus(task));
    }
}

/// Polls the task until the server answers.
async fn poll_until_reached(
    session: &Session,
    id: &str,
    backoff: &mut ExponentialBackoff,
) -> Result<Task, ServerCallError> {
    loop {
        match get_task(session, id).await {
            Err(error) if error.is_transient() => sleep(backoff.next().unwrap_or(MAX_BACKOFF)).await,
            result => return result,
        }
    }
}

/// Polls the task at the server's interval, for as long as this future is polled. The server reports
/// progress to the session that created the task; with `with_progress`, this function requests it.
pub(super) async fn poll_task(
    session: &Session,
    id: &str,
    mut with_progress: bool,
    message_sender: &ServerMessageSender,
    event_sender: &UnboundedSender<WaitEvent>,
) {
    loop {
        let interval = match get_task(session, id).await {
            Ok(task) => {
                let interval = task.poll_interval;
                let is_working = task.status == Status::Working;
                send_event(event_sender, WaitEvent::TaskStatus(task));
                if with_progress && is_working {
                    with_progress = request_progress(session, id, message_sender, event_sender).await;
                }
                interval
            }
            // The request for the result reports the error.
            Err(_) => Duration::from_secs(2),
        };
        sleep(interval.clamp(POLL_INTERVAL_RANGE.0, POLL_INTERVAL_RANGE.1)).await;
    }
}

/// Requests the task's progress. The protocol has no such request; taskbridge's tool for clients without
/// tasks returns it. Returns false if a retry cannot succeed, as on a server without such a tool.
async fn request_progress(
    session: &Session,
    id: &str,
    message_sender: &ServerMessageSender,
    event_sender: &UnboundedSender<WaitEvent>,
) -> bool {
    let params = json!({"name": "task_wait", "arguments": {"task_id": id, "seconds": 0}});
    match session.request("tools/call", params, Some(message_sender)).await {
        Ok(result) => {
            let number =
                |name: &str| result.pointer(&format!("/structuredContent/progress/{name}"))?.as_f64();
            if let Some(done) = number("done") {
                send_event(event_sender, WaitEvent::Progress(done, number("total")));
            }
            true
        }
        Err(error) => error.is_transient(),
    }
}

/// Retries without a limit until the server was reached, or the error is permanent. `on_retry` receives
/// the error of each failed attempt.
pub(super) async fn retry_until_reached<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, ServerCallError>,
    mut on_retry: impl FnMut(&ServerCallError),
) -> Result<T, ServerCallError> {
    let mut pauses = backoff();
    loop {
        match attempt().await {
            Err(error) if error.is_transient() => {
                on_retry(&error);
                sleep(pauses.next().unwrap_or(MAX_BACKOFF)).await;
            }
            result => return result,
        }
    }
}

fn send_event(sender: &UnboundedSender<WaitEvent>, event: WaitEvent) {
    // A closed channel means that the receiver has left.
    let _ = sender.send(event);
}
