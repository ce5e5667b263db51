//! What lists of runs said last, by group, and for how long that is believed. Looks at many jobs come one after the other, and
//! must not cost a request each. It may be lost, and must not ask for anything itself.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::GroupKey;
use tokio::time::Instant;

use crate::wire::Run;

/// The longest that a list is believed.
const LONGEST: Duration = Duration::from_secs(40);
/// For how long a run counts that somebody wanted to know of: longer than from one look at it to the next.
const WANTED: Duration = Duration::from_secs(180);

/// All that was listed.
#[derive(Default)]
pub(crate) struct Lists {
    groups: Mutex<HashMap<GroupKey, Group>>,
}

/// What was listed of one workflow.
#[derive(Default)]
struct Group {
    listed: Option<(Instant, HashMap<u64, Run>)>,
    wanted: HashMap<u64, Wanted>,
}

/// A run that somebody wants to know of.
struct Wanted {
    /// When it was wanted first, or something last happened to it.
    since: Instant,
    /// When it was wanted last.
    last: Instant,
}

/// What is known before a look.
#[derive(Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) runs: HashMap<u64, Run>,
    /// All runs that a list is to answer for, if one is to be asked for.
    pub(crate) to_list: Option<Vec<u64>>,
}

impl Lists {
    /// Notes that a run may have changed: what was listed of it before is not believed any more.
    pub(crate) fn stir(&self, run: u64, now: Instant) {
        for group in self.groups.lock().values_mut() {
            if let Some(wanted) = group.wanted.get_mut(&run) {
                wanted.since = now;
            }
        }
    }

    /// For how long what was said of a run is believed.
    pub(crate) fn belief(&self, group: &GroupKey, run: u64, now: Instant) -> Duration {
        let groups = self.groups.lock();
        let wanted = groups.get(group).and_then(|it| it.wanted.get(&run));
        wanted.map_or(Duration::ZERO, |wanted| wanted.belief(now))
    }

    /// What is known of these runs of a workflow.
    pub(crate) fn known(&self, group: &GroupKey, runs: &[u64], now: Instant) -> Known {
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
        Known { runs: known, to_list }
    }

    /// Keeps what a list said that was asked for then.
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
    /// A tenth of the time that it is watched, so that what happens to it is seen with as much delay at most.
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

    #[test]
    fn a_hundred_old_runs_are_listed_every_forty_seconds_however_their_looks_come() {
        let (lists, begin) = (Lists::default(), Instant::now());
        let mut asked = Vec::new();
        // Two looks at each in a minute, one after the other, for twenty minutes.
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

    #[test]
    fn a_list_is_believed_for_a_tenth_of_the_time_that_a_run_is_watched() {
        let (lists, begin) = (Lists::default(), Instant::now());
        lists.known(&group(), &[1], begin);
        let listed = begin + Duration::from_secs(100);
        lists.keep(&group(), listed, page("in_progress"));
        let known = |run, after| lists.known(&group(), &[run], listed + Duration::from_secs(after));
        assert_eq!((known(1, 11).runs.len(), known(1, 11).to_list), (1, None));
        assert!(known(1, 12).to_list.is_some());
        assert!(known(2, 1).to_list.is_some(), "a run that was never looked at may have begun just now");
        assert!(known(555, 1).to_list.is_some(), "what is in no list must be asked for");
        // Something happened to all of them: from now on they are watched anew.
        let changed = listed + Duration::from_secs(50);
        lists.keep(&group(), changed, page("completed"));
        let known = |after| lists.known(&group(), &[1], changed + Duration::from_secs(after));
        assert!(known(0).to_list.is_some() && known(5).to_list.is_some());
    }

    #[test]
    fn what_may_have_changed_is_asked_for() {
        let (lists, begin) = (Lists::default(), Instant::now());
        lists.known(&group(), &[1, 2], begin);
        let now = begin + Duration::from_secs(100);
        lists.keep(&group(), now, page("in_progress"));
        assert!(lists.known(&group(), &[1, 2], now).to_list.is_none());
        lists.stir(1, now);
        assert!(lists.known(&group(), &[1], now).to_list.is_some());
        assert!(lists.known(&group(), &[2], now).to_list.is_none());
        let belief = |run, after| lists.belief(&group(), run, now + Duration::from_secs(after));
        assert_eq!((belief(1, 20), belief(2, 20)), (Duration::from_secs(2), Duration::from_secs(12)));
        assert_eq!((belief(2, 3600), belief(3, 0)), (LONGEST, Duration::ZERO));
    }
}
