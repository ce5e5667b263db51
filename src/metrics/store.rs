//! [`MeasuredStore`]: a store wrapper that measures each operation, except waiting for other processes. It
//! also counts new rows, the delay of claims and the outcomes of notices. It must not change the results.
//! Some labels keep the former name of an operation, because dashboards use it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use taskbridge_sdk::{Output, Timestamp};

use super::Metrics;
use crate::clock::Clock;
use crate::tasks::history::HistoryEntry;
use crate::tasks::notices::Notice;
use crate::tasks::store::{
    AccessScope, BoundedOutput, Change, ClaimRequest, Claimed, Counts, Durations, Facts, Forget, Group,
    Groups, Hint, Hints, History, Holder, InsertResult, Keys, LeasedNotice, NewTask, Notices, OpenJob,
    Position, Purged, Queue, Result, ServedBackend, SessionChange, SessionSettings, Sessions, Store, Tally,
    TaskStore, Time, UpdateResult,
};
use crate::tasks::task::{Owner, Task, TaskId};

/// A measured store.
pub(super) struct MeasuredStore {
    inner: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    /// The store's clock.
    clock: Arc<dyn Clock>,
}

impl MeasuredStore {
    pub(super) fn new(inner: Arc<dyn Store>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, metrics, clock }
    }

    /// Measures an operation. If it is dropped before its end, it is not counted, because its duration is
    /// unknown.
    async fn timed<T>(&self, operation: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let began = Instant::now();
        let done = work.await;
        self.metrics.stored(operation, began.elapsed(), done.is_ok());
        done
    }
}

#[async_trait]
impl TaskStore for MeasuredStore {
    async fn insert(&self, new: NewTask) -> Result<InsertResult> {
        let inserted = self.timed("insert", self.inner.insert(new)).await;
        if let Ok(InsertResult::Created(task)) = &inserted {
            self.metrics.created(task);
        }
        inserted
    }

    async fn get(&self, id: &TaskId, within: Option<AccessScope<'_>>) -> Result<Option<Task>> {
        self.timed("get", self.inner.get(id, within)).await
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        self.timed("output", self.inner.output(id)).await
    }

    async fn output_within(&self, id: &TaskId, most: usize) -> Result<BoundedOutput> {
        self.timed("output", self.inner.output_within(id, most)).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        self.timed("list", self.inner.list(owner, after, limit)).await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Task>> {
        self.timed("of_session", self.inner.of_session(session)).await
    }

    async fn update(&self, change: Change<'_>) -> Result<UpdateResult> {
        self.timed("update", self.inner.update(change)).await
    }

    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<Claimed> {
        let claimed = self.timed("claim", self.inner.claim(holder, lease, request)).await;
        let now = self.clock.now();
        let tasks = claimed.iter().flat_map(|claimed| &claimed.tasks);
        for due in tasks.filter_map(|task| task.due_at) {
            self.metrics.taken_up(now.since(due));
        }
        claimed
    }

    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        self.timed("list_due", self.inner.list_due(served, after, limit)).await
    }

    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>> {
        self.timed("adopt", self.inner.adopt(served)).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<Purged>> {
        self.timed("purge", self.inner.purge(now, limit)).await
    }

    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>> {
        self.timed("next_due", self.inner.next_due(served)).await
    }
}

#[async_trait]
impl Queue for MeasuredStore {
    async fn heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>> {
        self.timed("heads", self.inner.heads(served)).await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.timed("ahead", self.inner.ahead(task)).await
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
        self.timed("hold", self.inner.acquire_groups(holder, lease, served)).await
    }

    async fn release_groups(&self, holder: &Holder) -> Result<()> {
        self.timed("leave", self.inner.release_groups(holder)).await
    }

    async fn release_all(&self, holder: &Holder) -> Result<()> {
        self.timed("let_go", self.inner.release_all(holder)).await
    }

    async fn free_dead(&self) -> Result<bool> {
        self.inner.free_dead().await
    }

    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>> {
        self.timed("open_jobs", self.inner.open_jobs(group, identity, opened_since)).await
    }

    async fn wanted(&self, group: &Group) -> Result<Vec<TaskId>> {
        self.timed("wanted", self.inner.wanted(group)).await
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
        self.timed("take_notices", self.inner.take_notices(receiver, holder, lease, limit)).await
    }

    async fn ack_notice(&self, notice: &Notice) -> Result<()> {
        let struck = self.timed("strike", self.inner.ack_notice(notice)).await;
        if struck.is_ok() {
            // Also counts a notice that its receiver answered with 410 Gone.
            self.metrics.noticed("delivered", 1);
        }
        struck
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        let put_off = self.timed("put_off", self.inner.retry_notice_later(notice, holder, pause)).await;
        if put_off.is_ok() {
            self.metrics.noticed("put_off", 1);
        }
        put_off
    }

    async fn forget_notices(&self, which: Forget<'_>, before: Timestamp) -> Result<usize> {
        let dropped = self.timed("forget_notices", self.inner.forget_notices(which, before)).await;
        self.metrics.noticed("dropped", *dropped.as_ref().unwrap_or(&0));
        dropped
    }
}

#[async_trait]
impl History for MeasuredStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        self.timed("entries", self.inner.entries(id)).await
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.timed("forget", self.inner.forget(before, limit)).await
    }
}

#[async_trait]
impl Durations for MeasuredStore {
    async fn record(&self, tool: &str, took: Duration) -> Result<()> {
        self.timed("record", self.inner.record(tool, took)).await
    }

    async fn typical(&self, tool: &str) -> Result<Option<Duration>> {
        self.timed("typical", self.inner.typical(tool)).await
    }
}

#[async_trait]
impl Sessions for MeasuredStore {
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()> {
        self.timed("end", self.inner.end(nonce, forget_after)).await
    }

    async fn has_ended(&self, nonce: &str) -> Result<bool> {
        self.timed("has_ended", self.inner.has_ended(nonce)).await
    }

    async fn settings(&self, nonce: &str) -> Result<Option<SessionSettings>> {
        self.timed("settings", self.inner.settings(nonce)).await
    }

    async fn set(
        &self,
        nonce: &str,
        setting: SessionChange,
        forget_after: Timestamp,
    ) -> Result<Option<SessionSettings>> {
        self.timed("set", self.inner.set(nonce, setting, forget_after)).await
    }
}

#[async_trait]
impl Keys for MeasuredStore {
    async fn seal_key(&self, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.timed("seal_key", self.inner.seal_key(fresh)).await
    }
}

#[async_trait]
impl Time for MeasuredStore {
    async fn now(&self) -> Result<Timestamp> {
        self.timed("now", self.inner.now()).await
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        self.timed("shorten_leases", self.inner.shorten_leases(longest)).await
    }
}

#[async_trait]
impl Facts for MeasuredStore {
    async fn fact(&self, name: &str) -> Result<Option<String>> {
        self.timed("fact", self.inner.fact(name)).await
    }

    async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
        self.timed("set_fact", self.inner.set_fact(name, value)).await
    }

    async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool> {
        self.timed("replace_fact", self.inner.replace_fact(name, before, value)).await
    }

    fn write_failure(&self) -> Option<&'static str> {
        self.inner.write_failure()
    }
}

#[async_trait]
impl Tally for MeasuredStore {
    async fn tally(&self) -> Result<Counts> {
        self.timed("tally", self.inner.tally()).await
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
