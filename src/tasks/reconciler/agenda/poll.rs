//! What the agenda hands to a sweep, and what a sweep hands back. Plain data.

use std::time::Duration;

use taskbridge_sdk::{ErrorKind, Subject};

use crate::tasks::task::{Job, Task, TaskId};

/// How a call fails that may have failed for one of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tasks::reconciler) enum Fault {
    /// The adapter panicked.
    Crashed,
    /// It did not answer in time.
    Hung,
}

/// Jobs that are due for a look.
pub(in crate::tasks::reconciler) struct Due {
    /// What the engine is asked for.
    pub(in crate::tasks::reconciler) subjects: Vec<Subject>,
    /// The same jobs, in the same order.
    pub(in crate::tasks::reconciler) jobs: Vec<Sighting>,
    /// How long the first of them has been due.
    pub(in crate::tasks::reconciler) late: Duration,
}

/// A job that is due for a look.
pub(in crate::tasks::reconciler) struct Sighting {
    pub(in crate::tasks::reconciler) id: TaskId,
    /// What was last seen and written.
    pub(in crate::tasks::reconciler) digest: Option<u64>,
    /// The version of the row that was known before the look.
    pub(in crate::tasks::reconciler) version: u64,
    /// True if the last look failed, and the row says so.
    pub(in crate::tasks::reconciler) troubled: bool,
    /// True if its row is to be asked whether somebody follows the log.
    pub(in crate::tasks::reconciler) ask_of_log: bool,
    /// True if it is looked at alone, by [`taskbridge_sdk::Backend::observe`].
    pub(in crate::tasks::reconciler) alone: bool,
    /// Set if the job is given up should this look crash, too: how many crashes in a row that makes.
    pub(in crate::tasks::reconciler) last_crash: Option<u32>,
}

/// What a look came to.
pub(in crate::tasks::reconciler) enum Seen {
    /// The job was seen, and the row says what was seen.
    Observed { digest: Option<u64>, log_followed: bool, version: u64 },
    /// The job has ended, and the row says so.
    Ended,
    /// The engine failed, and the row says so.
    Failed { kind: ErrorKind, version: u64, fault: Option<Fault> },
    /// The adapter crashed over a sweep of several jobs, perhaps for another of them.
    Undecided,
    /// The row could not be read or written.
    Unwritten,
    /// Somebody else has written the row since the look was begun, so that nothing was written.
    Overtaken { version: u64 },
    /// The row is gone.
    RowGone,
}

impl Seen {
    pub(in crate::tasks::reconciler) fn failure(&self) -> Option<ErrorKind> {
        match self {
            Seen::Failed { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// True if what failed here may be the fault of another job in the sweep.
    pub(in crate::tasks::reconciler) fn may_be_of_another(&self) -> bool {
        matches!(self, Seen::Undecided | Seen::Failed { fault: Some(_), .. })
    }

    /// The same, where this is the row that says so.
    pub(in crate::tasks::reconciler) fn of(self, row: &Task) -> Self {
        match self {
            _ if !matches!(row.job, Job::Open { .. }) => Seen::Ended,
            Seen::Observed { digest, log_followed, .. } => {
                Seen::Observed { digest, log_followed, version: row.version }
            }
            Seen::Failed { kind, fault, .. } => Seen::Failed { kind, version: row.version, fault },
            seen => seen,
        }
    }
}
