//! Cache of the last lists of runs by group, with their maximum age. Polls of many jobs arrive one after the
//! other, and must not cost a request each. It may be lost. It must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::GroupKey;
use tokio::time::Instant;

use crate::wire::Run;

/// Maximum age of a list.
const LONGEST: Duration = Duration::from_secs(40);
/// How long a run counts as wanted after a poll: longer than the interval between two polls.
const WANTED: Duration = Duration::from_secs(180);

/// Cached lists.
#[derive(Default)]
pub(crate) struct RunListCache {
    groups: Mutex<HashMap<GroupKey, Group>>,
}

/// Cached list of one workflow.
#[derive(Default)]
struct Group {
    listed: Option<(Instant, HashMap<u64, Run>)>,
    wanted: HashMap<u64, Wanted>,
}

/// Run that is polled.
struct Wanted {
    /// Time of the first poll, or of the last change or hint that was noticed.
    since: Instant,
    /// Time of the last poll.
    last: Instant,
}

/// Cached state before a poll.
#[derive(Debug, PartialEq)]
pub(crate) struct CachedRuns {
    pub(crate) runs: HashMap<u64, Run>,
    /// Recently polled runs of the group, if a new list is due.
    pub(crate) to_list: Option<Vec<u64>>,
}

impl RunListCache {
    /// Records that a run may have changed: data from before is no longer used.
    pub(crate) fn mark_changed(&self, run: u64, now: Instant) {
        for group in self.groups.lock().values_mut() {
            if let Some(wanted) = group.wanted.get_mut(&run) {
                wanted.since = now;
            }
        }
    }

    /// Returns for how long data about a run is used. Zero for a run that was not polled recently.
    pub(crate) fn belief(&self, group: &GroupKey, run: u64, now: Instant) -> Duration {
        let groups = self.groups.lock();
        let wanted = groups.get(group).and_then(|it| it.wanted.get(&run));
        wanted.map_or(Duration::ZERO, |wanted| wanted.belief(now))
    }

    /// Records these runs of a workflow as polled, and returns their cached state.
    pub(crate) fn known(&self, group: &GroupKey, runs: &[u64], now: Instant) -> CachedRuns {
        let mut groups = self.groups.lock();
        groups.retain(|key, it| key == group || it.wanted.values().any(|wanted| now - wanted.last < WANTED));
        let it = groups.entry(group.clone()).or_default();
        it.wanted.retain(|_, wanted| now - wanted.last < WANTED);
        for run in runs {
            it.wanted.entry(*run).or_insert(Wanted { since: now, last: now }).last = now;
        }
        let mut known = HashMap::new();
        if let Some((at, listed)) = &it.listed {
            let is_believed =
                |run: &&u64| it.wanted.get(run).is_some_and(|wanted| now - *at < wanted.belief(now));
            let believed = runs.iter().filter(is_believed);
            known.extend(believed.filter_map(|run| Some((*run, listed.get(run)?.clone()))));
        }
        let to_list = (known.len() < runs.len()).then(|| it.wanted.keys().copied().collect());
        CachedRuns { runs: known, to_list }
    }

    /// Stores the result of a list that was requested at `asked`, and notes which runs it shows as changed.
    pub(crate) fn keep(&self, group: &GroupKey, asked: Instant, runs: HashMap<u64, Run>) {
        let mut groups = self.groups.lock();
        let it = groups.entry(group.clone()).or_default();
        let before = it.listed.take().map(|(_, runs)| runs).unwrap_or_default();
        for (id, wanted) in &mut it.wanted {
            if let (Some(before), Some(run)) = (before.get(id), runs.get(id))
                && before != run
            {
                wanted.since = asked;
            }
        }
        it.listed = Some((asked, runs));
    }
}

impl Wanted {
    /// Returns a tenth of the time for which the run was polled without a change, but at most `LONGEST`. So a
    /// change is seen with at most that delay.
    fn belief(&self, now: Instant) -> Duration {
        LONGEST.min((now - self.since) / 10)
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
        let (lists, begin) = (RunListCache::default(), Instant::now());
        let mut asked = Vec::new();
        // Each run is polled twice per minute, one after the other, for twenty minutes.
        for tick in 0..4000u32 {
            let now = begin + Duration::from_millis(300) * tick;
            if let Some(wanted) = lists.known(&group(), &[u64::from(tick % 100)], now).to_list {
                assert!(
                    tick < 100 || wanted.len() == 100,
                    "a list answers for all of them: {}",
                    wanted.len()
                );
                asked.push(now - begin);
                lists.keep(&group(), now, page("in_progress"));
            }
        }
        let settled = asked.iter().filter(|at| at.as_secs() >= 600).count();
        assert!((14..=15).contains(&settled), "in the last ten minutes: {settled}");
        assert!(asked.len() < 200, "at first more often: {}", asked.len());
    }

    /// A list is reused for a tenth of the time for which a run is watched without a change.
    #[test]
    fn run_list_expires_by_watch_time() {
        let (lists, begin) = (RunListCache::default(), Instant::now());
        lists.known(&group(), &[1], begin);
        let listed = begin + Duration::from_secs(100);
        lists.keep(&group(), listed, page("in_progress"));
        let known = |run, after| lists.known(&group(), &[run], listed + Duration::from_secs(after));
        assert_eq!((known(1, 11).runs.len(), known(1, 11).to_list), (1, None));
        assert!(known(1, 12).to_list.is_some());
        assert!(known(2, 1).to_list.is_some(), "a run that was never looked at may have begun just now");
        assert!(known(555, 1).to_list.is_some(), "what is in no list must be asked for");
        // All runs have changed, so the time for which they were watched starts again.
        let changed = listed + Duration::from_secs(50);
        lists.keep(&group(), changed, page("completed"));
        let known = |after| lists.known(&group(), &[1], changed + Duration::from_secs(after));
        assert!(known(0).to_list.is_some() && known(5).to_list.is_some());
    }

    /// A run that may have changed is listed again, and its next lists expire sooner.
    #[test]
    fn changed_run_bypasses_list() {
        let (lists, begin) = (RunListCache::default(), Instant::now());
        lists.known(&group(), &[1, 2], begin);
        let now = begin + Duration::from_secs(100);
        lists.keep(&group(), now, page("in_progress"));
        assert!(lists.known(&group(), &[1, 2], now).to_list.is_none());
        lists.mark_changed(1, now);
        assert!(lists.known(&group(), &[1], now).to_list.is_some());
        assert!(lists.known(&group(), &[2], now).to_list.is_none());
        let belief = |run, after| lists.belief(&group(), run, now + Duration::from_secs(after));
        assert_eq!((belief(1, 20), belief(2, 20)), (Duration::from_secs(2), Duration::from_secs(12)));
        assert_eq!((belief(2, 3600), belief(3, 0)), (LONGEST, Duration::ZERO));
    }
}
