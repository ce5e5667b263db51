//! What this process remembers about jobs: when it last acted on them, since when they have been over, and
//! what it has counted and read of arrays. All of it may be lost: it must not be the only place of a fact. It
//! only speeds up responses, or delays those that would be premature.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::array_counts::ArrayCounts;
use crate::driver::JobId;
use crate::runs::Runs;

/// Maximum number of jobs.
const MOST: usize = 100_000;

/// Maximum number of arrays whose tasks are remembered.
const MOST_TALLIES: usize = 10_000;

/// Maximum number of arrays whose end markers are being read.
const MOST_RUNS: usize = 1000;

#[derive(Default)]
pub(crate) struct JobCache {
    times: Mutex<HashMap<String, JobTimes>>,
    tallies: Mutex<HashMap<String, Arc<Mutex<ArrayCounts>>>>,
    runs: Mutex<HashMap<String, Arc<Mutex<Runs>>>>,
    numbers: Mutex<HashMap<JobId, NumberOwner>>,
}

/// The job that a number belongs to.
#[derive(Debug, PartialEq)]
enum NumberOwner {
    This(String),
    /// A controller that crashed assigned the number to several jobs.
    Several,
}

#[derive(Default)]
struct JobTimes {
    /// When this process last changed the job.
    touched: Option<Instant>,
    /// Since when no part of the job has been pending or running.
    over: Option<Instant>,
    /// When the accounting database was first queried for the ended job.
    asked: Option<Instant>,
    /// Since when all of its scripts have ended, while Slurm shows it as running.
    scripts_ended: Option<Instant>,
    /// Since when it has been seen to be a duplicate under its key.
    too_many: Option<Instant>,
    /// Since when it has been queued for reading, on a slow file system.
    in_line: Option<Instant>,
    /// When a poll last tried to release or cancel it.
    acted: Option<Instant>,
    /// The last message about the ended job from a poll that queried the accounting database.
    said: Option<String>,
    /// Whether it was preempted, as of this number of restarts.
    preempted: Option<(u32, bool)>,
}

impl JobCache {
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut JobTimes) -> T) -> T {
        let mut known = self.times.lock();
        if known.len() >= MOST && !known.contains_key(key) {
            known.clear();
        }
        change(known.entry(key.to_owned()).or_default())
    }

    /// Returns the counts of how an array's tasks ended.
    pub(crate) fn tally(&self, key: &str) -> Arc<Mutex<ArrayCounts>> {
        let mut tallies = self.tallies.lock();
        if tallies.len() >= MOST_TALLIES && !tallies.contains_key(key) {
            tallies.clear();
        }
        Arc::clone(tallies.entry(key.to_owned()).or_default())
    }

    /// Returns the end markers of an array that have been read so far.
    pub(crate) fn runs(&self, key: &str) -> Arc<Mutex<Runs>> {
        let mut runs = self.runs.lock();
        if runs.len() >= MOST_RUNS && !runs.contains_key(key) {
            runs.clear();
        }
        Arc::clone(runs.entry(key.to_owned()).or_default())
    }

    /// Returns the sort key for reading: jobs that have waited longest come first, then those that have not
    /// waited.
    pub(crate) fn queue_order(&self, key: &str) -> (bool, Option<Instant>) {
        let since = self.times.lock().get(key).and_then(|times| times.in_line);
        (since.is_none(), since)
    }

    /// Queues a job that this poll did not reach.
    pub(crate) fn enqueue(&self, key: &str) {
        self.with(key, |times| times.in_line = times.in_line.or_else(|| Some(Instant::now())));
    }

    pub(crate) fn reached(&self, key: &str) {
        if let Some(times) = self.times.lock().get_mut(key) {
            times.in_line = None;
        }
    }

    /// Records that a job that was submitted here has this number.
    pub(crate) fn record_number(&self, job: JobId, key: &str) {
        let mut numbers = self.numbers.lock();
        if numbers.len() >= MOST && !numbers.contains_key(&job) {
            numbers.clear();
        }
        let numbered = numbers.entry(job).or_insert_with(|| NumberOwner::This(key.to_owned()));
        if matches!(numbered, NumberOwner::This(known) if known != key) {
            *numbered = NumberOwner::Several;
        }
    }

    /// Returns true if this process has seen the number on several jobs of this backend.
    pub(crate) fn is_number_reused(&self, job: JobId) -> bool {
        self.numbers.lock().get(&job) == Some(&NumberOwner::Several)
    }

    pub(crate) fn touch(&self, key: &str) {
        self.with(key, |times| times.touched = Some(Instant::now()));
    }

    /// Returns when this process last changed the job.
    pub(crate) fn touched(&self, key: &str) -> Option<Instant> {
        self.times.lock().get(key).and_then(|times| times.touched)
    }

    /// Returns how long this process has seen the job to be over. The first call sets the time.
    pub(crate) fn over_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.over.get_or_insert_with(Instant::now).elapsed())
    }

    /// Returns how long ago the accounting database was first queried for the ended job. The first call sets
    /// the time.
    pub(crate) fn asked_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.asked.get_or_insert_with(Instant::now).elapsed())
    }

    pub(crate) fn clear_ended(&self, key: &str) {
        if let Some(times) = self.times.lock().get_mut(key) {
            (times.over, times.asked, times.said) = (None, None, None);
        }
    }

    /// Returns the message about an ended job. A poll that did not query the accounting database repeats the
    /// last message of a poll that did.
    pub(crate) fn steady(&self, key: &str, words: Option<String>, is_news: bool) -> Option<String> {
        self.with(key, |times| {
            if is_news {
                times.said.clone_from(&words);
            }
            times.said.clone().or(words)
        })
    }

    /// Returns whether a job was preempted, if that is known as of this number of restarts.
    pub(crate) fn preempted(&self, key: &str, restarts: u32) -> Option<bool> {
        let times = self.times.lock();
        let (known, preempted) = times.get(key)?.preempted?;
        (restarts > 0 && known == restarts).then_some(preempted)
    }

    pub(crate) fn keep_preempted(&self, key: &str, restarts: u32, preempted: bool) {
        self.with(key, |times| times.preempted = Some((restarts, preempted)));
    }

    /// Returns how long this process has seen all of its scripts ended while Slurm shows it as running. The
    /// first call sets the time.
    pub(crate) fn scripts_ended_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.scripts_ended.get_or_insert_with(Instant::now).elapsed())
    }

    /// Returns how long this process has seen it as a duplicate under its key. The first call sets the time.
    pub(crate) fn too_many_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.too_many.get_or_insert_with(Instant::now).elapsed())
    }

    /// Returns true at most once per interval, so that not every poll acts on the job. A held duplicate is
    /// identified by its key and its number.
    pub(crate) fn is_due(&self, key: &str, every: Duration) -> bool {
        self.with(key, |times| {
            let due = times.acted.is_none_or(|at| at.elapsed() >= every);
            if due {
                times.acted = Some(Instant::now());
            }
            due
        })
    }

    pub(crate) fn forget(&self, key: &str) {
        self.times.lock().remove(key);
        self.tallies.lock().remove(key);
        self.runs.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that jobs of several keys had counts as reused.
    #[test]
    fn reused_job_number_is_detected() {
        let known = JobCache::default();
        for (job, key) in [(7, "tb-a"), (8, "tb-b"), (7, "tb-a")] {
            known.record_number(job, key);
        }
        assert!(!known.is_number_reused(7) && !known.is_number_reused(9));
        known.record_number(7, "tb-c");
        known.forget("tb-a");
        known.record_number(7, "tb-c");
        assert!(known.is_number_reused(7) && !known.is_number_reused(8));
    }
}
