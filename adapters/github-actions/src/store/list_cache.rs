//! Cache of the last lists of runs by group, with their maximum age. Polls of many jobs arrive one after the
//! other, and must not cost a request each. It may be lost. It must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::GroupKey;
use tokio::time::Instant;

use crate::driver::wire::Run;

/// Maximum age of a list.
const MAX_AGE: Duration = Duration::from_secs(40);
/// How long a run counts as wanted after a poll: longer than the interval between two polls.
const POLLED_RUN_TTL: Duration = Duration::from_secs(180);

/// Cached lists.
#[derive(Default)]
pub(crate) struct RunListCache {
    groups: Mutex<HashMap<GroupKey, Group>>,
}

/// Cached list of one workflow.
#[derive(Default)]
struct Group {
    last_list: Option<(Instant, HashMap<u64, Run>)>,
    polled_runs: HashMap<u64, PolledRun>,
}

/// Run that is polled.
struct PolledRun {
    /// Time of the first poll, or of the last change or hint that was noticed.
    unchanged_since: Instant,
    /// Time of the last poll.
    last_poll: Instant,
}

/// Cached state before a poll.
#[derive(Debug, PartialEq)]
pub(crate) struct CachedRuns {
    pub(crate) runs: HashMap<u64, Run>,
    /// Recently polled runs of the group, if a new list is due.
    pub(crate) runs_to_list: Option<Vec<u64>>,
}

impl RunListCache {
    /// Records that a run may have changed: data from before is no longer used.
    pub(crate) fn mark_changed(&self, run: u64, now: Instant) {
        for group in self.groups.lock().values_mut() {
            if let Some(polled_run) = group.polled_runs.get_mut(&run) {
                polled_run.unchanged_since = now;
            }
        }
    }

    /// Returns for how long data about a run is used. Zero for a run that was not polled recently.
    pub(crate) fn max_age(&self, group: &GroupKey, run: u64, now: Instant) -> Duration {
        let groups = self.groups.lock();
        let polled_run = groups.get(group).and_then(|entry| entry.polled_runs.get(&run));
        polled_run.map_or(Duration::ZERO, |polled_run| polled_run.max_age(now))
    }

    /// Records these runs of a workflow as polled, and returns their cached state.
    pub(crate) fn record_poll(&self, group: &GroupKey, runs: &[u64], now: Instant) -> CachedRuns {
        let mut groups = self.groups.lock();
        groups.retain(|key, entry| {
            key == group
                || entry.polled_runs.values().any(|polled_run| now - polled_run.last_poll < POLLED_RUN_TTL)
        });
        let entry = groups.entry(group.clone()).or_default();
        entry.polled_runs.retain(|_, polled_run| now - polled_run.last_poll < POLLED_RUN_TTL);
        for run in runs {
            entry
                .polled_runs
                .entry(*run)
                .or_insert(PolledRun { unchanged_since: now, last_poll: now })
                .last_poll = now;
        }
        let mut fresh_runs = HashMap::new();
        if let Some((at, listed_runs)) = &entry.last_list {
            let is_fresh = |run: &&u64| {
                entry.polled_runs.get(run).is_some_and(|polled_run| now - *at < polled_run.max_age(now))
            };
            let fresh_ids = runs.iter().filter(is_fresh);
            fresh_runs.extend(fresh_ids.filter_map(|run| Some((*run, listed_runs.get(run)?.clone()))));
        }
        let runs_to_list =
            (fresh_runs.len() < runs.len()).then(|| entry.polled_runs.keys().copied().collect());
        CachedRuns { runs: fresh_runs, runs_to_list }
    }

    /// Stores the result of a list that was requested at `requested_at`, and notes which runs it shows as
    /// changed.
    pub(crate) fn store(&self, group: &GroupKey, requested_at: Instant, runs: HashMap<u64, Run>) {
        let mut groups = self.groups.lock();
        let entry = groups.entry(group.clone()).or_default();
        let previous_runs = entry.last_list.take().map(|(_, runs)| runs).unwrap_or_default();
        for (id, polled_run) in &mut entry.polled_runs {
            if let (Some(previous_run), Some(run)) = (previous_runs.get(id), runs.get(id))
                && previous_run != run
            {
                polled_run.unchanged_since = requested_at;
            }
        }
        entry.last_list = Some((requested_at, runs));
    }
}

impl PolledRun {
    /// Returns a tenth of the time for which the run was polled without a change, but at most `MAX_AGE`. So a
    /// change is seen with at most that delay.
    fn max_age(&self, now: Instant) -> Duration {
        MAX_AGE.min((now - self.unchanged_since) / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: u64, status: &str) -> Run {
        let conclusion = (status == "completed").then(|| "success".to_owned());
        Run { id, status: Some(status.to_owned()), conclusion, ..Run::default() }
    }

    fn page(status: &str) -> HashMap<u64, Run> {
        (0..100).map(|id| (id, run(id, status))).collect()
    }

    fn group() -> GroupKey {
        GroupKey::new("octo-org/app/release.yml")
    }

    /// A hundred old runs are listed every forty seconds, however their polls are spread.
    #[test]
    fn old_runs_share_periodic_list() {
        let (cache, start) = (RunListCache::default(), Instant::now());
        let mut requests = Vec::new();
        // Each run is polled twice per minute, one after the other, for twenty minutes.
        for tick in 0..4000u32 {
            let now = start + Duration::from_millis(300) * tick;
            if let Some(run_ids) = cache.record_poll(&group(), &[u64::from(tick % 100)], now).runs_to_list {
                assert!(tick < 100 || run_ids.len() == 100, "one list covers all runs: {}", run_ids.len());
                requests.push(now - start);
                cache.store(&group(), now, page("in_progress"));
            }
        }
        let late_requests = requests.iter().filter(|at| at.as_secs() >= 600).count();
        assert!((14..=15).contains(&late_requests), "in the last ten minutes: {late_requests}");
        assert!(requests.len() < 200, "at first more often: {}", requests.len());
    }

    /// A list is reused for a tenth of the time for which a run is watched without a change.
    #[test]
    fn run_list_expires_by_watch_time() {
        let (cache, start) = (RunListCache::default(), Instant::now());
        cache.record_poll(&group(), &[1], start);
        let listed_at = start + Duration::from_secs(100);
        cache.store(&group(), listed_at, page("in_progress"));
        let poll = |run, after| cache.record_poll(&group(), &[run], listed_at + Duration::from_secs(after));
        assert_eq!((poll(1, 11).runs.len(), poll(1, 11).runs_to_list), (1, None));
        assert!(poll(1, 12).runs_to_list.is_some());
        assert!(poll(2, 1).runs_to_list.is_some(), "a run that was never polled may have just started");
        assert!(poll(555, 1).runs_to_list.is_some(), "a run that no list contains is requested");
        // All runs have changed, so the time for which they were watched starts again.
        let changed_at = listed_at + Duration::from_secs(50);
        cache.store(&group(), changed_at, page("completed"));
        let poll = |after| cache.record_poll(&group(), &[1], changed_at + Duration::from_secs(after));
        assert!(poll(0).runs_to_list.is_some() && poll(5).runs_to_list.is_some());
    }

    /// A run that may have changed is listed again, and its next lists expire sooner.
    #[test]
    fn changed_run_bypasses_list() {
        let (cache, start) = (RunListCache::default(), Instant::now());
        cache.record_poll(&group(), &[1, 2], start);
        let now = start + Duration::from_secs(100);
        cache.store(&group(), now, page("in_progress"));
        assert!(cache.record_poll(&group(), &[1, 2], now).runs_to_list.is_none());
        cache.mark_changed(1, now);
        assert!(cache.record_poll(&group(), &[1], now).runs_to_list.is_some());
        assert!(cache.record_poll(&group(), &[2], now).runs_to_list.is_none());
        let max_age = |run, after| cache.max_age(&group(), run, now + Duration::from_secs(after));
        assert_eq!((max_age(1, 20), max_age(2, 20)), (Duration::from_secs(2), Duration::from_secs(12)));
        assert_eq!((max_age(2, 3600), max_age(3, 0)), (MAX_AGE, Duration::ZERO));
    }
}
