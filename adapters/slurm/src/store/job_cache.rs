//! What this process remembers about jobs: when it last acted on them, since when they have been over, and
//! what it has counted and read of arrays. All of it may be lost: it must not be the only place of a fact. It
//! only speeds up responses, or delays those that would be premature.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::identity::handle::JobId;
use crate::store::array_counts::ArrayCounts;
use crate::store::runs::Runs;

/// Maximum number of jobs.
const MAX_JOBS: usize = 100_000;

/// Maximum number of arrays whose tasks are remembered.
const MAX_ARRAYS: usize = 10_000;

/// Maximum number of arrays whose end markers are being read.
const MAX_ARRAY_READS: usize = 1000;

#[derive(Default)]
pub(crate) struct JobCache {
    times: Mutex<HashMap<String, JobTimes>>,
    array_counts: Mutex<HashMap<String, Arc<Mutex<ArrayCounts>>>>,
    runs: Mutex<HashMap<String, Arc<Mutex<Runs>>>>,
    number_owners: Mutex<HashMap<JobId, NumberOwner>>,
}

/// The job that a number belongs to.
#[derive(Debug, PartialEq)]
enum NumberOwner {
    One(String),
    /// A controller that crashed assigned the number to several jobs.
    Several,
}

#[derive(Default)]
struct JobTimes {
    /// When this process last changed the job.
    last_change: Option<Instant>,
    /// Since when no part of the job has been pending or running.
    over_since: Option<Instant>,
    /// When the accounting database was first queried for the ended job.
    first_query: Option<Instant>,
    /// Since when all of its scripts have ended, while Slurm shows it as running.
    scripts_ended_since: Option<Instant>,
    /// Since when it has been seen to be a duplicate under its key.
    duplicate_since: Option<Instant>,
    /// Since when it has been queued for reading, on a slow file system.
    queued_since: Option<Instant>,
    /// When a poll last tried to release or cancel it.
    last_action: Option<Instant>,
    /// The last message about the ended job from a poll that queried the accounting database.
    last_message: Option<String>,
    /// Whether it was preempted, as of this number of restarts.
    preempted: Option<(u32, bool)>,
}

impl JobCache {
    fn update<T>(&self, key: &str, change: impl FnOnce(&mut JobTimes) -> T) -> T {
        let mut times = self.times.lock();
        if times.len() >= MAX_JOBS && !times.contains_key(key) {
            times.clear();
        }
        change(times.entry(key.to_owned()).or_default())
    }

    /// Returns the counts of how an array's tasks ended.
    pub(crate) fn array_counts(&self, key: &str) -> Arc<Mutex<ArrayCounts>> {
        let mut tallies = self.array_counts.lock();
        if tallies.len() >= MAX_ARRAYS && !tallies.contains_key(key) {
            tallies.clear();
        }
        Arc::clone(tallies.entry(key.to_owned()).or_default())
    }

    /// Returns the end markers of an array that have been read so far.
    pub(crate) fn runs(&self, key: &str) -> Arc<Mutex<Runs>> {
        let mut runs = self.runs.lock();
        if runs.len() >= MAX_ARRAY_READS && !runs.contains_key(key) {
            runs.clear();
        }
        Arc::clone(runs.entry(key.to_owned()).or_default())
    }

    /// Returns the sort key for reading: jobs that have waited longest come first, then those that have not
    /// waited.
    pub(crate) fn queue_order(&self, key: &str) -> (bool, Option<Instant>) {
        let since = self.times.lock().get(key).and_then(|times| times.queued_since);
        (since.is_none(), since)
    }

    /// Queues a job that this poll did not reach.
    pub(crate) fn enqueue(&self, key: &str) {
        self.update(key, |times| times.queued_since = times.queued_since.or_else(|| Some(Instant::now())));
    }

    pub(crate) fn dequeue(&self, key: &str) {
        if let Some(times) = self.times.lock().get_mut(key) {
            times.queued_since = None;
        }
    }

    /// Records that a job that was submitted here has this number.
    pub(crate) fn record_number(&self, job: JobId, key: &str) {
        let mut owners = self.number_owners.lock();
        if owners.len() >= MAX_JOBS && !owners.contains_key(&job) {
            owners.clear();
        }
        let owner = owners.entry(job).or_insert_with(|| NumberOwner::One(key.to_owned()));
        if matches!(owner, NumberOwner::One(owner_key) if owner_key != key) {
            *owner = NumberOwner::Several;
        }
    }

    /// Returns true if this process has seen the number on several jobs of this backend.
    pub(crate) fn is_number_reused(&self, job: JobId) -> bool {
        self.number_owners.lock().get(&job) == Some(&NumberOwner::Several)
    }

    pub(crate) fn record_change(&self, key: &str) {
        self.update(key, |times| times.last_change = Some(Instant::now()));
    }

    /// Returns when this process last changed the job.
    pub(crate) fn last_change(&self, key: &str) -> Option<Instant> {
        self.times.lock().get(key).and_then(|times| times.last_change)
    }

    /// Returns how long this process has seen the job to be over. The first call sets the time.
    pub(crate) fn over_for(&self, key: &str) -> Duration {
        self.update(key, |times| times.over_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// Returns how long ago the accounting database was first queried for the ended job. The first call sets
    /// the time.
    pub(crate) fn first_query_age(&self, key: &str) -> Duration {
        self.update(key, |times| times.first_query.get_or_insert_with(Instant::now).elapsed())
    }

    pub(crate) fn clear_ended(&self, key: &str) {
        if let Some(times) = self.times.lock().get_mut(key) {
            (times.over_since, times.first_query, times.last_message) = (None, None, None);
        }
    }

    /// Returns the message about an ended job. A poll that did not query the accounting database repeats the
    /// last message of a poll that did.
    pub(crate) fn stable_message(&self, key: &str, message: Option<String>, is_new: bool) -> Option<String> {
        self.update(key, |times| {
            if is_new {
                times.last_message.clone_from(&message);
            }
            times.last_message.clone().or(message)
        })
    }

    /// Returns whether a job was preempted, if that is known as of this number of restarts.
    pub(crate) fn preempted(&self, key: &str, restarts: u32) -> Option<bool> {
        let times = self.times.lock();
        let (known_restarts, preempted) = times.get(key)?.preempted?;
        (restarts > 0 && known_restarts == restarts).then_some(preempted)
    }

    pub(crate) fn record_preempted(&self, key: &str, restarts: u32, preempted: bool) {
        self.update(key, |times| times.preempted = Some((restarts, preempted)));
    }

    /// Returns how long this process has seen all of its scripts ended while Slurm shows it as running. The
    /// first call sets the time.
    pub(crate) fn scripts_ended_for(&self, key: &str) -> Duration {
        self.update(key, |times| times.scripts_ended_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// Returns how long this process has seen it as a duplicate under its key. The first call sets the time.
    pub(crate) fn duplicate_for(&self, key: &str) -> Duration {
        self.update(key, |times| times.duplicate_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// Returns true at most once per interval, so that not every poll acts on the job. A held duplicate is
    /// identified by its key and its number.
    pub(crate) fn is_due(&self, key: &str, every: Duration) -> bool {
        self.update(key, |times| {
            let due = times.last_action.is_none_or(|at| at.elapsed() >= every);
            if due {
                times.last_action = Some(Instant::now());
            }
            due
        })
    }

    pub(crate) fn forget(&self, key: &str) {
        self.times.lock().remove(key);
        self.array_counts.lock().remove(key);
        self.runs.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that jobs of several keys had counts as reused.
    #[test]
    fn reused_job_number_is_detected() {
        let cache = JobCache::default();
        for (job, key) in [(7, "tb-a"), (8, "tb-b"), (7, "tb-a")] {
            cache.record_number(job, key);
        }
        assert!(!cache.is_number_reused(7) && !cache.is_number_reused(9));
        cache.record_number(7, "tb-c");
        cache.forget("tb-a");
        cache.record_number(7, "tb-c");
        assert!(cache.is_number_reused(7) && !cache.is_number_reused(8));
    }
}
