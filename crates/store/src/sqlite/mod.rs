//! The store in one SQLite file. Several processes can use the file at once.
//!
//! - `writer`: one connection writes, with many operations per transaction; `fair_yield`: lets other
//!   processes write.
//! - `readers`: a small pool of reading connections; `task_cache`: a cache of parsed tasks for polls.
//! - `connect`: opens connections. `schema`: the schema by version. `row`: converts a row into a task.
//!   `fault`: errors and their fixes.
//! - `tasks` with `insert`, `update` and `claim`, `queue`, `groups`, `history`, `notices`, `notes`,
//!   `tally`: the traits of [`taskbridge_core::tasks::store`]. `sessions`, `deliveries`: the traits of
//!   [`taskbridge_core::sessions`]. `audit`: lines of the audit log. `survey`: the operators' view.
//! - `files`: checks that the paths still name the open files. `holders`: detects dead lease holders.
//! - `export`: the whole content, for a copy into another store.

mod audit;
mod claim;
mod connect;
mod deliveries;
#[cfg(feature = "postgres")]
mod export;
mod fair_yield;
mod fault;
mod files;
mod groups;
mod history;
mod holders;
mod insert;
mod moved;
mod notes;
mod notices;
mod queue;
mod readers;
mod row;
mod schema;
mod sessions;
mod survey;
mod tally;
mod task_cache;
mod tasks;
#[cfg(test)]
mod tests;
mod update;
mod writer;

pub use moved::reopen;
#[cfg(feature = "postgres")]
pub(crate) use moved::{CopyRecord, Source};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row};
use taskbridge_sdk::Timestamp;

use self::fault::SqliteError;
use self::files::Files;
use self::holders::Holders;
use self::readers::Readers;
use self::task_cache::TaskCache;
use self::writer::{Writer, WriterConnection};
use crate::write_state::WriteState;
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{Groups as _, Holder, Result, StoreError};

/// How long an operation waits for another process that has the file locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

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

/// One connection during one operation, and the operation's current time.
struct Db<'c> {
    conn: &'c Connection,
    now: Timestamp,
}

impl<'c> Db<'c> {
    fn new(conn: &'c Connection, clock: &dyn Clock) -> Self {
        Self { conn, now: clock.now() }
    }

    /// Returns a statement, prepared on its first use.
    fn sql(&self, statement: &str) -> Result<CachedStatement<'c>, SqliteError> {
        Ok(self.conn.prepare_cached(statement)?)
    }

    /// Executes a statement, and returns how many rows it wrote.
    fn execute(&self, statement: &str, params: impl Params) -> Result<usize, SqliteError> {
        Ok(self.sql(statement)?.execute(params)?)
    }

    /// Returns what `read` makes of the first row of a query, if there is one.
    fn first<T>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, SqliteError> {
        Ok(self.sql(query)?.query_row(params, read).optional()?)
    }

    /// Returns what `read` makes of each row of a query.
    fn all<T, C: FromIterator<T>>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C, SqliteError> {
        Ok(self.sql(query)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns true if a query finds a row.
    fn exists(&self, query: &str, params: impl Params) -> Result<bool, SqliteError> {
        Ok(self.sql(query)?.exists(params)?)
    }

    /// Returns the current time in the unit of the columns.
    fn now_ms(&self) -> i64 {
        self.now.as_millis()
    }

    /// Returns the expiry of a lease that is acquired now.
    fn expiry_ms(&self, lease: Duration) -> i64 {
        (self.now + lease).as_millis()
    }
}
