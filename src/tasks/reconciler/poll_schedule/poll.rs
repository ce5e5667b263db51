//! The input and the result of a sweep. Plain data.

use std::time::Duration;

use taskbridge_sdk::{ErrorKind, Subject};

use crate::tasks::task::{Job, Task, TaskId};

/// A failure of a whole call that one of its jobs may have caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tasks::reconciler) enum SweepFault {
    /// The adapter panicked.
    Crashed,
    /// The adapter did not answer in time, or the engine is unavailable.
    Hung,
}

/// Jobs that are due for a poll.
pub(in crate::tasks::reconciler) struct Due {
    /// The jobs, as passed to the backend.
    pub(in crate::tasks::reconciler) subjects: Vec<Subject>,
    /// The same jobs, in the same order.
    pub(in crate::tasks::reconciler) jobs: Vec<DueJob>,
    /// How long the first of them has been due.
    pub(in crate::tasks::reconciler) late: Duration,
}

/// A job that is due for a poll.
pub(in crate::tasks::reconciler) struct DueJob {
    pub(in crate::tasks::reconciler) id: TaskId,
    /// Digest of the last observation that was written.
    pub(in crate::tasks::reconciler) digest: Option<u64>,
    /// The row version that was known before the poll.
    pub(in crate::tasks::reconciler) version: u64,
    /// True if the last poll failed, and the row shows it.
    pub(in crate::tasks::reconciler) troubled: bool,
    /// True if the row must be read, to find out whether the log is followed.
    pub(in crate::tasks::reconciler) ask_of_log: bool,
    /// True if it is polled alone, by [`taskbridge_sdk::Backend::observe`].
    pub(in crate::tasks::reconciler) alone: bool,
    /// Set if the job is given up in case this poll crashes, too: the number of crashes in a row
    /// with this one.
    pub(in crate::tasks::reconciler) last_crash: Option<u32>,
}

/// The result of a poll.
pub(in crate::tasks::reconciler) enum PollResult {
    /// The job was observed, and the row shows the observation.
    Observed { digest: Option<u64>, log_followed: bool, version: u64 },
    /// The job has ended, and the row shows it.
    Ended,
    /// The engine failed, and the row shows it.
    Failed { kind: ErrorKind, version: u64, fault: Option<SweepFault> },
    /// The adapter crashed in a sweep of several jobs, perhaps because of another of them.
    Undecided,
    /// The row could not be read or written.
    Unwritten,
    /// Another writer changed the row after the poll began, so nothing was written.
    Overtaken { version: u64 },
    /// The row is gone.
    RowGone,
}

impl PollResult {
    pub(in crate::tasks::reconciler) fn failure(&self) -> Option<ErrorKind> {
        match self {
            PollResult::Failed { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// Returns true if another job in the sweep may have caused this failure.
    pub(in crate::tasks::reconciler) fn may_be_of_another(&self) -> bool {
        matches!(self, PollResult::Undecided | PollResult::Failed { fault: Some(_), .. })
    }

    /// Returns the same result for the row as written: with its version, or [`PollResult::Ended`] if its
    /// job is not open any more.
    pub(in crate::tasks::reconciler) fn of(self, row: &Task) -> Self {
        match self {
            _ if !matches!(row.job, Job::Open { .. }) => PollResult::Ended,
            PollResult::Observed { digest, log_followed, .. } => {
                PollResult::Observed { digest, log_followed, version: row.version }
            }
            PollResult::Failed { kind, fault, .. } => {
                PollResult::Failed { kind, version: row.version, fault }
            }
            seen => seen,
        }
    }
}
