//! The groups that this process watches, and what reaches their poll schedules from outside: newly opened
//! jobs, and requests for a poll. Also counts the failed polls of each backend. In memory only, like the
//! schedules; it must not do I/O.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use taskbridge_sdk::{ErrorKind, JobHandle, JobKey};
use tokio::time::Instant;

use super::engine::{ConnectedEngines, Engine};
use super::poll_schedule::{PollResult, PollSchedule, SweepFault};
use crate::tasks::store::{Group, OpenJob};
use crate::tasks::task::TaskId;
use crate::tasks::task_writer::{OpenedJob, PollRequest};

/// Maximum number of hints for jobs that are in no schedule yet.
const MAX_EARLY_HINTS: usize = 1024;

/// Minimum number of consecutive sweeps in which every poll failed, before a backend's groups are released.
const MAX_FAILED_SWEEPS: u32 = 3;
/// Maximum number of doublings. Each release doubles the time of failed polls before the next one, because
/// perhaps no replica can reach the engine.
const MAX_DOUBLINGS: u32 = 6;

/// How a hint names a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum JobName {
    /// The engine's name.
    Handle(JobHandle),
    /// Our key.
    Key(JobKey),
}

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
    pub(super) schedules: BTreeMap<Group, PollSchedule>,
    /// Hints about jobs that are in no schedule: an engine can report the end of a job before the
    /// store has recorded its start.
    early_hints: HashMap<JobName, String>,
    early_order: VecDeque<JobName>,
    /// Keys of jobs that this process opened in groups that it does not watch yet. It may lose them.
    unwatched_keys: HashMap<TaskId, JobKey>,
    failing: BTreeMap<String, Failing>,
}

impl WatchedGroups {
    /// Returns when the next poll is due.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        self.schedules.values().filter_map(PollSchedule::next_poll).min()
    }

    /// Adds jobs that this process opened. Jobs of groups that it does not watch are left out; returns false
    /// if there were any.
    pub(super) fn add(&mut self, opened: Vec<OpenedJob>, now: Instant) -> bool {
        let mut all = true;
        for OpenedJob { group, job, key, blank, age } in opened {
            all &= self.schedules.contains_key(&group);
            // A renamed job may have left another group.
            let others = self.schedules.iter_mut().filter(|(other, _)| **other != group);
            others.for_each(|(_, schedule)| schedule.close(&job.id));
            if self.unwatched_keys.len() == MAX_EARLY_HINTS {
                self.unwatched_keys.clear();
            }
            self.unwatched_keys.insert(job.id.clone(), key);
            self.add_to(&group, job, blank, now, age);
        }
        all
    }

    /// Adds a job of this age to the schedule of its group, if there is one. With `blank`, the row
    /// records nothing but that the job runs.
    pub(super) fn add_to(&mut self, group: &Group, job: OpenJob, blank: bool, now: Instant, age: Duration) {
        let Some(schedule) = self.schedules.get_mut(group) else { return };
        let (id, handle) = (job.id.clone(), job.handle.clone());
        schedule.add(job, blank, now, age);
        let mut is_hinted = |name: &JobName| {
            let is_known = self.early_hints.get(name).is_some_and(|backend| *backend == group.backend);
            is_known && self.early_hints.remove(name).is_some()
        };
        if is_hinted(&JobName::Handle(handle.clone())) {
            schedule.apply_hint(&handle, now);
        }
        if let Some(key) = self.unwatched_keys.remove(&id) {
            schedule.record_key(&id, key.clone());
            if is_hinted(&JobName::Key(key.clone())) {
                schedule.apply_key_hint(&key, now);
            }
        }
    }

    /// Applies a request: moves the next poll of a job to now, or drops a closed job. A hint for a job in no
    /// schedule is kept until the job is added ([`MAX_EARLY_HINTS`]).
    pub(super) fn poll_now(&mut self, request: PollRequest, now: Instant) {
        match request {
            PollRequest::Task(id) => {
                self.schedules.values_mut().for_each(|schedule| schedule.poll_now(&id, now))
            }
            PollRequest::Closed(id) => self.schedules.values_mut().for_each(|schedule| schedule.close(&id)),
            PollRequest::EngineHint(backend, handle) | PollRequest::LocalHint(backend, handle) => {
                let mut schedules = self.schedules.iter_mut().filter(|(group, _)| group.backend == backend);
                if !schedules.any(|(_, schedule)| schedule.apply_hint(&handle, now)) {
                    self.keep_hint(backend, JobName::Handle(handle));
                }
            }
            PollRequest::KeyHint(backend, key) => {
                let mut schedules = self.schedules.iter_mut().filter(|(group, _)| group.backend == backend);
                if !schedules.any(|(_, schedule)| schedule.apply_key_hint(&key, now)) {
                    self.keep_hint(backend, JobName::Key(key));
                }
            }
        }
    }

    /// Makes the jobs of replaced backends due now, because the new connections may report something else.
    pub(super) fn engines_replaced(
        &mut self,
        before: &ConnectedEngines,
        after: &ConnectedEngines,
        now: Instant,
    ) {
        for (group, schedule) in &mut self.schedules {
            let (old, new) = (before.get(&group.backend), after.get(&group.backend));
            let same = match (old, new) {
                (Some(old), Some(new)) => old.is_same_connection(new),
                (None, None) => true,
                _ => false,
            };
            if !same {
                self.failing.remove(&group.backend);
                schedule.engine_replaced(new.is_some_and(Engine::gives_hints), now);
            }
        }
    }

    /// Counts a sweep of this backend. Returns true if its groups are to be released until `until`, so that
    /// another replica can try: every poll failed in [`MAX_FAILED_SWEEPS`] sweeps or more, and for longer
    /// than a lease. That time doubles with each release ([`MAX_DOUBLINGS`]).
    pub(super) fn release_after(
        &mut self,
        backend: &str,
        results: &[(TaskId, PollResult)],
        lease: Duration,
        until: Instant,
        now: Instant,
    ) -> bool {
        if results.iter().any(|(_, result)| shows_reachable(result)) {
            self.failing.remove(backend);
            return false;
        }
        if results.is_empty() || !results.iter().all(|(_, result)| shows_unreachable(result)) {
            return false;
        }
        let new = || Failing { since: now, sweeps: 0, releases: 0, released_until: None };
        let failing = self.failing.entry(backend.to_owned()).or_insert_with(new);
        if failing.sweeps == 0 {
            failing.since = now;
        }
        failing.sweeps += 1;
        let threshold = lease * 2u32.pow(failing.releases.min(MAX_DOUBLINGS));
        let release = failing.sweeps >= MAX_FAILED_SWEEPS && now.duration_since(failing.since) > threshold;
        if release {
            let releases = failing.releases + 1;
            *failing = Failing { since: now, sweeps: 0, releases, released_until: Some(until) };
        }
        release
    }

    /// Returns the backends whose groups are left to other replicas now.
    pub(super) fn released(&self, now: Instant) -> impl Iterator<Item = String> {
        let is_released = move |failing: &Failing| failing.released_until.is_some_and(|until| now < until);
        self.failing
            .iter()
            .filter(move |(_, failing)| is_released(failing))
            .map(|(backend, _)| backend.clone())
    }

    fn keep_hint(&mut self, backend: String, name: JobName) {
        if self.early_order.len() == MAX_EARLY_HINTS
            && let Some(oldest) = self.early_order.pop_front()
        {
            self.early_hints.remove(&oldest);
        }
        self.early_order.push_back(name.clone());
        self.early_hints.insert(name, backend);
    }
}

/// Returns true if the engine answered.
fn shows_reachable(result: &PollResult) -> bool {
    let limited = matches!(result, PollResult::Failed { kind: ErrorKind::Limited { .. }, .. });
    limited || matches!(result, PollResult::Observed { .. } | PollResult::Missing { .. } | PollResult::Ended)
}

/// Returns true if another replica may succeed. A crash does not count, because all replicas have
/// the same adapter.
fn shows_unreachable(result: &PollResult) -> bool {
    use ErrorKind::{Config, Denied, Unavailable};
    matches!(
        result,
        PollResult::Failed { kind: Unavailable | Denied | Config, fault: None | Some(SweepFault::Hung), .. }
    )
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{GroupKey, Timestamp};

    use super::*;
    use crate::tasks::pace::PollIntervals;
    use crate::tasks::reconciler::poll_schedule::{DueJob, HINTED_INTERVAL, PollResult};
    use crate::tasks::task::{INITIAL_WATCH, TaskId};

    const QUICKEST: Duration = Duration::from_millis(100);
    const INTERVALS: PollIntervals = PollIntervals { shortest: QUICKEST, longest: Duration::from_secs(30) };

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
        let key =
            JobKey::from_bytes(std::array::from_fn(|n| name.as_bytes().get(n).copied().unwrap_or_default()));
        vec![OpenedJob { group: group(), job: job(name), key, blank: true, age: Duration::ZERO }]
    }

    fn hint(name: &str) -> PollRequest {
        PollRequest::EngineHint("engine".to_owned(), JobHandle::new(name))
    }

    /// Watches a group of an engine that gives hints.
    fn watched_groups(now: Instant) -> WatchedGroups {
        let mut groups = WatchedGroups::default();
        groups.schedules.insert(group(), PollSchedule::new(None, INTERVALS, true, now));
        groups
    }

    /// Polls what is due and reports each job as ended. Returns the number of polls.
    fn end_due_jobs(groups: &mut WatchedGroups, now: Instant) -> usize {
        let schedule = groups.schedules.get_mut(&group()).unwrap();
        let due = schedule.begin_sweep(now, 10).map(|due| due.jobs).unwrap_or_default();
        let results: Vec<_> = due.into_iter().map(|job| (job.id, PollResult::Ended)).collect();
        let count = results.len();
        schedule.end_sweep(results, None, now);
        count
    }

    /// Jobs are polled rarely while hints announce their ends, and often after one was missed.
    #[tokio::test]
    async fn missing_hints_quicken_polling() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        let wait = |groups: &mut WatchedGroups, name: &str| {
            groups.add(opened(name), now);
            groups.next_poll().unwrap().duration_since(now)
        };
        for name in ["one", "two"] {
            assert!(wait(&mut groups, name) >= HINTED_INTERVAL);
            assert_eq!(
                end_due_jobs(&mut groups, now + Duration::from_secs(2)),
                1,
                "no hint announced this end"
            );
        }
        assert_eq!(wait(&mut groups, "three"), QUICKEST);
        groups.poll_now(hint("three"), now);
        assert_eq!(end_due_jobs(&mut groups, now), 1);
        assert!(wait(&mut groups, "four") >= HINTED_INTERVAL, "a hint announced the last end");
    }

    /// A hint that comes before its job is kept, and the number of such hints is bounded.
    #[tokio::test]
    async fn early_hint_is_kept_for_job() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        groups.poll_now(hint("early"), now);
        groups.add(opened("early"), now);
        assert_eq!(groups.next_poll(), Some(now));
        for n in 0..2 * MAX_EARLY_HINTS {
            groups.poll_now(hint(&n.to_string()), now);
        }
        assert_eq!((groups.early_hints.len(), groups.early_order.len()), (MAX_EARLY_HINTS, MAX_EARLY_HINTS));
    }

    /// A hint by our key reaches the job, also before the engine has returned a handle.
    #[tokio::test]
    async fn key_hint_moves_poll_forward() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        let key = opened("early").remove(0).key;
        groups.poll_now(PollRequest::KeyHint("engine".to_owned(), key.clone()), now);
        groups.add(opened("early"), now);
        assert_eq!(groups.next_poll(), Some(now));
        groups.add(opened("another"), now);
        assert_eq!(end_due_jobs(&mut groups, now), 1);
        groups.add(opened("early"), now);
        let later = now + Duration::from_millis(1);
        assert!(groups.next_poll() > Some(later));
        groups.poll_now(PollRequest::KeyHint("other".to_owned(), key.clone()), later);
        assert!(groups.next_poll() > Some(later), "the hint is of another backend");
        groups.poll_now(PollRequest::KeyHint("engine".to_owned(), key), later);
        assert_eq!(groups.next_poll(), Some(later));
    }

    /// A hint that comes during a poll makes another poll due at once.
    #[tokio::test]
    async fn hint_during_poll_repeats_poll() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        groups.add(opened("a"), now);
        let later = now + Duration::from_secs(1);
        let due = groups.schedules.get_mut(&group()).unwrap().begin_sweep(later, 10).unwrap();
        groups.poll_now(hint("a"), later);
        let schedule = groups.schedules.get_mut(&group()).unwrap();
        schedule.end_sweep(
            vec![(
                due.jobs[0].id.clone(),
                PollResult::Observed { digest: Some(1), log_followed: false, version: 1 },
            )],
            None,
            later,
        );
        assert_eq!(groups.next_poll(), Some(later));
    }

    /// After another writer changed the row, the digest of the last poll is not used.
    #[tokio::test]
    async fn foreign_write_invalidates_known_digest() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        groups.add(opened("a"), now);
        let poll = |groups: &mut WatchedGroups, written: Option<u64>| {
            let schedule = groups.schedules.get_mut(&group()).unwrap();
            let DueJob { id, digest, version, .. } =
                schedule.begin_sweep(now + Duration::from_secs(60), 10).unwrap().jobs.remove(0);
            if let Some(version) = written {
                schedule.add(OpenJob { version, ..job("a") }, false, now, Duration::ZERO);
            }
            let result = PollResult::Observed { digest: Some(7), log_followed: false, version };
            schedule.end_sweep(vec![(id, result)], None, now);
            (digest, version)
        };
        poll(&mut groups, None);
        assert_eq!(poll(&mut groups, Some(1)), (Some(7), 1));
        assert_eq!(poll(&mut groups, Some(5)), (Some(7), 1), "another writer writes the row during a poll");
        assert_eq!(poll(&mut groups, None), (None, 5));
        assert_eq!(poll(&mut groups, None), (Some(7), 5));
    }

    /// An older job is watched only while a client asks for it.
    #[tokio::test]
    async fn job_is_watched_while_new() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        groups.add(opened("a"), now);
        let schedule = groups.schedules.get_mut(&group()).unwrap();
        let mut is_watched = |wanted: &[&str], age: Duration| {
            let now = now + age;
            schedule.set_watched(wanted.iter().map(|name| TaskId::from_wire(*name)).collect(), now);
            let due = schedule.begin_sweep(now, 10).expect("it is due");
            let id = due.jobs[0].id.clone();
            schedule.end_sweep(
                vec![(id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 })],
                None,
                now,
            );
            due.subjects[0].watched
        };
        assert!(is_watched(&[], INITIAL_WATCH - Duration::from_secs(1)));
        assert!(!is_watched(&["b"], 2 * INITIAL_WATCH));
        assert!(is_watched(&["a"], 3 * INITIAL_WATCH));
        assert!(!is_watched(&[], 4 * INITIAL_WATCH));
    }

    /// A log that is followed from during a poll on makes another poll due at once.
    #[tokio::test]
    async fn log_follow_during_poll_repeats_poll() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        groups.add(opened("a"), now);
        let later = now + Duration::from_secs(1);
        let schedule = groups.schedules.get_mut(&group()).unwrap();
        let id = schedule.begin_sweep(later, 10).unwrap().jobs.remove(0).id;
        schedule.set_watched([id.clone()].into(), later);
        schedule.end_sweep(
            vec![(id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 })],
            None,
            later,
        );
        let due = schedule.begin_sweep(later, 10).expect("it is due again");
        assert!(due.jobs[0].needs_row_read, "the row says whether it is followed");
    }

    /// A job that is closed without a poll, for example abandoned at its deadline, is not polled again.
    #[tokio::test]
    async fn closed_job_is_not_polled() {
        let now = Instant::now();
        let mut groups = watched_groups(now);
        for name in ["a", "b", "c"] {
            groups.add(opened(name), now);
        }
        groups.poll_now(PollRequest::Closed(TaskId::from_wire("a")), now);
        let later = now + Duration::from_secs(1);
        let schedule = groups.schedules.get_mut(&group()).unwrap();
        let due = schedule.begin_sweep(later, 10).unwrap().jobs;
        assert_eq!(due.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        // This job is closed while it is being polled.
        groups.poll_now(PollRequest::Closed(TaskId::from_wire("b")), later);
        let schedule = groups.schedules.get_mut(&group()).unwrap();
        let observed = |id| (id, PollResult::Observed { digest: Some(1), log_followed: false, version: 1 });
        schedule.end_sweep(due.into_iter().map(|job| observed(job.id)).collect(), None, later);
        let due = schedule.begin_sweep(later + Duration::from_secs(60), 10).unwrap().jobs;
        assert_eq!(due.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["c"]);
        schedule.end_sweep(due.into_iter().map(|job| observed(job.id)).collect(), None, later);
        // Another replica has closed the last job, and a new one was opened while the rows were read.
        let read_at = later + Duration::from_secs(60);
        schedule.add(job("d"), true, read_at, Duration::ZERO);
        schedule.retain_open(&[], read_at);
        let due = schedule.begin_sweep(read_at + Duration::from_secs(60), 10).unwrap().jobs;
        assert_eq!(due.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["d"]);
    }

    /// Polls everything that is due within `time`. Returns the number of sweeps, and when each job
    /// was polled.
    fn poll_for(
        schedule: &mut PollSchedule,
        from: Instant,
        time: Duration,
    ) -> (usize, Vec<(TaskId, Instant)>) {
        let (mut sweeps, mut polls) = (0, Vec::new());
        while let Some(now) = schedule.next_poll().filter(|at| *at <= from + time) {
            let due = schedule.begin_sweep(now, 500).expect("a poll is due");
            sweeps += 1;
            polls.extend(due.jobs.iter().map(|job| (job.id.clone(), now)));
            let observed = |version| PollResult::Observed { digest: Some(1), log_followed: false, version };
            let results = due.jobs.into_iter().map(|job| (job.id, observed(job.version))).collect();
            schedule.end_sweep(results, None, now);
        }
        (sweeps, polls)
    }

    /// Many old jobs are polled together, and no other job is polled more often because of them.
    #[tokio::test]
    async fn old_jobs_share_polls_without_delay() {
        let started = Instant::now();
        let mut schedule = PollSchedule::new(None, INTERVALS, false, started);
        let age = Duration::from_secs(86_400);
        for n in 0..5_000 {
            schedule.add(job(&format!("old {n}")), false, started, age);
        }
        let settled = started + Duration::from_secs(120);
        poll_for(&mut schedule, started, Duration::from_secs(120));
        // A job that starts now waits a tenth of its age each time, and gains nothing from sharing
        // sweeps with the others.
        schedule.add(job("new"), false, settled, Duration::ZERO);
        let (sweeps, polls) = poll_for(&mut schedule, settled, Duration::from_secs(60));
        let of_new: Vec<_> = polls.iter().filter(|(id, _)| id.as_str() == "new").map(|(_, at)| *at).collect();
        let mut alone = PollSchedule::new(None, INTERVALS, false, settled);
        alone.add(job("new"), false, settled, Duration::ZERO);
        let (_, polls_alone) = poll_for(&mut alone, settled, Duration::from_secs(60));
        assert!(
            of_new.len() <= polls_alone.len() * 10 / 9 + 1,
            "{} polls of it, {} when alone",
            of_new.len(),
            polls_alone.len()
        );
        assert!(sweeps <= of_new.len() + 30, "{sweeps} sweeps, {} for the new job", of_new.len());
        assert!(
            (9_000..=13_000).contains(&polls.len()),
            "each is polled about twice a minute: {}",
            polls.len()
        );
    }
}
