//! Runs a command and stops it on request or after its timeout: first with SIGTERM, then with SIGKILL. It
//! must not know the purpose of the command.

use std::process::ExitStatus;
use std::time::Instant;

use rustix::process::Signal;

use super::payload::Payload;
use crate::store::job_dir::JobDir;
use crate::submit::request::LaunchRequest;

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
pub(super) fn run(dir: &JobDir, request: &LaunchRequest) -> Ending {
    let mut payload = match Payload::start(dir, request) {
        Ok(payload) => payload,
        Err(reason) => return Ending::NotRun(reason),
    };
    let mut stop_reason = None;
    // First the timeout of the command, then the end of its grace period, then nothing.
    let mut deadline = request.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let is_due = deadline.is_some_and(|at| at <= Instant::now());
        if stop_reason.is_none() && (is_due || dir.cancel_requested()) {
            stop_reason = Some(if is_due { Ending::TimedOut } else { Ending::Cancelled });
            payload.signal(Signal::TERM);
            deadline = Instant::now().checked_add(request.kill_grace);
        } else if is_due {
            payload.signal(Signal::KILL);
            deadline = None;
        }
        if payload.wait(deadline.map(|at| at.saturating_duration_since(Instant::now()))) {
            let ending = payload.finish().map_or_else(
                |e| Ending::NotRun(format!("the command's exit status cannot be read: {e}")),
                Ending::Exited,
            );
            return stop_reason.unwrap_or(ending);
        }
    }
}
