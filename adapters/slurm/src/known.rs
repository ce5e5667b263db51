//! What this process remembers of jobs: when it did something about them, and since when they have been over. All of it may be
//! lost; it only makes answers come sooner, or later where haste would guess.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::driver::JobId;
use crate::runs::Runs;
use crate::tally::Tally;

/// The most jobs that are remembered.
const MOST: usize = 100_000;

/// The most arrays whose tasks are remembered.
const MOST_TALLIES: usize = 10_000;

/// The most arrays of which it is remembered how they ended, while that is read.
const MOST_RUNS: usize = 1000;

#[derive(Default)]
pub(crate) struct Known {
    times: Mutex<HashMap<String, Times>>,
    tallies: Mutex<HashMap<String, Arc<Mutex<Tally>>>>,
    runs: Mutex<HashMap<String, Arc<Mutex<Runs>>>>,
    numbers: Mutex<HashMap<JobId, Numbered>>,
}

/// Which job a number stands for.
#[derive(Debug, PartialEq)]
enum Numbered {
    This(String),
    /// A controller that crashed gave it to another as well.
    Several,
}

#[derive(Default)]
struct Times {
    /// When this process last changed something about it.
    touched: Option<Instant>,
    /// Since when nothing of it has been waiting or running.
    over: Option<Instant>,
    /// Since when the accounting has been asked about it, since it is over.
    asked: Option<Instant>,
    /// Since when all of its scripts have ended, while Slurm shows it as running.
    scripts_ended: Option<Instant>,
    /// Since when it has been seen to be one too many under its key.
    too_many: Option<Instant>,
    /// Since when it has waited to be read, on a file system that is slow.
    in_line: Option<Instant>,
    /// When a look last tried to release it, or to cancel it.
    acted: Option<Instant>,
    /// What was said of it last, since it is over, by a look that asked the accounting.
    said: Option<String>,
    /// Whether it was preempted, as of this number of restarts.
    preempted: Option<(u32, bool)>,
}

impl Known {
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut Times) -> T) -> T {
        let mut known = self.times.lock();
        if known.len() >= MOST && !known.contains_key(key) {
            known.clear();
        }
        change(known.entry(key.to_owned()).or_default())
    }

    /// How the tasks of an array ended.
    pub(crate) fn tally(&self, key: &str) -> Arc<Mutex<Tally>> {
        let mut tallies = self.tallies.lock();
        if tallies.len() >= MOST_TALLIES && !tallies.contains_key(key) {
            tallies.clear();
        }
        Arc::clone(tallies.entry(key.to_owned()).or_default())
    }

    /// What has been read of how an array ended.
    pub(crate) fn runs(&self, key: &str) -> Arc<Mutex<Runs>> {
        let mut runs = self.runs.lock();
        if runs.len() >= MOST_RUNS && !runs.contains_key(key) {
            runs.clear();
        }
        Arc::clone(runs.entry(key.to_owned()).or_default())
    }

    /// By this they are read: those that have waited longest come first, then those that have not waited.
    pub(crate) fn place_in_line(&self, key: &str) -> (bool, Option<Instant>) {
        let since = self.times.lock().get(key).and_then(|times| times.in_line);
        (since.is_none(), since)
    }

    /// It was not reached, and waits for its turn.
    pub(crate) fn wait_in_line(&self, key: &str) {
        self.with(key, |times| times.in_line = times.in_line.or_else(|| Some(Instant::now())));
    }

    pub(crate) fn reached(&self, key: &str) {
        if let Some(times) = self.times.lock().get_mut(key) {
            times.in_line = None;
        }
    }

    /// Learns that a job that was submitted here has this number.
    pub(crate) fn meet(&self, job: JobId, key: &str) {
        let mut numbers = self.numbers.lock();
        if numbers.len() >= MOST && !numbers.contains_key(&job) {
            numbers.clear();
        }
        let numbered = numbers.entry(job).or_insert_with(|| Numbered::This(key.to_owned()));
        if matches!(numbered, Numbered::This(known) if known != key) {
            *numbered = Numbered::Several;
        }
    }

    /// True if this number was given to several jobs of this backend, as far as this process saw.
    pub(crate) fn was_given_again(&self, job: JobId) -> bool {
        self.numbers.lock().get(&job) == Some(&Numbered::Several)
    }

    pub(crate) fn touch(&self, key: &str) {
        self.with(key, |times| times.touched = Some(Instant::now()));
    }

    /// When this process last changed something about it.
    pub(crate) fn touched(&self, key: &str) -> Option<Instant> {
        self.times.lock().get(key).and_then(|times| times.touched)
    }

    /// How long it has been over, as far as this process saw.
    pub(crate) fn over_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.over.get_or_insert_with(Instant::now).elapsed())
    }

    /// How long ago the accounting was asked about it first, which it just was, since it has been over.
    pub(crate) fn asked_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.asked.get_or_insert_with(Instant::now).elapsed())
    }

    pub(crate) fn goes_on(&self, key: &str) {
        if let Some(times) = self.times.lock().get_mut(key) {
            (times.over, times.asked, times.said) = (None, None, None);
        }
    }

    /// What is to be said of a job that is over, by a look that concluded this. One that did not ask the accounting has no news, and
    /// repeats what the last one said that did.
    pub(crate) fn steady(&self, key: &str, words: Option<String>, is_news: bool) -> Option<String> {
        self.with(key, |times| {
            if is_news {
                times.said.clone_from(&words);
            }
            times.said.clone().or(words)
        })
    }

    /// Whether a job was preempted, if that is known as of this number of restarts.
    pub(crate) fn preempted(&self, key: &str, restarts: u32) -> Option<bool> {
        let times = self.times.lock();
        let (known, preempted) = times.get(key)?.preempted?;
        (restarts > 0 && known == restarts).then_some(preempted)
    }

    pub(crate) fn keep_preempted(&self, key: &str, restarts: u32, preempted: bool) {
        self.with(key, |times| times.preempted = Some((restarts, preempted)));
    }

    /// How long all of its scripts have ended, as far as this process saw, while Slurm shows it as running.
    pub(crate) fn scripts_ended_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.scripts_ended.get_or_insert_with(Instant::now).elapsed())
    }

    /// How long it has been one too many under its key, as far as this process saw.
    pub(crate) fn too_many_for(&self, key: &str) -> Duration {
        self.with(key, |times| times.too_many.get_or_insert_with(Instant::now).elapsed())
    }

    /// True once in a while: what a look does about a job is not done by every look. A job that is held under another's key is
    /// known by both.
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

    #[test]
    fn a_number_that_several_jobs_have_is_known_as_that() {
        let known = Known::default();
        for (job, key) in [(7, "tb-a"), (8, "tb-b"), (7, "tb-a")] {
            known.meet(job, key);
        }
        assert!(!known.was_given_again(7) && !known.was_given_again(9));
        known.meet(7, "tb-c");
        known.forget("tb-a");
        known.meet(7, "tb-c");
        assert!(known.was_given_again(7) && !known.was_given_again(8));
    }
}
