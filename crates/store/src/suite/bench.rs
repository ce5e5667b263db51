//! Fixtures for the store tests: a store, a manual clock, and rows to add.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{GroupKey, JobHandle, JobKey, Output, Timestamp};

use taskbridge_core::clock::Clock;
use taskbridge_core::sessions::ServerStore;
use taskbridge_core::tasks::store::{
    AttachRequest, Change, ClaimRequest, Holder, IdempotencyKey, InsertResult, Lease, NewTask, ServedBackend,
    SlotLimit, StoreError, UpdateResult,
};
use taskbridge_core::tasks::task::{
    Job, OnExpiry, OnRefusal, Origin, Outcome, Owner, Spec, Task, TaskId, TaskPolicy, TaskState, Undelivered,
};

/// The lease duration in these tests.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// A clock that changes only when it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock with this time.
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(now.as_millis())))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.store((self.now() + by).as_millis(), Ordering::SeqCst);
    }
}

impl ManualClock {
    /// Moves the clock back.
    pub fn set_back(&self, by: Duration) {
        self.0.store((self.now() - by).as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// An empty store and its clock.
pub struct Bench {
    /// The store.
    pub store: Arc<dyn ServerStore>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// A resource that must live as long as the store (a directory).
    pub keep: Option<Box<dyn Send + Sync>>,
    created_count: AtomicU32,
}

/// Creates a row that is due and can be started now: of `alice`, kept for an hour.
pub fn task(n: u32, now: Timestamp) -> Task {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    let mut key = [0; 16];
    key[..4].copy_from_slice(&n.to_be_bytes());
    Task {
        id: TaskId::from_bytes(bytes),
        owner: Owner::new("alice"),
        tool: "build".to_owned(),
        backend: "forge".to_owned(),
        key: JobKey::from_bytes(key),
        origin: Origin::default(),
        terms: TaskPolicy {
            ttl: Duration::from_secs(3600),
            keep_result: Duration::from_secs(600),
            max_runtime: Duration::from_secs(1800),
            max_wait: None,
            outcome_grace: Duration::from_secs(900),
            on_expiry: OnExpiry::Cancel,
            start_within: Duration::from_secs(300),
            settle_window: Duration::from_secs(120),
            on_decline: OnRefusal::Tell,
            on_dismiss: OnRefusal::Tell,
            answer_within: None,
            four_eyes: false,
        },
        slots: Vec::new(),
        refused_when_full: false,
        created_at: now,
        changed_at: now,
        ended_at: None,
        state: TaskState::Working,
        message: None,
        progress: None,
        furthest: None,
        link: None,
        files_bytes: 0,
        notes: Vec::new(),
        refers_to: Vec::new(),
        printed: None,
        watched_until: None,
        job: pending(false, now),
        cancel: None,
        questions: Vec::new(),
        trouble: None,
        overdue: None,
        missing: None,
        look_at: None,
        kept_arguments: None,
        variant: None,
        undelivered: None,
        result_read_at: None,
        due_at: Some(now),
        version: 0,
    }
}

impl Bench {
    /// Creates a bench for this store.
    pub fn new(store: Arc<dyn ServerStore>, clock: Arc<ManualClock>) -> Self {
        Self { store, clock, keep: None, created_count: AtomicU32::new(0) }
    }

    /// Adds a resource that must stay alive.
    #[must_use]
    pub fn keeping(self, keep: impl Send + Sync + 'static) -> Self {
        Self { keep: Some(Box::new(keep)), ..self }
    }

    /// Creates a [`task`] of a number that is not used yet.
    pub fn task(&self) -> Task {
        task(self.created_count.fetch_add(1, Ordering::SeqCst), self.clock.now())
    }

    /// Creates a [`Bench::task`] with its job open in this group.
    pub fn open_task(&self, group: &str) -> Task {
        let task = self.task();
        let handle = JobHandle::new(format!("run-{}", task.id));
        let job = Job::Open { handle, group: GroupKey::new(group), started_at: self.clock.now() };
        Task { job, due_at: Some(self.clock.now() + task.terms.max_runtime), ..task }
    }

    /// Creates a [`Bench::task`] that has ended, without pending work.
    pub fn closed_task(&self) -> Task {
        closed(self.task(), self.clock.now())
    }

    /// Adds a row without further options.
    pub async fn add(&self, task: Task) -> Task {
        match self.store.insert(new_task(task)).await {
            Ok(InsertResult::Created(task)) => task,
            other => panic!("the row was not created: {other:?}"),
        }
    }

    /// Reads a row of any owner.
    pub async fn read(&self, id: &TaskId) -> Option<Task> {
        self.store.get(id, None).await.expect("the store can be read")
    }

    /// Writes a row and keeps its lease.
    pub async fn update(&self, task: &Task) -> UpdateResult {
        self.change(task, Lease::Keep).await
    }

    /// Writes a row.
    pub async fn change(&self, task: &Task, lease: Lease<'_>) -> UpdateResult {
        let change = Change { lease, ..Change::new(task, self.clock.now()) };
        self.store.update(change).await.expect("the store can be written")
    }

    /// Writes a row with a result.
    pub async fn end_with(&self, task: &Task, output: &Output) -> UpdateResult {
        let change = Change { output: Some(output), ..Change::new(task, self.clock.now()) };
        self.store.update(change).await.expect("the store can be written")
    }

    /// Claims rows for this holder and returns their ids.
    pub async fn claim(&self, holder: &str) -> Vec<TaskId> {
        self.claim_rows(holder, 100).await.into_iter().map(|task| task.id).collect()
    }

    /// Claims up to `limit` rows for this holder.
    pub async fn claim_rows(&self, holder: &str, limit: usize) -> Vec<Task> {
        let request = ClaimRequest { served: forge(), limit, cursor: None, overdue: Duration::ZERO };
        let claimed = self.store.claim(&Holder(holder.to_owned()), LEASE, &request).await;
        claimed.expect("rows can be claimed").tasks
    }

    /// Returns when the next row is due.
    pub async fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due(&[forge()]).await.expect("the store can be read")[0]
    }
}

/// Returns the backend of all rows that are created here.
pub fn forge() -> ServedBackend {
    ServedBackend::named("forge")
}

/// Returns a job that was not started.
pub(super) fn pending(queued: bool, not_before: Timestamp) -> Job {
    let spec = Spec {
        target: json!({"argv": ["make"]}),
        arguments: json!({"jobs": 4}),
        sealed: None,
        unresolved: Default::default(),
    };
    Job::Pending { spec, queued, attempts: 0, not_before }
}

/// Returns the row with its job about to be started, so that it takes its slots.
pub(super) fn starting(task: Task) -> Task {
    let Job::Pending { spec, not_before, .. } = task.job else { panic!("only a pending job can be started") };
    Task {
        job: Job::Starting { spec, attempts: 1, sought: None, first_attempt_at: None, not_before },
        ..task
    }
}

/// Returns the row, ended now.
pub(super) fn closed(task: Task, now: Timestamp) -> Task {
    Task {
        state: TaskState::Ended(Outcome::Succeeded),
        ended_at: Some(now),
        job: Job::Closed { handle: None },
        due_at: None,
        ..task
    }
}

/// Returns the row with slots.
pub(super) fn with_slots(task: Task, slots: &[&str]) -> Task {
    Task { slots: slots.iter().map(|slot| (*slot).to_owned()).collect(), ..task }
}

/// Returns the row of a plain call that waits until then.
pub(super) fn waiting(task: Task, digest: &str, waiting_until: Timestamp) -> Task {
    Task { undelivered: Some(Undelivered { digest: digest.to_owned(), waiting_until }), ..task }
}

/// Returns an insert request for a row, without further options.
pub(super) fn new_task(task: Task) -> NewTask {
    NewTask {
        quota: None,
        task,
        identity: None,
        limits: Vec::new(),
        queue_behind: Vec::new(),
        idempotency_key: None,
        attach: None,
        lease: None,
        transition: None,
        notices: Vec::new(),
    }
}

/// Returns one limit for each of the slots.
pub(super) fn limits(slots: &[&str], limit: u32) -> Vec<SlotLimit> {
    slots.iter().map(|slot| SlotLimit { slot: (*slot).to_owned(), limit }).collect()
}

pub(super) fn idempotency_key(scope: &str, key: &str, digest: &str) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { scope: scope.to_owned(), key: key.to_owned(), digest: digest.to_owned() })
}

pub(super) fn attach(digest: &str, within: Duration) -> Option<AttachRequest> {
    Some(AttachRequest { digest: digest.to_owned(), within })
}

pub(super) fn holder(name: &str) -> Holder {
    Holder(name.to_owned())
}

/// Returns the result of an insert as a short word.
pub(super) fn outcome_name(inserted: &Result<InsertResult, StoreError>) -> &'static str {
    match inserted {
        Ok(InsertResult::Created(_)) => "created",
        Ok(InsertResult::Existing { same: true, .. }) => "existing",
        Ok(InsertResult::Existing { same: false, .. }) => "other",
        Ok(InsertResult::Abandoned(_)) => "abandoned",
        Ok(InsertResult::NoSlot { .. }) => "no slot",
        Ok(InsertResult::TooMany) => "too many",
        Ok(InsertResult::TooLarge { .. }) => "too large",
        Err(_) => "error",
    }
}
