//! [`Meter`]: what the core tells whoever counts, and [`Phase`], where a task stands in words that can be counted by. The
//! core must not know how anything is counted or shown, and nothing that is decided may depend on it.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::task::{Job, Task, TaskState};

/// Whoever counts. What it is told is over: it must not fail, and not take long.
pub trait Meter: Send + Sync {
    /// A row was changed from the one to the other, now.
    fn changed(&self, before: &Task, after: &Task, now: Timestamp);

    /// Jobs of a backend were looked at so long after they were due for it.
    fn looked(&self, backend: &str, late: Duration);
}

/// Nobody counts.
#[derive(Clone, Copy, Debug)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn changed(&self, _before: &Task, _after: &Task, _now: Timestamp) {}

    fn looked(&self, _backend: &str, _late: Duration) {}
}

/// Where a task stands for as long as anything is owed for it. Stores count rows by it ([`super::store::Tally`]), in words of
/// their own queries, and the suite of stores holds those against [`Phase::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It waits for a free slot.
    Queued,
    /// Nothing was sent to the engine yet, or an attempt is to be made again.
    Pending,
    /// A start may have been sent, and the engine has not said that it has the job.
    Starting,
    /// The engine has the job.
    Running,
    /// A person is asked.
    InputRequired,
    /// It is over for its client, and the job is not known to have ended.
    Ending,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Pending, Self::Starting, Self::Running, Self::InputRequired, Self::Ending];

    /// Where a task stands; `None` if nothing is owed for it any more.
    pub fn of(task: &Task) -> Option<Self> {
        Some(match (&task.state, &task.job) {
            (_, Job::Closed { .. }) => return None,
            (TaskState::Ended(_), _) => Self::Ending,
            (TaskState::InputRequired, _) => Self::InputRequired,
            (_, Job::Pending { queued: true, .. }) => Self::Queued,
            (_, Job::Pending { .. }) => Self::Pending,
            (_, Job::Starting { .. }) => Self::Starting,
            (_, Job::Open { .. }) => Self::Running,
        })
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::InputRequired => "input_required",
            Self::Ending => "ending",
        }
    }

    /// The phase of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }
}
