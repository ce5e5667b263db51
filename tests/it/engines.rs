//! Several engines, and several servers that are connected to different engines. The real loops run over the
//! real store with simulated engines, on a paused clock. One engine's faults must not affect tasks of the
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use taskbridge::clock::{Clock, System, Uptime};
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::notices::{NoticeKind, Receivers};
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::{Call, Service, WhenFull};
use taskbridge::tasks::store::{Holder, SlotLimit};
use taskbridge::tasks::task::{
    Job, OnExpiry, OnRefusal, Origin, Outcome, Owner, Spec, Task, TaskId, TaskPolicy, TaskState,
};
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::time::StoreTime;
use taskbridge::tasks::tools::{OpenedSpec, ToolCatalog};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge_sdk::sim::{Config, Mode as Keys, SimEngine};
use taskbridge_sdk::{
    Abilities, Backend, JobHandle, JobKey, JobSpec, Observation, Output, Result, Started, Timestamp,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const HOUR: Duration = Duration::from_secs(3600);

/// The paused clock of the tokio runtime.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000) + self.0.elapsed()
    }
}

impl Uptime for PausedClock {
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn boot_id(&self) -> String {
        String::new()
    }
}

struct NoReceivers;

impl Receivers for NoReceivers {
    fn receivers_for(&self, _tool: &str, _occasion: NoticeKind) -> Vec<String> {
        Vec::new()
    }
}

/// Tools without sealed arguments and without slots. Every output is valid.
struct PlainTools;

#[async_trait]
impl ToolCatalog for PlainTools {
    fn open(&self, spec: &Spec) -> Result<OpenedSpec> {
        Ok(OpenedSpec { arguments: spec.arguments.clone(), files: Vec::new() })
    }

    async fn validate_output(&self, _tool: &str, _output: &Output) -> std::result::Result<(), String> {
        Ok(())
    }

    fn limits(&self, _slots: &[String]) -> Vec<SlotLimit> {
        Vec::new()
    }
}

/// A backend of a simulated engine, which can hang.
struct Connection {
    inner: Arc<dyn Backend>,
    /// The engine's identity. With `learns`, it is unknown until the first poll.
    identity: Option<String>,
    learns_identity: AtomicBool,
    hangs: bool,
    /// The keys of the start requests that were sent.
    sent_keys: Mutex<BTreeSet<String>>,
}

impl Connection {
    fn new(engine: &SimEngine, identity: Option<&str>, hangs: bool) -> Arc<Self> {
        let identity = identity.map(str::to_owned);
        let learns_identity = AtomicBool::new(false);
        Arc::new(Self {
            inner: engine.backend(),
            identity,
            learns_identity,
            hangs,
            sent_keys: Mutex::default(),
        })
    }

    /// Creates a backend that learns its engine's identity from the engine's first response.
    fn with_late_identity(engine: &SimEngine, identity: &str) -> Arc<Self> {
        let connection = Self::new(engine, Some(identity), false);
        connection.learns_identity.store(true, Ordering::SeqCst);
        connection
    }

    async fn wait_if_hung(&self) {
        if self.hangs {
            std::future::pending::<()>().await;
        }
    }

    fn has_sent(&self, key: &JobKey) -> bool {
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

    fn abilities(&self) -> Abilities<'_> {
        Abilities { wakeups: self.inner.abilities().wakeups, ..Abilities::default() }
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone().filter(|_| !self.learns_identity.load(Ordering::SeqCst))
    }
}

/// A server without its endpoint.
struct Node {
    service: Service,
    stop: CancellationToken,
    reconciler_task: JoinHandle<()>,
}

impl Node {
    async fn start(name: &str, dir: &Path, backends: &[(&str, &Arc<Connection>)]) -> Self {
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
    async fn call(&self, backend: &str, duration: Duration) -> TaskId {
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
            blocking: None,
        };
        self.service.call(call).await.unwrap().into_task().id
    }

    async fn task(&self, id: &TaskId) -> Task {
        self.service.get(&owner(), id).await.unwrap().unwrap().task
    }

    async fn wait_for_end(&self, id: &TaskId) -> TaskState {
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
    async fn median_start(&self, backend: &str) -> Duration {
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

    async fn stop(self) {
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

/// One engine hangs with many tasks. Another engine still starts its jobs as quickly. No task whose start
/// was never sent is reported as uncertain; those tasks end at their deadline.
#[tokio::test(start_paused = true)]
async fn hung_engine_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine = SimEngine::new(Keys::Unkeyed);
    let (hung, quick) = (Connection::new(&engine, None, true), Connection::new(&engine, None, false));
    let node = Node::start("one", dir.path(), &[("hung", &hung), ("quick", &quick)]).await;
    let quiet = node.median_start("quick").await;
    let mut waiting = Vec::new();
    for _ in 0..5_000 {
        waiting.push(node.call("hung", Duration::ZERO).await);
    }
    for _ in 0..5 {
        let busy = node.median_start("quick").await;
        assert!(
            busy <= quiet.max(Duration::from_millis(5)) * 2,
            "{busy:?} beside a hung engine, {quiet:?} without"
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut unsent = 0;
    for id in &waiting {
        let task = node.task(id).await;
        if hung.has_sent(&task.key) {
            continue;
        }
        unsent += 1;
        assert_eq!(task.state, TaskState::Ended(Outcome::Broken), "{task:?}");
        let message = task.message.unwrap_or_default();
        assert!(message.starts_with("not started"), "{message}");
        assert!(matches!(task.job, Job::Closed { handle: None }), "{:?}", task.job);
    }
    assert!(unsent > 4_000, "most were never sent: {unsent}");
    node.stop().await;
}

/// A replica that takes over a job polls it before the engine lists it, and the task continues. A job that
/// the engine has really lost ends its task after the lag.
#[tokio::test(start_paused = true)]
async fn new_job_survives_takeover() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { start_lag: Duration::from_secs(10), ..Config::default() };
    let engine = SimEngine::from_config(&config);
    let connection = || {
        let base = Connection::new(&engine, None, false);
        Arc::new(Connection { inner: engine.backend_as(&config), ..Arc::into_inner(base).unwrap() })
    };
    let one = Node::start("one", dir.path(), &[("engine", &connection())]).await;
    let id = one.call("engine", Duration::from_secs(20)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(one.task(&id).await.handle().is_some());
    one.stop().await;
    let two = Node::start("two", dir.path(), &[("engine", &connection())]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(two.task(&id).await.state, TaskState::Working);
    assert_eq!(two.wait_for_end(&id).await, TaskState::Ended(Outcome::Succeeded));

    let (lost, started_at) = (two.call("engine", Duration::from_secs(80)).await, Instant::now());
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.forget(two.task(&lost).await.handle().unwrap());
    assert_eq!(two.wait_for_end(&lost).await, TaskState::Ended(Outcome::Broken));
    assert!(started_at.elapsed() >= config.start_lag, "{:?}", started_at.elapsed());
    two.stop().await;
}

/// Two servers share a store but have different engines under one name. Neither changes the other's tasks.
#[tokio::test(start_paused = true)]
async fn other_identity_leaves_tasks_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (SimEngine::new(Keys::Keyed), SimEngine::new(Keys::Keyed));
    let first = Connection::new(&one, Some("sim one"), false);
    let second = Connection::new(&two, Some("sim two"), false);
    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    let running = node.call("engine", Duration::from_secs(40)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(node.task(&running).await.handle().is_some());
    node.stop().await;

    let other = Node::start("two", dir.path(), &[("engine", &second)]).await;
    let own_task = other.call("engine", Duration::from_secs(5)).await;
    let third = Node::start("three", dir.path(), &[("engine", &first)]).await;
    let third_task = third.call("engine", Duration::from_secs(5)).await;
    assert_eq!(other.wait_for_end(&own_task).await, TaskState::Ended(Outcome::Succeeded));
    assert_eq!(third.wait_for_end(&third_task).await, TaskState::Ended(Outcome::Succeeded));
    third.stop().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(other.task(&running).await.state, TaskState::Working);
    assert_eq!((one.total_starts(), two.total_starts()), (2, 1));
    other.stop().await;

    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    assert_eq!(node.wait_for_end(&running).await, TaskState::Ended(Outcome::Succeeded));
    node.stop().await;
}

/// The second server learns its engine's identity only from the first poll. An unknown job of the other
/// engine ends no task.
#[tokio::test(start_paused = true)]
async fn identity_learned_late_leaves_tasks_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (SimEngine::new(Keys::Keyed), SimEngine::new(Keys::Keyed));
    let first = Connection::new(&one, Some("sim one"), false);
    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    let running = node.call("engine", Duration::from_secs(40)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.stop().await;

    let late = Connection::with_late_identity(&two, "sim two");
    let other = Node::start("two", dir.path(), &[("engine", &late)]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(late.identity().is_some(), "it was never polled");
    assert_eq!(other.task(&running).await.state, TaskState::Working);
    let own = other.call("engine", Duration::from_secs(5)).await;
    assert_eq!(other.wait_for_end(&own).await, TaskState::Ended(Outcome::Succeeded));
    other.stop().await;

    let node = Node::start("one", dir.path(), &[("engine", &first)]).await;
    assert_eq!(node.wait_for_end(&running).await, TaskState::Ended(Outcome::Succeeded));
    node.stop().await;
}

/// A server that has not connected a backend leaves the backend's tasks to servers that have.
#[tokio::test(start_paused = true)]
async fn unconnected_backend_keeps_its_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let engine = SimEngine::new(Keys::Keyed);
    let connection = Connection::new(&engine, None, false);
    let unconnected = Node::start("one", dir.path(), &[("old", &connection)]).await;
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(unconnected.call("new", Duration::from_secs(5)).await);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for id in &tasks {
        assert_eq!(unconnected.task(id).await.state, TaskState::Working);
    }
    let connected = Node::start("two", dir.path(), &[("old", &connection), ("new", &connection)]).await;
    for id in &tasks {
        assert_eq!(unconnected.wait_for_end(id).await, TaskState::Ended(Outcome::Succeeded));
    }
    connected.stop().await;
    unconnected.stop().await;
}
