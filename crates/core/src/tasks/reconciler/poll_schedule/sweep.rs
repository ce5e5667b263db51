//! Chooses the jobs of the next sweep. It must not apply results.

use taskbridge_sdk::Subject;
use tokio::time::Instant;

use super::digest::RUNNING_DIGEST;
use super::{DueBatch, DueJob, DueQueue, PollSchedule, SLACK_DIVISOR};
use crate::tasks::task::{INITIAL_WATCH, TaskId};

impl PollSchedule {
    /// Returns when the next poll is due; `None` if no further poll can begin now.
    pub(in crate::tasks::reconciler) fn next_poll(&self) -> Option<Instant> {
        self.next_of_many().into_iter().chain(self.next_alone()).min()
    }

    /// Returns when the next sweep is due; `None` while one is in progress.
    fn next_of_many(&self) -> Option<Instant> {
        if self.sweeping { None } else { self.first_in(&self.queue) }
    }

    /// Returns when the next job must be polled alone; `None` while such a poll is in progress.
    fn next_alone(&self) -> Option<Instant> {
        if self.polling_alone.is_some() { None } else { self.first_in(&self.solo_queue) }
    }

    fn first_in(&self, queue: &DueQueue) -> Option<Instant> {
        let first = queue.first().map(|(at, _)| *at)?;
        Some(self.paused_until.map_or(first, |until| first.max(until)))
    }

    /// Takes up to `limit` jobs that are due, if no sweep is in progress; fewer while a job that crashes the
    /// adapter is searched for. It includes jobs that would be due a moment later, in proportion to their
    /// intervals, so that many jobs need few sweeps. A job that is due to be polled alone comes first, even
    /// during a sweep.
    pub(in crate::tasks::reconciler) fn begin_sweep(
        &mut self,
        now: Instant,
        limit: usize,
    ) -> Option<DueBatch> {
        if let Some(first) = self.next_alone().filter(|at| *at <= now)
            && let Some((_, id)) = self.solo_queue.pop_first()
        {
            self.polling_alone = Some(id.clone());
            return Some(self.due([id], first, now));
        }
        let first = self.next_of_many().filter(|at| *at <= now)?;
        let entries = self.due_soon(now, limit.min(self.max_sweep));
        for entry in &entries {
            self.queue.remove(entry);
        }
        let due = self.due(entries.into_iter().map(|(_, id)| id), first, now);
        self.sweeping = !due.jobs.is_empty();
        self.sweeping.then_some(due)
    }

    /// Returns what is needed to poll these jobs. The first of them has been due since `first`.
    fn due(&self, ids: impl IntoIterator<Item = TaskId>, first: Instant, now: Instant) -> DueBatch {
        let delay = now.saturating_duration_since(first);
        let mut due = DueBatch { subjects: Vec::new(), jobs: Vec::new(), delay };
        for id in ids {
            let Some(entry) = self.jobs.get(&id) else { continue };
            let is_requested = self.watched.contains(&id);
            let age = now.duration_since(entry.started);
            let watched = is_requested || entry.log_followed || age < INITIAL_WATCH;
            due.subjects.push(Subject { handle: entry.handle.clone(), watched, age });
            due.jobs.push(DueJob {
                handle: entry.handle.clone(),
                digest: entry.digest.or(entry.blank.then_some(RUNNING_DIGEST)),
                version: entry.version,
                last_failed: entry.failures > 0 && !entry.missing,
                needs_row_read: entry.log_followed || entry.hinted || is_requested,
                alone: entry.suspect.is_some(),
                last_crash: entry.suspect.and_then(|suspect| self.last_crash(suspect, now)),
                id,
            });
        }
        due
    }

    /// Returns up to `limit` entries of the schedule that are due now or soon.
    fn due_soon(&self, now: Instant, limit: usize) -> Vec<(Instant, TaskId)> {
        let intervals = self.current_intervals();
        let soon = now + intervals.shortest / 4;
        let latest = now + (intervals.longest / SLACK_DIVISOR).max(intervals.shortest / 4);
        let may_be_early = |at: Instant, id| {
            self.jobs.get(id).is_none_or(|entry| {
                let is_held_back = entry.not_before.is_some_and(|not_before| now < not_before);
                at <= now || (!is_held_back && (at <= soon || at <= now + entry.wait / SLACK_DIVISOR))
            })
        };
        let entries = self.queue.iter().take_while(|(at, _)| *at <= latest);
        entries.filter(|(at, id)| may_be_early(*at, id)).take(limit).cloned().collect()
    }
}
