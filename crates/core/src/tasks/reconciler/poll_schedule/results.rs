//! How the results of a poll change the schedule. It must not choose the jobs of a sweep.

use std::time::Duration;

use tokio::time::Instant;

use super::{DOUBT_LIMIT, FOLLOWED_INTERVAL, MISSED_HINT_DOUBT, PollResult, PollSchedule};
use crate::tasks::task::TaskId;

impl PollSchedule {
    /// Applies the results of a sweep or of a separate poll, and schedules the next polls of its jobs.
    pub(in crate::tasks::reconciler) fn end_sweep(
        &mut self,
        results: Vec<(TaskId, PollResult)>,
        pause: Option<Duration>,
        now: Instant,
    ) {
        match (&results[..], &self.polling_alone) {
            ([(id, _)], Some(alone)) if id == alone => self.polling_alone = None,
            _ => {
                self.sweeping = false;
                self.paused_until = None;
                self.adapt_sweep_size(&results);
            }
        }
        self.paused_until = pause.map(|pause| now + pause).max(self.paused_until);
        let is_one = results.len() == 1;
        for (id, result) in results {
            let is_closed = self.jobs.get(&id).is_some_and(|entry| entry.closed);
            if matches!(result, PollResult::Observed { .. } | PollResult::Missing { .. } | PollResult::Ended)
            {
                self.last_answer = Some(now);
            }
            match result {
                PollResult::Observed { .. }
                | PollResult::Missing { .. }
                | PollResult::Failed { .. }
                | PollResult::Undecided
                | PollResult::Superseded { .. }
                | PollResult::Unwritten
                    if is_closed =>
                {
                    self.remove(&id);
                }
                PollResult::RowGone => self.remove(&id),
                PollResult::Ended => {
                    self.update_doubt(&id);
                    self.remove(&id);
                }
                PollResult::Observed { digest, log_followed, version } => {
                    self.record_observation(id, digest, log_followed, version, now);
                }
                PollResult::Missing { version, wait } => self.schedule_missing(id, version, wait, now),
                PollResult::Failed { version, fault: Some(fault), .. } if is_one => {
                    self.record_fault(id, version, fault, now);
                }
                PollResult::Failed { version, fault: Some(_), .. } => {
                    self.record_failure(&id, version);
                    self.isolate(&id, now);
                    self.schedule_poll(id, now, Duration::ZERO);
                }
                PollResult::Failed { version, .. } => self.schedule_retry(id, version, now),
                PollResult::Undecided => {
                    self.isolate(&id, now);
                    self.schedule_poll(id, now, Duration::ZERO);
                }
                PollResult::Superseded { version } => {
                    self.jobs.entry(id.clone()).and_modify(|entry| entry.record_version(version));
                    self.schedule_poll(id, now, Duration::ZERO);
                }
                PollResult::Unwritten => {
                    self.schedule_poll(id, now, self.intervals.longest.min(Duration::from_secs(1)))
                }
            }
        }
    }

    fn record_observation(
        &mut self,
        id: TaskId,
        digest: Option<u64>,
        log_followed: bool,
        version: u64,
        now: Instant,
    ) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let is_changed = entry.digest.zip(digest).is_some_and(|(before, now)| before != now);
        if is_changed {
            entry.since = now;
            entry.has_changed = true;
            self.update_doubt(&id);
        }
        let intervals = self.current_intervals();
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if version >= entry.version {
            entry.version = version;
            entry.digest = digest;
        }
        entry.log_followed = log_followed;
        entry.failures = 0;
        entry.missing = false;
        entry.suspect = None;
        entry.hinted = entry.poll_again;
        let usual = match entry.has_changed {
            true => None,
            false => self.usual_durations.get(&entry.tool).and_then(|(_, usual)| *usual),
        };
        let wait = intervals.next_poll(now.duration_since(entry.since), usual, &entry.handle);
        let wait = if log_followed { wait.min(intervals.shortest.max(FOLLOWED_INTERVAL)) } else { wait };
        Self::enqueue(&mut self.queue, entry, id, now, wait);
    }

    /// Records that a poll failed and that the row shows it.
    fn record_failure(&mut self, id: &TaskId, version: u64) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        entry.failures = entry.failures.saturating_add(1);
        entry.version = entry.version.max(version);
        entry.digest = None;
        entry.blank = false;
        entry.missing = false;
    }

    /// Schedules the next poll of a job that the engine does not know: the interval doubles with each such poll
    /// in a row, but is at least `wait`.
    fn schedule_missing(&mut self, id: TaskId, version: u64, wait: Duration, now: Instant) {
        self.record_failure(&id, version);
        let (shortest, longest) = (self.intervals.shortest, self.intervals.longest);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        (entry.missing, entry.suspect) = (true, None);
        let doubled = (shortest * 2u32.pow(entry.failures.min(10))).min(longest);
        Self::enqueue(&mut self.queue, entry, id, now, doubled.max(wait));
    }

    /// Schedules the next poll after a failed one: the interval doubles with each failure in a row, up to a
    /// minute. For a job that is polled alone it is at least the longest interval of the config.
    pub(super) fn schedule_retry(&mut self, id: TaskId, version: u64, now: Instant) {
        self.record_failure(&id, version);
        let Some(entry) = self.jobs.get(&id) else { return };
        let doubled =
            self.intervals.shortest.max(Duration::from_millis(250)) * 2u32.pow(entry.failures.min(10));
        let spread = self.intervals.next_poll(Duration::ZERO, None, &entry.handle);
        let min_wait = entry.suspect.map_or(Duration::ZERO, |_| self.intervals.longest);
        self.schedule_poll(id, now, doubled.min(Duration::from_secs(60)).max(min_wait) + spread);
    }

    /// Updates the doubt about hints after a change of a job.
    fn update_doubt(&mut self, id: &TaskId) {
        let (Some(doubt), Some(entry)) = (&mut self.hint_doubt, self.jobs.get(id)) else { return };
        *doubt = if entry.hinted {
            doubt.saturating_sub(1)
        } else {
            (*doubt + MISSED_HINT_DOUBT).min(2 * DOUBT_LIMIT)
        };
    }
}
