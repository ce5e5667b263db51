//! The metrics interface of the core: [`Meter`], and [`Phase`], the stage of a task for counting. The core
//! must not know how metrics are counted or exported, and no decision may depend on them.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::task::{Job, Task, TaskState};

/// A metrics recorder. It is called after the fact: it must not fail, and must not take long.
pub trait Meter: Send + Sync {
    /// Records that a row changed from `before` to `after`.
    fn changed(&self, before: &Task, after: &Task, now: Timestamp);

    /// Records that a sweep of a backend began `delay` after the first of its jobs was due.
    fn sweep_started(&self, backend: &str, delay: Duration);
}

/// A recorder that discards everything.
#[derive(Clone, Copy, Debug)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn changed(&self, _before: &Task, _after: &Task, _now: Timestamp) {}

    fn sweep_started(&self, _backend: &str, _delay: Duration) {}
}

/// The phase of a task that has pending work. Stores count rows by phase ([`super::store::RowCounts`])
/// with their own queries. The behaviour suite of stores compares these counts with [`Phase::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It waits for a free slot.
    Queued,
    /// No start is at the engine: none was sent yet, or an attempt is to be repeated.
    Pending,
    /// A start may have been sent, and the engine has not confirmed the job.
    Starting,
    /// The engine has the job.
    Running,
    /// The task waits for an answer from a person, whatever the state of its job.
    InputRequired,
    /// The task has ended for its client, and the job is not known to have ended.
    Ending,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Pending, Self::Starting, Self::Running, Self::InputRequired, Self::Ending];

    /// Returns the phase of a task; `None` if it has no pending work.
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

    /// Returns the name of the phase.
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

    /// Returns the phase with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }
}
