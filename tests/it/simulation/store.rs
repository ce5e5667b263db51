//! The real store with a point before and after every touch, the planted bugs of stores, and the check that no lease is
//! held twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskbridge::clock::Clock;
use taskbridge::store::sqlite::SqliteStore;
use taskbridge::tasks::store::{
    Change, Group, Groups, Hints, History, Holder, Inserted, Keys, NewTask, OpenJob, Position, Queue, Result,
    Sessions, Setting, Settings, TaskStore, Updated,
};
use taskbridge::tasks::task::{Job, Outcome, Owner, Task, TaskId, TaskState};
use taskbridge_sdk::{Output, Timestamp};

use super::points::Points;
use super::sabotage::Bug;

/// Who holds which row until when, as the processes were told: shared by all of them.
#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<TaskId, (Holder, Timestamp)>>,
    breaches: Mutex<Vec<String>>,
}

impl Leases {
    fn take(&self, id: &TaskId, holder: &Holder, now: Timestamp, lease: Duration) {
        let before = self.held.lock().insert(id.clone(), (holder.clone(), now + lease));
        if let Some((other, until)) = before
            && other != *holder
            && until > now
        {
            self.breaches
                .lock()
                .push(format!("{holder:?} was given a row that {other:?} holds until {until}"));
        }
    }

    fn release(&self, id: &TaskId, holder: &Holder) {
        let mut held = self.held.lock();
        if held.get(id).is_some_and(|(by, _)| by == holder) {
            held.remove(id);
        }
    }

    /// The first breach.
    pub(super) fn breach(&self) -> Option<String> {
        self.breaches.lock().first().cloned()
    }
}

/// The store of one process.
pub(super) struct PointedStore {
    pub(super) inner: SqliteStore,
    pub(super) points: Arc<Points>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) leases: Arc<Leases>,
    pub(super) bug: Option<Bug>,
    /// What was told and not yet written, for [`Bug::ToldBeforeCommit`].
    pub(super) unwritten: Mutex<Vec<NewTask>>,
}

impl PointedStore {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    async fn before(&self) {
        self.points.pass().await;
        let unwritten = std::mem::take(&mut *self.unwritten.lock());
        for new in unwritten {
            let _ = self.inner.insert(new).await;
        }
    }

    fn note_lease(&self, id: &TaskId, lease: taskbridge::tasks::store::Lease<'_>) {
        use taskbridge::tasks::store::Lease;
        match lease {
            Lease::Keep => {}
            Lease::Release(holder) => self.leases.release(id, holder),
            Lease::Hold(holder, lease) => self.leases.take(id, holder, self.clock.now(), lease),
        }
    }

    /// The row as a bug would write it.
    fn sabotaged(&self, task: &Task) -> Task {
        let mut task = task.clone();
        match self.bug {
            Some(Bug::WishForgotten) if task.cancel.as_ref().map(|wish| wish.at) == task.ended_at => {
                task.cancel = None;
            }
            Some(Bug::DueTimeForgotten) if matches!(task.job, Job::Pending { .. }) => task.due_at = None,
            Some(Bug::HandleForgotten) if matches!(task.job, Job::Open { .. }) => {
                task.job = Job::Closed { handle: None };
                task.due_at = None;
            }
            Some(Bug::OutcomeOverwritten) if matches!(task.job, Job::Closed { handle: Some(_) }) => {
                if let TaskState::Ended(Outcome::Cancelled) = task.state {
                    task.state = TaskState::Ended(Outcome::Succeeded);
                }
            }
            _ => {}
        }
        task
    }
}

#[async_trait]
impl TaskStore for PointedStore {
    async fn insert(&self, mut new: NewTask) -> Result<Inserted> {
        self.before().await;
        if self.has(Bug::OnceIgnored) {
            new.once = None;
        }
        if self.has(Bug::SlotsIgnored) {
            new.limits.clear();
        }
        if self.has(Bug::ToldBeforeCommit) && new.once.is_none() {
            self.unwritten.lock().push(new.clone());
            return Ok(Inserted::Created(Task { version: 1, ..new.task }));
        }
        let lease = new.lease.clone();
        let inserted = self.inner.insert(new).await;
        if let (Ok(Inserted::Created(task)), Some((holder, lease))) = (&inserted, lease) {
            self.leases.take(&task.id, &holder, self.clock.now(), lease);
        }
        self.points.pass().await;
        inserted
    }

    async fn get(&self, id: &TaskId, owner: Option<&Owner>) -> Result<Option<Task>> {
        self.before().await;
        let owner = owner.filter(|_| !self.has(Bug::OwnerIgnored));
        let task = self.inner.get(id, owner).await;
        self.points.pass().await;
        task
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        self.before().await;
        self.inner.output(id).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        self.before().await;
        self.inner.list(owner, after, limit).await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Task>> {
        self.before().await;
        self.inner.of_session(session).await
    }

    async fn update(&self, change: Change<'_>) -> Result<Updated> {
        self.before().await;
        let before = self.inner.get(&change.task.id, None).await?;
        let was_pending = before.as_ref().is_some_and(|task| matches!(task.job, Job::Pending { .. }));
        if self.has(Bug::IntentNotCommitted) && was_pending && matches!(change.task.job, Job::Starting { .. })
        {
            return Ok(Updated::Written(change.task.version));
        }
        let mut task = self.sabotaged(change.task);
        if self.has(Bug::NoFence)
            && let Some(before) = &before
        {
            task.version = before.version;
        }
        let limits = if self.has(Bug::SlotsIgnored) { &[] } else { change.limits };
        let output = change.output.filter(|_| !self.has(Bug::OutputForgotten));
        let updated = self
            .inner
            .update(Change { task: &task, output, limits, lease: change.lease, patience: change.patience })
            .await;
        if matches!(updated, Ok(Updated::Written(_))) {
            self.note_lease(&task.id, change.lease);
        }
        self.points.pass().await;
        updated
    }

    async fn claim(&self, holder: &Holder, lease: Duration, limit: usize) -> Result<Vec<Task>> {
        self.before().await;
        let real = if self.has(Bug::LeaseOfNoLength) { Duration::ZERO } else { lease };
        let rows = self.inner.claim(holder, real, limit).await;
        for task in rows.iter().flatten() {
            self.leases.take(&task.id, holder, self.clock.now(), lease);
        }
        self.points.pass().await;
        rows
    }

    async fn purge(&self, limit: usize) -> Result<usize> {
        self.before().await;
        self.inner.purge(limit).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        self.before().await;
        self.inner.next_due().await
    }
}

#[async_trait]
impl Queue for PointedStore {
    async fn heads(&self) -> Result<Vec<Task>> {
        self.before().await;
        self.inner.heads().await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.before().await;
        self.inner.ahead(task).await
    }
}

#[async_trait]
impl Groups for PointedStore {
    async fn hold(&self, holder: &Holder, lease: Duration) -> Result<Vec<Group>> {
        self.before().await;
        let held = self.inner.hold(holder, lease).await;
        self.points.pass().await;
        held
    }

    async fn let_go(&self, holder: &Holder) -> Result<()> {
        self.before().await;
        self.inner.let_go(holder).await
    }

    async fn open_jobs(&self, group: &Group, opened_since: Timestamp) -> Result<Vec<OpenJob>> {
        self.before().await;
        self.inner.open_jobs(group, opened_since).await
    }
}

#[async_trait]
impl History for PointedStore {
    async fn record(&self, tool: &str, took: Duration) -> Result<()> {
        self.before().await;
        self.inner.record(tool, took).await
    }

    async fn typical(&self, tool: &str) -> Result<Option<Duration>> {
        self.before().await;
        self.inner.typical(tool).await
    }
}

#[async_trait]
impl Sessions for PointedStore {
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()> {
        self.inner.end(nonce, forget_after).await
    }

    async fn has_ended(&self, nonce: &str) -> Result<bool> {
        self.inner.has_ended(nonce).await
    }

    async fn settings(&self, nonce: &str) -> Result<Settings> {
        self.inner.settings(nonce).await
    }

    async fn set(&self, nonce: &str, setting: Setting, forget_after: Timestamp) -> Result<bool> {
        self.inner.set(nonce, setting, forget_after).await
    }
}

#[async_trait]
impl Keys for PointedStore {
    async fn seal_key(&self, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.inner.seal_key(fresh).await
    }
}

#[async_trait]
impl Hints for PointedStore {
    async fn changed_elsewhere(&self) {
        // Hints can be lost, so in a simulation they all are: what needs one is found by the ticks.
        std::future::pending().await
    }
}
