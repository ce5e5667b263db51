//! [`Measured`]: a store wrapper that measures each operation. It also counts new rows, the delay of claims
//! and the outcomes of notices. It does not change the results.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use taskbridge_sdk::{Output, Timestamp};

use super::Metrics;
use crate::clock::Clock;
use crate::tasks::history::Entry;
use crate::tasks::notices::Notice;
use crate::tasks::store::{
    Change, ClaimRequest, Claimed, Counts, Durations, Facts, Forget, Found, Group, Groups, Hint, Hints,
    History, Holder, Inserted, Keys, NewTask, Notices, OpenJob, Owed, Position, Purged, Queue, Reach, Result,
    Served, Sessions, Setting, Settings, Store, Tally, TaskStore, Time, Updated,
};
use crate::tasks::task::{Owner, Task, TaskId};

/// A measured store.
pub(super) struct Measured {
    inner: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    /// The store's clock.
    clock: Arc<dyn Clock>,
}

impl Measured {
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
impl TaskStore for Measured {
    async fn insert(&self, new: NewTask) -> Result<Inserted> {
        let inserted = self.timed("insert", self.inner.insert(new)).await;
        if let Ok(Inserted::Created(task)) = &inserted {
            self.metrics.created(task);
        }
        inserted
    }

    async fn get(&self, id: &TaskId, within: Option<Reach<'_>>) -> Result<Option<Task>> {
        self.timed("get", self.inner.get(id, within)).await
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        self.timed("output", self.inner.output(id)).await
    }

    async fn output_within(&self, id: &TaskId, most: usize) -> Result<Found> {
        self.timed("output", self.inner.output_within(id, most)).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        self.timed("list", self.inner.list(owner, after, limit)).await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Task>> {
        self.timed("of_session", self.inner.of_session(session)).await
    }

    async fn update(&self, change: Change<'_>) -> Result<Updated> {
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
        served: &Served,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        self.timed("list_due", self.inner.list_due(served, after, limit)).await
    }

    async fn adopt(&self, served: &Served) -> Result<Vec<(String, u64)>> {
        self.timed("adopt", self.inner.adopt(served)).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<Purged>> {
        self.timed("purge", self.inner.purge(now, limit)).await
    }

    async fn next_due(&self, served: &[Served]) -> Result<Vec<Option<Timestamp>>> {
        self.timed("next_due", self.inner.next_due(served)).await
    }
}

#[async_trait]
impl Queue for Measured {
    async fn heads(&self, served: &[Served]) -> Result<Vec<Task>> {
        self.timed("heads", self.inner.heads(served)).await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.timed("ahead", self.inner.ahead(task)).await
    }
}

#[async_trait]
impl Groups for Measured {
    async fn hold(&self, holder: &Holder, lease: Duration, served: &[Served]) -> Result<Vec<Group>> {
        self.timed("hold", self.inner.hold(holder, lease, served)).await
    }

    async fn leave(&self, holder: &Holder) -> Result<()> {
        self.timed("leave", self.inner.leave(holder)).await
    }

    async fn let_go(&self, holder: &Holder) -> Result<()> {
        self.timed("let_go", self.inner.let_go(holder)).await
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
impl Notices for Measured {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Owed>> {
        self.timed("take_notices", self.inner.take_notices(receiver, holder, lease, limit)).await
    }

    async fn strike(&self, notice: &Notice) -> Result<()> {
        let struck = self.timed("strike", self.inner.strike(notice)).await;
        if struck.is_ok() {
            self.metrics.noticed("delivered", 1);
        }
        struck
    }

    async fn put_off(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        let put_off = self.timed("put_off", self.inner.put_off(notice, holder, pause)).await;
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
impl History for Measured {
    async fn entries(&self, id: &TaskId) -> Result<Vec<Entry>> {
        self.timed("entries", self.inner.entries(id)).await
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.timed("forget", self.inner.forget(before, limit)).await
    }
}

#[async_trait]
impl Durations for Measured {
    async fn record(&self, tool: &str, took: Duration) -> Result<()> {
        self.timed("record", self.inner.record(tool, took)).await
    }

    async fn typical(&self, tool: &str) -> Result<Option<Duration>> {
        self.timed("typical", self.inner.typical(tool)).await
    }
}

#[async_trait]
impl Sessions for Measured {
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()> {
        self.timed("end", self.inner.end(nonce, forget_after)).await
    }

    async fn has_ended(&self, nonce: &str) -> Result<bool> {
        self.timed("has_ended", self.inner.has_ended(nonce)).await
    }

    async fn settings(&self, nonce: &str) -> Result<Option<Settings>> {
        self.timed("settings", self.inner.settings(nonce)).await
    }

    async fn set(&self, nonce: &str, setting: Setting, forget_after: Timestamp) -> Result<Option<Settings>> {
        self.timed("set", self.inner.set(nonce, setting, forget_after)).await
    }
}

#[async_trait]
impl Keys for Measured {
    async fn seal_key(&self, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.timed("seal_key", self.inner.seal_key(fresh)).await
    }
}

#[async_trait]
impl Time for Measured {
    async fn now(&self) -> Result<Timestamp> {
        self.timed("now", self.inner.now()).await
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        self.timed("shorten_leases", self.inner.shorten_leases(longest)).await
    }
}

#[async_trait]
impl Facts for Measured {
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
impl Tally for Measured {
    async fn tally(&self) -> Result<Counts> {
        self.timed("tally", self.inner.tally()).await
    }
}

/// Waiting for other processes is not counted as an operation.
#[async_trait]
impl Hints for Measured {
    async fn changed_elsewhere(&self) -> Vec<Hint> {
        self.inner.changed_elsewhere().await
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }
}
