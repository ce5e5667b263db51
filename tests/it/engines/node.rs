//! A server without its endpoint, connected to simulated engines that can hang.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use taskbridge::clock::{Clock, System};
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::notices::NoReceivers;
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::{Call, Service, WhenFull};
use taskbridge::tasks::store::Holder;
use taskbridge::tasks::store::time::StoreTime;
use taskbridge::tasks::task::{
    OnExpiry, OnRefusal, Origin, Owner, Spec, Task, TaskId, TaskPolicy, TaskState,
};
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge_sdk::sim::SimEngine;
use taskbridge_sdk::{Abilities, Backend, JobHandle, JobKey, JobSpec, Observation, Result, Started};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{PausedClock, PlainTools};

const HOUR: Duration = Duration::from_secs(3600);

/// A backend of a simulated engine, which can hang.
pub(super) struct Connection {
    inner: Arc<dyn Backend>,
    /// The engine's identity. With `learns_identity`, it is unknown until the first poll.
    identity: Option<String>,
    learns_identity: AtomicBool,
    hangs: bool,
    /// The keys of the start requests that were sent.
    sent_keys: Mutex<BTreeSet<String>>,
}

impl Connection {
    pub(super) fn new(engine: &SimEngine, identity: Option<&str>, hangs: bool) -> Arc<Self> {
        Self::over(engine.backend(), identity, hangs)
    }

    /// Creates a connection that uses this backend.
    pub(super) fn over(inner: Arc<dyn Backend>, identity: Option<&str>, hangs: bool) -> Arc<Self> {
        let identity = identity.map(str::to_owned);
        let learns_identity = AtomicBool::new(false);
        Arc::new(Self { inner, identity, learns_identity, hangs, sent_keys: Mutex::default() })
    }

    /// Creates a backend that learns its engine's identity from the engine's first response.
    pub(super) fn with_late_identity(engine: &SimEngine, identity: &str) -> Arc<Self> {
        let connection = Self::new(engine, Some(identity), false);
        connection.learns_identity.store(true, Ordering::SeqCst);
        connection
    }

    async fn wait_if_hung(&self) {
        if self.hangs {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn has_sent(&self, key: &JobKey) -> bool {
        self.sent_keys.lock().contains(key.as_str())
    }
}

#[async_trait]
impl Backend for Connection {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.sent_keys.lock().insert(job.key.as_str().to_owned());
        self.wait_if_hung().await;
        self.inner.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.wait_if_hung().await;
        self.inner.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.wait_if_hung().await;
        self.learns_identity.store(false, Ordering::SeqCst);
        self.inner.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.wait_if_hung().await;
        self.inner.cancel(handle).await
    }

    fn start_lag(&self) -> Duration {
        self.inner.start_lag()
    }

    fn key_lifetime(&self) -> Option<Duration> {
        self.inner.key_lifetime()
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { wakeups: self.inner.abilities().wakeups, ..Abilities::default() }
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone().filter(|_| !self.learns_identity.load(Ordering::SeqCst))
    }
}

/// A server without its endpoint.
pub(super) struct Node {
    service: Service,
    stop: CancellationToken,
    reconciler_task: JoinHandle<()>,
}

impl Node {
    pub(super) async fn start(name: &str, dir: &Path, backends: &[(&str, &Arc<Connection>)]) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock(start_time()));
        let store = Arc::new(SqliteStore::open(&dir.join("tasks.db"), clock, Mode::Inline).unwrap());
        let time = StoreTime::of(store.clone() as _, Arc::new(PausedClock(start_time()))).await.unwrap();
        let holder = Holder(name.to_owned());
        let poll_intervals =
            PollIntervals { shortest: Duration::from_millis(100), longest: Duration::from_secs(30) };
        let writer = TaskWriter {
            store,
            watch: ChangeNotifier::default(),
            clock: time.clone(),
            tools: Arc::new(PlainTools),
            receivers: Arc::new(NoReceivers),
            nudge: Arc::new(ReconcilerSignals::default()),
            history_recorder: HistoryRecorder { replica: holder.clone(), enabled: false },
            meter: Arc::new(taskbridge::tasks::meter::Unmetered),
            audit: Arc::new(taskbridge::tasks::audit::LogOnlyAudit),
        };
        let backends = backends.iter().map(|(name, backend)| ((*name).to_owned(), Arc::clone(*backend) as _));
        let engines = Engines::new(backends.collect::<BTreeMap<_, Arc<dyn Backend>>>(), 16);
        let (lease, tick) = (Duration::from_secs(15), Duration::from_secs(1));
        let settings = Settings { lease, tick, poll_intervals, max_actions: 64, history: HOUR };
        let reconciler = Reconciler::new(writer.clone(), engines, holder.clone(), settings).with_time(time);
        let service =
            Service::new(writer, System::entropy(), holder, lease, poll_intervals, reconciler.outbox());
        let stop = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "the test is its own app")]
        let reconciler_task = tokio::spawn(reconciler.run(stop.clone()));
        Self { service, stop, reconciler_task }
    }

    /// Calls a tool whose job has this duration.
    pub(super) async fn call(&self, backend: &str, duration: Duration) -> TaskId {
        let terms = TaskPolicy {
            ttl: HOUR,
            keep_result: HOUR,
            max_runtime: Duration::from_secs(90),
            max_wait: None,
            outcome_grace: HOUR,
            on_expiry: OnExpiry::Cancel,
            start_within: HOUR,
            settle_window: HOUR,
            on_decline: OnRefusal::Tell,
            on_dismiss: OnRefusal::Tell,
            answer_within: None,
            four_eyes: false,
        };
        let millis = u64::try_from(duration.as_millis()).unwrap();
        let spec = Spec {
            target: json!({"delay_ms": millis}),
            arguments: json!({}),
            sealed: None,
            unresolved: Default::default(),
        };
        let call = Call {
            owner: owner(),
            origin: Origin::default(),
            tool: backend.to_owned(),
            backend: backend.to_owned(),
            spec,
            references: Vec::new(),
            terms,
            slots: Vec::new(),
            when_full: WhenFull::Queue,
            quota: None,
            confirm: None,
            idempotency_key: None,
            kept_arguments: None,
            variant: None,
            blocking: None,
        };
        self.service.call(call).await.unwrap().into_task().id
    }

    pub(super) async fn task(&self, id: &TaskId) -> Task {
        self.service.get(&owner(), id).await.unwrap().unwrap().task
    }

    pub(super) async fn wait_for_end(&self, id: &TaskId) -> TaskState {
        for _ in 0..600 {
            let task = self.task(id).await;
            if task.has_ended() {
                return task.state;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("it never ends: {:?}", self.task(id).await);
    }

    /// Returns the median time from a call to its job's handle, over consecutive calls.
    pub(super) async fn median_start(&self, backend: &str) -> Duration {
        let mut durations = Vec::new();
        for _ in 0..21 {
            let (id, started_at) = (self.call(backend, Duration::ZERO).await, Instant::now());
            while self.task(&id).await.handle().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            durations.push(started_at.elapsed());
        }
        durations.sort();
        durations[durations.len() / 2]
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.reconciler_task.await.unwrap();
    }
}

fn owner() -> Owner {
    Owner::new("ana")
}

thread_local! {
    static BEGAN: Instant = Instant::now();
}

/// Returns the start time of the test. Each test has its own thread.
fn start_time() -> Instant {
    BEGAN.with(|began| *began)
}
