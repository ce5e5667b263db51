//! The real store with a point before and after every touch, behind what befalls the way to it. It notes which leases
//! it gives, and asks [`Sabotage`] how a planted bug would have it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge::clock::Clock;
use taskbridge::store::sqlite::SqliteStore;
use taskbridge::tasks::history::Entry;
use taskbridge::tasks::notices::Notice;
use taskbridge::tasks::store::{
    Change, Counts, Durations, Forget, Found, Group, Groups, Hint, Hints, History, Holder, Inserted, Keys,
    Lease, NewTask, Notices, OpenJob, Owed, Position, Queue, Reach, Result, Sessions, Setting, Settings,
    Tally, TaskStore, Time, Updated,
};
use taskbridge::tasks::task::{Job, Owner, Task, TaskId};
use taskbridge_sdk::{JobKey, Output, Timestamp};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::leases::Leases;
use super::misdeeds::Sabotage;
use super::node::LEASE;
use super::points::Points;
use super::sabotage::Bug;
use super::weather::Weather;

/// The store of one process.
pub(super) struct PointedStore {
    pub(super) inner: SqliteStore,
    pub(super) points: Arc<Points>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) leases: Arc<Leases>,
    pub(super) weather: Arc<Weather>,
    pub(super) sabotage: Sabotage,
    pub(super) connections: Semaphore,
}

/// The connections of one process: as few as can be, so that one that is kept is missed.
pub(super) const CONNECTIONS: usize = 2;

impl PointedStore {
    fn has(&self, bug: Bug) -> bool {
        self.sabotage.bug == Some(bug)
    }

    async fn before(&self) {
        self.points.pass().await;
        for new in self.sabotage.take_unwritten() {
            let _ = self.inner.insert(new).await;
        }
    }

    /// A read has a connection for as long as it takes, and is only done when it is polled again: whoever leaves it alone
    /// keeps the connection from all others.
    async fn before_read(&self) -> Result<SemaphorePermit<'_>> {
        let connection = self.connections.acquire().await.expect("nobody closes it");
        self.before().await;
        self.weather.read()?;
        Ok(connection)
    }

    /// A write waits for a connection, and then goes on whether it is polled or not.
    async fn before_write(&self) -> Result<()> {
        drop(self.connections.acquire().await.expect("nobody closes it"));
        self.before().await;
        self.weather.write()
    }

    async fn after_write<T>(&self, answer: Result<T>) -> Result<T> {
        self.points.pass().await;
        self.weather.answered(answer).await
    }

    fn note_lease(&self, key: &JobKey, lease: Lease<'_>) {
        match lease {
            Lease::Keep => {}
            Lease::Release(holder) => self.leases.release(key, holder),
            Lease::Hold(holder, lease) => self.leases.take(key, holder, self.clock.now(), lease),
        }
    }
}

#[async_trait]
impl TaskStore for PointedStore {
    async fn insert(&self, new: NewTask) -> Result<Inserted> {
        self.before_write().await?;
        let new = self.sabotage.new_task(&self.inner, new).await;
        if self.has(Bug::ToldBeforeCommit) && new.once.is_none() {
            return Ok(self.sabotage.tell_unwritten(new));
        }
        let (lease, again) = (new.lease.clone(), self.sabotage.again(&new));
        let inserted = self.inner.insert(new).await;
        if let (Ok(Inserted::Created(task)), Some((holder, lease))) = (&inserted, lease) {
            self.leases.take(&task.key, &holder, self.clock.now(), lease);
        }
        let answer = self.after_write(inserted).await;
        match (answer, again) {
            (Err(_), Some(again)) => self.inner.insert(again).await,
            (answer, _) => answer,
        }
    }

    async fn get(&self, id: &TaskId, within: Option<Reach<'_>>) -> Result<Option<Task>> {
        let _connection = self.before_read().await?;
        let owner = within.map(|reach| reach.owner);
        let asked_for = within.filter(|_| !self.has(Bug::OwnerIgnored));
        let task = self.inner.get(id, asked_for).await;
        self.points.pass().await;
        Ok(self.sabotage.read(task?, owner))
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        let _connection = self.before_read().await?;
        self.inner.output(id).await
    }

    async fn output_within(&self, id: &TaskId, most: usize) -> Result<Found> {
        let _connection = self.before_read().await?;
        self.inner.output_within(id, most).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.list(owner, after, limit).await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.of_session(session).await
    }

    async fn update(&self, change: Change<'_>) -> Result<Updated> {
        if let Err(away) = self.before_write().await {
            return if self.has(Bug::WriteTakenForMade) {
                Ok(Updated::Written(change.task.version + 1))
            } else {
                Err(away)
            };
        }
        let before = self.inner.get(&change.task.id, None).await?;
        let was_pending = before.as_ref().is_some_and(|task| matches!(task.job, Job::Pending { .. }));
        if self.has(Bug::IntentNotCommitted) && was_pending && matches!(change.task.job, Job::Starting { .. })
        {
            return Ok(Updated::Written(change.task.version));
        }
        let mut task = self.sabotage.written(change.task);
        if self.has(Bug::NoFence)
            && let Some(before) = &before
        {
            task.version = before.version;
        }
        let limits = self.sabotage.limits(&self.inner, &task.id, change.limits.to_vec()).await;
        let output = change.output.filter(|_| !self.has(Bug::OutputForgotten));
        let given = change.lease;
        let lease = match given {
            Lease::Hold(..) if self.has(Bug::LostLeaseKept) => Lease::Keep,
            lease => lease,
        };
        let forgets = self.has(Bug::NoticeForgotten) && change.task.has_ended();
        let notices = if forgets { &[] } else { change.notices };
        let change = Change { notices, task: &task, output, limits: &limits, lease, ..change };
        let updated = self.inner.update(change).await;
        if matches!(updated, Ok(Updated::Written(_))) {
            self.note_lease(&task.key, given);
        }
        self.after_write(updated).await
    }

    async fn claim(
        &self,
        holder: &Holder,
        lease: Duration,
        limit: usize,
        elsewhere: &[String],
    ) -> Result<Vec<Task>> {
        self.before_write().await?;
        let rows = self.inner.claim(holder, self.sabotage.lease(lease), limit, elsewhere).await;
        for task in rows.iter().flatten() {
            self.leases.take(&task.key, holder, self.clock.now(), lease);
        }
        let rows = self.after_write(rows).await?;
        Ok(rows.into_iter().map(|task| self.sabotage.claimed(task)).collect())
    }

    async fn purge(&self, limit: usize) -> Result<usize> {
        self.before_write().await?;
        self.inner.purge(limit).await
    }

    async fn next_due(&self, elsewhere: &[String]) -> Result<Option<Timestamp>> {
        let _connection = self.before_read().await?;
        self.inner.next_due(elsewhere).await
    }
}

#[async_trait]
impl Queue for PointedStore {
    async fn heads(&self) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.heads().await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        let _connection = self.before_read().await?;
        self.inner.ahead(task).await
    }
}

#[async_trait]
impl Groups for PointedStore {
    async fn hold(&self, holder: &Holder, lease: Duration, elsewhere: &[String]) -> Result<Vec<Group>> {
        self.before_write().await?;
        let real = if self.has(Bug::GroupWatchedTwice) { Duration::ZERO } else { lease };
        let held =
            self.inner.hold(holder, real, elsewhere).await.map(|held| self.sabotage.groups(holder, held));
        if let Ok(held) = &held {
            self.leases.watch(held, holder, self.clock.now(), lease);
        }
        self.after_write(held).await
    }

    async fn leave(&self, holder: &Holder) -> Result<()> {
        self.before_write().await?;
        let done = self.inner.leave(holder).await;
        self.leases.leave(holder);
        self.after_write(done).await
    }

    async fn let_go(&self, holder: &Holder) -> Result<()> {
        self.before_write().await?;
        if self.has(Bug::LetsGoOfAll) {
            for other in self.leases.holders() {
                self.inner.let_go(&other).await?;
            }
        }
        let done = self.inner.let_go(holder).await;
        self.leases.let_go(holder);
        self.after_write(done).await
    }

    async fn open_jobs(&self, group: &Group, opened_since: Timestamp) -> Result<Vec<OpenJob>> {
        let _connection = self.before_read().await?;
        let recently = self.clock.now() - LEASE;
        let since = if self.has(Bug::TakeoverForgets) { opened_since.max(recently) } else { opened_since };
        self.inner.open_jobs(group, since).await
    }

    async fn wanted(&self, group: &Group) -> Result<Vec<TaskId>> {
        let _connection = self.before_read().await?;
        self.inner.wanted(group).await
    }
}

/// What receivers are owed is looked at from outside, in the end.
#[async_trait]
impl Notices for PointedStore {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Owed>> {
        self.inner.take_notices(receiver, holder, lease, limit).await
    }

    async fn strike(&self, notice: &Notice) -> Result<()> {
        self.inner.strike(notice).await
    }

    async fn put_off(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        self.inner.put_off(notice, holder, pause).await
    }

    async fn forget_notices(&self, which: Forget<'_>, before: Timestamp) -> Result<usize> {
        self.inner.forget_notices(which, before).await
    }
}

#[async_trait]
impl History for PointedStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<Entry>> {
        let _connection = self.before_read().await?;
        self.inner.entries(id).await
    }

    async fn forget(&self, older_than: Duration, limit: usize) -> Result<usize> {
        self.before_write().await?;
        self.inner.forget(older_than, limit).await
    }
}

#[async_trait]
impl Durations for PointedStore {
    async fn record(&self, tool: &str, took: Duration) -> Result<()> {
        self.before_write().await?;
        self.inner.record(tool, took).await
    }

    async fn typical(&self, tool: &str) -> Result<Option<Duration>> {
        let _connection = self.before_read().await?;
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

    async fn settings(&self, nonce: &str) -> Result<Option<Settings>> {
        self.inner.settings(nonce).await
    }

    async fn set(&self, nonce: &str, setting: Setting, forget_after: Timestamp) -> Result<Option<Settings>> {
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
impl Time for PointedStore {
    async fn now(&self) -> Result<Timestamp> {
        let _connection = self.before_read().await?;
        self.inner.now().await
    }
}

#[async_trait]
impl Tally for PointedStore {
    async fn tally(&self) -> Result<Counts> {
        let _connection = self.before_read().await?;
        self.inner.tally().await
    }
}

#[async_trait]
impl Hints for PointedStore {
    async fn changed_elsewhere(&self) -> Vec<Hint> {
        // Hints can be lost, so in a simulation they all are: what needs one is found by the ticks.
        std::future::pending().await
    }
}
