//! Isolation of a job that makes an adapter crash or hang. Sweeps are halved until the job is polled alone.
//! It is given up after several crashes in a row; a job that only hangs is polled alone without end. This
//! module must not end a task: [`DueJob::last_crash`](super::DueJob::last_crash) lets the caller do so.

use std::time::Duration;

use tokio::time::Instant;

use super::{PollResult, PollSchedule, SweepFault};
use crate::tasks::task::TaskId;

/// Number of faulty sweeps in a row after which a job is polled alone: more than it takes to halve
/// the largest sweep down to one job.
const MAX_UNDECIDED: u32 = 10;
/// Number of crashes in a row, while the job is polled alone, after which it is given up. The adapter must
/// also have answered for another job of the group since the first of them. If it has not, the job is given
/// up no earlier than [`CRASHES_ALONE`] after the first crash.
const MAX_CRASHES: u32 = 5;
/// Minimum time for an adapter that crashes for every job of a group: perhaps the engine causes the
/// crashes for a while.
pub(super) const CRASHES_ALONE: Duration = Duration::from_secs(900);

/// A job that is polled alone, because it may make the adapter crash or hang.
#[derive(Clone, Copy)]
pub(super) struct Suspect {
    /// Since when it is suspected, or its last poll that hung.
    pub(super) since: Instant,
    /// Number of polls of this job alone, in a row, that crashed.
    pub(super) crashes: u32,
}

impl PollSchedule {
    /// Adapts the maximum size of sweeps to the sweep that has just ended. After a faulty sweep it is half of
    /// that sweep. After one without a fault it doubles, if that cleared an undecided job or there is none.
    pub(super) fn adapt_sweep_size(&mut self, results: &[(TaskId, PollResult)]) {
        let faulty = results.iter().any(|(_, result)| result.may_be_of_another());
        let mut cleared = self.undecided.is_empty();
        for (id, _) in results {
            if faulty && results.len() > 1 {
                *self.undecided.entry(id.clone()).or_default() += 1;
            } else {
                cleared |= self.undecided.remove(id).is_some();
            }
        }
        self.max_sweep = match (faulty, cleared) {
            (true, _) => (results.len() / 2).max(1),
            (false, true) => self.max_sweep.saturating_mul(2),
            // A job that answers often must not let sweeps grow again before the faulty one is found.
            (false, false) => self.max_sweep,
        };
    }

    /// See [`DueJob::last_crash`](super::DueJob::last_crash).
    pub(super) fn last_crash(&self, Suspect { since, crashes }: Suspect, now: Instant) -> Option<u32> {
        let answers_for_others = self.last_answer.is_some_and(|at| at >= since);
        let enough = answers_for_others || now.duration_since(since) >= CRASHES_ALONE;
        (enough && crashes + 1 >= MAX_CRASHES).then_some(crashes + 1)
    }

    /// Records that the adapter crashed or hung while it polled this job alone.
    pub(super) fn record_fault(&mut self, id: TaskId, version: u64, fault: SweepFault, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if entry.suspect.is_none() {
            tracing::warn!(task = ?id, ?fault, "adapter crashed or hung during a poll of this job; the job is polled alone");
        }
        let suspect = entry.suspect.get_or_insert(Suspect { since: now, crashes: 0 });
        match fault {
            SweepFault::Crashed => suspect.crashes += 1,
            SweepFault::Hung => *suspect = Suspect { since: now, crashes: 0 },
        }
        self.schedule_retry(id, version, now);
    }

    /// Has a job polled alone after [`MAX_UNDECIDED`] faulty sweeps in a row. Halving does not isolate it if
    /// it is swept again and again with others that are due as often.
    pub(super) fn isolate(&mut self, id: &TaskId, now: Instant) {
        if self.undecided.get(id).is_some_and(|sweeps| *sweeps >= MAX_UNDECIDED)
            && let Some(entry) = self.jobs.get_mut(id)
        {
            entry.suspect.get_or_insert(Suspect { since: now, crashes: 0 });
        }
    }
}
