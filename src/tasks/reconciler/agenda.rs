//! The agenda of one group: which open job is to be looked at when. Memory only, and pure but for the instants that it
//! is handed; losing it costs one extra look at each job.

mod digest;
mod poll;
mod suspects;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::{JobHandle, Subject, Timestamp};
use tokio::time::Instant;

use digest::BLANK;

pub(super) use digest::digest;
pub(super) use poll::{Due, Fault, Seen, Sighting};

use crate::tasks::pace::Pace;
use crate::tasks::store::OpenJob;
use crate::tasks::task::{NEWLY_STARTED, TaskId};
use suspects::Suspect;

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

/// When to look at the open jobs of one group.
pub(super) struct Agenda {
    /// The identity of the backend whose jobs these are; `None` while that is not known.
    pub(super) identity: Option<String>,
    pace: Pace,
    /// How little hints are to be relied on; `None` if there are none.
    doubt: Option<u32>,
    jobs: HashMap<TaskId, Entry>,
    by_handle: HashMap<JobHandle, TaskId>,
    order: Order,
    /// The same for jobs that are looked at one by one, since the adapter crashed or hung over each of them.
    alone: Order,
    /// The one of them that is being looked at.
    looking_alone: Option<TaskId>,
    /// Jobs of sweeps that crashed or hung, and of how many in a row, until a sweep without the faulty one clears them.
    undecided: HashMap<TaskId, u32>,
    /// The most jobs in a sweep: halved where the adapter crashes or hangs over a sweep, until the job is found that does it,
    /// and doubled where it answers.
    most: usize,
    /// When it last answered for a job.
    answered: Option<Instant>,
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
    /// When it was put on the agenda.
    added: Instant,
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
    /// Set once the adapter crashed or hung over this job alone, until it answers for it.
    suspect: Option<Suspect>,
    /// True if somebody said that the job changed, or will, since it was last seen.
    prompted: bool,
    /// True if that was said while it was being looked at, so that it must be looked at again.
    again: bool,
    /// True if the job was closed while it was being polled.
    closed: bool,
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

impl Agenda {
    pub(super) fn new(identity: Option<String>, pace: Pace, hints: bool, now: Instant) -> Self {
        Self {
            identity,
            pace,
            doubt: hints.then_some(0),
            jobs: HashMap::new(),
            by_handle: HashMap::new(),
            order: BTreeSet::new(),
            alone: BTreeSet::new(),
            looking_alone: None,
            undecided: HashMap::new(),
            most: usize::MAX,
            answered: None,
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
            added: now,
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
            suspect: None,
            prompted: false,
            again: false,
            closed: false,
        };
        self.by_handle.insert(job.handle, job.id.clone());
        self.order.insert((next, job.id.clone()));
        self.jobs.insert(job.id, entry);
    }

    /// The next moment at which a look is due; none while all that can be under way is.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_of_many().into_iter().chain(self.next_alone()).min()
    }

    /// The next moment at which a sweep is due; none while one is under way.
    fn next_of_many(&self) -> Option<Instant> {
        if self.sweeping { None } else { self.first_in(&self.order) }
    }

    /// The same for a job that is looked at alone.
    fn next_alone(&self) -> Option<Instant> {
        if self.looking_alone.is_some() { None } else { self.first_in(&self.alone) }
    }

    fn first_in(&self, order: &Order) -> Option<Instant> {
        let first = order.first().map(|(at, _)| *at)?;
        Some(self.paused_until.map_or(first, |until| first.max(until)))
    }

    /// Takes up to `most` jobs that are due, if no sweep is under way; with them those that would be due a moment later, by
    /// the measure of how long they wait, so that many jobs make few sweeps. One that is due to be looked at alone goes first,
    /// and beside a sweep that is under way.
    pub(super) fn begin_sweep(&mut self, now: Instant, most: usize) -> Option<Due> {
        if let Some(first) = self.next_alone().filter(|at| *at <= now)
            && let Some((_, id)) = self.alone.pop_first()
        {
            self.looking_alone = Some(id.clone());
            return Some(self.due([id], first, now));
        }
        let first = self.next_of_many().filter(|at| *at <= now)?;
        let places = self.due_soon(now, most.min(self.most));
        for place in &places {
            self.order.remove(place);
        }
        let due = self.due(places.into_iter().map(|(_, id)| id), first, now);
        self.sweeping = !due.jobs.is_empty();
        self.sweeping.then_some(due)
    }

    /// What is to be known of some jobs, of which the first is due since a moment, to look at them.
    fn due(&self, ids: impl IntoIterator<Item = TaskId>, first: Instant, now: Instant) -> Due {
        let late = now.saturating_duration_since(first);
        let mut due = Due { subjects: Vec::new(), jobs: Vec::new(), late };
        for id in ids {
            let Some(entry) = self.jobs.get(&id) else { continue };
            let wanted = self.wanted.contains(&id);
            let age = now.duration_since(entry.started);
            let watched = wanted || entry.log_followed || age < NEWLY_STARTED;
            due.subjects.push(Subject { handle: entry.handle.clone(), watched, age });
            due.jobs.push(Sighting {
                digest: entry.digest.or(entry.blank.then_some(BLANK)),
                version: entry.version,
                troubled: entry.failures > 0,
                ask_of_log: entry.log_followed || entry.prompted || wanted,
                alone: entry.suspect.is_some(),
                last_crash: entry.suspect.and_then(|suspect| self.last_crash(suspect, now)),
                id,
            });
        }
        due
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
        match (&looks[..], &self.looking_alone) {
            ([(id, _)], Some(alone)) if id == alone => self.looking_alone = None,
            _ => {
                self.sweeping = false;
                self.paused_until = None;
                self.judge_sweep(&looks);
            }
        }
        self.paused_until = pause.map(|pause| now + pause).max(self.paused_until);
        let is_one = looks.len() == 1;
        for (id, seen) in looks {
            let is_closed = self.jobs.get(&id).is_some_and(|entry| entry.closed);
            if matches!(seen, Seen::Observed { .. } | Seen::Ended) {
                self.answered = Some(now);
            }
            match seen {
                Seen::Observed { .. }
                | Seen::Failed { .. }
                | Seen::Undecided
                | Seen::Overtaken { .. }
                | Seen::Unwritten
                    if is_closed =>
                {
                    self.forget(&id);
                }
                Seen::RowGone => self.forget(&id),
                Seen::Ended => {
                    self.changed(&id);
                    self.forget(&id);
                }
                Seen::Observed { digest, log_followed, version } => {
                    self.saw(id, digest, log_followed, version, now);
                }
                Seen::Failed { version, fault: Some(fault), .. } if is_one => {
                    self.faulted(id, version, fault, now);
                }
                Seen::Failed { version, fault: Some(_), .. } => {
                    self.troubled(&id, version);
                    self.part(&id, now);
                    self.plan(id, now, Duration::ZERO);
                }
                Seen::Failed { version, .. } => self.failed(id, version, now),
                Seen::Undecided => {
                    self.part(&id, now);
                    self.plan(id, now, Duration::ZERO);
                }
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
        if entry.suspect.is_some() {
            // It is looked at when it is due: one crash after the other proves nothing.
        } else if order.remove(&(entry.next, id.clone())) {
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
        // Another adapter may do better with what the one before crashed over.
        for place in std::mem::take(&mut self.alone) {
            self.order.insert(place);
        }
        self.jobs.values_mut().for_each(|entry| entry.suspect = None);
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

    fn saw(&mut self, id: TaskId, digest: Option<u64>, log_followed: bool, version: u64, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let is_news = entry.digest.zip(digest).is_some_and(|(before, now)| before != now);
        if is_news {
            entry.since = now;
            entry.stirred = true;
            self.changed(&id);
        }
        let pace = self.pace();
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if version >= entry.version {
            entry.version = version;
            entry.digest = digest;
        }
        entry.log_followed = log_followed;
        entry.failures = 0;
        entry.suspect = None;
        entry.prompted = entry.again;
        let typical =
            if entry.stirred { None } else { self.typical.get(&entry.tool).and_then(|(_, took)| *took) };
        let wait = pace.next_look(now.duration_since(entry.since), typical, &entry.handle);
        let wait = if log_followed { wait.min(pace.quickest.max(FOLLOWED)) } else { wait };
        Self::plan_one(&mut self.order, entry, id, now, wait);
    }

    /// Notes that a look failed, and that the row says so.
    fn troubled(&mut self, id: &TaskId, version: u64) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        entry.failures = entry.failures.saturating_add(1);
        entry.version = entry.version.max(version);
        entry.digest = None;
        entry.blank = false;
    }

    fn failed(&mut self, id: TaskId, version: u64, now: Instant) {
        self.troubled(&id, version);
        let Some(entry) = self.jobs.get(&id) else { return };
        let doubled = self.pace.quickest.max(Duration::from_millis(250)) * 2u32.pow(entry.failures.min(10));
        let spread = self.pace.next_look(Duration::ZERO, None, &entry.handle);
        let least = entry.suspect.map_or(Duration::ZERO, |_| self.pace.slowest);
        self.plan(id, now, doubled.min(Duration::from_secs(60)).max(least) + spread);
    }

    /// Plans the next look at a job that is not in the order.
    fn plan(&mut self, id: TaskId, now: Instant, wait: Duration) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            let order = if entry.suspect.is_some() { &mut self.alone } else { &mut self.order };
            Self::plan_one(order, entry, id, now, wait);
        }
    }

    fn plan_one(order: &mut Order, entry: &mut Entry, id: TaskId, now: Instant, wait: Duration) {
        entry.wait = wait;
        entry.next = if std::mem::take(&mut entry.again) { now } else { now + wait };
        order.insert((entry.next, id));
    }

    /// Drops the jobs that are not among these, which are all that were open at `read_at`: another replica, or an act of this
    /// one, has closed them.
    pub(super) fn keep_only(&mut self, open: &[OpenJob], read_at: Instant) {
        let open: HashSet<&TaskId> = open.iter().map(|job| &job.id).collect();
        let is_closed = |(id, entry): &(&TaskId, &Entry)| !open.contains(id) && entry.added < read_at;
        let closed: Vec<TaskId> = self.jobs.iter().filter(is_closed).map(|(id, _)| id.clone()).collect();
        closed.iter().for_each(|id| self.close(id));
    }

    /// Drops a job that is not to be polled any more; one that is being polled, after that.
    pub(super) fn close(&mut self, id: &TaskId) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let place = (entry.next, id.clone());
        if self.order.contains(&place) || self.alone.contains(&place) {
            self.forget(id);
        } else {
            entry.closed = true;
        }
    }

    fn forget(&mut self, id: &TaskId) {
        if let Some(entry) = self.jobs.remove(id) {
            self.order.remove(&(entry.next, id.clone()));
            self.alone.remove(&(entry.next, id.clone()));
            self.by_handle.remove(&entry.handle);
            self.undecided.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
