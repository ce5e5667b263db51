//! The store suite, and tests specific to SQLite: the file, the commits, the query plans, polls.

mod commits;
mod file;
mod gone;
mod holders;
mod plans;
mod polled;
mod rows;
mod unreadable;

use std::path::Path;
use std::sync::Arc;

use taskbridge_sdk::Timestamp;

use super::{Mode, SqliteStore};
use crate::suite::{Bench, ManualClock};
use taskbridge_core::tasks::store::Result;

fn clock() -> Arc<ManualClock> {
    ManualClock::at(Timestamp::from_millis(1_764_072_600_000))
}

fn open(path: &Path) -> Result<Arc<SqliteStore>> {
    SqliteStore::open(path, clock(), Mode::Threaded).map(Arc::new)
}

/// Opens `path` as a server does, and returns the store and a bench for it.
fn opened(path: &Path) -> (Arc<SqliteStore>, Bench) {
    let clock = clock();
    let store = Arc::new(SqliteStore::open(path, clock.clone(), Mode::Threaded).unwrap());
    (Arc::clone(&store), Bench::new(store, clock))
}

fn bench(mode: Mode) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = SqliteStore::open(&directory.path().join("tasks.db"), clock.clone(), mode).unwrap();
    Bench::new(Arc::new(store), clock).keeping(directory)
}

/// Returns two stores over one file, like those of two processes.
fn benches() -> (Bench, Bench) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let clock = clock();
    let bench = || {
        let store = SqliteStore::open(&path, clock.clone(), Mode::Threaded).unwrap();
        Bench::new(Arc::new(store), clock.clone())
    };
    (bench(), bench().keeping(directory))
}

mod threaded {
    crate::store_suite!(super::bench(super::Mode::Threaded));
}

mod inline {
    crate::store_suite!(super::bench(super::Mode::Inline));
}

mod shared {
    crate::shared_store_suite!(super::benches());
}
