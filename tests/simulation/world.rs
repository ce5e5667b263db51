//! A world of one seed: its processes, engines and clocks, and the phases of a run. The steps are in
//! `steps`, the checks in `checks` and `ends`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use taskbridge_core::clock::{Clock, System};
use taskbridge_core::tasks::task::{Job, Task, TaskId};
use taskbridge_sdk::sim::Mode;
use taskbridge_sdk::{Backend, Timestamp};
use taskbridge_store::sqlite::{Mode as StoreMode, SqliteStore};
use tokio::sync::Semaphore;

use super::bugs::Bug;
use super::checks;
use super::clocks::{SettableClock, WorldClock};
use super::ends;
use super::engines::{CALM, Engine, ROUGH, SIM};
use super::hints::HintBus;
use super::leases::Leases;
use super::node::{EngineLink, Node, Parts, TICK};
use super::plan::{Plan, Topology};
use super::planted::{PlantedBug, SharedBugState};
use super::plugins::{self, PluginEngine};
use super::points::Points;
use super::postgres::Database;
use super::record::SharedRecord;
use super::rng::Rng;
use super::store::{CONNECTIONS, PointedStore, SimStore};
use super::store_faults::StoreFaults;

/// Minutes without a fault after which every cancelled job has stopped. Longer than the longest delay that
/// an engine may request by `Retry-After` (seed 585124).
const QUIET_MINUTES: u64 = 17;
const QUIET_DURATION: Duration = Duration::from_secs(QUIET_MINUTES * 60);
/// Time limit for a world to come to rest, in minutes: longer than any deadline with its delays.
const SETTLE_MINUTES: u64 = 150;

/// Returns a database file without rows. Every world starts with a copy, which is faster than creating the
/// tables.
fn empty_store() -> &'static [u8] {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let dir = tempfile::tempdir().expect("there is a temporary folder");
        let file = dir.path().join("tasks.db");
        drop(SqliteStore::open(&file, System::clock(), StoreMode::Inline).expect("a new file can be opened"));
        fs::read(&file).expect("what was written can be read")
    })
}

/// Opens a store with this clock, over the database, or over the file if there is none.
fn open(file: &Path, database: Option<&Database>, clock: &Arc<dyn Clock>) -> Arc<dyn SimStore> {
    if let Some(database) = database {
        return database.open(clock);
    }
    let store = SqliteStore::open(file, Arc::clone(clock), StoreMode::Inline);
    Arc::new(store.expect("the file can be opened"))
}

/// A world of one seed.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) rng: Arc<Rng>,
    pub(super) engines: Vec<Engine>,
    /// The engine to which the second machine is connected under the name of another engine.
    pub(super) foreign: Option<Engine>,
    /// The world's clock, which is never set.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store_clock: Arc<SettableClock>,
    file: PathBuf,
    database: Option<Arc<Database>>,
    _dir: tempfile::TempDir,
    pub(super) machines: Vec<Machine>,
    started_processes: u32,
    pub(super) leases: Arc<Leases>,
    shared_state: Arc<SharedBugState>,
    bus: Arc<HintBus>,
    pub(super) record: SharedRecord,
    pub(super) calls: u32,
    /// When the store's clock was last set, by the world's clock.
    pub(super) stepped_at: Option<Timestamp>,
    /// When a process was last started.
    pub(super) last_started_at: Timestamp,
    /// When the rows were last read, by both clocks.
    pub(super) last_check_at: (Timestamp, Timestamp),
    /// A store for reading the rows from outside of all processes.
    pub(super) inspection_store: Arc<dyn SimStore>,
}

/// The machine of a process.
pub(super) struct Machine {
    pub(super) node: Option<Node>,
    pub(super) clock: Arc<SettableClock>,
    pub(super) store_faults: Arc<StoreFaults>,
    /// Which of its connections to the engines are cut.
    pub(super) is_cut: [Arc<AtomicBool>; 3],
    /// The engines in its config.
    pub(super) configured: [bool; 3],
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let dir = tempfile::tempdir().expect("there is a temporary folder");
        let file = dir.path().join("tasks.db");
        fs::write(&file, empty_store()).expect("a temporary file can be written");
        let clock: Arc<dyn Clock> = Arc::new(WorldClock::new());
        let store_clock = SettableClock::new(Arc::clone(&clock));
        let shared_store_clock: Arc<dyn Clock> = store_clock.clone();
        let database = Database::empty(plan.database_kind);
        let inspection_store = open(&file, database.as_deref(), &shared_store_clock);
        let machine = || Machine {
            node: None,
            clock: SettableClock::new(Arc::clone(&clock)),
            store_faults: Arc::default(),
            is_cut: Default::default(),
            configured: [true; 3],
        };
        let has_foreign = plan.skew && plan.topology != Topology::One;
        Self {
            plan,
            rng: Arc::new(Rng::new(seed)),
            engines: vec![
                Engine::with_traits(SIM, None, plan.mode, plan.lags, plan.short_keys),
                Engine::with_traits(ROUGH, None, plan.mode, plan.lags, plan.short_keys),
                Engine::new(CALM, Some("the calm one"), Mode::Keyed),
            ],
            foreign: has_foreign.then(|| Engine::new(CALM, Some("another"), Mode::Keyed)),
            machines: (0..plan.topology.count()).map(|_| machine()).collect(),
            last_check_at: (clock.now(), clock.now()),
            last_started_at: clock.now(),
            clock,
            store_clock,
            file,
            database,
            _dir: dir,
            started_processes: 0,
            leases: Arc::default(),
            shared_state: Arc::default(),
            bus: Arc::default(),
            record: SharedRecord::default(),
            calls: 0,
            stepped_at: None,
            inspection_store,
        }
    }

    /// Runs the world and returns its final state. `Err` contains the first breach and the history of the
    /// tasks that it names.
    pub(super) async fn run(mut self) -> Result<String, String> {
        match self.run_phases().await {
            Err(breach) => Err(self.with_history(breach).await),
            final_state => final_state,
        }
    }

    async fn run_phases(&mut self) -> Result<String, String> {
        self.engines[..2].iter().for_each(|engine| engine.faults.plugin.set_faulty(true));
        for at in 0..self.machines.len() {
            if self.plan.topology == Topology::Replicas {
                self.machines[at].clock.set_randomly(&self.rng);
            }
            self.start_node(at).await;
        }
        for _ in 0..80 {
            if self.plan.topology == Topology::Replicas {
                self.inject_replica_fault();
            }
            self.step().await?;
            self.remove_ended()?;
            self.check_now().await?;
        }
        self.clear_faults().await;
        self.check_calm_engine().await?;
        self.wait_until_idle().await
    }

    /// Ends all faults, except that one engine hangs.
    async fn clear_faults(&mut self) {
        self.set_store_clock(0);
        self.engines[0].sim.set_outage(false);
        self.engines[0].sim.clear_faults();
        self.engines.iter().for_each(|engine| engine.faults.clear());
        self.engines[1].faults.hang(self.plan.rough);
        self.engines[1].faults.plugin.set_silent(self.plan.plugins);
        for at in 0..self.machines.len() {
            let machine = &mut self.machines[at];
            machine.store_faults.clear_all();
            machine.configured = [true; 3];
            machine.is_cut.iter().for_each(|cut| cut.store(false, Ordering::Relaxed));
            machine.node.iter().for_each(|node| node.reload(|_| true));
            self.with_points(at, |points, _| points.freeze(false));
            self.start_node(at).await;
        }
    }

    /// Checks that jobs of another engine start without delay while one engine hangs.
    async fn check_calm_engine(&mut self) -> Result<(), String> {
        tokio::time::sleep(Duration::from_secs(120)).await;
        self.remove_ended()?;
        for at in 0..self.machines.len() {
            self.start_node(at).await;
            self.calls += 1;
            let call = self.calm_call(json!({"delay_ms": 0}));
            let is_stopping = self.machines[at].node.as_ref().is_some_and(Node::is_stopping);
            if is_stopping {
                return Err("a process does not end although it was stopped two minutes ago".to_owned());
            }
            let service = self.service(at).ok_or("no process can be started")?;
            let key = service.call(call).await.map_err(|error| error.to_string())?.into_task().key;
            tokio::time::sleep(2 * TICK).await;
            if self.engines.iter().chain(&self.foreign).all(|engine| engine.sim.starts(&key) == 0) {
                return Err(format!("a job of an engine that is well waits for more than {:?}", 2 * TICK));
            }
        }
        self.engines[1].faults.hang(false);
        self.engines[1].faults.plugin.set_silent(false);
        Ok(())
    }

    /// Waits until every task is at rest, and checks that every promise is kept.
    async fn wait_until_idle(&mut self) -> Result<String, String> {
        for minute in 0..SETTLE_MINUTES {
            tokio::time::sleep(Duration::from_secs(60)).await;
            self.remove_ended()?;
            for at in 0..self.machines.len() {
                self.start_node(at).await;
                self.answer(at).await;
            }
            self.check_now().await?;
            self.answer_all(0).await;
            if minute == QUIET_MINUTES {
                checks::check_stopped(self, &self.rows().await, self.clock.now() - QUIET_DURATION)?;
            }
            if self.rows().await.iter().all(|task| task.due_at.is_none() || has_unreachable_question(task)) {
                return self.check_idle().await;
            }
        }
        let stuck = self.rows().await.into_iter().find(|task| task.due_at.is_some() || !task.has_ended());
        Err(format!("a task did not come to rest in {SETTLE_MINUTES} minutes: {stuck:?}"))
    }

    /// Checks that no work is pending and no job is polled any more.
    async fn check_idle(&mut self) -> Result<String, String> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let count_polls =
            |world: &Self| world.engines.iter().map(|engine| engine.faults.poll_count()).sum::<u64>();
        let polls_before = count_polls(self);
        tokio::time::sleep(Duration::from_secs(60)).await;
        self.check_now().await?;
        let is_polled = self.rows().await.iter().any(has_unreachable_question);
        if count_polls(self) != polls_before && !is_polled {
            return Err("jobs are looked at whose tasks have all ended".to_owned());
        }
        ends::check_at_rest(self, &*self.inspection_store).await?;
        let record = self.record.lock();
        let mut tasks: Vec<_> = record.snapshots.values().map(|snapshot| &snapshot.task).collect();
        tasks.sort_by_key(|task| task.id.as_str().to_owned());
        Ok(format!("{tasks:?} {:?}", record.promises))
    }

    /// Starts a process on this machine if there is none.
    pub(super) async fn start_node(&mut self, at: usize) {
        if self.machines[at].node.is_some() {
            return;
        }
        self.started_processes += 1;
        let process = format!("process-{}", self.started_processes);
        let bug = self.plan.bug;
        let points = Points::new(Arc::clone(&self.rng));
        let Machine { clock: machine_clock, store_faults, is_cut, configured, .. } = &self.machines[at];
        let machine_clock: Arc<dyn Clock> = machine_clock.clone();
        let store_clock: Arc<dyn Clock> = self.store_clock.clone();
        let inner_clock = if bug == Some(Bug::LeaseByOwnClock) { &machine_clock } else { &store_clock };
        let store = PointedStore {
            inner: open(&self.file, self.database.as_deref(), inner_clock),
            points: Arc::clone(&points),
            clock: Arc::clone(&self.clock),
            leases: Arc::clone(&self.leases),
            store_faults: Arc::clone(store_faults),
            planted_bug: PlantedBug::new(bug, process.clone(), Arc::clone(&self.shared_state), &self.file),
            connections: Semaphore::new(CONNECTIONS),
            hints: self.bus.open(self.plan.hints),
        };
        let mut engine_links = Vec::new();
        for (n, engine) in self.engines.iter().enumerate() {
            let foreign_engine =
                self.foreign.as_ref().filter(|foreign| at == 1 && foreign.name == engine.name);
            let engine = foreign_engine.unwrap_or(engine);
            let backend: Arc<dyn Backend> = match self.plan.plugins {
                true => {
                    let Engine { name, ref sim, is_keyed, ref faults, .. } = *engine;
                    let faults = Arc::clone(&faults.plugin);
                    plugins::backend(PluginEngine { name, sim, is_keyed, faults }, &self.rng, bug).await
                }
                false => engine.sim.backend(),
            };
            engine_links.push(EngineLink {
                name: engine.name,
                backend,
                identity: engine.identity,
                needs_token: engine.name == SIM,
                faults: Arc::clone(&engine.faults),
                is_cut: Arc::clone(&is_cut[n]),
                is_configured: configured[n],
            });
        }
        let parts = Parts {
            name: process,
            store: Arc::new(store),
            engine_links,
            world_clock: Arc::clone(&self.clock),
            leases: Arc::clone(&self.leases),
            entropy: Arc::clone(&self.rng) as _,
            points,
            bug,
        };
        self.machines[at].node = Node::start(parts).await;
        self.last_started_at = self.clock.now();
    }

    /// Returns the process of this machine if it serves clients.
    pub(super) fn serving(&self, at: usize) -> Option<&Node> {
        self.machines[at].node.as_ref().filter(|node| !node.is_stopping())
    }

    /// Removes processes that have ended. Fails if one ended by itself.
    fn remove_ended(&mut self) -> Result<(), String> {
        for machine in &mut self.machines {
            if machine.node.as_ref().is_some_and(Node::ended_unexpectedly) {
                return Err("a process ended by itself".to_owned());
            }
            machine.node.take_if(|node| node.is_finished());
        }
        Ok(())
    }

    pub(super) fn with_points(&self, at: usize, act: impl Fn(&Points, &Rng)) {
        if let Some(node) = &self.machines[at].node {
            act(&node.points, &self.rng);
        }
    }

    /// Sets the store's clock to this offset from the right time.
    pub(super) fn set_store_clock(&mut self, offset_ms: i64) {
        let previous = self.store_clock.now();
        self.store_clock.set(offset_ms);
        if self.store_clock.now() != previous {
            self.stepped_at = Some(self.clock.now());
            self.leases.clock_was_set(self.clock.now());
        }
    }
}

/// Reports whether the job was found after its task had ended as uncertain. Its question reaches no client,
/// so it can wait until `max_runtime`, longer than a world lives.
fn has_unreachable_question(task: &Task) -> bool {
    let is_uncertain =
        task.has_ended() && task.status_message().is_some_and(|message| message.contains("uncertain"));
    is_uncertain && matches!(task.job, Job::Open { .. }) && task.cancel.is_none()
}

/// Returns the name of a task in a breach.
pub(super) fn name(id: &TaskId) -> String {
    format!("task {id:?}")
}
