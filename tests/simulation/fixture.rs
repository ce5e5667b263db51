//! The setting of single scenarios: one file, one engine, and any number of processes. It must not use
//! randomness.

use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::service::{Call, WhenFull};
use taskbridge_core::tasks::store::TaskStore;
use taskbridge_core::tasks::task::{Origin, Owner, Spec, Task, TaskId};
use taskbridge_sdk::sim::{Mode, SimEngine};
use taskbridge_sdk::{Answer, Backend};
use taskbridge_store::sqlite::{Mode as StoreMode, SqliteStore};
use tokio::sync::Semaphore;

use super::clocks::{SettableClock, WorldClock};
use super::engines::SIM;
use super::hints::HintBus;
use super::node::{EngineLink, LEASE, Node, Parts};
use super::plan::terms;
use super::planted::PlantedBug;
use super::points::Points;
use super::rng::Rng;
use super::store::{CONNECTIONS, PointedStore};
use super::store_faults::StoreFaults;

/// Machines over one file, and an engine.
pub(super) struct Fixture {
    dir: tempfile::TempDir,
    world_clock: Arc<dyn Clock>,
    /// The store's clock.
    pub(super) clock: Arc<SettableClock>,
    pub(super) engine: SimEngine,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let world_clock: Arc<dyn Clock> = Arc::new(WorldClock::new());
        let clock = SettableClock::new(Arc::clone(&world_clock));
        let dir = tempfile::tempdir().expect("there is a temporary folder");
        Self { dir, world_clock, clock, engine: SimEngine::new(Mode::Keyed) }
    }

    pub(super) fn store(&self) -> SqliteStore {
        let file = self.dir.path().join("tasks.db");
        SqliteStore::open(&file, self.clock.clone(), StoreMode::Inline).expect("the file can be opened")
    }

    /// Starts a process without faults.
    pub(super) async fn start(&self, name: &str) -> Node {
        self.start_with_faults(name, &Arc::default()).await
    }

    /// Starts a process with these faults of its connection to the store.
    pub(super) async fn start_with_faults(&self, name: &str, store_faults: &Arc<StoreFaults>) -> Node {
        self.start_with_backend(name, store_faults, self.engine.backend()).await
    }

    /// Starts a process that reaches the engine through this backend.
    pub(super) async fn start_with_backend(
        &self,
        name: &str,
        store_faults: &Arc<StoreFaults>,
        backend: Arc<dyn Backend>,
    ) -> Node {
        self.start_with_links(name, store_faults, vec![EngineLink::to(SIM, backend)]).await
    }

    /// Starts a process that reaches these engines.
    pub(super) async fn start_with_links(
        &self,
        name: &str,
        store_faults: &Arc<StoreFaults>,
        engine_links: Vec<EngineLink>,
    ) -> Node {
        let store = self.pointed_store(name, store_faults, Rng::new(1));
        let parts = Parts {
            name: name.to_owned(),
            engine_links,
            world_clock: Arc::clone(&self.world_clock),
            leases: Arc::clone(&store.leases),
            entropy: Arc::new(Rng::new(2)),
            points: Arc::clone(&store.points),
            bug: None,
            store: Arc::new(store),
        };
        Node::start(parts).await.expect("the store is there")
    }

    /// Opens the store of a process.
    pub(super) fn pointed_store(
        &self,
        name: &str,
        store_faults: &Arc<StoreFaults>,
        rng: Rng,
    ) -> PointedStore {
        PointedStore {
            inner: Arc::new(self.store()),
            points: Points::new(Arc::new(rng)),
            clock: Arc::clone(&self.world_clock),
            leases: Arc::default(),
            store_faults: Arc::clone(store_faults),
            planted_bug: PlantedBug::new(None, name.to_owned(), Arc::default(), self.dir.path()),
            connections: Semaphore::new(CONNECTIONS),
            hints: Arc::<HintBus>::default().open(false),
        }
    }

    /// Starts a job through this process, answers its question there, and returns the row before the answer.
    pub(super) async fn answered_task(&self, node: &Node) -> Task {
        let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let question = json!({"message": "go on?", "schema": form, "at_once": true});
        let call = node.service.call(call_with(json!({"delay_ms": 1_000, "question": question}))).await;
        let id = call.expect("the store is there").into_task().id;
        tokio::time::sleep(LEASE).await;
        let task = self.row(&id).await;
        let question = task.open_questions().next().unwrap_or_else(|| panic!("nothing is asked: {task:?}"));
        let accept = Answer::Accept(serde_json::Map::new());
        let result = node.service.answer(&task.owner, &id, &question.key, accept).await;
        result.expect("the question is open");
        task
    }

    /// Returns a row if it exists.
    pub(super) async fn find(&self, id: &TaskId) -> Option<Task> {
        self.store().get(id, None).await.expect("the file can be read")
    }

    /// Returns an existing row.
    pub(super) async fn row(&self, id: &TaskId) -> Task {
        self.find(id).await.expect("it is there")
    }
}

/// Returns a call for a job with these arguments.
pub(super) fn call_with(arguments: Value) -> Call {
    Call {
        owner: Owner::new("ana"),
        origin: Origin::default(),
        tool: "work".to_owned(),
        backend: SIM.to_owned(),
        spec: Spec { target: json!({}), arguments, sealed: None, unresolved: Default::default() },
        references: Vec::new(),
        terms: terms(),
        slots: Vec::new(),
        when_full: WhenFull::Queue,
        quota: None,
        confirm: None,
        idempotency_key: None,
        kept_arguments: None,
        variant: None,
        blocking: None,
    }
}
