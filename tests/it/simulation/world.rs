//! A world: processes, clients, an engine, and what befalls them, all from one seed.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge::clock::{Clock, System};
use taskbridge::store::sqlite::{Mode as StoreMode, SqliteStore};
use taskbridge::tasks::store::{History, TaskStore};
use taskbridge::tasks::task::{OnExpiry, OnRefusal, Owner, Task, TaskId, Terms};
use taskbridge_sdk::sim::{Fault, Mode, Operation, SimEngine};
use tokio::sync::Semaphore;

use super::checks::{self, Told};
use super::clocks::{OwnClock, WorldClock};
use super::leases::Leases;
use super::misdeeds::{FirstWatchers, Sabotage};
use super::node::{LEASE, Node, Parts};
use super::points::Points;
use super::rng::Rng;
use super::sabotage::Bug;
use super::store::{CONNECTIONS, PointedStore};
use super::weather::Weather;

/// After so many minutes without a new fault, what was cancelled before them has stopped.
const QUIET: u64 = 12;
const QUIET_FOR: Duration = Duration::from_secs(QUIET * 60);

/// Who shares the store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// One process on the machine of the file.
    One,
    /// Two processes on that machine.
    Two,
    /// Three machines, each with a clock of its own, and a way to the store that may be cut; the store's clock is one.
    Replicas,
}

/// What kind of world it is.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Who shares the store.
    pub(super) among: Among,
    /// The engine.
    pub(super) mode: Mode,
    /// What is planted.
    pub(super) bug: Option<Bug>,
}

/// What clients were told, shared by those that are still calling.
pub(super) type Book = Arc<Mutex<Vec<Told>>>;

/// A file without rows. Every world begins with one, and to make its tables takes longer than to copy it.
fn empty_store() -> &'static [u8] {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let dir = tempfile::tempdir().expect("there is a temporary folder");
        let file = dir.path().join("tasks.db");
        drop(SqliteStore::open(&file, System::clock(), StoreMode::Inline).expect("a new file can be opened"));
        fs::read(&file).expect("what was written can be read")
    })
}

/// A world of one seed.
pub(super) struct World {
    plan: Plan,
    pub(super) rng: Arc<Rng>,
    engine: SimEngine,
    clock: Arc<dyn Clock>,
    file: PathBuf,
    _dir: tempfile::TempDir,
    machines: Vec<Machine>,
    born: u32,
    leases: Arc<Leases>,
    first_watchers: FirstWatchers,
    pub(super) book: Book,
    pub(super) calls: u32,
    /// A look at the rows from outside of all processes.
    outside: SqliteStore,
}

/// Where a process runs.
struct Machine {
    node: Option<Node>,
    clock: Arc<OwnClock>,
    weather: Arc<Weather>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let dir = tempfile::tempdir().expect("there is a temporary folder");
        let file = dir.path().join("tasks.db");
        fs::write(&file, empty_store()).expect("a temporary file can be written");
        let clock: Arc<dyn Clock> = Arc::new(WorldClock::new());
        let outside = SqliteStore::open(&file, Arc::clone(&clock), StoreMode::Inline)
            .expect("a new file can be opened");
        let count = match plan.among {
            Among::One => 1,
            Among::Two => 2,
            Among::Replicas => 3,
        };
        let machine =
            || Machine { node: None, clock: OwnClock::right(Arc::clone(&clock)), weather: Arc::default() };
        Self {
            plan,
            rng: Arc::new(Rng::new(seed)),
            engine: SimEngine::new(plan.mode),
            machines: (0..count).map(|_| machine()).collect(),
            clock,
            file,
            _dir: dir,
            born: 0,
            leases: Arc::default(),
            first_watchers: FirstWatchers::default(),
            book: Book::default(),
            calls: 0,
            outside,
        }
    }

    /// Lives through it, and returns what it came to. `Err` tells the first breach, and what happened to the task that it
    /// names.
    pub(super) async fn run(mut self) -> Result<String, String> {
        match self.live().await {
            Err(breach) => Err(self.with_history(breach).await),
            came_to => came_to,
        }
    }

    async fn live(&mut self) -> Result<String, String> {
        for at in 0..self.machines.len() {
            if self.plan.among == Among::Replicas {
                self.machines[at].clock.set(&self.rng);
            }
            self.start_node(at).await;
        }
        for _ in 0..80 {
            if self.plan.among == Among::Replicas {
                self.befall();
            }
            self.step().await;
            self.bury();
            self.check_now().await?;
        }
        self.come_to_rest().await
    }

    async fn step(&mut self) {
        let at = self.rng.below(self.machines.len() as u64) as usize;
        match self.rng.below(20) {
            0..=5 => self.call(at),
            6 | 7 => self.cancel(at).await,
            8 | 9 => self.answer(at).await,
            10 => self.with_points(at, |points, rng| points.die_in(1 + rng.below(30))),
            11 => self.with_points(at, |points, _| points.freeze(true)),
            12 | 13 => self.with_points(at, |points, _| points.freeze(false)),
            14..=16 => self.inject(),
            17 if self.machines[at].node.is_none() => self.start_node(at).await,
            _ => {}
        }
        let quiet = [0, 5, 100, 1_000, 8_000, 20_000][self.rng.below(6) as usize];
        tokio::time::sleep(Duration::from_millis(quiet)).await;
    }

    /// What befalls replicas only.
    fn befall(&self) {
        let at = self.rng.below(self.machines.len() as u64) as usize;
        let Machine { node, clock, weather } = &self.machines[at];
        match self.rng.below(20) {
            0 | 1 => clock.set(&self.rng),
            2 => weather.storm(&self.rng),
            3 => self.machines.iter().for_each(|machine| machine.weather.storm(&self.rng)),
            4 => weather.clear(),
            5 | 6 => self.machines.iter().for_each(|machine| machine.weather.clear()),
            7 | 8 => weather.lose_replies(&self.rng),
            9 | 10 => weather.delay_reply(&self.rng),
            11 => node.iter().for_each(Node::stop),
            _ => {}
        }
    }

    /// No more faults: everything that was promised must come true.
    async fn come_to_rest(&mut self) -> Result<String, String> {
        self.engine.set_outage(false);
        self.machines.iter().for_each(|machine| machine.weather.calm());
        for at in 0..self.machines.len() {
            self.with_points(at, |points, _| points.freeze(false));
            if self.machines[at].node.is_none() {
                self.start_node(at).await;
            }
        }
        for minute in 0..100 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            self.bury();
            for at in 0..self.machines.len() {
                if self.machines[at].node.is_none() {
                    self.start_node(at).await;
                }
                self.answer(at).await;
            }
            self.check_now().await?;
            if minute == QUIET {
                checks::stopped(&self.rows().await, self.clock.now() - QUIET_FOR)?;
            }
            if self.rows().await.iter().all(|task| task.due_at.is_none()) {
                let rows = self.rows().await;
                let book = self.book.lock().clone();
                checks::at_rest(&self.outside, &self.engine, self.plan, &rows, &book).await?;
                return Ok(format!("{rows:?} {book:?}"));
            }
        }
        let stuck = self.rows().await.into_iter().find(|task| task.due_at.is_some() || !task.has_ended());
        Err(format!("a task did not come to rest in a hundred minutes: {stuck:?}"))
    }

    async fn check_now(&mut self) -> Result<(), String> {
        if let Some(breach) = self.leases.breach() {
            return Err(breach);
        }
        let rows = self.rows().await;
        checks::always(&self.engine, &rows, &mut self.book.lock())
    }

    async fn with_history(&self, mut breach: String) -> String {
        for task in self.rows().await {
            if breach.contains(&name(&task.id)) {
                let entries = self.outside.entries(&task.id).await.expect("the file can be read");
                let told: String = entries.iter().map(|entry| format!("\n    {entry:?}")).collect();
                breach = format!("{breach}\n    {task:?}{told}");
            }
        }
        breach
    }

    /// All rows, whoever owns them.
    async fn rows(&self) -> Vec<Task> {
        let mut rows = Vec::new();
        for owner in ["ana", "ben"] {
            rows.extend(
                self.outside.list(&Owner::new(owner), None, 10_000).await.expect("the file can be read"),
            );
        }
        rows
    }

    async fn start_node(&mut self, at: usize) {
        self.born += 1;
        let name = format!("process-{}", self.born);
        let bug = self.plan.bug;
        let points = Points::new(Arc::clone(&self.rng));
        let Machine { clock: own, weather, .. } = &self.machines[at];
        let own: Arc<dyn Clock> = own.clone();
        let stores = if bug == Some(Bug::LeaseByOwnClock) { &own } else { &self.clock };
        let store = PointedStore {
            inner: SqliteStore::open(&self.file, Arc::clone(stores), StoreMode::Inline)
                .expect("the file can be opened"),
            points: Arc::clone(&points),
            clock: Arc::clone(&self.clock),
            leases: Arc::clone(&self.leases),
            weather: Arc::clone(weather),
            sabotage: Sabotage::new(bug, name.clone(), Arc::clone(&self.first_watchers)),
            connections: Semaphore::new(CONNECTIONS),
        };
        let parts = Parts {
            name,
            store: Arc::new(store),
            backend: self.engine.backend(),
            clock: own,
            world: Arc::clone(&self.clock),
            leases: Arc::clone(&self.leases),
            entropy: Arc::clone(&self.rng) as _,
            points,
            bug,
        };
        self.machines[at].node = Node::start(parts).await;
    }

    /// The process there, if it serves clients.
    pub(super) fn serving(&self, at: usize) -> Option<&Node> {
        self.machines[at].node.as_ref().filter(|node| !node.is_stopping())
    }

    /// Removes processes that have ended.
    fn bury(&mut self) {
        for machine in &mut self.machines {
            machine.node.take_if(|node| node.is_over());
        }
    }

    fn with_points(&self, at: usize, act: impl Fn(&Points, &Rng)) {
        if let Some(node) = &self.machines[at].node {
            act(&node.points, &self.rng);
        }
    }

    fn inject(&self) {
        let within = |most: u64| Duration::from_secs(1 + self.rng.below(most));
        let fault = match self.rng.below(8) {
            0 | 1 => Fault::LostReply,
            2 => Fault::LostBefore,
            3 => Fault::Limited(within(20)),
            4 => Fault::Outage,
            5 => Fault::Slow(within(20)),
            6 => Fault::Late(within(LEASE.as_secs() * 3)),
            _ => {
                self.engine.set_outage(self.rng.one_in(2));
                return;
            }
        };
        let operations =
            [Operation::Start, Operation::Start, Operation::Find, Operation::Observe, Operation::Cancel];
        self.engine.inject(operations[self.rng.below(5) as usize], fault);
    }
}

pub(super) fn terms() -> Terms {
    Terms {
        ttl: Duration::from_secs(86_400),
        keep_result: Duration::from_secs(86_400),
        max_runtime: Duration::from_secs(1_800),
        on_expiry: OnExpiry::Cancel,
        start_within: Duration::from_secs(1_200),
        settle_window: Duration::from_secs(120),
        on_decline: OnRefusal::Tell,
        on_dismiss: OnRefusal::Tell,
        four_eyes: false,
    }
}

/// Names a task in a breach.
pub(super) fn name(id: &TaskId) -> String {
    format!("task {id:?}")
}
