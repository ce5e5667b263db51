//! The poll schedule of one group: when to poll each of its open jobs. A sweep is one call that polls many of
//! them. It is in memory only, and its loss costs one extra poll of each job. It must not do I/O or read a
//! clock: callers pass the time.

mod digest;
mod poll;
mod results;
mod suspects;
mod sweep;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::{JobHandle, JobKey, Timestamp};
use tokio::time::Instant;

pub(super) use digest::digest;
pub(super) use poll::{DueBatch, DueJob, PollResult, SweepFault};

use crate::tasks::pace::PollIntervals;
use crate::tasks::pace::usual::UsualDuration;
use crate::tasks::store::OpenJob;
use crate::tasks::task::TaskId;
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
const USUAL_DURATION_TTL: Duration = Duration::from_secs(10);
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
    /// The jobs that this process opened: the store does not list keys.
    by_key: HashMap<JobKey, TaskId>,
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
    usual_durations: HashMap<String, (Instant, Option<UsualDuration>)>,
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
    /// The engine's name for the job before it was renamed.
    old_handle: Option<JobHandle>,
    /// Our key of the job, if this process opened it.
    key: Option<JobKey>,
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
    /// Number of polls in a row that failed or did not find the job.
    failures: u32,
    /// True if the last poll did not find the job.
    missing: bool,
    /// No poll before this time, by request of the engine, unless a hint announces a change.
    not_before: Option<Instant>,
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
            by_key: HashMap::new(),
            queue: BTreeSet::new(),
            solo_queue: BTreeSet::new(),
            polling_alone: None,
            undecided: HashMap::new(),
            max_sweep: usize::MAX,
            last_answer: None,
            usual_durations: HashMap::new(),
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
            if known.handle != job.handle && known.version <= job.version {
                self.by_handle.insert(job.handle.clone(), job.id.clone());
                // Hints may go on naming the old handle.
                let before_last = known.old_handle.replace(std::mem::replace(&mut known.handle, job.handle));
                if let Some(handle) = before_last {
                    self.by_handle.remove(&handle);
                }
            }
            return known.record_version(job.version);
        }
        let shortest = self.current_intervals().shortest;
        let next = if age > shortest { now } else { now + shortest };
        let started = now.checked_sub(age).unwrap_or(now);
        let entry = ScheduledJob {
            tool: job.tool,
            handle: job.handle.clone(),
            old_handle: None,
            key: None,
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
            missing: false,
            not_before: None,
            suspect: None,
            hinted: false,
            poll_again: false,
            closed: false,
        };
        self.by_handle.insert(job.handle, job.id.clone());
        self.queue.insert((next, job.id.clone()));
        self.jobs.insert(job.id, entry);
    }

    /// Returns the tools of these jobs, each once, whose usual duration was not read recently.
    pub(super) fn tools_to_read<'a>(
        &self,
        ids: impl Iterator<Item = &'a TaskId>,
        now: Instant,
    ) -> Vec<String> {
        let is_old = |tool: &&str| {
            self.usual_durations
                .get(*tool)
                .is_none_or(|(read_at, _)| now.duration_since(*read_at) >= USUAL_DURATION_TTL)
        };
        let of_jobs = ids.filter_map(|id| self.jobs.get(id)).map(|entry| entry.tool.as_str());
        let tools: BTreeSet<&str> = of_jobs.filter(is_old).collect();
        tools.into_iter().map(str::to_owned).collect()
    }

    /// Caches the usual duration of a tool's jobs.
    pub(super) fn set_usual_duration(&mut self, tool: String, usual: Option<UsualDuration>, now: Instant) {
        self.usual_durations.insert(tool, (now, usual));
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
            entry.next = entry.not_before.map_or(now, |not_before| now.max(not_before));
            queue.insert((entry.next, id.clone()));
        } else {
            entry.poll_again = true;
        }
    }

    /// Holds a job's next polls back until this time, by request of the engine. A hint ends this.
    pub(super) fn hold_back(&mut self, id: &TaskId, until: Instant) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.not_before = Some(until);
        }
    }

    /// Returns the row of a job in this schedule, by the engine's name for the job.
    pub(super) fn task_of(&self, handle: &JobHandle) -> Option<&TaskId> {
        self.by_handle.get(handle)
    }

    /// Moves the next poll to now, by the engine's name for the job. Returns false if the job is
    /// not in this schedule.
    pub(super) fn apply_hint(&mut self, handle: &JobHandle, now: Instant) -> bool {
        let id = self.by_handle.get(handle).cloned();
        id.inspect(|id| self.apply_hint_for(id, now)).is_some()
    }

    /// Moves the next poll to now, by the key of the job. Returns false if this schedule does not know the
    /// key.
    pub(super) fn apply_key_hint(&mut self, key: &JobKey, now: Instant) -> bool {
        let id = self.by_key.get(key).cloned();
        id.inspect(|id| self.apply_hint_for(id, now)).is_some()
    }

    fn apply_hint_for(&mut self, id: &TaskId, now: Instant) {
        if let Some(entry) = self.jobs.get_mut(id) {
            // The engine has asked to wait, and now reports a change.
            entry.not_before = None;
        }
        self.poll_now(id, now);
    }

    /// Records the key of a job in this schedule, so that hints can name it.
    pub(super) fn record_key(&mut self, id: &TaskId, key: JobKey) {
        if let Some(entry) = self.jobs.get_mut(id) {
            self.by_key.insert(key.clone(), id.clone());
            entry.key = Some(key);
        }
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

    /// Schedules the next poll of a job that has just been polled, so that it is in no queue.
    fn schedule_poll(&mut self, id: TaskId, now: Instant, wait: Duration) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            let queue = if entry.suspect.is_some() { &mut self.solo_queue } else { &mut self.queue };
            Self::enqueue(queue, entry, id, now, wait);
        }
    }

    fn enqueue(queue: &mut DueQueue, entry: &mut ScheduledJob, id: TaskId, now: Instant, wait: Duration) {
        entry.wait = wait;
        let next = if std::mem::take(&mut entry.poll_again) { now } else { now + wait };
        entry.next = entry.not_before.map_or(next, |not_before| next.max(not_before));
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
            if let Some(handle) = entry.old_handle {
                self.by_handle.remove(&handle);
            }
            if let Some(key) = entry.key {
                self.by_key.remove(&key);
            }
            self.undecided.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
