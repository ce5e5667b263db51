//! The PostgreSQL store, over a real server: what every store does, what only this one can get wrong, whether it comes
//! to the same as SQLite, and the program on it.

mod cancels;
mod copy;
mod differential;
mod lost;
mod program;
mod rolling;
mod rotation;
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

/// A store in this schema of the shared server, as one process has it.
async fn opened(schema: &str, clock: &Arc<ManualClock>) -> Arc<PostgresStore> {
    let place = postgres::shared().place(schema);
    Arc::new(PostgresStore::open(place, StoreClock::Given(clock.clone())).await.unwrap())
}

/// An empty store.
async fn bench() -> Bench {
    let clock = clock();
    Bench::new(opened(&postgres::schema(), &clock).await, clock)
}

/// Two stores over one schema, as two processes have them.
async fn benches() -> (Bench, Bench) {
    let (schema, clock) = (postgres::schema(), clock());
    let a = Bench::new(opened(&schema, &clock).await, clock.clone());
    (a, Bench::new(opened(&schema, &clock).await, clock))
}
