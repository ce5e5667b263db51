//! The task writer: the only way to change an existing row. For an event it computes the new row
//! ([`machine::next`]), writes it with compare-and-set on the version, and notifies the watchers in this
//! process. Both the reconciler and the service operations use it. Only inserts and deletions go to the store
//! directly. It must not decide what an event means, and must not call an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{JobHandle, JobKey, Timestamp};
use tokio::sync::{Notify, watch};

use super::audit::{Audit, AuditEvent};
use super::history::{self, EventWithCall, HistoryRecorder};
use super::machine::{self, Event};
use super::meter::Meter;
use super::notices::{self, Receivers};
use super::store::{Change, Group, Lease, OpenJob, Result, SlotLimit, Store, UpdateResult};
use super::task::{Job, Task, TaskId};
use super::tools::ToolCatalog;
use super::watch::ChangeNotifier;
use crate::clock::Clock;

/// The store, with all side effects of a write.
#[derive(Clone)]
pub struct TaskWriter {
    /// The store of the rows.
    pub store: Arc<dyn Store>,
    /// The watchers within this process.
    pub watch: ChangeNotifier,
    /// The clock of the state machine. It is the store's clock ([`super::store::time::StoreTime`]), so that due
    /// times agree between processes.
    pub clock: Arc<dyn Clock>,
    /// The catalog: limits of slots, output schemas, sealed arguments.
    pub tools: Arc<dyn ToolCatalog>,
    /// The receivers of notices.
    pub receivers: Arc<dyn Receivers>,
    /// Wakes the reconciler: a row is due, a slot is free, a job is open. Also wakes the sender of notices.
    pub nudge: Arc<ReconcilerSignals>,
    /// Builds the history entries.
    pub history_recorder: HistoryRecorder,
    /// Records metrics.
    pub meter: Arc<dyn Meter>,
    /// Receives audit events.
    pub audit: Arc<dyn Audit>,
}

/// The wake-ups of the reconciler and of the sender of notices. All are hints: after a lost one, the next
/// regular read of the store finds the work.
#[derive(Debug)]
pub struct ReconcilerSignals {
    /// A row became due, or will be due earlier than known.
    pub due: Notify,
    /// A slot became free, or a row began to wait for one.
    pub slot: Notify,
    /// Another process may have opened jobs, or released some.
    pub remote_jobs: Notify,
    /// Jobs that this process opened.
    pub opened_jobs: DrainQueue<OpenedJob>,
    /// Requests to poll a job now, or to drop it.
    pub polls: DrainQueue<PollRequest>,
    /// New notices are pending.
    pub notices_pending: watch::Sender<()>,
    /// The planned wake-up time of the claiming loop, in milliseconds since the epoch.
    sleeps_until: AtomicI64,
}

/// A job that this process opened.
#[derive(Clone, Debug)]
pub struct OpenedJob {
    /// The group in which it is watched.
    pub group: Group,
    /// The job.
    pub job: OpenJob,
    /// Our key of the job.
    pub key: JobKey,
    /// Its age: zero, unless the engine has renamed it.
    pub age: Duration,
    /// True if the row records only that the job runs.
    pub blank: bool,
}

/// A request to the poll schedules of this process: to poll a job now, or to drop it.
#[derive(Clone, Debug)]
pub enum PollRequest {
    /// By its row: an action of this process on the job was completed (a cancellation, an answer, a poll), or
    /// a client began to follow its log.
    Task(TaskId),
    /// By its row: the job is closed and must not be polled any more.
    Closed(TaskId),
    /// By its backend and handle: the engine sent a hint.
    EngineHint(String, JobHandle),
    /// Like [`Self::EngineHint`], but only this process received the hint: it must be forwarded if another
    /// process watches the job.
    LocalHint(String, JobHandle),
    /// By its backend and our key: the engine sent a hint, perhaps before its start returned the handle. It
    /// reaches the jobs that this process opened.
    KeyHint(String, JobKey),
}

/// A queue that is drained as a whole.
#[derive(Debug)]
pub struct DrainQueue<T> {
    items: Mutex<Vec<T>>,
    not_empty: Notify,
}

impl<T> DrainQueue<T> {
    /// Adds an item.
    pub fn put(&self, item: T) {
        self.items.lock().push(item);
        self.not_empty.notify_one();
    }

    /// Waits until the queue has items, and takes all of them. It is cancel-safe: a drop while it waits
    /// loses nothing.
    pub async fn take(&self) -> Vec<T> {
        loop {
            let items = std::mem::take(&mut *self.items.lock());
            if !items.is_empty() {
                return items;
            }
            self.not_empty.notified().await;
        }
    }
}

impl<T> Default for DrainQueue<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), not_empty: Notify::new() }
    }
}

impl Default for ReconcilerSignals {
    fn default() -> Self {
        Self {
            due: Notify::new(),
            slot: Notify::new(),
            remote_jobs: Notify::new(),
            opened_jobs: DrainQueue::default(),
            polls: DrainQueue::default(),
            notices_pending: watch::Sender::new(()),
            sleeps_until: AtomicI64::new(i64::MAX),
        }
    }
}

impl ReconcilerSignals {
    /// Wakes the claiming loop if it would sleep past this time.
    pub fn due_at(&self, due: Timestamp) {
        if due.as_millis() < self.sleeps_until.load(Ordering::Relaxed) {
            self.due.notify_one();
        }
    }

    /// Records until when the claiming loop will sleep.
    pub fn sleeps_until(&self, until: Timestamp) {
        self.sleeps_until.store(until.as_millis(), Ordering::Relaxed);
    }

    /// Wakes all loops: another process wrote unknown rows.
    pub fn wake_all(&self) {
        self.due.notify_one();
        self.slot.notify_one();
        self.remote_jobs.notify_one();
    }
}

/// How long a write may be delayed, to share a commit with another write. It applies to writes that end a
/// lease and change nothing that a client sees.
const BATCH_DELAY: Duration = Duration::from_millis(10);

/// Returns true if a client can see the difference, or a stream that carries a question to one.
fn is_visible_change(before: &Task, after: &Task) -> bool {
    before.changed_at != after.changed_at
        || before.state != after.state
        || before.questions != after.questions
        || before.last_note() != after.last_note()
}

/// Returns true if the row keeps nothing from polls of its job except that it runs.
fn is_blank(task: &Task) -> bool {
    let Task { message, progress, notes, printed, questions, trouble: outage, .. } = task;
    let reported = message.is_some() || progress.is_some() || printed.is_some() || outage.is_some();
    !reported && notes.is_empty() && questions.is_empty()
}

/// Returns true if this change is the first that confirms the job in the engine. A job that ends in the
/// reply to its start is never open.
fn confirms_job(before: &Task, after: &Task) -> bool {
    let opened = matches!(after.job, Job::Open { .. }) && !matches!(before.job, Job::Open { .. });
    opened || (before.handle().is_none() && after.handle().is_some())
}

/// Returns how many bytes the job is known to have printed.
fn printed_bytes(task: &Task) -> u64 {
    task.printed.map_or(0, |log_size| log_size.bytes)
}

/// The result of one attempt to write.
#[derive(Debug)]
pub enum Commit {
    /// The new row.
    Done(Task),
    /// Another writer was first.
    Conflict,
    /// The row needs this slot, which is full.
    NoSlot(String),
}

impl TaskWriter {
    /// Applies an event once, to the row as given. If the store rejects the decision as stale, it is made
    /// again with the refreshed time.
    ///
    /// # Errors
    /// If the store is unavailable. Nothing was written then, or the outcome is unknown.
    pub async fn commit(
        &self,
        task: &Task,
        event: impl Into<EventWithCall>,
        lease: Lease<'_>,
    ) -> Result<Commit> {
        let event = event.into();
        if let Some(commit) = self.decide(task, event.clone(), lease).await? {
            return Ok(commit);
        }
        self.clock.refresh().await;
        // If the new decision is stale as well, the caller must decide again on the current row.
        Ok(self.decide(task, event, lease).await?.unwrap_or(Commit::Conflict))
    }

    /// Computes the effect of an event and writes it, if it changes the row or the lease, or is recorded in
    /// the history. Returns `None` if the decision was stale.
    async fn decide(
        &self,
        task: &Task,
        event_with_call: EventWithCall,
        lease: Lease<'_>,
    ) -> Result<Option<Commit>> {
        let EventWithCall { event, call } = event_with_call;
        let now = self.clock.now();
        let event_fact = history::event_fact(task, &event);
        // Only a start that is about to be sent needs a free slot. A report from the engine that the job
        // exists takes its slots even if that exceeds the limit.
        let needs_slots = matches!(event, Event::StartCommitted);
        let step = machine::next(task, event, now);
        let transition = self.history_recorder.transition(task, event_fact, &step.task, call);
        if step.task == *task && transition.is_none() && matches!(lease, Lease::Keep) {
            return Ok(Some(Commit::Done(step.task)));
        }
        let takes_slots = needs_slots && step.task.holds_slots() && !task.holds_slots();
        let limits: Vec<SlotLimit> =
            if takes_slots { self.tools.limits(&step.task.slots) } else { Vec::new() };
        let releases_lease = matches!(lease, Lease::Release(_));
        let batch_delay =
            if releases_lease && !is_visible_change(task, &step.task) { BATCH_DELAY } else { Duration::ZERO };
        let notices = notices::notices_for_change(Some(task), &step.task, &*self.receivers);
        let change = Change {
            task: &step.task,
            decided_at: now,
            output: step.output.as_ref(),
            limits: &limits,
            lease,
            batch_delay,
            transition: transition.as_ref(),
            notices: &notices,
        };
        match self.store.update(change).await? {
            UpdateResult::Conflict => Ok(Some(Commit::Conflict)),
            UpdateResult::NoSlot(slot) => Ok(Some(Commit::NoSlot(slot))),
            UpdateResult::Stale => Ok(None),
            UpdateResult::Written(version) => {
                let written = Task { version, ..step.task };
                self.publish_change(task, &written);
                if !notices.is_empty() {
                    self.nudge.notices_pending.send_replace(());
                }
                Ok(Some(Commit::Done(written)))
            }
        }
    }

    /// Applies an event until it succeeds. After a conflict it reads the row again and applies the same
    /// event. Returns `None` if the row was deleted.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn apply(
        &self,
        mut task: Task,
        event: impl Into<EventWithCall>,
        lease: Lease<'_>,
    ) -> Result<Option<Task>> {
        let event = event.into();
        loop {
            match self.commit(&task, event.clone(), lease).await? {
                Commit::Done(task) => return Ok(Some(task)),
                // Only `Event::StartCommitted` needs slots, and it never reaches this function.
                Commit::Conflict | Commit::NoSlot(_) => match self.read(&task.id).await? {
                    Some(current) => task = current,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Reads a row, regardless of its owner.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn read(&self, id: &TaskId) -> Result<Option<Task>> {
        self.store.get(id, None).await
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Records the metrics and audit events that follow from a write, and wakes the watchers and the loops of
    /// this process.
    fn publish_change(&self, before: &Task, after: &Task) {
        self.meter.changed(before, after, self.clock.now());
        if before.changed_at != after.changed_at
            || before.state != after.state
            || (before.questions != after.questions && !after.has_ended())
            || before.last_note() != after.last_note()
            || printed_bytes(before) < printed_bytes(after)
        {
            self.watch.changed(after);
        } else {
            self.watch.row_written(&after.id);
        }
        if confirms_job(before, after) {
            self.audit.record(AuditEvent::Started(after));
        }
        if after.has_ended() && !before.has_ended() {
            self.audit.record(AuditEvent::Ended(after));
        }
        if after.printed.is_some() && before.printed.is_none() {
            self.nudge.polls.put(PollRequest::Task(after.id.clone()));
        }
        if let Some(due) = after.due_at.filter(|_| after.due_at != before.due_at) {
            self.nudge.due_at(due);
        }
        if (before.holds_slots() && !after.holds_slots()) || (after.is_queued() && !before.is_queued()) {
            self.nudge.slot.notify_one();
        }
        if matches!(before.job, Job::Open { .. }) && !matches!(after.job, Job::Open { .. }) {
            self.nudge.polls.put(PollRequest::Closed(after.id.clone()));
        }
        if matches!(after.job, Job::Open { .. }) && before.handle() != after.handle() {
            let is_renamed = matches!(before.job, Job::Open { .. });
            self.publish_open_job(after, is_renamed);
        }
    }

    /// Informs the poll schedules of this process of an open job that is new, or that has a new name.
    pub(super) fn publish_open_job(&self, task: &Task, is_renamed: bool) {
        let Job::Open { handle, group, started_at } = &task.job else { return };
        let group = Group { backend: task.backend.clone(), key: group.clone() };
        let (id, tool) = (task.id.clone(), task.tool.clone());
        let job =
            OpenJob { id, tool, handle: handle.clone(), started_at: *started_at, version: task.version };
        let key = task.key.clone();
        let age = if is_renamed { self.clock.now().since(*started_at) } else { Duration::ZERO };
        self.nudge.opened_jobs.put(OpenedJob { group, job, key, age, blank: is_blank(task) });
    }
}
