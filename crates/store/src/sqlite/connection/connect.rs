//! Opens the file: private to its user, in WAL mode, and in [`Mode::Threaded`] with every commit flushed to
//! disk before it counts.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::{self, SqliteError};
use super::{BUSY_TIMEOUT, moved, schema};
use crate::sqlite::Mode;
use taskbridge_core::tasks::store::StoreError;

/// Number of prepared statements that a connection keeps: enough for all of this store, so that none is
/// prepared twice.
const STATEMENT_CACHE_SIZE: usize = 64;

/// Maximum page cache of the writing connection: enough for the indexes of tens of thousands of rows.
/// Random ids spread the writes over the whole index.
const CACHE_KIB: i64 = 16 << 10;

/// Poll interval of a locked file.
pub(super) const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Number of pages (4 KiB each) in the log before a checkpoint. Most of them are rewritten several times
/// before, and each is copied into the database once.
const CHECKPOINT_PAGES: i64 = 4000;

/// Size to which the log is truncated after a burst, in bytes.
const WAL_SIZE_LIMIT: i64 = 32 << 20;

/// Opens the writing connection; creates the file if there is none, and migrates its schema.
pub(in crate::sqlite) fn writer(path: &Path, mode: Mode) -> Result<Connection, StoreError> {
    // SQLite gives its side files the mode of this one.
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| fault::cannot_open(path, &error))?;
    prepare_writer(path, mode).map_err(|fault| fault.into_store_error(path))
}

fn prepare_writer(path: &Path, mode: Mode) -> Result<Connection, SqliteError> {
    let mut db = open(path, mode)?;
    db.busy_handler(Some(wait_while_busy))?;
    // Before anything is written: the file may belong to another program.
    schema::version(&db)?;
    let synchronous = match mode {
        Mode::Threaded => "FULL",
        Mode::Inline => "OFF",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    use_wal(&db)?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_size_limit", WAL_SIZE_LIMIT, |_| Ok(()))?;
    schema::migrate(&mut db)?;
    moved::check_not_moved(&db, path)?;
    Ok(db)
}

/// Opens the file exclusively and migrates it, even if it is marked as moved. It is busy if any other
/// connection has it open: in WAL mode every connection has a share of the lock that this one takes.
pub(super) fn open_exclusive(path: &Path, wait: Duration) -> Result<Connection, SqliteError> {
    let mut db = open(path, Mode::Threaded)?;
    db.busy_timeout(wait)?;
    db.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
    schema::version(&db)?;
    schema::migrate(&mut db)?;
    // In this mode, the locks of the first transaction remain until the connection is closed.
    db.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
    Ok(db)
}

/// Checks that the file has the schema of this program, or a newer one that it can use.
pub(in crate::sqlite) fn is_current(path: &Path) -> Result<(), StoreError> {
    let check = || schema::is_current(&open(path, Mode::Threaded)?);
    check().map_err(|fault: SqliteError| fault.into_store_error(path))
}

/// Opens a read-only connection.
pub(super) fn reader(path: &Path, mode: Mode) -> Result<Connection, StoreError> {
    let prepare = || -> Result<Connection, SqliteError> {
        let db = open(path, mode)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(db)
    };
    prepare().map_err(|fault| fault.into_store_error(path))
}

fn open(path: &Path, mode: Mode) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = match mode {
        Mode::Threaded => Connection::open_with_flags(path, flags)?,
        // No other process opens the file of a simulation, so system locks are not needed.
        Mode::Inline => Connection::open_with_flags_and_vfs(path, flags, c"unix-excl")?,
    };
    db.busy_timeout(BUSY_TIMEOUT)?;
    // Without it, a statement whose plan depends on a value (that of a LIMIT, for example) is prepared
    // again for each value.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    Ok(db)
}

/// Waits for another process that writes; returns false after [`BUSY_TIMEOUT`]. SQLite's own delays grow to
/// 100 ms. With a neighbour that writes constantly, nearly every attempt would find the file locked, because
/// the gaps between its transactions are short.
fn wait_while_busy(attempts: i32) -> bool {
    std::thread::sleep(BUSY_POLL_INTERVAL);
    BUSY_POLL_INTERVAL * attempts.unsigned_abs() < BUSY_TIMEOUT
}

/// Switches the file to WAL. If two processes do it at the same time, one gets `SQLITE_BUSY` immediately,
/// regardless of the busy timeout, so it retries here.
fn use_wal(db: &Connection) -> Result<(), SqliteError> {
    let since = Instant::now();
    loop {
        let switched = db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match switched.map_err(SqliteError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(SqliteError::Broken(format!(
                    "SQLite cannot keep a write-ahead log here (it stays in mode {mode}): use a local disk"
                )));
            }
            Err(fault) if fault.is_busy() && since.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(BUSY_POLL_INTERVAL);
            }
            Err(fault) => return Err(fault),
        }
    }
}
