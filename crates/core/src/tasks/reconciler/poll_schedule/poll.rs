//! The input and the result of a sweep. Plain data; it must not decide when a job is polled.

use std::time::Duration;

use taskbridge_sdk::{ErrorKind, JobHandle, Subject};

use crate::tasks::task::{Job, Task, TaskId};

/// A failure of a whole call that one of its jobs may have caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tasks::reconciler) enum SweepFault {
    /// The adapter panicked.
    Crashed,
    /// The call did not return within its timeout, half a lease. An engine that reports itself unavailable is
    /// no fault.
    Hung,
}

/// Jobs that are due for a poll.
pub(in crate::tasks::reconciler) struct DueBatch {
    /// The jobs, as passed to the backend.
    pub(in crate::tasks::reconciler) subjects: Vec<Subject>,
    /// The same jobs, in the same order.
    pub(in crate::tasks::reconciler) jobs: Vec<DueJob>,
    /// How long the first of them has been due.
    pub(in crate::tasks::reconciler) delay: Duration,
}

/// A job that is due for a poll.
pub(in crate::tasks::reconciler) struct DueJob {
    pub(in crate::tasks::reconciler) id: TaskId,
    /// The name by which it is polled.
    pub(in crate::tasks::reconciler) handle: JobHandle,
    /// Digest of the observation that the row shows; `None` if that is not known.
    pub(in crate::tasks::reconciler) digest: Option<u64>,
    /// The row version that was known before the poll.
    pub(in crate::tasks::reconciler) version: u64,
    /// True if the last poll failed, and the row shows it.
    pub(in crate::tasks::reconciler) last_failed: bool,
    /// True if the row must be read, to find out whether the log is followed.
    pub(in crate::tasks::reconciler) needs_row_read: bool,
    /// True if it is polled alone, by [`taskbridge_sdk::Backend::observe`].
    pub(in crate::tasks::reconciler) alone: bool,
    /// Set if the job is given up when this poll crashes, too: the number of crashes in a row, this one
    /// included.
    pub(in crate::tasks::reconciler) last_crash: Option<u32>,
}

/// The result of a poll.
pub(in crate::tasks::reconciler) enum PollResult {
    /// The job was observed, and the row shows the observation. Without a digest, the next poll reads the
    /// row, whatever it returns.
    Observed { digest: Option<u64>, log_followed: bool, version: u64 },
    /// The engine does not know the job, and the row counts that. The next poll counts after `wait`.
    Missing { version: u64, wait: Duration },
    /// The job has ended, and the row shows it.
    Ended,
    /// The poll failed, and the row shows an outage. `fault` is set if the whole call failed.
    Failed { kind: ErrorKind, version: u64, fault: Option<SweepFault> },
    /// The adapter crashed in a sweep of several jobs, perhaps because of another of them.
    Undecided,
    /// Nothing was written: the row could not be read or written, or the backend reported another identity
    /// during the call. The job is polled again soon.
    Unwritten,
    /// Another writer changed the row after the poll began, so nothing was written.
    Superseded { version: u64 },
    /// The row is gone, or cannot be parsed.
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
    pub(in crate::tasks::reconciler) fn for_row(self, row: &Task) -> Self {
        match self {
            _ if !matches!(row.job, Job::Open { .. }) => PollResult::Ended,
            PollResult::Observed { digest, log_followed, .. } => {
                PollResult::Observed { digest, log_followed, version: row.version }
            }
            PollResult::Failed { kind, fault, .. } => {
                PollResult::Failed { kind, version: row.version, fault }
            }
            PollResult::Missing { wait, .. } => PollResult::Missing { version: row.version, wait },
            result => result,
        }
    }
}
