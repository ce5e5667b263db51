//! Runs a command and stops it on request or after its timeout: first with SIGTERM, then with SIGKILL. It
//! must not know the purpose of the command.

use std::process::ExitStatus;
use std::time::Instant;

use rustix::process::Signal;

use super::payload::Payload;
use crate::job_dir::JobDir;
use crate::job_request::LaunchRequest;

/// How a command ended.
pub(super) enum Ending {
    /// It never ran, or its exit status could not be read, for this reason.
    NotRun(String),
    /// It exited by itself.
    Exited(ExitStatus),
    /// It was stopped on request, whatever its exit status.
    Cancelled,
    /// It was stopped after its timeout, whatever its exit status.
    TimedOut,
}

/// Runs the command until it ends.
pub(super) fn run(dir: &JobDir, order: &LaunchRequest) -> Ending {
    let mut payload = match Payload::start(dir, order) {
        Ok(payload) => payload,
        Err(why) => return Ending::NotRun(why),
    };
    let mut stopped = None;
    // First the timeout of the command, then the end of its grace period, then nothing.
    let mut due = order.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let is_due = due.is_some_and(|moment| moment <= Instant::now());
        if stopped.is_none() && (is_due || dir.cancel_requested()) {
            stopped = Some(if is_due { Ending::TimedOut } else { Ending::Cancelled });
            payload.signal(Signal::TERM);
            due = Instant::now().checked_add(order.kill_grace);
        } else if is_due {
            payload.signal(Signal::KILL);
            due = None;
        }
        if payload.wait(due.map(|moment| moment.saturating_duration_since(Instant::now()))) {
            let exited =
                payload.finish().map_or_else(|e| Ending::NotRun(format!("it was lost: {e}")), Ending::Exited);
            return stopped.unwrap_or(exited);
        }
    }
}
