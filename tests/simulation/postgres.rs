//! Worlds over a real PostgreSQL server: each world has an empty database schema, and each process
//! connections of its own. The checks and the faults are those of the worlds over SQLite.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use taskbridge_core::clock::Clock;
use taskbridge_store::postgres::{self, PostgresStore, StoreClock};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;

use super::blocking::{BlockingStore, CallTime, block_on};
use super::bugs::Bug;
use super::plan::Plan;
use super::store::SimStore;
use super::{check_seeds, for_each, knob, run};
use crate::support::postgres::{schema, shared};

/// Number of seeds in `tests/run`. A long run tries a thousandth of the seeds that it tries over SQLite.
const SEEDS: u64 = 4;

/// Planted bugs of several kinds: of leases, groups, takeovers, keys, lost replies and stale reads.
const BUGS: [Bug; 6] = [
    Bug::GroupWatchedTwice,
    Bug::TakeoverStartsAnew,
    Bug::LeaseByOwnClock,
    Bug::LostReplyIsNotWritten,
    Bug::StaleRead,
    Bug::OncePerProcess,
];

/// Number of seeds to try for a planted bug that its own seed misses.
const TRIES: u64 = 40;

/// The database of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatabaseKind {
    Sqlite,
    Postgres,
}

/// The schema of one test thread. Its tables are created once and emptied for each world.
pub(super) struct Database {
    schema: String,
    client: Client,
}

/// Returns the runtime that drives the connections of all worlds.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("the system has threads and sockets")
    })
}

impl Database {
    /// Returns the empty database of this thread's next world, or `None` if the world uses a file.
    pub(super) fn empty(kind: DatabaseKind) -> Option<Arc<Self>> {
        thread_local! {
            static DATABASE: OnceLock<Arc<Database>> = const { OnceLock::new() };
        }
        if kind == DatabaseKind::Sqlite {
            return None;
        }
        let database = DATABASE.with(|database| Arc::clone(database.get_or_init(|| Arc::new(Self::new()))));
        database.truncate();
        Some(database)
    }

    fn new() -> Self {
        let schema = schema();
        let client = block_on(runtime().handle(), async {
            postgres::migrate(&shared().connection_config(&schema)).await.expect("the server is there");
            shared().client(&schema).await
        });
        Self { schema, client }
    }

    fn truncate(&self) {
        let tables = "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables
                      WHERE schemaname = current_schema() AND tablename <> 'taskbridge_schema'";
        block_on(runtime().handle(), async {
            let row = self.client.query_one(tables, &[]).await.expect("the server is there");
            let truncate = format!("TRUNCATE {} RESTART IDENTITY", row.get::<_, String>(0));
            self.client.batch_execute(&truncate).await.expect("nobody locks the tables");
        });
    }

    /// Opens a store over this database, with this clock and its own connections.
    pub(super) fn open(&self, clock: &Arc<dyn Clock>) -> Arc<dyn SimStore> {
        let config = shared().connection_config(&self.schema).without_migration().with_connections(4);
        let call_time = Arc::new(CallTime::default());
        let store_clock = StoreClock::Custom(Arc::clone(&call_time) as _);
        let inner = block_on(runtime().handle(), PostgresStore::open(config, store_clock));
        let inner: Arc<dyn SimStore> = Arc::new(inner.expect("the server is there"));
        let (runtime, clock) = (runtime().handle().clone(), Arc::clone(clock));
        Arc::new(BlockingStore { inner, runtime, clock, call_time })
    }
}

/// Returns the plan of a seed, over this database.
fn plan(seed: u64) -> Plan {
    Plan { database_kind: DatabaseKind::Postgres, ..Plan::of(seed) }
}

fn seeds() -> std::ops::Range<u64> {
    let (first, count) = (knob("TASKBRIDGE_SIM_SEED"), knob("TASKBRIDGE_SIM_SEEDS"));
    let count =
        count.map_or(if first.is_some() { 1 } else { SEEDS }, |count| count.div_ceil(1000).max(SEEDS));
    let first = first.unwrap_or(0);
    first..first + count
}

/// The invariants of the simulation also hold over PostgreSQL.
#[test]
fn no_seed_breaks_a_promise_postgresql() {
    check_seeds(seeds().collect::<Vec<_>>(), plan);
}

/// Both databases return the same results in the same order, so a seed ends with the same rows over both.
#[test]
fn postgresql_world_ends_like_sqlite() {
    for seed in 0..2 {
        let (on_postgres, on_sqlite) = (run(seed, plan(seed)), run(seed, Plan::of(seed)));
        assert!(
            on_postgres == on_sqlite,
            "seed {seed} came to two different ends:\n{on_postgres:?}\n{on_sqlite:?}"
        );
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "long runs print their figures")]
fn planted_bugs_are_caught_over_postgresql() {
    let missed = Mutex::new(Vec::new());
    for_each(BUGS, |bug| {
        let known_seed =
            Bug::ALL.into_iter().find_map(|(listed_bug, seed)| (listed_bug == bug).then_some(seed));
        let catch =
            |seed| run(seed, Plan { bug: Some(bug), ..plan(seed) }).err().map(|breach| (seed, breach));
        match known_seed.into_iter().chain(0..TRIES).find_map(catch) {
            Some((seed, breach)) => {
                println!("| `{bug:?}` | {seed} | {:.120} |", breach.lines().next().unwrap_or_default());
            }
            None => missed.lock().push(bug),
        }
    });
    let missed = missed.into_inner();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
