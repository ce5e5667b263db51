//! [`MeasuredStore`]: a store wrapper that measures each operation, except waiting for other processes. It
//! also counts new rows, the delay of claims and the outcomes of notices. It must not change the results.
//! Some labels keep the former name of an operation, because dashboards use it.

// A wrapper delegates every method. Otherwise the default would run.
#![deny(clippy::missing_trait_methods)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use taskbridge_sdk::{Output, Timestamp};

use super::Metrics;
use crate::clock::Clock;
use crate::sessions::{
    DeliveredQuestion, Deliveries, Delivery, DeliveryChange, ServerStore, SessionChange, SessionSettings,
    Sessions,
};
use crate::tasks::history::HistoryEntry;
use crate::tasks::notices::Notice;
use crate::tasks::pace::usual::UsualDuration;
use crate::tasks::store::{
    AccessScope, BoundedOutput, Change, ClaimRequest, ClaimResult, Counts, DeletedRow, Durations, Facts,
    Group, Groups, Hint, Hints, History, Holder, InsertResult, Keys, LeasedNotice, NewTask, Notices, OpenJob,
    Position, Queue, ReceiverFilter, Result, RowCounts, ServedBackend, TaskStore, Time, UpdateResult,
};
use crate::tasks::task::{Owner, Task, TaskId};

/// A measured store.
pub(super) struct MeasuredStore {
    inner: Arc<dyn ServerStore>,
    metrics: Arc<Metrics>,
    /// The store's clock.
    clock: Arc<dyn Clock>,
}

impl MeasuredStore {
    pub(super) fn new(inner: Arc<dyn ServerStore>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, metrics, clock }
    }

    /// Measures an operation. If it is dropped before its end, it is not counted, because its duration is
    /// unknown.
    async fn measure<T>(&self, operation: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let began = Instant::now();
        let result = work.await;
        self.metrics.record_store_operation(operation, began.elapsed(), result.is_ok());
        result
    }
}

#[async_trait]
impl TaskStore for MeasuredStore {
    async fn insert(&self, new: NewTask) -> Result<InsertResult> {
        let inserted = self.measure("insert", self.inner.insert(new)).await;
        if let Ok(InsertResult::Created(task)) = &inserted {
            self.metrics.record_created(task);
        }
        inserted
    }

    async fn get(&self, id: &TaskId, scope: Option<AccessScope<'_>>) -> Result<Option<Task>> {
        self.measure("get", self.inner.get(id, scope)).await
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        self.measure("output", self.inner.output(id)).await
    }

    async fn output_within(&self, id: &TaskId, max_bytes: usize) -> Result<BoundedOutput> {
        self.measure("output", self.inner.output_within(id, max_bytes)).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        self.measure("list", self.inner.list(owner, after, limit)).await
    }

    async fn of_channel(&self, channel: &str) -> Result<Vec<Task>> {
        self.measure("of_session", self.inner.of_channel(channel)).await
    }

    async fn update(&self, change: Change<'_>) -> Result<UpdateResult> {
        self.measure("update", self.inner.update(change)).await
    }

    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<ClaimResult> {
        let claimed = self.measure("claim", self.inner.claim(holder, lease, request)).await;
        let now = self.clock.now();
        let tasks = claimed.iter().flat_map(|claimed| &claimed.tasks);
        for due in tasks.filter_map(|task| task.due_at) {
            self.metrics.record_claim_lag(now.since(due));
        }
        claimed
    }

    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        self.measure("list_due", self.inner.list_due(served, after, limit)).await
    }

    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>> {
        self.measure("adopt", self.inner.adopt(served)).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<DeletedRow>> {
        self.measure("purge", self.inner.purge(now, limit)).await
    }

    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>> {
        self.measure("next_due", self.inner.next_due(served)).await
    }
}

#[async_trait]
impl Queue for MeasuredStore {
    async fn queue_heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>> {
        self.measure("heads", self.inner.queue_heads(served)).await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.measure("ahead", self.inner.ahead(task)).await
    }
}

#[async_trait]
impl Groups for MeasuredStore {
    async fn acquire_groups(
        &self,
        holder: &Holder,
        lease: Duration,
        served: &[ServedBackend],
    ) -> Result<Vec<Group>> {
        self.measure("hold", self.inner.acquire_groups(holder, lease, served)).await
    }

    async fn release_groups(&self, holder: &Holder) -> Result<()> {
        self.measure("leave", self.inner.release_groups(holder)).await
    }

    async fn release_all(&self, holder: &Holder) -> Result<()> {
        self.measure("let_go", self.inner.release_all(holder)).await
    }

    async fn release_dead_holders(&self) -> Result<bool> {
        self.inner.release_dead_holders().await
    }

    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>> {
        self.measure("open_jobs", self.inner.open_jobs(group, identity, opened_since)).await
    }

    async fn watched_jobs(&self, group: &Group) -> Result<Vec<TaskId>> {
        self.measure("wanted", self.inner.watched_jobs(group)).await
    }
}

#[async_trait]
impl Notices for MeasuredStore {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedNotice>> {
        self.measure("take_notices", self.inner.take_notices(receiver, holder, lease, limit)).await
    }

    async fn ack_notice(&self, notice: &Notice) -> Result<()> {
        let result = self.measure("strike", self.inner.ack_notice(notice)).await;
        if result.is_ok() {
            // Also counts a notice that its receiver answered with 410 Gone.
            self.metrics.record_notices("delivered", 1);
        }
        result
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        let result = self.measure("put_off", self.inner.retry_notice_later(notice, holder, pause)).await;
        if result.is_ok() {
            self.metrics.record_notices("put_off", 1);
        }
        result
    }

    async fn delete_notices(&self, which: ReceiverFilter<'_>, before: Timestamp) -> Result<usize> {
        let dropped = self.measure("forget_notices", self.inner.delete_notices(which, before)).await;
        self.metrics.record_notices("dropped", *dropped.as_ref().unwrap_or(&0));
        dropped
    }
}

#[async_trait]
impl History for MeasuredStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        self.measure("entries", self.inner.entries(id)).await
    }

    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.measure("forget", self.inner.delete_entries(before, limit)).await
    }
}

#[async_trait]
impl Durations for MeasuredStore {
    async fn record_duration(&self, tool: &str, took: Duration) -> Result<()> {
        self.measure("record", self.inner.record_duration(tool, took)).await
    }

    async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>> {
        self.measure("typical", self.inner.usual_duration(tool)).await
    }
}

#[async_trait]
impl Sessions for MeasuredStore {
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()> {
        self.measure("end", self.inner.end(nonce, forget_after)).await
    }

    async fn has_ended(&self, nonce: &str) -> Result<bool> {
        self.measure("has_ended", self.inner.has_ended(nonce)).await
    }

    async fn settings(&self, nonce: &str) -> Result<Option<SessionSettings>> {
        self.measure("settings", self.inner.settings(nonce)).await
    }

    async fn set(
        &self,
        nonce: &str,
        change: SessionChange,
        forget_after: Timestamp,
    ) -> Result<Option<SessionSettings>> {
        self.measure("set", self.inner.set(nonce, change, forget_after)).await
    }
}

#[async_trait]
impl Deliveries for MeasuredStore {
    async fn deliveries(&self, task: &TaskId) -> Result<BTreeMap<String, Delivery>> {
        self.measure("deliveries", self.inner.deliveries(task)).await
    }

    async fn change_delivery(
        &self,
        question: &DeliveredQuestion,
        change: DeliveryChange,
    ) -> Result<Option<Delivery>> {
        self.measure("change_delivery", self.inner.change_delivery(question, change)).await
    }
}

#[async_trait]
impl Keys for MeasuredStore {
    async fn seal_key(&self, new_key: [u8; 32]) -> Result<[u8; 32]> {
        self.measure("seal_key", self.inner.seal_key(new_key)).await
    }
}

#[async_trait]
impl Time for MeasuredStore {
    async fn now(&self) -> Result<Timestamp> {
        self.measure("now", self.inner.now()).await
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        self.measure("shorten_leases", self.inner.shorten_leases(longest)).await
    }
}

#[async_trait]
impl Facts for MeasuredStore {
    async fn fact(&self, name: &str) -> Result<Option<String>> {
        self.measure("fact", self.inner.fact(name)).await
    }

    async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
        self.measure("set_fact", self.inner.set_fact(name, value)).await
    }

    async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool> {
        self.measure("replace_fact", self.inner.replace_fact(name, before, value)).await
    }

    fn write_failure(&self) -> Option<&'static str> {
        self.inner.write_failure()
    }
}

#[async_trait]
impl RowCounts for MeasuredStore {
    async fn row_counts(&self) -> Result<Counts> {
        self.measure("tally", self.inner.row_counts()).await
    }
}

/// Waiting for other processes is not counted as an operation.
#[async_trait]
impl Hints for MeasuredStore {
    async fn changed_elsewhere(&self) -> Vec<Hint> {
        self.inner.changed_elsewhere().await
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }
}
