//! The agenda of one group: which open job is to be looked at when. Memory only, and pure but for the instants that it
//! is handed; losing it costs one extra look at each job.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hasher;
use std::io;
use std::time::Duration;

use taskbridge_sdk::{ErrorKind, JobHandle, JobState, Observation, Subject, Timestamp};
use tokio::time::Instant;

use crate::tasks::pace::Pace;
use crate::tasks::store::OpenJob;
use crate::tasks::task::{Job, NEWLY_STARTED, Task, TaskId};

/// Where the engine says when a job changes, a look is only for hints that were lost, and there is no hurry.
pub(super) const HINTED: Duration = Duration::from_millis(250);
/// A job whose log somebody follows is looked at this often, however long it has run.
const FOLLOWED: Duration = Duration::from_secs(1);
/// How often the store is asked of which jobs somebody wants to know more: another process may have been told.
pub(super) const ASK_WHO_WATCHES: Duration = Duration::from_secs(5);
/// How long it is believed how long a tool's jobs usually take, before that is read again.
const TYPICAL_FOR: Duration = Duration::from_secs(10);
/// What a change that no hint told of adds to the doubt in them; a change that one told of takes 1 from it.
const MISSED: u32 = 4;
/// With this doubt, hints are not relied on.
const DOUBTED: u32 = 8;

/// A look may be early by the wait for it divided by this, where it saves a sweep of its own. The waits of jobs that were
/// started together are spread as widely.
const SLACK: u32 = 10;

/// The digest of an observation that says only that the job runs.
const BLANK: u64 = 0x626c_616e_6b00;

/// When to look at the open jobs of one group.
pub(super) struct Agenda {
    pace: Pace,
    /// How little hints are to be relied on; `None` if there are none.
    doubt: Option<u32>,
    jobs: HashMap<TaskId, Entry>,
    by_handle: HashMap<JobHandle, TaskId>,
    order: Order,
    /// How long jobs of each tool usually take, and when that was read.
    typical: HashMap<String, (Instant, Option<Duration>)>,
    /// The jobs that somebody watched, or whose logs somebody followed, when the store was last asked.
    wanted: HashSet<TaskId>,
    sweeping: bool,
    paused_until: Option<Instant>,
    /// Up to when the group's rows were read.
    pub(super) read_at: Timestamp,
    /// When they are read again, whatever anybody says.
    pub(super) read_again: Instant,
    /// When they are read from the beginning, whatever was read before.
    pub(super) read_whole_again: Instant,
    /// When the store is asked again of which jobs somebody wants to know more.
    pub(super) ask_who_watches: Instant,
    /// True while the last sweep met a failing engine.
    pub(super) in_trouble: bool,
}

/// When each job is looked at next.
type Order = BTreeSet<(Instant, TaskId)>;

struct Entry {
    tool: String,
    handle: JobHandle,
    started: Instant,
    /// Where the job's age is counted from: its start, or when something last happened to it.
    since: Instant,
    /// True once something happened to the job, so that its tool's usual duration tells nothing about its next event.
    stirred: bool,
    next: Instant,
    /// How long after the last look that is; a tenth of it matters little either way.
    wait: Duration,
    digest: Option<u64>,
    /// The newest version of the row that this process knows of.
    version: u64,
    /// True if nothing was seen yet, and the row says that the job runs and nothing more.
    blank: bool,
    log_followed: bool,
    failures: u32,
    /// True if somebody said that the job changed, or will, since it was last seen.
    prompted: bool,
    /// True if that was said while it was being looked at, so that it must be looked at again.
    again: bool,
}

impl Entry {
    /// Notes that the row has this version: if that is news, it is not known any more what the row says.
    fn written_by_others(&mut self, version: u64) {
        if version > self.version {
            self.version = version;
            self.digest = None;
            self.blank = false;
        }
    }
}

/// Digests what is written to it.
struct Digest(DefaultHasher);

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Jobs that are due for a look.
pub(super) struct Due {
    /// What the engine is asked for.
    pub(super) subjects: Vec<Subject>,
    /// The same jobs, in the same order.
    pub(super) jobs: Vec<Sighting>,
    /// How long the first of them has been due.
    pub(super) late: Duration,
}

/// A job that is due for a look.
pub(super) struct Sighting {
    pub(super) id: TaskId,
    /// What was last seen and written.
    pub(super) digest: Option<u64>,
    /// The version of the row that was known before the look.
    pub(super) version: u64,
    /// True if the last look failed, and the row says so.
    pub(super) troubled: bool,
    /// True if its row is to be asked whether somebody follows the log.
    pub(super) ask_of_log: bool,
}

/// What a look came to.
pub(super) enum Seen {
    /// The job was seen, and the row says what was seen.
    Observed { digest: u64, log_followed: bool, version: u64 },
    /// The job has ended, and the row says so.
    Ended,
    /// The engine failed, and the row says so.
    Failed { kind: ErrorKind, version: u64 },
    /// The row could not be read or written.
    Unwritten,
    /// Somebody else has written the row since the look was begun, so that nothing was written.
    Overtaken { version: u64 },
    /// The row is gone.
    RowGone,
}

impl Seen {
    pub(super) fn failure(&self) -> Option<ErrorKind> {
        match self {
            Seen::Failed { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// The same, where this is the row that says so.
    pub(super) fn of(self, row: &Task) -> Self {
        match self {
            _ if !matches!(row.job, Job::Open { .. }) => Seen::Ended,
            Seen::Observed { digest, log_followed, .. } => {
                Seen::Observed { digest, log_followed, version: row.version }
            }
            Seen::Failed { kind, .. } => Seen::Failed { kind, version: row.version },
            seen => seen,
        }
    }
}

impl Agenda {
    pub(super) fn new(pace: Pace, hints: bool, now: Instant) -> Self {
        Self {
            pace,
            doubt: hints.then_some(0),
            jobs: HashMap::new(),
            by_handle: HashMap::new(),
            order: BTreeSet::new(),
            typical: HashMap::new(),
            wanted: HashSet::new(),
            sweeping: false,
            paused_until: None,
            read_at: Timestamp::from_millis(0),
            read_again: now,
            read_whole_again: now,
            ask_who_watches: now,
            in_trouble: false,
        }
    }

    /// Tells two observations apart.
    pub(super) fn digest(seen: &Observation) -> u64 {
        // A log that grows is no news of the job.
        let Observation { state, progress, message, since, questions, notes, log_bytes: _ } = seen;
        let nothing = progress.is_none() && message.is_none() && since.is_none();
        if nothing && *state == JobState::Running && questions.is_empty() && notes.is_empty() {
            // Most jobs say nothing most of the time.
            return BLANK;
        }
        let mut digest = Digest(DefaultHasher::new());
        serde_json::to_writer(&mut digest, &(state, progress, message, since, questions, notes))
            .expect("observations have string keys and no failing serializers");
        digest.0.finish()
    }

    /// Adds a job of this age. If it is known, somebody else may have written its row since: then the row is read after the
    /// next look, whatever that sees. One that was not seen yet is looked at after the quickest pace;
    /// one that is older than that (it was taken over) at once. `blank` says that its row tells nothing of it but that it
    /// runs: a look that sees the same has nothing to write.
    pub(super) fn add(&mut self, job: OpenJob, blank: bool, now: Instant, age: Duration) {
        if let Some(known) = self.jobs.get_mut(&job.id) {
            return known.written_by_others(job.version);
        }
        let quickest = self.pace().quickest;
        let next = if age > quickest { now } else { now + quickest };
        let started = now.checked_sub(age).unwrap_or(now);
        let entry = Entry {
            tool: job.tool,
            handle: job.handle.clone(),
            started,
            since: started,
            stirred: false,
            next,
            wait: Duration::ZERO,
            digest: None,
            version: job.version,
            blank,
            log_followed: false,
            failures: 0,
            prompted: false,
            again: false,
        };
        self.by_handle.insert(job.handle, job.id.clone());
        self.order.insert((next, job.id.clone()));
        self.jobs.insert(job.id, entry);
    }

    /// The next moment at which a look is due; none while a sweep is under way.
    pub(super) fn next_look(&self) -> Option<Instant> {
        if self.sweeping {
            return None;
        }
        let first = self.order.first().map(|(at, _)| *at)?;
        Some(self.paused_until.map_or(first, |until| first.max(until)))
    }

    /// Takes up to `most` jobs that are due, if no sweep is under way; with them those that would be due a moment later, by
    /// the measure of how long they wait, so that many jobs make few sweeps.
    pub(super) fn begin_sweep(&mut self, now: Instant, most: usize) -> Option<Due> {
        let first = self.next_look().filter(|at| *at <= now)?;
        let late = now.saturating_duration_since(first);
        let mut due = Due { subjects: Vec::new(), jobs: Vec::new(), late };
        for place in self.due_soon(now, most) {
            self.order.remove(&place);
            let (_, id) = place;
            let Some(entry) = self.jobs.get(&id) else { continue };
            let wanted = self.wanted.contains(&id);
            let watched = wanted || entry.log_followed || now.duration_since(entry.started) < NEWLY_STARTED;
            due.subjects.push(Subject { handle: entry.handle.clone(), watched });
            due.jobs.push(Sighting {
                digest: entry.digest.or(entry.blank.then_some(BLANK)),
                version: entry.version,
                troubled: entry.failures > 0,
                ask_of_log: entry.log_followed || entry.prompted || wanted,
                id,
            });
        }
        self.sweeping = !due.jobs.is_empty();
        self.sweeping.then_some(due)
    }

    /// Up to `most` places in the order of jobs that are due, or would be before long.
    fn due_soon(&self, now: Instant, most: usize) -> Vec<(Instant, TaskId)> {
        let pace = self.pace();
        let soon = now + pace.quickest / 4;
        let latest = now + (pace.slowest / SLACK).max(pace.quickest / 4);
        let may_be_early =
            |at: Instant, id| self.jobs.get(id).is_none_or(|entry| at <= now + entry.wait / SLACK);
        let places = self.order.iter().take_while(|(at, _)| *at <= latest);
        places.filter(|(at, id)| *at <= soon || may_be_early(*at, id)).take(most).cloned().collect()
    }

    /// The tools of some jobs, each once, of which it was not read lately how long their jobs usually take.
    pub(super) fn tools_to_read<'a>(
        &self,
        ids: impl Iterator<Item = &'a TaskId>,
        now: Instant,
    ) -> Vec<String> {
        let is_old = |tool: &&str| {
            self.typical.get(*tool).is_none_or(|(read_at, _)| now.duration_since(*read_at) >= TYPICAL_FOR)
        };
        let of_jobs = ids.filter_map(|id| self.jobs.get(id)).map(|entry| entry.tool.as_str());
        let tools: BTreeSet<&str> = of_jobs.filter(is_old).collect();
        tools.into_iter().map(str::to_owned).collect()
    }

    /// Notes how long jobs of a tool usually take.
    pub(super) fn set_typical(&mut self, tool: String, typical: Option<Duration>, now: Instant) {
        self.typical.insert(tool, (now, typical));
    }

    /// Notes of which jobs somebody wants to know more. Where that is new, the job is looked at now.
    pub(super) fn set_wanted(&mut self, wanted: HashSet<TaskId>, now: Instant) {
        self.ask_who_watches = now + ASK_WHO_WATCHES;
        for id in wanted.difference(&self.wanted) {
            if let Some(entry) = self.jobs.get_mut(id) {
                Self::bring_forward(&mut self.order, entry, id, now);
            }
        }
        self.wanted = wanted;
    }

    /// Plans the next looks after a sweep.
    pub(super) fn end_sweep(&mut self, looks: Vec<(TaskId, Seen)>, pause: Option<Duration>, now: Instant) {
        self.sweeping = false;
        self.paused_until = pause.map(|pause| now + pause);
        for (id, seen) in looks {
            match seen {
                Seen::RowGone => self.forget(&id),
                Seen::Ended => {
                    self.changed(&id);
                    self.forget(&id);
                }
                Seen::Observed { digest, log_followed, version } => {
                    self.saw(id, digest, log_followed, version, now);
                }
                Seen::Failed { version, .. } => self.failed(id, version, now),
                Seen::Overtaken { version } => {
                    self.jobs.entry(id.clone()).and_modify(|entry| entry.written_by_others(version));
                    self.plan(id, now, Duration::ZERO);
                }
                Seen::Unwritten => self.plan(id, now, self.pace.slowest.min(Duration::from_secs(1))),
            }
        }
    }

    /// Moves the next look at a job to now, and counts its age anew: something happened to it.
    pub(super) fn look_now(&mut self, id: &TaskId, now: Instant) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.since = now;
            entry.stirred = true;
            entry.prompted = true;
            Self::bring_forward(&mut self.order, entry, id, now);
        }
    }

    /// Moves the next look at a job to now. A job in the sweep that is under way is not in the order: it is looked at again.
    fn bring_forward(order: &mut Order, entry: &mut Entry, id: &TaskId, now: Instant) {
        if order.remove(&(entry.next, id.clone())) {
            entry.next = now;
            order.insert((now, id.clone()));
        } else {
            entry.again = true;
        }
    }

    /// The same, by the engine's name for it. False if there is no such job here.
    pub(super) fn hinted_at(&mut self, handle: &JobHandle, now: Instant) -> bool {
        let id = self.by_handle.get(handle).cloned();
        id.inspect(|id| self.look_now(id, now)).is_some()
    }

    /// Looks at every job at once, through an engine of which nothing is known yet but whether it gives hints.
    pub(super) fn engine_replaced(&mut self, hints: bool, now: Instant) {
        self.doubt = hints.then_some(0);
        self.paused_until = None;
        let ids: Vec<TaskId> = self.jobs.keys().cloned().collect();
        ids.iter().for_each(|id| self.look_now(id, now));
    }

    /// How often to look, by how far hints can be relied on.
    fn pace(&self) -> Pace {
        match self.doubt {
            Some(doubt) if doubt < DOUBTED => {
                Pace { quickest: HINTED.min(self.pace.slowest).max(self.pace.quickest), ..self.pace }
            }
            _ => self.pace,
        }
    }

    /// A job was seen to have changed.
    fn changed(&mut self, id: &TaskId) {
        let (Some(doubt), Some(entry)) = (&mut self.doubt, self.jobs.get(id)) else { return };
        *doubt = if entry.prompted { doubt.saturating_sub(1) } else { (*doubt + MISSED).min(2 * DOUBTED) };
    }

    fn saw(&mut self, id: TaskId, digest: u64, log_followed: bool, version: u64, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let is_news = entry.digest.is_some_and(|before| before != digest);
        if is_news {
            entry.since = now;
            entry.stirred = true;
            self.changed(&id);
        }
        let pace = self.pace();
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if version >= entry.version {
            entry.version = version;
            entry.digest = Some(digest);
        }
        entry.log_followed = log_followed;
        entry.failures = 0;
        entry.prompted = entry.again;
        let typical =
            if entry.stirred { None } else { self.typical.get(&entry.tool).and_then(|(_, took)| *took) };
        let wait = pace.next_look(now.duration_since(entry.since), typical, &entry.handle);
        let wait = if log_followed { wait.min(pace.quickest.max(FOLLOWED)) } else { wait };
        Self::plan_one(&mut self.order, entry, id, now, wait);
    }

    fn failed(&mut self, id: TaskId, version: u64, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.failures = entry.failures.saturating_add(1);
        entry.version = entry.version.max(version);
        entry.digest = None;
        entry.blank = false;
        let doubled = self.pace.quickest.max(Duration::from_millis(250)) * 2u32.pow(entry.failures.min(10));
        let spread = self.pace.next_look(Duration::ZERO, None, &entry.handle);
        self.plan(id, now, doubled.min(Duration::from_secs(60)) + spread);
    }

    /// Plans the next look at a job that is not in the order.
    fn plan(&mut self, id: TaskId, now: Instant, wait: Duration) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            Self::plan_one(&mut self.order, entry, id, now, wait);
        }
    }

    fn plan_one(order: &mut Order, entry: &mut Entry, id: TaskId, now: Instant, wait: Duration) {
        entry.wait = wait;
        entry.next = if std::mem::take(&mut entry.again) { now } else { now + wait };
        order.insert((entry.next, id));
    }

    fn forget(&mut self, id: &TaskId) {
        if let Some(entry) = self.jobs.remove(id) {
            self.order.remove(&(entry.next, id.clone()));
            self.by_handle.remove(&entry.handle);
        }
    }
}
