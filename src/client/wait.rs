//! Waits until a task ends, across broken connections, server restarts and lost sessions. It must not show
//! anything; it reports events as [`WaitEvent`].

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use super::fault::ServerCallError;
use super::session::{ServerMessageSender, Session};
use super::task::{Status, Task, get_task};
use crate::mcp::jsonrpc::Outcome;

/// The first and the longest delay between attempts to reach an unavailable server.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Duration of a request after which the connection counts as stable, and the backoff starts anew.
const STABLE: Duration = Duration::from_secs(20);
/// Minimum and maximum poll interval, whatever the server requests.
const POLLS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// An event during the wait.
#[derive(Debug)]
pub(super) enum WaitEvent {
    /// The current task.
    Stands(Task),
    /// The work done so far, and the total.
    Progress(f64, Option<f64>),
    /// The server cannot be reached.
    Lost(String),
    /// The server can be reached again.
    Back,
}

/// Returns an exponential backoff without an end.
fn pauses() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    builder.without_max_times().build()
}

/// Waits until the task has ended, and returns the answer of its call.
///
/// # Errors
/// If the server does not know the task, or no longer accepts this client.
pub(super) async fn result(
    session: &Session,
    id: &str,
    ear: &ServerMessageSender,
    word: &UnboundedSender<WaitEvent>,
) -> Result<Outcome, ServerCallError> {
    let mut pauses = pauses();
    loop {
        let began = Instant::now();
        let fault = match session.request("tasks/result", json!({ "taskId": id }), Some(ear)).await {
            Ok(result) => return Ok(Ok(result)),
            Err(fault @ ServerCallError::Refused(_)) => fault,
            Err(fault) if fault.passes() => fault,
            Err(fault) => return Err(fault),
        };
        if began.elapsed() >= STABLE {
            pauses = self::pauses();
        }
        if !matches!(fault, ServerCallError::Refused(_)) {
            send_event(word, WaitEvent::Lost(fault.to_string()));
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
        let task = reach(session, id, &mut pauses).await?;
        match fault {
            // The error is the outcome of the task.
            ServerCallError::Refused(error) if task.status == Status::Failed => return Ok(Err(error)),
            // The server could not answer; the next attempt may succeed.
            ServerCallError::Refused(_) => sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await,
            _ => send_event(word, WaitEvent::Back),
        }
        send_event(word, WaitEvent::Stands(task));
    }
}

/// Polls the task until the server answers.
async fn reach(
    session: &Session,
    id: &str,
    pauses: &mut ExponentialBackoff,
) -> Result<Task, ServerCallError> {
    loop {
        match get_task(session, id).await {
            Err(fault) if fault.passes() => sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await,
            looked => return looked,
        }
    }
}

/// Polls the task at the server's interval, for as long as this future is polled. The server reports
/// progress to the session that created the task; with `progress`, this function requests it.
pub(super) async fn watch(
    session: &Session,
    id: &str,
    mut progress: bool,
    ear: &ServerMessageSender,
    word: &UnboundedSender<WaitEvent>,
) {
    loop {
        let pause = match get_task(session, id).await {
            Ok(task) => {
                let pause = task.poll_interval;
                let works = task.status == Status::Working;
                send_event(word, WaitEvent::Stands(task));
                if progress && works {
                    progress = ask_progress(session, id, ear, word).await;
                }
                pause
            }
            // The request for the result reports the error.
            Err(_) => Duration::from_secs(2),
        };
        sleep(pause.clamp(POLLS.0, POLLS.1)).await;
    }
}

/// Requests the task's progress. The protocol has no such request; taskbridge's tool for clients without
/// tasks returns it. Returns false if a retry cannot succeed, as on a server without such a tool.
async fn ask_progress(
    session: &Session,
    id: &str,
    ear: &ServerMessageSender,
    word: &UnboundedSender<WaitEvent>,
) -> bool {
    let params = json!({"name": "task_wait", "arguments": {"task_id": id, "seconds": 0}});
    match session.request("tools/call", params, Some(ear)).await {
        Ok(result) => {
            let number =
                |name: &str| result.pointer(&format!("/structuredContent/progress/{name}"))?.as_f64();
            if let Some(done) = number("done") {
                send_event(word, WaitEvent::Progress(done, number("total")));
            }
            true
        }
        Err(fault) => fault.passes(),
    }
}

/// Retries without a limit until the server was reached, or the error is one that does not pass. `again`
/// receives the fault of each failed attempt.
pub(super) async fn retry_until_reached<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, ServerCallError>,
    mut again: impl FnMut(&ServerCallError),
) -> Result<T, ServerCallError> {
    let mut pauses = pauses();
    loop {
        match attempt().await {
            Err(fault) if fault.passes() => {
                again(&fault);
                sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            }
            done => return done,
        }
    }
}

fn send_event(to: &UnboundedSender<WaitEvent>, word: WaitEvent) {
    // A closed channel means that the receiver has left.
    let _ = to.send(word);
}
