//! Tests for the PostgreSQL store on a real server: the behavior of every store, what only this store can get
//! wrong, the comparison with SQLite, and the program on it.

mod cancels;
mod copy;
mod differential;
mod lost;
mod program;
mod rolling;
mod rotation;
mod schema;
mod stopping;
mod store;
mod suite;

use std::sync::Arc;

use taskbridge::store::postgres::{PostgresStore, StoreClock};
use taskbridge::store::suite::{Bench, ManualClock};
use taskbridge_sdk::Timestamp;

use crate::support::postgres;

fn clock() -> Arc<ManualClock> {
    ManualClock::at(Timestamp::from_millis(1_764_072_600_000))
}

/// Opens a store in this schema of the shared server, as one process does.
async fn open_store(schema: &str, clock: &Arc<ManualClock>) -> Arc<PostgresStore> {
    let config = postgres::shared().connection_config(schema);
    Arc::new(PostgresStore::open(config, StoreClock::Custom(clock.clone())).await.unwrap())
}

/// Returns an empty store.
async fn bench() -> Bench {
    let clock = clock();
    Bench::new(open_store(&postgres::schema(), &clock).await, clock)
}

/// Returns two stores over one schema, as two processes have them.
async fn benches() -> (Bench, Bench) {
    let (schema, clock) = (postgres::schema(), clock());
    let a = Bench::new(open_store(&schema, &clock).await, clock.clone());
    (a, Bench::new(open_store(&schema, &clock).await, clock))
}
