//! The store in one SQLite file. Several processes can use the file at once.
//!
//! - `connection`: the file, its schema, and how statements reach it.
//! - `task_store`: the traits of [`taskbridge_core::tasks::store`].
//! - `session_store`: the traits of [`taskbridge_core::sessions`].
//! - `operators`: the audit log, the operators' view, and the export.
//!
//! The three use `connection`, and `operators` also uses `task_store`. There are no other uses among them.

mod connection;
mod operators;
mod session_store;
mod task_store;
#[cfg(test)]
mod tests;

pub use self::connection::moved::reopen;
#[cfg(feature = "postgres")]
pub(crate) use self::connection::moved::{CopyRecord, Source};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use self::connection::connect;
use self::connection::db::Db;
use self::connection::fault::{self, SqliteError};
use self::connection::files::Files;
use self::connection::readers::Readers;
use self::connection::writer::{Writer, WriterConnection};
use self::task_store::holders::Holders;
use self::task_store::notes;
use self::task_store::task_cache::TaskCache;
use crate::write_state::WriteState;
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{Groups as _, Holder, Result, StoreError};

/// The execution mode of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A thread batches writes, and they are on disk when they return. For servers, within tokio.
    Threaded,
    /// Every call runs immediately on its caller's thread, in a reproducible order. Writes survive the end
    /// of the process, but not a power failure, and no other process can open the file. For simulations.
    Inline,
}

/// A store in one SQLite file.
pub struct SqliteStore {
    readers: Arc<Readers>,
    writer: Writer,
    mode: Mode,
    commits: Arc<AtomicU64>,
    poll_cache: TaskCache,
    holders: Holders,
    write_state: Arc<WriteState>,
    /// The last seen [`notes::data_version`].
    last_data_version: AtomicI64,
}

impl SqliteStore {
    /// Opens or creates the file (readable by its user alone), and migrates its schema. Blocks until that
    /// is done.
    ///
    /// # Errors
    /// `Unavailable` if the directory is missing, the file cannot be written or stays locked, or the disk
    /// is full; `Broken` if the file is damaged, belongs to another program, or was written by a newer
    /// version. The text names the fix.
    pub fn open(path: &Path, clock: Arc<dyn Clock>, mode: Mode) -> Result<Self> {
        let path = &std::path::absolute(path)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        let db = connect::writer(path, mode)?;
        let count = match mode {
            Mode::Threaded => std::thread::available_parallelism().map_or(2, |cores| cores.get()).clamp(2, 8),
            Mode::Inline => 1,
        };
        let readers = Arc::new(Readers::open(path, Arc::clone(&clock), count, mode)?);
        let commits = Arc::new(AtomicU64::new(0));
        let data_version =
            notes::data_version(&db).map_err(|error| SqliteError::from(error).into_store_error(path))?;
        let files = match mode {
            Mode::Threaded => Some(Files::of(path).map_err(|error| fault::cannot_open(path, &error))?),
            Mode::Inline => None,
        };
        let write_state = Arc::new(WriteState::default());
        let (writer_path, writer_commits, writer_state) =
            (path.clone(), Arc::clone(&commits), Arc::clone(&write_state));
        let connection = WriterConnection {
            db,
            clock,
            path: writer_path,
            commits: writer_commits,
            write_state: writer_state,
            files,
        };
        let writer = match mode {
            Mode::Threaded => Writer::threaded(connection)?,
            Mode::Inline => Writer::Inline(Mutex::new(connection)),
        };
        let (holders, last_data_version) = (Holders::of(path), AtomicI64::new(data_version));
        Ok(Self {
            readers,
            writer,
            mode,
            commits,
            poll_cache: TaskCache::default(),
            holders,
            write_state,
            last_data_version,
        })
    }

    /// Opens an existing file that has the current schema, or a newer one that this program can use; creates
    /// and migrates nothing.
    ///
    /// # Errors
    /// As [`Self::open`], and `Broken` if the schema is older: servers of an older version may be using it.
    pub fn open_existing(path: &Path, clock: Arc<dyn Clock>, mode: Mode) -> Result<Self> {
        if !path.is_file() {
            return Err(StoreError::Unavailable(format!(
                "{}: there is no such file: no server has run with this config yet",
                path.display()
            )));
        }
        connect::is_current(path)?;
        Self::open(path, clock, mode)
    }

    /// Shows other processes that this holder is alive, until this process ends, and releases the leases of
    /// dead holders. If locks prove nothing here, those leases expire.
    pub async fn lock_holder(&self, holder: &Holder) {
        match self.holders.lock(holder) {
            Ok(true) => {
                if let Err(error) = self.release_dead_holders().await {
                    tracing::warn!(%error, "leases of dead processes are not ended yet");
                }
            }
            Ok(false) => tracing::info!(
                "the database is on a file system whose locks do not show which processes live: the leases of a killed \
                 server run out after its `reconciler.lease`"
            ),
            Err(error) => tracing::warn!(
                %error,
                "no lock file can be kept beside the database: make its folder writable for the user of this server; \
                 otherwise, if the server is killed, its leases run out after `reconciler.lease`"
            ),
        }
    }

    /// Returns the number of transactions that wrote something. Together with the number of operations, it
    /// shows how many share one flush to disk.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Executes a short read on the caller's thread: a cached page is read within microseconds, and a
    /// switch to another thread would cost more than the read.
    fn read<T>(&self, query: impl FnOnce(&Db<'_>) -> Result<T, SqliteError>) -> Result<T> {
        self.readers.read(query)
    }

    /// Executes a read that may take milliseconds, outside the threads that serve requests.
    async fn read_long<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Db<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T> {
        match self.mode {
            Mode::Inline => self.readers.read(query),
            Mode::Threaded => {
                let readers = Arc::clone(&self.readers);
                tokio::task::spawn_blocking(move || readers.read(query))
                    .await
                    .map_err(|error| StoreError::Unavailable(format!("a read was given up: {error}")))?
            }
        }
    }

    /// Executes a write as soon as possible.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Db<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T> {
        self.writer.write(Duration::ZERO, work).await
    }

    /// Executes a write that may be delayed: see [`Writer::write`].
    async fn write_within<T: Send + 'static>(
        &self,
        batch_delay: Duration,
        work: impl FnMut(&Db<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T> {
        self.writer.write(batch_delay, work).await
    }
}
