//! Calls that show nothing of a job: the engine is unavailable, or does not list the job, which counts as lost
//! after several polls in a row. Pure. It must not end the task.

use std::time::Duration;

use taskbridge_sdk::{ErrorKind, Timestamp};

use super::{Failure, deadline};
use crate::tasks::task::{EngineOutage, MissingJob, Task};

/// Number of polls in a row, each of which does not find the job, after which it counts as lost.
const LOST_AFTER: u32 = 5;

/// Maximum time between two of these polls. After a longer one the count starts over: perhaps all processes
/// were down, and so was the engine.
const MAX_MISSING_GAP: Duration = Duration::from_secs(1800);

/// Counts a poll that did not find the job, if it began at least a quarter of the engine's lag after the one
/// that was counted last. Returns true if the job counts as lost.
pub(super) fn is_lost(task: &mut Task, polled_at: Timestamp, start_lag: Duration) -> bool {
    let missing = task.missing.filter(|missing| polled_at.since(missing.polled_at) <= MAX_MISSING_GAP);
    let times = match missing {
        None => 1,
        Some(MissingJob { polled_at: last, times }) => {
            let apart = polled_at.since(last);
            if apart.is_zero() || apart < start_lag / 4 {
                return false;
            }
            times.saturating_add(1)
        }
    };
    task.missing = Some(MissingJob { polled_at, times });
    times >= LOST_AFTER
}

/// Handles a poll that did not find the job, which does not count as lost yet.
pub(super) fn job_not_listed(task: &mut Task, now: Timestamp) {
    task.look_at = None;
    let failure = Failure {
        kind: ErrorKind::Unavailable,
        message: "the engine does not list the job; it is polled again before it counts as lost".to_owned(),
        is_final: false,
        retry_after: None,
    };
    record_outage(task, &failure, now);
    deadline::poll_failed(task, &failure, now);
}

/// Records a failed call as an outage, and returns since when it lasts. The first reason is kept until the
/// outage is over, so that an outage writes the row once. An ended task records none.
pub(super) fn record_outage(task: &mut Task, failure: &Failure, now: Timestamp) -> Timestamp {
    if task.has_ended() {
        return now;
    }
    let reason = failure.message.clone();
    task.trouble.get_or_insert(EngineOutage { since: now, reason }).since
}
