//! [`BlockingStore`]: runs a store that needs a real async runtime inside a simulation, whose own runtime
//! has a paused clock. Each call completes on its first poll, so virtual time does not move during it. Calls
//! are only delegated here.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use async_trait::async_trait;
use taskbridge_core::clock::Clock;
use taskbridge_core::sessions::{DeliveredQuestion, Deliveries, Delivery, DeliveryChange};
use taskbridge_core::tasks::history::HistoryEntry;
use taskbridge_core::tasks::notices::Notice;
use taskbridge_core::tasks::pace::usual::UsualDuration;
use taskbridge_core::tasks::store::{
    AccessScope, BoundedOutput, Change, ClaimRequest, ClaimResult, Counts, DeletedRow, Durations, Facts,
    Group, Groups, Hint, Hints, History, Holder, InsertResult, Keys, LeasedNotice, NewTask, Notices, OpenJob,
    Position, Queue, ReceiverFilter, Result, RowCounts, ServedBackend, TaskStore, Time, UpdateResult,
};
use taskbridge_core::tasks::task::{Owner, Task, TaskId};
use taskbridge_sdk::{Output, Timestamp};
use tokio::runtime::Handle;

use super::store::SimStore;

/// Polls a future to completion on this thread. Its I/O and timers run on `runtime`, even if this thread is
/// already inside another runtime, as in a simulation.
pub(super) fn block_on<T>(runtime: &Handle, work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let _guard = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // The outer task's cooperative budget would otherwise run out in here, and nothing would refill it.
    let mut work = pin!(tokio::task::unconstrained(work));
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// The time of the latest call. Threads of another runtime cannot read virtual time.
#[derive(Default)]
pub(super) struct CallTime(AtomicI64);

impl Clock for CallTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A store whose calls complete on their first poll.
pub(super) struct BlockingStore {
    pub(super) inner: Arc<dyn SimStore>,
    pub(super) runtime: Handle,
    /// The store's clock in the simulation, and the copy of it that `inner` reads.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) call_time: Arc<CallTime>,
}

impl BlockingStore {
    fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.call_time.0.store(self.clock.now().as_millis(), Ordering::SeqCst);
        block_on(&self.runtime, call)
    }
}

#[async_trait]
impl TaskStore for BlockingStore {
    async fn insert(&self, new: NewTask) -> Result<InsertResult> {
        self.wait(self.inner.insert(new))
    }

    async fn get(&self, id: &TaskId, scope: Option<AccessScope<'_>>) -> Result<Option<Task>> {
        self.wait(self.inner.get(id, scope))
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        self.wait(self.inner.output(id))
    }

    async fn output_within(&self, id: &TaskId, max_bytes: usize) -> Result<BoundedOutput> {
        self.wait(self.inner.output_within(id, max_bytes))
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        self.wait(self.inner.list(owner, after, limit))
    }

    async fn of_channel(&self, channel: &str) -> Result<Vec<Task>> {
        self.wait(self.inner.of_channel(channel))
    }

    async fn update(&self, change: Change<'_>) -> Result<UpdateResult> {
        self.wait(self.inner.update(change))
    }

    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<ClaimResult> {
        self.wait(self.inner.claim(holder, lease, request))
    }

    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        self.wait(self.inner.list_due(served, after, limit))
    }

    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>> {
        self.wait(self.inner.adopt(served))
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<DeletedRow>> {
        self.wait(self.inner.purge(now, limit))
    }

    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>> {
        self.wait(self.inner.next_due(served))
    }
}

#[async_trait]
impl Deliveries for BlockingStore {
    async fn deliveries(&self, task: &TaskId) -> Result<BTreeMap<String, Delivery>> {
        self.wait(self.inner.deliveries(task))
    }

    async fn change_delivery(
        &self,
        question: &DeliveredQuestion,
        change: DeliveryChange,
    ) -> Result<Option<Delivery>> {
        self.wait(self.inner.change_delivery(question, change))
    }
}

#[async_trait]
impl Queue for BlockingStore {
    async fn queue_heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>> {
        self.wait(self.inner.queue_heads(served))
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.wait(self.inner.ahead(task))
    }
}

#[async_trait]
impl Groups for BlockingStore {
    async fn acquire_groups(
        &self,
        holder: &Holder,
        lease: Duration,
        served: &[ServedBackend],
    ) -> Result<Vec<Group>> {
        self.wait(self.inner.acquire_groups(holder, lease, served))
    }

    async fn release_groups(&self, holder: &Holder) -> Result<()> {
        self.wait(self.inner.release_groups(holder))
    }

    async fn release_all(&self, holder: &Holder) -> Result<()> {
        self.wait(self.inner.release_all(holder))
    }

    async fn release_dead_holders(&self) -> Result<bool> {
        self.wait(self.inner.release_dead_holders())
    }

    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>> {
        self.wait(self.inner.open_jobs(group, identity, opened_since))
    }

    async fn watched_jobs(&self, group: &Group) -> Result<Vec<TaskId>> {
        self.wait(self.inner.watched_jobs(group))
    }
}

#[async_trait]
impl Notices for BlockingStore {
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedNotice>> {
        self.wait(self.inner.take_notices(receiver, holder, lease, limit))
    }

    async fn ack_notice(&self, notice: &Notice) -> Result<()> {
        self.wait(self.inner.ack_notice(notice))
    }

    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()> {
        self.wait(self.inner.retry_notice_later(notice, holder, pause))
    }

    async fn delete_notices(&self, selection: ReceiverFilter<'_>, before: Timestamp) -> Result<usize> {
        self.wait(self.inner.delete_notices(selection, before))
    }
}

#[async_trait]
impl History for BlockingStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        self.wait(self.inner.entries(id))
    }

    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.wait(self.inner.delete_entries(before, limit))
    }
}

#[async_trait]
impl Durations for BlockingStore {
    async fn record_duration(&self, tool: &str, duration: Duration) -> Result<()> {
        self.wait(self.inner.record_duration(tool, duration))
    }

    async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>> {
        self.wait(self.inner.usual_duration(tool))
    }
}

#[async_trait]
impl Keys for BlockingStore {
    async fn seal_key(&self, new_key: [u8; 32]) -> Result<[u8; 32]> {
        self.wait(self.inner.seal_key(new_key))
    }
}

#[async_trait]
impl Time for BlockingStore {
    async fn now(&self) -> Result<Timestamp> {
        self.wait(self.inner.now())
    }

    async fn shorten_leases(&self, longest: Duration) -> Result<()> {
        self.wait(self.inner.shorten_leases(longest))
    }
}

#[async_trait]
impl Facts for BlockingStore {
    async fn fact(&self, name: &str) -> Result<Option<String>> {
        self.wait(self.inner.fact(name))
    }

    async fn set_fact(&self, name: &str, value: &str) -> Result<()> {
        self.wait(self.inner.set_fact(name, value))
    }

    async fn replace_fact(&self, name: &str, expected: Option<&str>, value: &str) -> Result<bool> {
        self.wait(self.inner.replace_fact(name, expected, value))
    }

    fn write_failure(&self) -> Option<&'static str> {
        self.inner.write_failure()
    }
}

#[async_trait]
impl RowCounts for BlockingStore {
    async fn row_counts(&self) -> Result<Counts> {
        self.wait(self.inner.row_counts())
    }
}

#[async_trait]
impl Hints for BlockingStore {
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    /// Drops all hints: they arrive in real time, so a run could not be replayed with them.
    async fn changed_elsewhere(&self) -> Vec<Hint> {
        std::future::pending().await
    }
}
