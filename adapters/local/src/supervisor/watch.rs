//! When a command is stopped: on request, or after its timeout, first politely and then not. It must not know what
//! the command was for.

use std::process::ExitStatus;
use std::time::Instant;

use rustix::process::Signal;

use super::payload::Payload;
use crate::job_dir::JobDir;
use crate::order::Order;

/// How a command ended.
pub(super) enum Ending {
    /// It never ran; in words, why.
    NotRun(String),
    /// By itself.
    Exited(ExitStatus),
    /// Because it was asked to.
    Cancelled,
    /// Because its time was up.
    TimedOut,
}

/// Runs the command to its end.
pub(super) fn run(dir: &JobDir, order: &Order) -> Ending {
    let mut payload = match Payload::start(dir, order) {
        Ok(payload) => payload,
        Err(why) => return Ending::NotRun(why),
    };
    let mut stopped = None;
    // The timeout while the command runs as it likes, then the end of its grace, then nothing.
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
