//! The poll schedule of one group: when to poll each of its open jobs. A sweep is one call that polls many of
//! them. It is in memory only, and its loss costs one extra poll of each job. It must not do I/O or read a
//! clock: callers pass the time.

mod digest;
mod poll;
mod suspects;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::{JobHandle, Subject, Timestamp};
use tokio::time::Instant;

use digest::RUNNING_DIGEST;

pub(super) use digest::digest;
pub(super) use poll::{DueBatch, DueJob, PollResult, SweepFault};

use crate::tasks::pace::PollIntervals;
use crate::tasks::store::OpenJob;
use crate::tasks::task::{INITIAL_WATCH, TaskId};
use suspects::Suspect;

/// Shortest poll interval while hints are relied on: then a poll only finds changes whose hint was lost. The
/// configured bounds ([`PollIntervals`]) still apply.
pub(super) const HINTED_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum poll interval of a job whose log is followed, however long it has run, unless the shortest
/// interval of the config is longer.
const FOLLOWED_INTERVAL: Duration = Duration::from_secs(1);
/// How often the store is read for the jobs that clients watch, because another process may have
/// received their requests.
pub(super) const WATCH_READ_INTERVAL: Duration = Duration::from_secs(5);
/// How long the usual duration of a tool's jobs is cached.
const TYPICAL_TTL: Duration = Duration::from_secs(10);
/// Added to the doubt about hints for a change without a hint. A change with a hint subtracts 1.
const MISSED_HINT_DOUBT: u32 = 4;
/// Hints are not relied on at this doubt or above.
const DOUBT_LIMIT: u32 = 8;

/// A poll may be early by its interval divided by this, to save a separate sweep. The intervals of
/// jobs that started together are spread as widely.
const SLACK_DIVISOR: u32 = 10;

/// The poll schedule of the open jobs of one group.
pub(super) struct PollSchedule {
    /// The identity of the backend of these jobs; `None` while it is unknown.
    pub(super) identity: Option<String>,
    intervals: PollIntervals,
    /// How unreliable hints have been; `None` if the engine gives none.
    hint_doubt: Option<u32>,
    jobs: HashMap<TaskId, ScheduledJob>,
    by_handle: HashMap<JobHandle, TaskId>,
    queue: DueQueue,
    /// The same for jobs that are polled one by one, because the adapter crashed or hung while it
    /// polled them.
    solo_queue: DueQueue,
    /// The job that is being polled alone.
    polling_alone: Option<TaskId>,
    /// Jobs of sweeps of several jobs that crashed or hung, with the number of such sweeps in a row. A sweep
    /// without a fault clears its jobs.
    undecided: HashMap<TaskId, u32>,
    /// Maximum number of jobs in a sweep. After a sweep that crashed or hung it is half of that sweep. After
    /// a sweep without a fault it doubles, if that sweep cleared an undecided job or there is none.
    max_sweep: usize,
    /// When the adapter last answered for a job.
    last_answer: Option<Instant>,
    /// Usual duration of each tool's jobs, and when it was read.
    typical: HashMap<String, (Instant, Option<Duration>)>,
    /// The jobs that were watched, or whose logs were followed, when the store was last read.
    watched: HashSet<TaskId>,
    /// True while a sweep is in progress. Separate polls do not count.
    sweeping: bool,
    /// No poll of the group before this time, by request of the engine.
    paused_until: Option<Instant>,
    /// When the group's rows were last read.
    pub(super) read_at: Timestamp,
    /// When newly opened rows are read again, even without a hint.
    pub(super) next_read: Instant,
    /// When all rows are read again, whatever was read before.
    pub(super) next_full_read: Instant,
    /// When the store is next read for the jobs that clients watch.
    pub(super) next_watch_read: Instant,
    /// True if a poll failed in the last sweep. A crash or timeout of a single job is not counted.
    pub(super) is_failing: bool,
}

/// When each job is polled next.
type DueQueue = BTreeSet<(Instant, TaskId)>;

struct ScheduledJob {
    tool: String,
    handle: JobHandle,
    /// When the job was added to the schedule.
    added: Instant,
    started: Instant,
    /// Start of the age that sets the poll interval: the start of the job, or its last change, hint or
    /// request for a poll.
    since: Instant,
    /// True after the first change of the job, hint, or request for a poll. From then on, its tool's usual
    /// duration does not predict its next change.
    has_changed: bool,
    next: Instant,
    /// The interval that was planned at the last poll. It limits how early the next poll may be
    /// ([`SLACK_DIVISOR`]).
    wait: Duration,
    /// Digest of the last observation, which the row shows; `None` if it is not known what the row shows.
    digest: Option<u64>,
    /// The newest version of the row that this process knows.
    version: u64,
    /// True if the row recorded nothing but that the job runs when the job was added, and no other write is
    /// known. Only used while `digest` is `None`.
    blank: bool,
    log_followed: bool,
    /// Number of failed polls in a row.
    failures: u32,
    /// Set once the adapter crashed or hung while it polled this job alone, until it answers for the job.
    suspect: Option<Suspect>,
    /// True if a hint or a request announced a change since the last poll.
    hinted: bool,
    /// True if a hint or a request arrived during a poll, so that the job must be polled again at once.
    poll_again: bool,
    /// True if the job was closed while it was being polled.
    closed: bool,
}

impl ScheduledJob {
    /// Records the version of the row that was read. If it is newer than the known one, another writer wrote
    /// it, and the content of the row is no longer known.
    fn record_version(&mut self, version: u64) {
        if version > self.version {
            self.version = version;
            self.digest = None;
            self.blank = false;
        }
    }
}

impl PollSchedule {
    pub(super) fn new(identity: Option<String>, intervals: PollIntervals, hints: bool, now: Instant) -> Self {
        Self {
            identity,
            intervals,
            hint_doubt: hints.then_some(0),
            jobs: HashMap::new(),
            by_handle: HashMap::new(),
            queue: BTreeSet::new(),
            solo_queue: BTreeSet::new(),
            polling_alone: None,
            undecided: HashMap::new(),
            max_sweep: usize::MAX,
            last_answer: None,
            typical: HashMap::new(),
            watched: HashSet::new(),
            sweeping: false,
            paused_until: None,
            read_at: Timestamp::from_millis(0),
            next_read: now,
            next_full_read: now,
            next_watch_read: now,
            is_failing: false,
        }
    }

    /// Adds a job of this age. If the job is known, another writer may have changed its row: after a newer
    /// version, the row is read with the next poll, whatever that returns. A job that is older than the
    /// shortest interval (it was taken over) is polled at once, and a newer one after that interval. With
    /// `blank`, the row records nothing but that the job runs, so a poll with the same result writes nothing.
    pub(super) fn add(&mut self, job: OpenJob, blank: bool, now: Instant, age: Duration) {
        if let Some(known) = self.jobs.get_mut(&job.id) {
            return known.record_version(job.version);
        }
        let shortest = self.current_intervals().shortest;
        let next = if age > shortest { now } else { now + shortest };
        let started = now.checked_sub(age).unwrap_or(now);
        let entry = ScheduledJob {
            tool: job.tool,
            handle: job.handle.clone(),
            added: now,
            started,
            since: started,
            has_changed: false,
            next,
            wait: Duration::ZERO,
            digest: None,
            version: job.version,
            blank,
            log_followed: false,
            failures: 0,
            suspect: None,
            hinted: false,
            poll_again: false,
            closed: false,
        };
        self.by_handle.insert(job.handle, job.id.clone());
        self.queue.insert((next, job.id.clone()));
        self.jobs.insert(job.id, entry);
    }

    /// Returns when the next poll is due; `None` if no further poll can begin now.
    pub(super) fn next_poll(&self) -> Option<Instant> {
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
    pub(super) fn begin_sweep(&mut self, now: Instant, limit: usize) -> Option<DueBatch> {
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
                digest: entry.digest.or(entry.blank.then_some(RUNNING_DIGEST)),
                version: entry.version,
                last_failed: entry.failures > 0,
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
        let may_be_early =
            |at: Instant, id| self.jobs.get(id).is_none_or(|entry| at <= now + entry.wait / SLACK_DIVISOR);
        let entries = self.queue.iter().take_while(|(at, _)| *at <= latest);
        entries.filter(|(at, id)| *at <= soon || may_be_early(*at, id)).take(limit).cloned().collect()
    }

    /// Returns the tools of these jobs, each once, whose usual duration was not read recently.
    pub(super) fn tools_to_read<'a>(
        &self,
        ids: impl Iterator<Item = &'a TaskId>,
        now: Instant,
    ) -> Vec<String> {
        let is_old = |tool: &&str| {
            self.typical.get(*tool).is_none_or(|(read_at, _)| now.duration_since(*read_at) >= TYPICAL_TTL)
        };
        let of_jobs = ids.filter_map(|id| self.jobs.get(id)).map(|entry| entry.tool.as_str());
        let tools: BTreeSet<&str> = of_jobs.filter(is_old).collect();
        tools.into_iter().map(str::to_owned).collect()
    }

    /// Caches the usual duration of a tool's jobs.
    pub(super) fn set_typical(&mut self, tool: String, typical: Option<Duration>, now: Instant) {
        self.typical.insert(tool, (now, typical));
    }

    /// Sets the jobs that clients watch. Newly watched jobs are polled now.
    pub(super) fn set_watched(&mut self, watched: HashSet<TaskId>, now: Instant) {
        self.next_watch_read = now + WATCH_READ_INTERVAL;
        for id in watched.difference(&self.watched) {
            if let Some(entry) = self.jobs.get_mut(id) {
                Self::bring_forward(&mut self.queue, entry, id, now);
            }
        }
        self.watched = watched;
    }

    /// Applies the results of a sweep or of a separate poll, and schedules the next polls of its jobs.
    pub(super) fn end_sweep(
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
            if matches!(result, PollResult::Observed { .. } | PollResult::Ended) {
                self.last_answer = Some(now);
            }
            match result {
                PollResult::Observed { .. }
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

    /// Moves the next poll of a job to now, and restarts its age, because the job has changed or is about to.
    /// A job that is polled alone keeps its due time.
    pub(super) fn poll_now(&mut self, id: &TaskId, now: Instant) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.since = now;
            entry.has_changed = true;
            entry.hinted = true;
            Self::bring_forward(&mut self.queue, entry, id, now);
        }
    }

    /// Moves the next poll of a job to now. A job that is being polled is not in the schedule, and
    /// is polled again.
    fn bring_forward(queue: &mut DueQueue, entry: &mut ScheduledJob, id: &TaskId, now: Instant) {
        if entry.suspect.is_some() {
            // It keeps its due time: several crashes in quick succession prove nothing.
        } else if queue.remove(&(entry.next, id.clone())) {
            entry.next = now;
            queue.insert((now, id.clone()));
        } else {
            entry.poll_again = true;
        }
    }

    /// Moves the next poll to now, by the engine's name for the job. Returns false if the job is
    /// not in this schedule.
    pub(super) fn apply_hint(&mut self, handle: &JobHandle, now: Instant) -> bool {
        let id = self.by_handle.get(handle).cloned();
        id.inspect(|id| self.poll_now(id, now)).is_some()
    }

    /// Makes every job due now, because the backend was replaced. Its hints are relied on until one is
    /// missed, and no job is polled alone.
    pub(super) fn engine_replaced(&mut self, hints: bool, now: Instant) {
        self.hint_doubt = hints.then_some(0);
        self.paused_until = None;
        // Another adapter may succeed where the previous one crashed.
        for entry in std::mem::take(&mut self.solo_queue) {
            self.queue.insert(entry);
        }
        self.jobs.values_mut().for_each(|entry| entry.suspect = None);
        let ids: Vec<TaskId> = self.jobs.keys().cloned().collect();
        ids.iter().for_each(|id| self.poll_now(id, now));
    }

    /// Returns the poll intervals: the shortest one is longer while hints are relied on.
    fn current_intervals(&self) -> PollIntervals {
        match self.hint_doubt {
            Some(doubt) if doubt < DOUBT_LIMIT => PollIntervals {
                shortest: HINTED_INTERVAL.min(self.intervals.longest).max(self.intervals.shortest),
                ..self.intervals
            },
            _ => self.intervals,
        }
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
        entry.suspect = None;
        entry.hinted = entry.poll_again;
        let typical =
            if entry.has_changed { None } else { self.typical.get(&entry.tool).and_then(|(_, took)| *took) };
        let wait = intervals.next_poll(now.duration_since(entry.since), typical, &entry.handle);
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
    }

    /// Schedules the next poll after a failed one: the interval doubles with each failure in a row, up to a
    /// minute. For a job that is polled alone it is at least the longest interval of the config.
    fn schedule_retry(&mut self, id: TaskId, version: u64, now: Instant) {
        self.record_failure(&id, version);
        let Some(entry) = self.jobs.get(&id) else { return };
        let doubled =
            self.intervals.shortest.max(Duration::from_millis(250)) * 2u32.pow(entry.failures.min(10));
        let spread = self.intervals.next_poll(Duration::ZERO, None, &entry.handle);
        let min_wait = entry.suspect.map_or(Duration::ZERO, |_| self.intervals.longest);
        self.schedule_poll(id, now, doubled.min(Duration::from_secs(60)).max(min_wait) + spread);
    }

    /// Schedules the next poll of a job that has just been polled, so that it is in no queue.
    fn schedule_poll(&mut self, id: TaskId, now: Instant, wait: Duration) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            let queue = if entry.suspect.is_some() { &mut self.solo_queue } else { &mut self.queue };
            Self::enqueue(queue, entry, id, now, wait);
        }
    }

    fn enqueue(queue: &mut DueQueue, entry: &mut ScheduledJob, id: TaskId, now: Instant, wait: Duration) {
        entry.wait = wait;
        entry.next = if std::mem::take(&mut entry.poll_again) { now } else { now + wait };
        queue.insert((entry.next, id));
    }

    /// Drops the jobs that are not in `open`, which lists all jobs that were open at `read_at`: another
    /// replica, or an action of this one, has closed them. Jobs that were added since `read_at` stay.
    pub(super) fn retain_open(&mut self, open: &[OpenJob], read_at: Instant) {
        let open: HashSet<&TaskId> = open.iter().map(|job| &job.id).collect();
        let is_closed = |(id, entry): &(&TaskId, &ScheduledJob)| !open.contains(id) && entry.added < read_at;
        let closed: Vec<TaskId> = self.jobs.iter().filter(is_closed).map(|(id, _)| id.clone()).collect();
        closed.iter().for_each(|id| self.close(id));
    }

    /// Drops a job that must not be polled any more. If it is being polled, it is dropped after that poll.
    pub(super) fn close(&mut self, id: &TaskId) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let key = (entry.next, id.clone());
        if self.queue.contains(&key) || self.solo_queue.contains(&key) {
            self.remove(id);
        } else {
            entry.closed = true;
        }
    }

    fn remove(&mut self, id: &TaskId) {
        if let Some(entry) = self.jobs.remove(id) {
            self.queue.remove(&(entry.next, id.clone()));
            self.solo_queue.remove(&(entry.next, id.clone()));
            self.by_handle.remove(&entry.handle);
            self.undecided.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
