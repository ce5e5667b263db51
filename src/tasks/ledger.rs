//! The one way to change a row: read, [`machine::next`], compare-and-set, tell the watchers. Both the reconciler and
//! the verbs of the service go through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{JobHandle, Timestamp};
use tokio::sync::{Notify, watch};

use super::audit::{Audit, Event as Told};
use super::history::{self, Happened, Scribe};
use super::machine::{self, Event};
use super::meter::Meter;
use super::notices::{self, Receivers};
use super::store::{Change, Group, Lease, OpenJob, Result, SlotLimit, Store, Updated};
use super::task::{Job, Task, TaskId};
use super::tools::Tools;
use super::watch::Watch;
use crate::clock::Clock;

/// The store, with all that must happen around a write.
#[derive(Clone)]
pub struct Ledger {
    /// Where the rows are.
    pub store: Arc<dyn Store>,
    /// Who wants to know.
    pub watch: Watch,
    /// The time that the machine is told: the store's ([`super::time::StoreTime`]), so that what one process writes is
    /// due when another finds it.
    pub clock: Arc<dyn Clock>,
    /// The limits of slots.
    pub tools: Arc<dyn Tools>,
    /// Who is owed notices of what.
    pub receivers: Arc<dyn Receivers>,
    /// Wakes the reconciler: a row is due, a slot is free, a job is open.
    pub nudge: Arc<Nudge>,
    /// What becomes history.
    pub scribe: Scribe,
    /// Who counts what happens.
    pub meter: Arc<dyn Meter>,
    /// Who is told what must be accounted for.
    pub audit: Arc<dyn Audit>,
}

/// What the reconciler can be woken for. All of it is hints: a lost one makes it slower by a tick.
#[derive(Debug)]
pub struct Nudge {
    /// A row became due, or will be earlier than was known.
    pub due: Notify,
    /// A slot became free, or a row began to wait for one.
    pub slot: Notify,
    /// Another process may have opened jobs, or let go of some.
    pub open: Notify,
    /// Jobs that this process opened.
    pub opened: Inbox<Opened>,
    /// Jobs that are worth a look now.
    pub looks: Inbox<Look>,
    /// Receivers are owed something new.
    pub owing: watch::Sender<()>,
    /// Until when the claiming loop sleeps anyway, in milliseconds since the epoch.
    sleeps_until: AtomicI64,
}

/// A job that this process opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The group that it is watched in.
    pub group: Group,
    /// The job.
    pub job: OpenJob,
    /// True if the row says of the job that it runs, and nothing more.
    pub blank: bool,
}

/// A job that is worth a look now.
#[derive(Clone, Debug)]
pub enum Look {
    /// By its row: it was asked to stop, or was given an answer.
    Task(TaskId),
    /// By its row: the job is not to be polled any more.
    Over(TaskId),
    /// By its backend and handle: the engine gave a hint.
    Job(String, JobHandle),
    /// The same, told to this process alone: if another watches the job, it is to be told.
    Told(String, JobHandle),
}

/// Things that wait to be fetched, all at once.
#[derive(Debug)]
pub struct Inbox<T> {
    waiting: Mutex<Vec<T>>,
    filled: Notify,
}

impl<T> Inbox<T> {
    /// Puts something in.
    pub fn put(&self, thing: T) {
        self.waiting.lock().push(thing);
        self.filled.notify_one();
    }

    /// Waits until something is there, and takes all of it. Dropped while it waits, it loses nothing.
    pub async fn take(&self) -> Vec<T> {
        loop {
            let things = std::mem::take(&mut *self.waiting.lock());
            if !things.is_empty() {
                return things;
            }
            self.filled.notified().await;
        }
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), filled: Notify::new() }
    }
}

impl Default for Nudge {
    fn default() -> Self {
        Self {
            due: Notify::new(),
            slot: Notify::new(),
            open: Notify::new(),
            opened: Inbox::default(),
            looks: Inbox::default(),
            owing: watch::Sender::new(()),
            sleeps_until: AtomicI64::new(i64::MAX),
        }
    }
}

impl Nudge {
    /// Wakes the claiming loop if it would sleep past this moment.
    pub fn due_at(&self, due: Timestamp) {
        if due.as_millis() < self.sleeps_until.load(Ordering::Relaxed) {
            self.due.notify_one();
        }
    }

    /// Notes until when the claiming loop is about to sleep.
    pub fn sleeps_until(&self, until: Timestamp) {
        self.sleeps_until.store(until.as_millis(), Ordering::Relaxed);
    }

    /// Wakes everything: another process wrote, and nobody knows what.
    pub fn all(&self) {
        self.due.notify_one();
        self.slot.notify_one();
        self.open.notify_one();
    }
}

/// How long a write that nobody waits for is put off, so that it shares a commit with one that somebody waits for.
const COMPANY: Duration = Duration::from_millis(10);

/// True if a client, or a stream that carries a question to one, has to do with the difference.
fn is_seen(before: &Task, after: &Task) -> bool {
    before.changed_at != after.changed_at
        || before.state != after.state
        || before.questions != after.questions
        || before.last_note() != after.last_note()
}

/// True if the row keeps nothing that a look at its job could have told, but that it runs.
fn is_blank(task: &Task) -> bool {
    let Task { message, progress, notes, printed, questions, trouble, .. } = task;
    let said = message.is_some() || progress.is_some() || printed.is_some() || trouble.is_some();
    !said && notes.is_empty() && questions.is_empty()
}

/// True if it is known from now on that the engine has the job. One that ends by the very answer to its start is never open.
fn began(before: &Task, after: &Task) -> bool {
    let opened = matches!(after.job, Job::Open { .. }) && !matches!(before.job, Job::Open { .. });
    opened || (before.handle().is_none() && after.handle().is_some())
}

/// How much the job is known to have printed.
fn printed(task: &Task) -> u64 {
    task.printed.map_or(0, |printed| printed.bytes)
}

/// What became of one attempt to write.
#[derive(Debug)]
pub enum Commit {
    /// The row is now this.
    Done(Task),
    /// Somebody else wrote first.
    Conflict,
    /// The row would need this slot, which is taken up.
    NoSlot(String),
}

impl Ledger {
    /// Applies an event to the row as it was read, once. A decision that was stale when it came to the store is made again
    /// by the store's time.
    ///
    /// # Errors
    /// If the store cannot be used; nothing was written then, or nobody can tell.
    pub async fn commit(
        &self,
        task: &Task,
        happened: impl Into<Happened>,
        lease: Lease<'_>,
    ) -> Result<Commit> {
        let happened = happened.into();
        if let Some(commit) = self.decide(task, happened.clone(), lease).await? {
            return Ok(commit);
        }
        self.clock.refresh().await;
        // A decision that is stale again is made on the row as it is then.
        Ok(self.decide(task, happened, lease).await?.unwrap_or(Commit::Conflict))
    }

    /// Decides what comes of an event, and writes it. `None` if the decision was stale.
    async fn decide(&self, task: &Task, happened: Happened, lease: Lease<'_>) -> Result<Option<Commit>> {
        let Happened { event, call } = happened;
        let now = self.clock.now();
        let said = history::said(task, &event);
        // Only a start that is about to be sent needs a free slot. A fact takes its slots even where that overfills them.
        let needs_slots = matches!(event, Event::Intended);
        let step = machine::next(task, event, now);
        if step.task == *task && matches!(lease, Lease::Keep) {
            return Ok(Some(Commit::Done(step.task)));
        }
        let takes_slots = needs_slots && step.task.holds_slots() && !task.holds_slots();
        let limits: Vec<SlotLimit> =
            if takes_slots { self.tools.limits(&step.task.slots) } else { Vec::new() };
        let gives_back = matches!(lease, Lease::Release(_));
        let patience = if gives_back && !is_seen(task, &step.task) { COMPANY } else { Duration::ZERO };
        let transition = self.scribe.transition(task, said, &step.task, call);
        let notices = notices::owed(Some(task), &step.task, &*self.receivers);
        let change = Change {
            task: &step.task,
            decided_at: now,
            output: step.output.as_ref(),
            limits: &limits,
            lease,
            patience,
            transition: transition.as_ref(),
            notices: &notices,
        };
        match self.store.update(change).await? {
            Updated::Conflict => Ok(Some(Commit::Conflict)),
            Updated::NoSlot(full) => Ok(Some(Commit::NoSlot(full))),
            Updated::Stale => Ok(None),
            Updated::Written(version) => {
                let written = Task { version, ..step.task };
                self.tell(task, &written);
                if !notices.is_empty() {
                    self.nudge.owing.send_replace(());
                }
                Ok(Some(Commit::Done(written)))
            }
        }
    }

    /// Applies an event for as long as it takes: on a conflict the row is read again and the same event applied to
    /// what it is now. `None` if the row is gone.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn apply(
        &self,
        mut task: Task,
        happened: impl Into<Happened>,
        lease: Lease<'_>,
    ) -> Result<Option<Task>> {
        let happened = happened.into();
        loop {
            match self.commit(&task, happened.clone(), lease).await? {
                Commit::Done(task) => return Ok(Some(task)),
                // Only Event::Intended needs slots, and it is never applied blindly.
                Commit::Conflict | Commit::NoSlot(_) => match self.read(&task.id).await? {
                    Some(fresh) => task = fresh,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Reads a row whoever owns it.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn read(&self, id: &TaskId) -> Result<Option<Task>> {
        self.store.get(id, None).await
    }

    /// The current moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives the hints that follow from a write.
    fn tell(&self, before: &Task, after: &Task) {
        self.meter.changed(before, after, self.clock.now());
        if before.changed_at != after.changed_at
            || before.state != after.state
            || (before.questions != after.questions && !after.has_ended())
            || before.last_note() != after.last_note()
            || printed(before) < printed(after)
        {
            self.watch.changed(after);
        }
        if began(before, after) {
            self.audit.note(Told::Started(after));
        }
        if after.has_ended() && !before.has_ended() {
            self.audit.note(Told::Ended(after));
        }
        if after.printed.is_some() && before.printed.is_none() {
            self.nudge.looks.put(Look::Task(after.id.clone()));
        }
        if let Some(due) = after.due_at.filter(|_| after.due_at != before.due_at) {
            self.nudge.due_at(due);
        }
        if (before.holds_slots() && !after.holds_slots()) || (after.is_queued() && !before.is_queued()) {
            self.nudge.slot.notify_one();
        }
        if matches!(before.job, Job::Open { .. }) && !matches!(after.job, Job::Open { .. }) {
            self.nudge.looks.put(Look::Over(after.id.clone()));
        }
        if let Job::Open { handle, group, started_at } = &after.job
            && !matches!(before.job, Job::Open { .. })
        {
            let group = Group { backend: after.backend.clone(), key: group.clone() };
            let (id, tool) = (after.id.clone(), after.tool.clone());
            let job =
                OpenJob { id, tool, handle: handle.clone(), started_at: *started_at, version: after.version };
            self.nudge.opened.put(Opened { group, job, blank: is_blank(after) });
        }
    }
}
