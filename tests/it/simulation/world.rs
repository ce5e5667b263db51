//! A world: processes, clients, an engine, and what befalls them, all from one seed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use taskbridge::clock::Clock;
use taskbridge::store::sqlite::{Mode as StoreMode, SqliteStore};
use taskbridge::tasks::machine::Cancel;
use taskbridge::tasks::service::{Call, Service, WhenFull};
use taskbridge::tasks::store::{Once, TaskStore};
use taskbridge::tasks::task::{OnExpiry, OnRefusal, Origin, Owner, Spec, Task, TaskId, Terms};
use taskbridge_sdk::sim::{Fault, Mode, Operation, SimEngine};
use taskbridge_sdk::{Answer, Timestamp};
use tokio::time::Instant;

use super::checks::{self, Expected, Told};
use super::node::{LEASE, Node};
use super::points::Points;
use super::rng::Rng;
use super::sabotage::Bug;
use super::store::{Leases, PointedStore};

/// After so many minutes without a new fault, what was cancelled before them has stopped.
const QUIET: u64 = 12;
const QUIET_FOR: Duration = Duration::from_secs(QUIET * 60);

/// What kind of world it is.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Processes over the one file.
    pub(super) nodes: usize,
    /// The engine.
    pub(super) mode: Mode,
    /// What is planted.
    pub(super) bug: Option<Bug>,
}

/// Time in a simulation is the runtime's paused time.
struct SimClock(Instant);

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000) + self.0.elapsed()
    }
}

/// What clients were told, shared by those that are still calling.
pub(super) type Book = Arc<Mutex<Vec<Told>>>;

/// A world of one seed.
pub(super) struct World {
    plan: Plan,
    rng: Arc<Rng>,
    engine: SimEngine,
    clock: Arc<dyn Clock>,
    file: PathBuf,
    _dir: tempfile::TempDir,
    nodes: Vec<Option<Node>>,
    born: u32,
    leases: Arc<Leases>,
    book: Book,
    calls: u32,
    /// A look at the rows from outside of all processes.
    outside: SqliteStore,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let dir = tempfile::tempdir().expect("there is a temporary folder");
        let file = dir.path().join("tasks.db");
        let clock: Arc<dyn Clock> = Arc::new(SimClock(Instant::now()));
        let outside = SqliteStore::open(&file, Arc::clone(&clock), StoreMode::Inline)
            .expect("a new file can be opened");
        Self {
            plan,
            rng: Arc::new(Rng::new(seed)),
            engine: SimEngine::new(plan.mode),
            clock,
            file,
            _dir: dir,
            nodes: (0..plan.nodes).map(|_| None).collect(),
            born: 0,
            leases: Arc::default(),
            book: Book::default(),
            calls: 0,
            outside,
        }
    }

    /// Lives through it, and returns what it came to. `Err` tells the first breach.
    pub(super) async fn run(mut self) -> Result<String, String> {
        for at in 0..self.nodes.len() {
            self.start_node(at);
        }
        for _ in 0..80 {
            self.step().await;
            self.bury();
            self.check_now().await?;
        }
        self.come_to_rest().await
    }

    async fn step(&mut self) {
        let at = self.rng.below(self.nodes.len() as u64) as usize;
        match self.rng.below(20) {
            0..=5 => self.call(at),
            6 | 7 => self.cancel(at).await,
            8 | 9 => self.answer(at).await,
            10 => self.with_points(at, |points, rng| points.die_in(1 + rng.below(30))),
            11 => self.with_points(at, |points, _| points.freeze(true)),
            12 | 13 => self.with_points(at, |points, _| points.freeze(false)),
            14..=16 => self.inject(),
            17 if self.nodes[at].is_none() => self.start_node(at),
            _ => {}
        }
        let quiet = [0, 5, 100, 1_000, 8_000, 20_000][self.rng.below(6) as usize];
        tokio::time::sleep(Duration::from_millis(quiet)).await;
    }

    /// No more faults: everything that was promised must come true.
    async fn come_to_rest(mut self) -> Result<String, String> {
        self.engine.set_outage(false);
        for at in 0..self.nodes.len() {
            self.with_points(at, |points, _| points.freeze(false));
            if self.nodes[at].is_none() {
                self.start_node(at);
            }
        }
        for minute in 0..100 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            self.bury();
            for at in 0..self.nodes.len() {
                if self.nodes[at].is_none() {
                    self.start_node(at);
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

    fn start_node(&mut self, at: usize) {
        self.born += 1;
        let points = Points::new(Arc::clone(&self.rng));
        let store = PointedStore {
            inner: SqliteStore::open(&self.file, Arc::clone(&self.clock), StoreMode::Inline)
                .expect("the file can be opened"),
            points: Arc::clone(&points),
            clock: Arc::clone(&self.clock),
            leases: Arc::clone(&self.leases),
            bug: self.plan.bug,
            unwritten: Mutex::default(),
        };
        self.nodes[at] = Some(Node::start(
            format!("process-{}", self.born),
            Arc::new(store),
            self.engine.backend(),
            Arc::clone(&self.clock),
            Arc::clone(&self.rng) as _,
            points,
            self.plan.bug,
        ));
    }

    /// Removes processes that have died.
    fn bury(&mut self) {
        for node in &mut self.nodes {
            if node.as_ref().is_some_and(|node| node.points.is_dead()) {
                *node = None;
            }
        }
    }

    fn with_points(&self, at: usize, act: impl Fn(&Points, &Rng)) {
        if let Some(node) = &self.nodes[at] {
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

    /// A client calls a tool. It notes what it is told, if it is told anything.
    fn call(&mut self, at: usize) {
        let Some(node) = &self.nodes[at] else { return };
        self.calls += 1;
        let (call, expected) = self.random_call();
        // Some callers go away, and some of those while the row is being written.
        let patience = if self.rng.one_in(6) { self.rng.below(20) } else { 60_000 };
        let (service, book) = (node.service.clone(), Arc::clone(&self.book));
        #[allow(clippy::disallowed_methods, reason = "clients are tasks of the simulation")]
        tokio::spawn(async move {
            let owner = call.owner.clone();
            let once = call.once.as_ref().map(|once| once.key.clone());
            let answer = tokio::time::timeout(Duration::from_millis(patience), service.call(call)).await;
            if let Ok(Ok(called)) = answer {
                let id = called.into_task().id;
                book.lock().push(Told { id, owner, expected, once, ended: None, cancelled: false });
            }
        });
    }

    fn random_call(&self) -> (Call, Expected) {
        let text = format!("output-{}", self.calls);
        let slow = |most: u64| 1_000 + self.rng.below(most * 1_000);
        let (arguments, expected) = match self.rng.below(8) {
            0 => (json!({"delay_ms": 0, "text": text}), Expected::Text(text)),
            1 | 2 => (json!({"delay_ms": slow(20), "text": text}), Expected::Text(text)),
            3 => (json!({"delay_ms": slow(600), "text": text, "steps": 10}), Expected::Text(text)),
            4 => (json!({"delay_ms": slow(5), "outcome": "fail", "text": text}), Expected::Failure),
            5 => (json!({"delay_ms": slow(5), "outcome": "gone"}), Expected::Gone),
            6 => (
                json!({"delay_ms": slow(10), "text": text, "question": {"message": "go on?"}}),
                Expected::Answered,
            ),
            _ => (json!({"delay_ms": 86_400_000u64}), Expected::Endless),
        };
        let owner = Owner::new(if self.rng.one_in(3) { "ben" } else { "ana" });
        // A key stands for one call, so it comes with the arguments that go with it.
        let once = self.rng.one_in(4).then(|| format!("once-{}", self.rng.below(3)));
        let (arguments, expected) = match &once {
            Some(key) => (json!({"delay_ms": 3_000, "text": key}), Expected::Text(key.clone())),
            None => (arguments, expected),
        };
        let call = Call {
            owner: owner.clone(),
            origin: Origin::default(),
            tool: "work".to_owned(),
            backend: "sim".to_owned(),
            spec: Spec { target: json!({}), arguments, sealed: None },
            terms: terms(),
            slots: if self.rng.one_in(5) && once.is_none() && expected != Expected::Endless {
                vec!["group:one-at-a-time".to_owned()]
            } else {
                Vec::new()
            },
            when_full: WhenFull::Queue,
            confirm: None,
            once: once.map(|key| Once { scope: owner.as_str().to_owned(), digest: key.clone(), key }),
            plain: None,
        };
        (call, expected)
    }

    /// A client cancels one of its tasks. Endless ones are cancelled first.
    async fn cancel(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let endless = |told: &&Told| told.expected == Expected::Endless && !told.cancelled;
        let told = self.book.lock().iter().find(endless).cloned();
        let Some(Told { id, owner, .. }) = told.or_else(|| self.any_told()) else { return };
        let mode = if self.rng.one_in(2) { Cancel::Settle } else { Cancel::Request };
        // Whether the client hears of it or not: the wish may have been written.
        self.book.lock().iter_mut().filter(|told| told.id == id).for_each(|told| told.cancelled = true);
        let _ = self.patiently(service.cancel(&owner, &id, mode)).await;
    }

    /// A client answers all that its tasks ask, and looks whether it can see what is not its own.
    async fn answer(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let told = self.book.lock().clone();
        for Told { id, owner, .. } in told {
            let other = Owner::new(if owner.as_str() == "ana" { "ben" } else { "ana" });
            if let Some(Ok(Some(_))) = self.patiently(service.get(&other, &id)).await {
                self.book
                    .lock()
                    .iter_mut()
                    .filter(|told| told.id == id)
                    .for_each(|told| told.expected = Expected::Private);
            }
            let Some(Ok(Some(view))) = self.patiently(service.get(&owner, &id)).await else { continue };
            for asked in view.task.open_questions() {
                let yes = Answer::Accept(serde_json::Map::new());
                let _ = self.patiently(service.answer(&owner, &id, &asked.key, yes)).await;
            }
        }
    }

    fn any_told(&self) -> Option<Told> {
        let book = self.book.lock();
        (!book.is_empty()).then(|| book[self.rng.below(book.len() as u64) as usize].clone())
    }

    fn service(&self, at: usize) -> Option<Service> {
        Some(self.nodes[at].as_ref()?.service.clone())
    }

    /// A client gives up after a while: its process may be dead or frozen.
    async fn patiently<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(2), request).await.ok()
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
    }
}

/// Names a task in a breach.
pub(super) fn name(id: &TaskId) -> String {
    format!("task {id:?}")
}
