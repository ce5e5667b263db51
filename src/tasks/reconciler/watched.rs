//! The groups that this process watches, and what reaches their poll schedules from outside: newly opened
//! jobs, and requests for a poll. Also counts the failed polls of each backend. In memory only, like the
//! schedules; it must not do I/O.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use taskbridge_sdk::{ErrorKind, JobHandle};
use tokio::time::Instant;

use super::engine::{Connected, Engine};
use super::poll_schedule::{PollResult, PollSchedule, SweepFault};
use crate::tasks::store::{Group, OpenJob};
use crate::tasks::task::TaskId;
use crate::tasks::task_writer::{OpenedJob, PollRequest};

/// Maximum number of hints for jobs that are in no schedule yet.
const EARLY: usize = 1024;

/// Minimum number of consecutive sweeps in which every poll failed, before a backend's groups are released.
const MAX_FAILED_SWEEPS: u32 = 3;
/// Maximum number of doublings. Each release doubles the time of failed polls before the next one, because
/// perhaps no replica can reach the engine.
const MAX_DOUBLINGS: u32 = 6;

/// A backend for which every poll fails.
struct Failing {
    /// When the first of these sweeps ended.
    since: Instant,
    /// Number of failed sweeps since the last release.
    sweeps: u32,
    /// How often its groups were released since a poll succeeded.
    releases: u32,
    /// Until when its groups are left to other replicas.
    released_until: Option<Instant>,
}

/// The groups that this process watches.
#[derive(Default)]
pub(super) struct WatchedGroups {
    /// The poll schedules of the groups whose leases this process has.
    pub(super) agendas: BTreeMap<Group, PollSchedule>,
    /// Hints about jobs that are in no schedule: an engine can report the end of a job before the
    /// store has recorded its start.
    early: HashMap<JobHandle, String>,
    early_order: VecDeque<JobHandle>,
    failing: BTreeMap<String, Failing>,
}

impl WatchedGroups {
    /// Returns when the next poll is due.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        self.agendas.values().filter_map(PollSchedule::next_poll).min()
    }

    /// Adds jobs that this process opened. Jobs of groups that it does not watch are left out; returns false
    /// if there were any.
    pub(super) fn add(&mut self, opened: Vec<OpenedJob>, now: Instant) -> bool {
        let mut all = true;
        for OpenedJob { group, job, blank } in opened {
            all &= self.agendas.contains_key(&group);
            self.add_to(&group, job, blank, now, Duration::ZERO);
        }
        all
    }

    /// Adds a job of this age to the schedule of its group, if there is one. With `blank`, the row
    /// records nothing but that the job runs.
    pub(super) fn add_to(&mut self, group: &Group, job: OpenJob, blank: bool, now: Instant, age: Duration) {
        let Some(agenda) = self.agendas.get_mut(group) else { return };
        let hinted = self.early.get(&job.handle).is_some_and(|backend| *backend == group.backend);
        let handle = hinted.then(|| job.handle.clone());
        agenda.add(job, blank, now, age);
        if let Some(handle) = handle {
            self.early.remove(&handle);
            agenda.hinted_at(&handle, now);
        }
    }

    /// Applies a request: moves the next poll of a job to now, or drops a closed job. A hint for a job in no
    /// schedule is kept until the job is added ([`EARLY`]).
    pub(super) fn poll_now(&mut self, look: PollRequest, now: Instant) {
        match look {
            PollRequest::Task(id) => self.agendas.values_mut().for_each(|agenda| agenda.poll_now(&id, now)),
            PollRequest::Over(id) => self.agendas.values_mut().for_each(|agenda| agenda.close(&id)),
            PollRequest::Job(backend, handle) | PollRequest::Told(backend, handle) => {
                let mut agendas = self.agendas.iter_mut().filter(|(group, _)| group.backend == backend);
                if !agendas.any(|(_, agenda)| agenda.hinted_at(&handle, now)) {
                    self.keep(backend, handle);
                }
            }
        }
    }

    /// Makes the jobs of replaced backends due now, because the new connections may report something else.
    pub(super) fn engines_replaced(&mut self, before: &Connected, now_there: &Connected, now: Instant) {
        for (group, agenda) in &mut self.agendas {
            let (old, new) = (before.get(&group.backend), now_there.get(&group.backend));
            let same = match (old, new) {
                (Some(old), Some(new)) => old.is(new),
                (None, None) => true,
                _ => false,
            };
            if !same {
                self.failing.remove(&group.backend);
                agenda.engine_replaced(new.is_some_and(Engine::gives_hints), now);
            }
        }
    }

    /// Counts a sweep of this backend. Returns true if its groups are to be released until `until`, so that
    /// another replica can try: every poll failed in [`MAX_FAILED_SWEEPS`] sweeps or more, and for longer
    /// than a lease. That time doubles with each release ([`MAX_DOUBLINGS`]).
    pub(super) fn release_after(
        &mut self,
        backend: &str,
        looks: &[(TaskId, PollResult)],
        lease: Duration,
        until: Instant,
        now: Instant,
    ) -> bool {
        if looks.iter().any(|(_, seen)| shows_reachable(seen)) {
            self.failing.remove(backend);
            return false;
        }
        if looks.is_empty() || !looks.iter().all(|(_, seen)| shows_unreachable(seen)) {
            return false;
        }
        let new = || Failing { since: now, sweeps: 0, releases: 0, released_until: None };
        let failing = self.failing.entry(backend.to_owned()).or_insert_with(new);
        if failing.sweeps == 0 {
            failing.since = now;
        }
        failing.sweeps += 1;
        let patience = lease * 2u32.pow(failing.releases.min(MAX_DOUBLINGS));
        let release = failing.sweeps >= MAX_FAILED_SWEEPS && now.duration_since(failing.since) > patience;
        if release {
            let releases = failing.releases + 1;
            *failing = Failing { since: now, sweeps: 0, releases, released_until: Some(until) };
        }
        release
    }

    /// Returns the backends whose groups are left to other replicas now.
    pub(super) fn released(&self, now: Instant) -> impl Iterator<Item = String> {
        let still = move |failing: &Failing| failing.released_until.is_some_and(|until| now < until);
        self.failing.iter().filter(move |(_, failing)| still(failing)).map(|(backend, _)| backend.clone())
    }

    fn keep(&mut self, backend: String, handle: JobHandle) {
        if self.early_order.len() == EARLY
            && let Some(oldest) = self.early_order.pop_front()
        {
            self.early.remove(&oldest);
        }
        self.early_order.push_back(handle.clone());
        self.early.insert(handle, backend);
    }
}

/// Returns true if the engine answered.
fn shows_reachable(seen: &PollResult) -> bool {
    let limited = matches!(seen, PollResult::Failed { kind: ErrorKind::Limited { .. }, .. });
    limited || matches!(seen, PollResult::Observed { .. } | PollResult::Ended)
}

/// Returns true if another replica may succeed. A crash does not count, because all replicas have
/// the same adapter.
fn shows_unreachable(seen: &PollResult) -> bool {
    use ErrorKind::{Config, Denied, Unavailable};
    matches!(
        seen,
        PollResult::Failed { kind: Unavailable | Denied | Config, fault: None | Some(SweepFault::Hung), .. }
    )
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{GroupKey, Timestamp};

    use super::*;
    use crate::tasks::pace::PollIntervals;
    use crate::tasks::reconciler::poll_schedule::{DueJob, HINTED, PollResult};
    use crate::tasks::task::{NEWLY_STARTED, TaskId};

    const QUICKEST: Duration = Duration::from_millis(100);
    const PACE: PollIntervals = PollIntervals { quickest: QUICKEST, slowest: Duration::from_secs(30) };

    fn group() -> Group {
        Group { backend: "engine".to_owned(), key: GroupKey::new("") }
    }

    fn job(name: &str) -> OpenJob {
        OpenJob {
            id: TaskId::from_wire(name),
            tool: "tool".to_owned(),
            handle: JobHandle::new(name),
            started_at: Timestamp::from_millis(0),
            version: 1,
        }
    }

    fn opened(name: &str) -> Vec<OpenedJob> {
        vec![OpenedJob { group: group(), job: job(name), blank: true }]
    }

    fn hint(name: &str) -> PollRequest {
        PollRequest::Job("engine".to_owned(), JobHandle::new(name))
    }

    /// Watches a group of an engine that gives hints.
    fn watched(now: Instant) -> WatchedGroups {
        let mut watched = WatchedGroups::default();
        watched.agendas.insert(group(), PollSchedule::new(None, PACE, true, now));
        watched
    }

    /// Polls what is due and reports each job as ended. Returns the number of polls.
    fn see_ends(watched: &mut WatchedGroups, now: Instant) -> usize {
        let agenda = watched.agendas.get_mut(&group()).unwrap();
        let due = agenda.begin_sweep(now, 10).map(|due| due.jobs).unwrap_or_default();
        let seen: Vec<_> = due.into_iter().map(|job| (job.id, PollResult::Ended)).collect();
        let count = seen.len();
        agenda.end_sweep(seen, None, now);
        count
    }

    /// Jobs are polled rarely while hints announce their ends, and often after one was missed.
    #[tokio::test]
    async fn missing_hints_quicken_polling() {
        let now = Instant::now();
        let mut watched = watched(now);
        let wait = |watched: &mut WatchedGroups, name: &str| {
            watched.add(opened(name), now);
            watched.next_poll().unwrap().duration_since(now)
        };
        for name in ["one", "two"] {
            assert!(wait(&mut watched, name) >= HINTED);
            assert_eq!(see_ends(&mut watched, now + Duration::from_secs(2)), 1, "no hint told of this end");
        }
        assert_eq!(wait(&mut watched, "three"), QUICKEST);
        watched.poll_now(hint("three"), now);
        assert_eq!(see_ends(&mut watched, now), 1);
        assert!(wait(&mut watched, "four") >= HINTED, "a hint told of the last end");
    }

    /// A hint that comes before its job is kept, and the number of such hints is bounded.
    #[tokio::test]
    async fn early_hint_is_kept_for_job() {
        let now = Instant::now();
        let mut watched = watched(now);
        watched.poll_now(hint("early"), now);
        watched.add(opened("early"), now);
        assert_eq!(watched.next_poll(), Some(now));
        for n in 0..2 * EARLY {
            watched.poll_now(hint(&n.to_string()), now);
        }
        assert_eq!((watched.early.len(), watched.early_order.len()), (EARLY, EARLY));
    }

    /// A hint that comes during a poll makes another poll due at once.
    #[tokio::test]
    async fn hint_during_poll_repeats_poll() {
        let now = Instant::now();
        let mut watched = watched(now);
        watched.add(opened("a"), now);
        let later = now + Duration::from_secs(1);
        let due = watched.agendas.get_mut(&group()).unwrap().begin_sweep(later, 10).unwrap();
        watched.poll_now(hint("a"), later);
        let agenda = watched.agendas.get_mut(&group()).unwrap();
        agenda.end_sweep(
            vec![(
                due.jobs[0].id.clone(),
                PollResult::Observed { digest: Some(1), log_followed: false, version: 1 },
            )],
            None,
            later,
        );
        assert_eq!(watched.next_poll(), Some(later));
    }

    /// After another writer changed the row, the digest of the last poll is not used.
    #[tokio::test]
    async fn foreign_write_invalidates_known_digest() {
        let now = Instant::now();
        let mut watched = watched(now);
        watched.add(opened("a"), now);
        let look = |watched: &mut WatchedGroups, written: Option<u64>| {
            let agenda = watched.agendas.get_mut(&group()).unwrap();
            let DueJob { id, digest, version, .. } =
                agenda.begin_sweep(now + Duration::from_secs(60), 10).unwrap().jobs.remove(0);
            if let Some(version) = written {
                agenda.add(OpenJob { version, ..job("a") }, false, now, Duration::ZERO);
            }
            let seen = PollResult::Observed { digest: Some(7), log_followed: false, version };
            agenda.end_sweep(vec![(id, seen)], None, now);
            (digest, version)
        };
        look(&mut watched, None);
        assert_eq!(look(&mut watched, Some(1)), (Some(7), 1));
        assert_eq!(look(&mut watched, Some(5)), (Some(7), 1), "it is written while it is looked at");
        assert_eq!(look(&mut watched, None), (None, 5));
        assert_eq!(look(&mut watched, None), (Some(7), 5));
    }

    /// An older job is watched only while a client asks for it.
    #[tokio::test]
    async fn job_is_watched_while_new() {
        let now = Instant::now();
        let mut watched = watched(now);
        watched.add(opened("a"), now);
        let agenda = watched.agendas.get_mut(&group()).unwrap();
        let mut is_watched = |wanted: &[&str], age: Duration| {
            let now = now + age;
            agenda.set_wanted(wanted.iter().map(|name| TaskId::from_wire(*name)).collect(), now);
            let due = agenda.begin_sweep(now, 10).expect("it is due");
            let id = due.jobs[0].id.clone();
            agenda.end_sweep(
                vec![(id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 })],
                None,
                now,
            );
            due.subjects[0].watched
        };
        assert!(is_watched(&[], NEWLY_STARTED - Duration::from_secs(1)));
        assert!(!is_watched(&["b"], 2 * NEWLY_STARTED));
        assert!(is_watched(&["a"], 3 * NEWLY_STARTED));
        assert!(!is_watched(&[], 4 * NEWLY_STARTED));
    }

    /// A log that is followed from during a poll on makes another poll due at once.
    #[tokio::test]
    async fn log_follow_during_poll_repeats_poll() {
        let now = Instant::now();
        let mut watched = watched(now);
        watched.add(opened("a"), now);
        let later = now + Duration::from_secs(1);
        let agenda = watched.agendas.get_mut(&group()).unwrap();
        let id = agenda.begin_sweep(later, 10).unwrap().jobs.remove(0).id;
        agenda.set_wanted([id.clone()].into(), later);
        agenda.end_sweep(
            vec![(id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 })],
            None,
            later,
        );
        let due = agenda.begin_sweep(later, 10).expect("it is due again");
        assert!(due.jobs[0].ask_of_log, "the row says whether it is followed");
    }

    /// A job that is closed without a poll, for example abandoned at its deadline, is not polled again.
    #[tokio::test]
    async fn closed_job_is_not_polled() {
        let now = Instant::now();
        let mut watched = watched(now);
        for name in ["a", "b", "c"] {
            watched.add(opened(name), now);
        }
        watched.poll_now(PollRequest::Over(TaskId::from_wire("a")), now);
        let later = now + Duration::from_secs(1);
        let agenda = watched.agendas.get_mut(&group()).unwrap();
        let due = agenda.begin_sweep(later, 10).unwrap().jobs;
        assert_eq!(due.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        // This job is closed while it is being polled.
        watched.poll_now(PollRequest::Over(TaskId::from_wire("b")), later);
        let agenda = watched.agendas.get_mut(&group()).unwrap();
        let seen = |id| (id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 });
        agenda.end_sweep(due.into_iter().map(|job| seen(job.id)).collect(), None, later);
        let due = agenda.begin_sweep(later + Duration::from_secs(60), 10).unwrap().jobs;
        assert_eq!(due.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["c"]);
        agenda.end_sweep(due.into_iter().map(|job| seen(job.id)).collect(), None, later);
        // Another replica has closed the last job, and a new one was opened while the rows were read.
        let read_at = later + Duration::from_secs(60);
        agenda.add(job("d"), true, read_at, Duration::ZERO);
        agenda.keep_only(&[], read_at);
        let due = agenda.begin_sweep(read_at + Duration::from_secs(60), 10).unwrap().jobs;
        assert_eq!(due.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["d"]);
    }

    /// Polls everything that is due within `time`. Returns the number of sweeps, and when each job
    /// was polled.
    fn look_for(agenda: &mut PollSchedule, from: Instant, time: Duration) -> (usize, Vec<(TaskId, Instant)>) {
        let (mut sweeps, mut looks) = (0, Vec::new());
        while let Some(now) = agenda.next_poll().filter(|at| *at <= from + time) {
            let due = agenda.begin_sweep(now, 500).expect("a look is due");
            sweeps += 1;
            looks.extend(due.jobs.iter().map(|job| (job.id.clone(), now)));
            let observed = |version| PollResult::Observed { digest: Some(1), log_followed: false, version };
            let seen = due.jobs.into_iter().map(|job| (job.id, observed(job.version))).collect();
            agenda.end_sweep(seen, None, now);
        }
        (sweeps, looks)
    }

    /// Many old jobs are polled together, and no other job is polled more often because of them.
    #[tokio::test]
    async fn old_jobs_share_polls_without_delay() {
        let began = Instant::now();
        let mut agenda = PollSchedule::new(None, PACE, false, began);
        let age = Duration::from_secs(86_400);
        for n in 0..5_000 {
            agenda.add(job(&format!("old {n}")), false, began, age);
        }
        let settled = began + Duration::from_secs(120);
        look_for(&mut agenda, began, Duration::from_secs(120));
        // A job that starts now waits a tenth of its age each time, and gains nothing from sharing
        // sweeps with the others.
        agenda.add(job("new"), false, settled, Duration::ZERO);
        let (sweeps, looks) = look_for(&mut agenda, settled, Duration::from_secs(60));
        let of_new: Vec<_> = looks.iter().filter(|(id, _)| id.as_str() == "new").map(|(_, at)| *at).collect();
        let mut alone = PollSchedule::new(None, PACE, false, settled);
        alone.add(job("new"), false, settled, Duration::ZERO);
        let (_, lonely) = look_for(&mut alone, settled, Duration::from_secs(60));
        assert!(
            of_new.len() <= lonely.len() * 10 / 9 + 1,
            "{} looks at it, {} alone",
            of_new.len(),
            lonely.len()
        );
        assert!(sweeps <= of_new.len() + 30, "{sweeps} sweeps, {} for the new job", of_new.len());
        assert!(
            (9_000..=13_000).contains(&looks.len()),
            "each is looked at about twice a minute: {}",
            looks.len()
        );
    }
}
