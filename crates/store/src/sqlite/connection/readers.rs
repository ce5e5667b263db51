//! The reading connections. In WAL mode a reader never waits for a writer, nor a writer for a reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use super::connect;
use super::db::Db;
use super::fault::SqliteError;
use crate::sqlite::Mode;
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::Result;

/// A small pool of connections, used on the caller's own thread.
pub(in crate::sqlite) struct Readers {
    pool: Vec<Mutex<Connection>>,
    next: AtomicUsize,
    clock: Arc<dyn Clock>,
    path: PathBuf,
}

impl Readers {
    /// Opens `count` connections.
    pub(in crate::sqlite) fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        count: usize,
        mode: Mode,
    ) -> Result<Self> {
        let pool: Result<Vec<_>> = (0..count).map(|_| connect::reader(path, mode).map(Mutex::new)).collect();
        Ok(Self { pool: pool?, next: AtomicUsize::new(0), clock, path: path.to_owned() })
    }

    /// Runs a query. Each of its statements sees the newest commit.
    pub(in crate::sqlite) fn read<T>(
        &self,
        query: impl FnOnce(&Db<'_>) -> Result<T, SqliteError>,
    ) -> Result<T> {
        let db = self.acquire();
        tracing::trace!(target: "calls", "to the store, a read");
        query(&Db::new(&db, &*self.clock)).map_err(|fault| fault.into_store_error(&self.path))
    }

    /// Returns the first free connection; if there is none, waits for one of them in turn.
    fn acquire(&self) -> MutexGuard<'_, Connection> {
        // From the front, so that an idle server reuses the connection with the cached pages.
        if let Some(connection) = self.pool.iter().find_map(Mutex::try_lock) {
            return connection;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.pool.len();
        self.pool[index].lock()
    }
}
