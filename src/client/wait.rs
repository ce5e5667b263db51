//! Waits for a task's end through everything that can happen on the way: a broken connection, a server that is
//! started again, a session that is gone. It must not show anything; what it notices goes out as [`Word`].

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use super::fault::Fault;
use super::session::{Ear, Session};
use super::task::{Status, Task, look};
use crate::mcp::jsonrpc::Outcome;

/// The pauses between attempts to reach a server that is away.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A connection that held for so long was a good one.
const STABLE: Duration = Duration::from_secs(20);
/// How often to look at the most, whatever the server says, and at the least.
const POLLS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// What is noticed while waiting.
#[derive(Debug)]
pub(super) enum Word {
    /// Where the task stands.
    Stands(Task),
    /// How much is done, and of how much.
    Progress(f64, Option<f64>),
    /// The server cannot be reached.
    Lost(String),
    /// It can be reached again.
    Back,
}

/// Pauses that grow, without an end.
fn pauses() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    builder.without_max_times().build()
}

/// Waits until the task has ended: what its call is answered with.
///
/// # Errors
/// If the server knows no such task, or does not let this client in any more.
pub(super) async fn result(
    session: &Session,
    id: &str,
    ear: &Ear,
    word: &UnboundedSender<Word>,
) -> Result<Outcome, Fault> {
    let mut pauses = pauses();
    loop {
        let began = Instant::now();
        let fault = match session.request("tasks/result", json!({ "taskId": id }), Some(ear)).await {
            Ok(result) => return Ok(Ok(result)),
            Err(fault @ Fault::Refused(_)) => fault,
            Err(fault) if fault.passes() => fault,
            Err(fault) => return Err(fault),
        };
        if began.elapsed() >= STABLE {
            pauses = self::pauses();
        }
        if !matches!(fault, Fault::Refused(_)) {
            tell(word, Word::Lost(fault.to_string()));
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
        let task = reach(session, id, &mut pauses).await?;
        match fault {
            // The error is what became of the task.
            Fault::Refused(error) if task.status == Status::Failed => return Ok(Err(error)),
            // The server could not say; it may the next time.
            Fault::Refused(_) => sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await,
            _ => tell(word, Word::Back),
        }
        tell(word, Word::Stands(task));
    }
}

/// Looks at the task until the server answers.
async fn reach(session: &Session, id: &str, pauses: &mut ExponentialBackoff) -> Result<Task, Fault> {
    loop {
        match look(session, id).await {
            Err(fault) if fault.passes() => sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await,
            looked => return looked,
        }
    }
}

/// Looks at the task as often as the server wants, for as long as this is polled. Progress is reported to the session
/// that made the task; with `progress`, it is asked for.
pub(super) async fn watch(
    session: &Session,
    id: &str,
    mut progress: bool,
    ear: &Ear,
    word: &UnboundedSender<Word>,
) {
    loop {
        let pause = match look(session, id).await {
            Ok(task) => {
                let pause = task.poll_interval;
                let works = task.status == Status::Working;
                tell(word, Word::Stands(task));
                if progress && works {
                    progress = ask_progress(session, id, ear, word).await;
                }
                pause
            }
            // Who waits for the result says so.
            Err(_) => Duration::from_secs(2),
        };
        sleep(pause.clamp(POLLS.0, POLLS.1)).await;
    }
}

/// Asks how far the task is. The protocol has no such request; taskbridge's tool for clients without tasks says it.
/// False if there is no such tool here.
async fn ask_progress(session: &Session, id: &str, ear: &Ear, word: &UnboundedSender<Word>) -> bool {
    let params = json!({"name": "task_wait", "arguments": {"task_id": id, "seconds": 0}});
    match session.request("tools/call", params, Some(ear)).await {
        Ok(result) => {
            let number =
                |name: &str| result.pointer(&format!("/structuredContent/progress/{name}"))?.as_f64();
            if let Some(done) = number("done") {
                tell(word, Word::Progress(done, number("total")));
            }
            true
        }
        Err(fault) => fault.passes(),
    }
}

/// Does something again and again until the server was reached. `again` is told why each time.
pub(super) async fn insist<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, Fault>,
    mut again: impl FnMut(&Fault),
) -> Result<T, Fault> {
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

fn tell(to: &UnboundedSender<Word>, word: Word) {
    // Whoever does not listen any more has left.
    let _ = to.send(word);
}
