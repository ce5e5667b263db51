//! [`Scene`]: one process over a file, its clients, and the checks of both. The tests inject the faults.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::json;
use taskbridge_core::tasks::machine::CancelMode;
use taskbridge_core::tasks::service::{Call, CancelResult};
use taskbridge_core::tasks::store::{Facts as _, IdempotencyKey, TaskStore as _};
use taskbridge_core::tasks::task::{Origin, Outcome, Owner, Task, TaskId};
use taskbridge_sdk::Content;
use taskbridge_sdk::sim::{Mode, SimEngine};
use taskbridge_store::sqlite::{Mode as StoreMode, SqliteStore};

use super::super::engines::SIM;
use super::super::fixture::call_with;
use super::super::node::{EngineLink, Node, Parts};
use super::super::points::Points;
use super::super::record::Expected;
use super::super::rng::Rng;
use super::faults::{PanickingClock, RepeatingIds, WriteLock};

/// Timeout of the whole scene.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Number of calls at the end of a scene.
const LAST_CALLS: u64 = 60;

/// Maximum duration of a job that ends, and of a client's wait before a cancel, in milliseconds.
const MAX_DELAY_MS: u64 = 700;

/// One process and its clients.
pub(super) struct Scene {
    pub(super) rng: Arc<Rng>,
    pub(super) clock: Arc<PanickingClock>,
    pub(super) ids: Arc<RepeatingIds>,
    pub(super) store: Arc<SqliteStore>,
    mode: Mode,
    engine: SimEngine,
    node: Node,
    promises: Mutex<Vec<Promise>>,
    refused_calls: Mutex<Vec<RefusedCall>>,
    refused_cancels: AtomicU64,
    calls: AtomicU64,
}

/// The kinds of calls in a wave.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    /// The length of the calls' texts.
    pub(super) bytes: usize,
    /// Whether some calls have idempotency keys, so that they may find another call's task.
    pub(super) keys: bool,
}

/// A task id that a client received.
#[derive(Clone)]
struct Promise {
    id: TaskId,
    owner: Owner,
    expected: Expected,
    cancelled: bool,
}

/// A call that was answered with an error.
pub(super) struct RefusedCall {
    session: String,
    pub(super) error: String,
}

/// The figures of a scene, printed by long runs.
#[derive(Debug)]
#[allow(dead_code, reason = "it is printed")]
pub(super) struct Figures {
    tasks: usize,
    pub(super) refused: usize,
    refused_cancels: u64,
    writes: u64,
    commits: u64,
}

impl Scene {
    pub(super) async fn open(seed: u64, file: &Path) -> Self {
        let rng = Arc::new(Rng::new(seed));
        let (clock, ids) = (Arc::<PanickingClock>::default(), Arc::new(RepeatingIds::new(Arc::clone(&rng))));
        let store = Arc::new(SqliteStore::open(file, clock.clone(), StoreMode::Threaded).unwrap());
        let mode = if rng.one_in(2) { Mode::Keyed } else { Mode::Unkeyed };
        let engine = SimEngine::new(mode);
        let parts = Parts {
            name: "one".to_owned(),
            store: store.clone(),
            engine_links: vec![EngineLink::to(SIM, engine.backend())],
            world_clock: clock.clone(),
            leases: Arc::default(),
            entropy: ids.clone(),
            points: Points::new(Arc::new(Rng::new(seed))),
            bug: None,
        };
        let node = Node::start(parts).await.unwrap();
        let (promises, refused_calls) = (Mutex::default(), Mutex::default());
        let (refused_cancels, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { rng, clock, ids, store, mode, engine, node, promises, refused_calls, refused_cancels, calls }
    }

    /// Runs this number of clients concurrently, some of which cancel. The first poll submits all calls to
    /// the store.
    pub(super) async fn wave(&self, clients: u64) {
        self.wave_of(clients, Kinds { bytes: 0, keys: true }).await;
    }

    /// Does the same with calls of these kinds.
    pub(super) async fn wave_of(&self, clients: u64, kinds: Kinds) {
        join_all((0..clients).map(|_| self.client(kinds))).await;
    }

    async fn client(&self, kinds: Kinds) {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let (call, expected) = self.random_call(number, kinds);
        let (owner, session) = (call.owner.clone(), format!("call-{number}"));
        let idempotency_key =
            call.idempotency_key.as_ref().map(|idempotency_key| idempotency_key.key.clone());
        let cancels = expected == Expected::Endless || (idempotency_key.is_none() && self.rng.one_in(5));
        let cancel_delay = Duration::from_millis(self.rng.below(MAX_DELAY_MS));
        let id = match self.node.service.call(call).await {
            Ok(call_result) => call_result.into_task().id,
            Err(error) => {
                self.refused_calls.lock().push(RefusedCall { session, error: error.to_string() });
                return;
            }
        };
        let promise = Promise { id: id.clone(), owner, expected, cancelled: false };
        self.promises.lock().push(promise.clone());
        if cancels {
            tokio::time::sleep(cancel_delay).await;
            self.cancel(&promise).await;
        }
    }

    fn random_call(&self, number: u64, kinds: Kinds) -> (Call, Expected) {
        let text = format!("output-{number}{}", "x".repeat(kinds.bytes));
        let delay = self.rng.below(MAX_DELAY_MS);
        let (arguments, expected) = match self.rng.below(8) {
            0 => (json!({"delay_ms": delay, "outcome": "fail", "text": text}), Expected::Failure),
            1 => (json!({"delay_ms": 86_400_000u64, "text": text}), Expected::Endless),
            2 => (json!({"delay_ms": 0, "text": text}), Expected::Text(text)),
            _ => (json!({"delay_ms": delay, "text": text}), Expected::Text(text)),
        };
        let key = (kinds.keys && self.rng.one_in(8)).then(|| format!("once-{}", self.rng.below(4)));
        let (arguments, expected) = match &key {
            Some(key) => (json!({"delay_ms": 300, "text": key}), Expected::Text(key.clone())),
            None => (arguments, expected),
        };
        let takes_slot = key.is_none() && expected != Expected::Endless && self.rng.one_in(16);
        // Rows that take a slot have one owner, because one `list` reads an owner's rows at one moment.
        // Otherwise a slot could seem to be taken by two rows in succession.
        let owner = Owner::new(if !takes_slot && self.rng.one_in(3) { "ben" } else { "ana" });
        let call = Call {
            origin: Origin { channel: Some(format!("call-{number}")), ..Origin::default() },
            slots: takes_slot.then(|| "group:one-at-a-time".to_owned()).into_iter().collect(),
            idempotency_key: key.map(|key| IdempotencyKey {
                scope: owner.as_str().to_owned(),
                digest: key.clone(),
                key,
            }),
            owner,
            ..call_with(arguments)
        };
        (call, expected)
    }

    /// A refused cancel is only repeated for a job that would never end. For other jobs, the check expects
    /// that they were not cancelled.
    async fn cancel(&self, promise: &Promise) {
        let mode = if self.rng.one_in(2) { CancelMode::Immediate } else { CancelMode::Request };
        loop {
            match self.node.service.cancel(&promise.owner, &promise.id, mode).await {
                Ok(CancelResult::Done(_)) => {
                    let mut promises = self.promises.lock();
                    promises
                        .iter_mut()
                        .filter(|other| other.id == promise.id)
                        .for_each(|promise| promise.cancelled = true);
                    return;
                }
                Ok(_) => return,
                Err(_) => {
                    self.refused_cancels.fetch_add(1, Ordering::SeqCst);
                    if promise.expected != Expected::Endless {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Returns the number of calls refused so far.
    pub(super) fn refused_count(&self) -> usize {
        self.refused_calls.lock().len()
    }

    /// Waits until this number of calls were refused.
    pub(super) async fn until_refused(&self, calls: usize) {
        let started_at = Instant::now();
        while self.refused_count() < calls {
            assert!(started_at.elapsed() < TIMEOUT, "{} of {calls} calls are refused", self.refused_count());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until every call so far was answered.
    pub(super) async fn until_answered(&self) {
        let started_at = Instant::now();
        while self.promises.lock().len() + self.refused_count() < self.calls.load(Ordering::SeqCst) as usize {
            assert!(started_at.elapsed() < TIMEOUT, "calls are not answered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asserts that every error contains one of these messages.
    pub(super) fn assert_reason(&self, reasons: &[&str]) {
        for RefusedCall { error, .. } in &*self.refused_calls.lock() {
            assert!(reasons.iter().any(|reason| error.contains(reason)), "{error}");
        }
    }

    async fn rows(&self) -> Vec<Task> {
        let mut rows = Vec::new();
        for owner in ["ana", "ben"] {
            rows.extend(self.store.list(&Owner::new(owner), None, 100_000).await.unwrap());
        }
        rows
    }

    /// Waits until no work is pending, then runs all checks.
    pub(super) async fn finish(self, file: &Path) -> Figures {
        self.check_writable(file).await;
        let started_at = Instant::now();
        let rows = loop {
            let rows = self.rows().await;
            self.check_invariants(&rows);
            let Some(pending) = rows.iter().find(|task| task.due_at.is_some() || !task.has_ended()) else {
                break rows;
            };
            assert!(started_at.elapsed() < TIMEOUT, "it does not come to rest: {pending:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(self.store.write_failure(), None);
        let promises = self.promises.lock().clone();
        for promise in &promises {
            let task = rows.iter().find(|task| task.id == promise.id).expect("a received task id exists");
            self.check_outcome(promise, task).await;
        }
        self.responses_match_rows(&rows, &promises);
        let figures = Figures {
            tasks: rows.len(),
            refused: self.refused_count(),
            refused_cancels: self.refused_cancels.load(Ordering::SeqCst),
            writes: rows.iter().map(|task| task.version).sum(),
            commits: self.store.commits(),
        };
        drop(self);
        check_file(file, &rows);
        figures
    }

    /// Checks the invariants that hold at every moment.
    fn check_invariants(&self, rows: &[Task]) {
        let duplicate = rows.iter().find(|task| self.engine.starts(&task.key) > 1);
        assert!(duplicate.is_none(), "two jobs of {duplicate:?}");
        let slot_holders = rows.iter().filter(|task| task.holds_slots()).count();
        assert!(slot_holders <= 1, "{slot_holders} tasks hold a slot that is for one");
        let mut calls: Vec<_> = rows.iter().filter_map(|task| task.origin.channel.as_ref()).collect();
        calls.sort_unstable();
        assert!(calls.windows(2).all(|pair| pair[0] != pair[1]), "a call made two tasks");
    }

    /// Asserts that the outcome of a task is that of its job.
    async fn check_outcome(&self, promise: &Promise, task: &Task) {
        let output = self.store.output(&task.id).await.unwrap();
        let text = output.as_ref().and_then(|output| output.content.first());
        let (outcome, message) = (task.outcome().unwrap(), task.status_message().unwrap_or_default());
        let as_expected = match (outcome, &promise.expected) {
            (Outcome::Cancelled, _) => promise.cancelled,
            (Outcome::Succeeded, Expected::Text(expected)) => text == Some(&Content::text(expected.as_str())),
            (Outcome::Failed, Expected::Failure) => output.is_some(),
            (Outcome::Broken, Expected::Endless) => message.contains("max_runtime"),
            (Outcome::Broken, _) => self.mode == Mode::Unkeyed && message.contains("uncertain"),
            _ => false,
        };
        assert!(as_expected, "{:.60?} was expected of {task:?}", promise.expected);
        let started = self.engine.starts(&task.key) == 1;
        assert!(started || matches!(outcome, Outcome::Cancelled | Outcome::Broken), "no job of {task:?}");
    }

    /// Asserts that no call is refused any more. The calls wait for the lock together, as those did that a
    /// fault hit.
    async fn check_writable(&self, file: &Path) {
        let refused_before = self.refused_count();
        let lock = WriteLock::take(file).await;
        let mut wave = Box::pin(self.wave(LAST_CALLS));
        assert!(futures_util::poll!(&mut wave).is_pending());
        drop(lock);
        wave.await;
        let last_error = self.refused_calls.lock().last().map(|call| call.error.clone());
        assert_eq!(self.refused_count(), refused_before, "{last_error:?}");
    }

    /// Asserts that a refused call has no row, and that every other row belongs to a call that received its
    /// id.
    fn responses_match_rows(&self, rows: &[Task], promises: &[Promise]) {
        for RefusedCall { session, error } in &*self.refused_calls.lock() {
            let row = rows.iter().find(|task| task.origin.channel.as_ref() == Some(session));
            assert!(row.is_none(), "{session} was refused ({error}) and is there: {row:?}");
        }
        let is_known = |id: &TaskId| promises.iter().any(|promise| promise.id == *id);
        let unknown = rows.iter().find(|task| !is_known(&task.id));
        assert!(unknown.is_none(), "no call received {unknown:?}");
        let calls = self.calls.load(Ordering::SeqCst) as usize;
        assert_eq!(promises.len() + self.refused_count(), calls, "calls that were never answered");
    }
}

/// Checks the file with another connection: it is intact, and every row has its related rows.
fn check_file(file: &Path, rows: &[Task]) {
    let db = Connection::open(file).unwrap();
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    assert_eq!(number("SELECT count(*) FROM pragma_foreign_key_check"), 0, "rows that belong to none");
    assert_eq!(number("SELECT count(*) FROM tasks"), rows.len() as i64);
    assert_eq!(number("SELECT count(*) FROM slots"), 0, "slots that were never given back");
    let batch =
        "SELECT max(calls) FROM (SELECT count(*) AS calls FROM entries WHERE version = 1 GROUP BY at)";
    assert!(number(batch) >= LAST_CALLS as i64 / 3, "the last calls shared no transaction");
    // The history has no entry of a rolled back version, no duplicates, and begins with the first version.
    let orphaned_entries = "SELECT count(*) FROM entries e LEFT JOIN tasks t ON t.id = e.task
                     WHERE t.id IS NULL OR e.version > t.version";
    assert_eq!(number(orphaned_entries), 0, "history of what was rolled back");
    let duplicates = "SELECT count(*) - count(DISTINCT task || ' ' || version) FROM entries";
    assert_eq!(number(duplicates), 0, "a change that was written twice");
    let first = "SELECT count(DISTINCT task) FROM entries WHERE version = 1";
    assert_eq!(number(first), rows.len() as i64, "a task without its beginning");
}
