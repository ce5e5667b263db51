//! Which job makes an adapter crash or hang: sweeps are halved until it is polled alone, and it is given up after crashes in
//! a row. It must not touch the other jobs' order.

use std::time::Duration;

use tokio::time::Instant;

use super::{Agenda, Fault, Seen};
use crate::tasks::task::TaskId;

/// After so many faulty sweeps in a row a job is polled alone: more than halving the largest sweep takes.
const MAX_UNDECIDED: u32 = 10;
/// A job whose look crashed the adapter this often in a row is given up, if the adapter answered for another job of the
/// group meanwhile, or else [`CRASHES_ALONE`] after the first crash.
const MAX_CRASHES: u32 = 5;
/// How long an adapter that crashes for every job of a group gets: perhaps the engine is what makes it crash, for a while.
pub(super) const CRASHES_ALONE: Duration = Duration::from_secs(900);

/// A job that the adapter cannot be asked for together with others.
#[derive(Clone, Copy)]
pub(super) struct Suspect {
    pub(super) since: Instant,
    /// How often in a row a look at it crashed.
    pub(super) crashes: u32,
}

impl Agenda {
    /// Judges the sweep of several jobs that has just ended: a faulty one halves the next.
    pub(super) fn judge_sweep(&mut self, looks: &[(TaskId, Seen)]) {
        let faulty = looks.iter().any(|(_, seen)| seen.may_be_of_another());
        let mut cleared = self.undecided.is_empty();
        for (id, _) in looks {
            if faulty && looks.len() > 1 {
                *self.undecided.entry(id.clone()).or_default() += 1;
            } else {
                cleared |= self.undecided.remove(id).is_some();
            }
        }
        self.most = match (faulty, cleared) {
            (true, _) => (looks.len() / 2).max(1),
            (false, true) => self.most.saturating_mul(2),
            // A job that answers often must not let sweeps grow again before the faulty one is found.
            (false, false) => self.most,
        };
    }

    /// See [`Sighting::last_crash`].
    pub(super) fn last_crash(&self, Suspect { since, crashes }: Suspect, now: Instant) -> Option<u32> {
        let answers_for_others = self.answered.is_some_and(|at| at >= since);
        let enough = answers_for_others || now.duration_since(since) >= CRASHES_ALONE;
        (enough && crashes + 1 >= MAX_CRASHES).then_some(crashes + 1)
    }

    /// The adapter crashed or hung over this job, alone.
    pub(super) fn faulted(&mut self, id: TaskId, version: u64, fault: Fault, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if entry.suspect.is_none() {
            tracing::warn!(task = ?id, ?fault, "the adapter cannot look at this job; it is tried again, apart from others");
        }
        let suspect = entry.suspect.get_or_insert(Suspect { since: now, crashes: 0 });
        match fault {
            Fault::Crashed => suspect.crashes += 1,
            Fault::Hung => *suspect = Suspect { since: now, crashes: 0 },
        }
        self.failed(id, version, now);
    }

    /// Has a job polled alone that halving did not decide: it was swept again and again with others that are due as often.
    pub(super) fn part(&mut self, id: &TaskId, now: Instant) {
        if self.undecided.get(id).is_some_and(|sweeps| *sweeps >= MAX_UNDECIDED)
            && let Some(entry) = self.jobs.get_mut(id)
        {
            entry.suspect.get_or_insert(Suspect { since: now, crashes: 0 });
        }
    }
}
