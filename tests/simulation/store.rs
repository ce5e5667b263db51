//! The real store with a point before and after every access, behind the faults of its connection. It
//! records the leases that it grants, and applies [`PlantedBug`]. [`delegated`] has what needs neither.

mod delegated;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge_core::clock::Clock;
use taskbridge_core::sessions::Deliveries;
use taskbridge_core::tasks::store::{
    AccessScope, BoundedOutput, Change, ClaimRequest, ClaimResult, DeletedRow, Group, Groups, Holder,
    InsertResult, Lease, NewTask, OpenJob, Position, Queue, Result, ServedBackend, Store, TaskStore,
    UpdateResult,
};
use taskbridge_core::tasks::task::{Job, Owner, Task, TaskId};
use taskbridge_sdk::{JobKey, Output, Timestamp};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::bugs::Bug;
use super::hints::HintPort;
use super::leases::Leases;
use super::node::LEASE;
use super::planted::PlantedBug;
use super::points::Points;
use super::store_faults::StoreFaults;

/// What the simulation needs of a store.
pub(super) trait SimStore: Store + Deliveries {}

impl<T: Store + Deliveries> SimStore for T {}

/// The store of one process.
pub(super) struct PointedStore {
    pub(super) inner: Arc<dyn SimStore>,
    pub(super) points: Arc<Points>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) leases: Arc<Leases>,
    pub(super) store_faults: Arc<StoreFaults>,
    pub(super) planted_bug: PlantedBug,
    pub(super) connections: Semaphore,
    pub(super) hints: HintPort,
}

/// Number of connections per process: the minimum, so that a leaked connection is noticed.
pub(super) const CONNECTIONS: usize = 2;

impl PointedStore {
    fn has(&self, bug: Bug) -> bool {
        self.planted_bug.bug == Some(bug)
    }

    async fn before_call(&self) {
        self.points.pass().await;
        for new in self.planted_bug.take_unwritten() {
            let _ = self.inner.insert(new).await;
        }
    }

    /// A read keeps its connection until it is polled to completion: an abandoned future blocks the
    /// connection for all others.
    async fn before_read(&self) -> Result<SemaphorePermit<'_>> {
        let connection = self.connections.acquire().await.expect("nobody closes it");
        self.before_call().await;
        self.store_faults.read()?;
        Ok(connection)
    }

    /// A write waits for a connection, and then completes whether it is polled or not.
    async fn before_write(&self) -> Result<()> {
        drop(self.connections.acquire().await.expect("nobody closes it"));
        self.before_call().await;
        self.store_faults.write()
    }

    async fn after_write<T>(&self, result: Result<T>) -> Result<T> {
        self.points.pass().await;
        self.store_faults.pass_reply(result).await
    }

    fn record_lease(&self, key: &JobKey, lease: Lease<'_>) {
        match lease {
            Lease::Keep => {}
            Lease::Release(holder) => self.leases.release(key, holder),
            Lease::Acquire(holder, lease) => self.leases.take(key, holder, self.clock.now(), lease),
        }
    }
}

#[async_trait]
impl TaskStore for PointedStore {
    async fn insert(&self, new: NewTask) -> Result<InsertResult> {
        self.before_write().await?;
        let new = self.planted_bug.new_task(&*self.inner, new).await;
        if self.has(Bug::AnsweredBeforeCommit) && new.idempotency_key.is_none() {
            return Ok(self.planted_bug.ack_unwritten(new));
        }
        let (lease, retry_insert) = (new.lease.clone(), self.planted_bug.repeated_insert(&new));
        let refused = self.has(Bug::RefusalIgnored).then(|| new.clone());
        let inserted = self.inner.insert(new).await;
        if let Ok(InsertResult::Created(task)) = &inserted {
            self.hints.send(task);
            if let Some((holder, lease)) = lease {
                self.leases.take(&task.key, &holder, self.clock.now(), lease);
            }
        }
        let inserted = self.planted_bug.queue_refused(&*self.inner, inserted, refused).await;
        let result = self.after_write(inserted).await;
        match (result, retry_insert) {
            (Err(_), Some(retry_insert)) => self.inner.insert(retry_insert).await,
            (result, _) => result,
        }
    }

    async fn get(&self, id: &TaskId, scope: Option<AccessScope<'_>>) -> Result<Option<Task>> {
        let _connection = self.before_read().await?;
        let owner = scope.map(|scope| scope.owner);
        let effective_scope = scope.filter(|_| !self.has(Bug::OwnerIgnored));
        let task = self.inner.get(id, effective_scope).await;
        self.points.pass().await;
        Ok(self.planted_bug.read_row(task?, owner))
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        let _connection = self.before_read().await?;
        self.inner.output(id).await
    }

    async fn output_within(&self, id: &TaskId, max_bytes: usize) -> Result<BoundedOutput> {
        let _connection = self.before_read().await?;
        self.inner.output_within(id, max_bytes).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.list(owner, after, limit).await
    }

    async fn of_channel(&self, channel: &str) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.of_channel(channel).await
    }

    async fn update(&self, change: Change<'_>) -> Result<UpdateResult> {
        if let Err(error) = self.before_write().await {
            return if self.has(Bug::WriteTakenForMade) {
                Ok(UpdateResult::Written(change.task.version + 1))
            } else {
                Err(error)
            };
        }
        let previous = self.inner.get(&change.task.id, None).await?;
        let was_pending = previous.as_ref().is_some_and(|task| matches!(task.job, Job::Pending { .. }));
        if self.has(Bug::IntentNotCommitted) && was_pending && matches!(change.task.job, Job::Starting { .. })
        {
            return Ok(UpdateResult::Written(change.task.version));
        }
        if self.planted_bug.loses_write() {
            return Ok(UpdateResult::Written(change.task.version + 1));
        }
        let mut task = self.planted_bug.row_to_write(change.task, previous.as_ref());
        if self.has(Bug::NoFence)
            && let Some(previous) = &previous
        {
            task.version = previous.version;
        }
        let limits = self.planted_bug.limits(&*self.inner, &task.id, change.limits.to_vec()).await;
        let planted_output = self.planted_bug.output(change.output);
        let output = planted_output.as_ref().filter(|_| !self.has(Bug::OutputForgotten));
        let requested_lease = change.lease;
        let lease = match requested_lease {
            Lease::Acquire(..) if self.has(Bug::LostLeaseKept) => Lease::Keep,
            lease => lease,
        };
        let drops_notices = self.has(Bug::NoticeForgotten) && change.task.has_ended();
        let notices = if drops_notices { &[] } else { change.notices };
        let change = Change { notices, task: &task, output, limits: &limits, lease, ..change };
        let updated = self.inner.update(change).await;
        if matches!(updated, Ok(UpdateResult::Written(_))) {
            self.record_lease(&task.key, requested_lease);
            self.hints.send(&task);
        }
        self.after_write(updated).await
    }

    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<ClaimResult> {
        self.before_write().await?;
        let claimed = self.inner.claim(holder, self.planted_bug.lease(lease), request).await;
        for task in claimed.iter().flat_map(|claimed| &claimed.tasks) {
            self.leases.take(&task.key, holder, self.clock.now(), lease);
        }
        let ClaimResult { tasks, cursor } = self.after_write(claimed).await?;
        let now = self.inner.now().await?;
        Ok(ClaimResult {
            tasks: tasks.into_iter().map(|task| self.planted_bug.claimed_row(task, now)).collect(),
            cursor,
        })
    }

    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.list_due(served, after, limit).await
    }

    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>> {
        self.before_write().await?;
        let adopted = self.inner.adopt(served).await;
        self.after_write(adopted).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<DeletedRow>> {
        self.before_write().await?;
        self.planted_bug.purge(&*self.inner).await;
        self.inner.purge(now, limit).await
    }

    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>> {
        let _connection = self.before_read().await?;
        self.planted_bug.on_next_due(&*self.inner, served).await;
        self.inner.next_due(served).await
    }
}

#[async_trait]
impl Queue for PointedStore {
    async fn queue_heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>> {
        let _connection = self.before_read().await?;
        self.inner.queue_heads(served).await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        let _connection = self.before_read().await?;
        self.inner.ahead(task).await
    }
}

#[async_trait]
impl Groups for PointedStore {
    async fn acquire_groups(
        &self,
        holder: &Holder,
        lease: Duration,
        served: &[ServedBackend],
    ) -> Result<Vec<Group>> {
        self.before_write().await?;
        let actual_lease = if self.has(Bug::GroupWatchedTwice) { Duration::ZERO } else { lease };
        let groups = self
            .inner
            .acquire_groups(holder, actual_lease, served)
            .await
            .map(|groups| self.planted_bug.groups(holder, groups));
        if let Ok(groups) = &groups {
            // Engines with different identities are watched independently of each other.
            let name = |group: &Group| {
                served.iter().find(|s| s.backend == group.backend).map(ServedBackend::lease_name)
            };
            let lease_groups = groups
                .iter()
                .map(|group| Group { backend: name(group).unwrap_or_default(), ..group.clone() });
            self.leases.watch(&lease_groups.collect::<Vec<_>>(), holder, self.clock.now(), lease);
        }
        self.after_write(groups).await
    }

    async fn release_groups(&self, holder: &Holder) -> Result<()> {
        self.before_write().await?;
        let result = self.inner.release_groups(holder).await;
        self.leases.release_groups(holder);
        self.after_write(result).await
    }

    async fn release_all(&self, holder: &Holder) -> Result<()> {
        self.before_write().await?;
        if self.has(Bug::ReleasesAllLeases) {
            for other in self.leases.holders() {
                self.inner.release_all(&other).await?;
            }
        }
        let result = self.inner.release_all(holder).await;
        self.leases.release_all(holder);
        self.after_write(result).await
    }

    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>> {
        let _connection = self.before_read().await?;
        let one_lease_ago = self.clock.now() - LEASE;
        let since =
            if self.has(Bug::TakeoverForgets) { opened_since.max(one_lease_ago) } else { opened_since };
        self.inner.open_jobs(group, identity, since).await
    }

    async fn watched_jobs(&self, group: &Group) -> Result<Vec<TaskId>> {
        let _connection = self.before_read().await?;
        self.inner.watched_jobs(group).await
    }
}
