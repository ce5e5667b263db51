//! The mark of a file whose tasks were copied to another store: no program serves it any more. It must not
//! know how the tasks are copied.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use taskbridge_core::tasks::store::{Result, StoreError};
use taskbridge_sdk::Timestamp;

use super::connect;
use super::fault::SqliteError;

/// How long another process may take to close the file.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);

/// Added to `taskbridge_schema.oldest` of a moved file, so that programs that do not know the mark refuse
/// the file.
const MOVED_OFFSET: i64 = 1_000_000;

/// A SQLite file's record of its copy: the value of [`MOVED_FACT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyRecord {
    /// The id of the copy.
    pub(crate) copy: String,
    /// The target, for people.
    pub(crate) to: String,
    /// When the copy was started.
    pub(crate) at: Timestamp,
    /// True once the copy is committed in the target.
    pub(crate) complete: bool,
}

/// The fact that marks a file as copied to another store.
pub(crate) const MOVED_FACT: &str = "moved";

/// A file that is open in no other process.
pub(crate) struct Source {
    pub(in crate::sqlite) db: Connection,
    pub(in crate::sqlite) path: PathBuf,
}

impl CopyRecord {
    /// Returns the reason why the file is not served, and the fix.
    pub(crate) fn refusal(&self, file: &Path) -> String {
        let Self { to, at, .. } = self;
        let reopen = format!("`taskbridge store reopen sqlite:{}`", file.display());
        if self.complete {
            format!(
                "its tasks were copied to {to} on {at}: start with the config of that store. To serve this file again, \
                 drop the copy first, so that nothing runs twice, and then run {reopen}"
            )
        } else {
            format!(
                "a copy of it to {to} was begun on {at} and may be complete: run the same `taskbridge store copy` again. \
                 To give the copy up, drop what there is of it, and then run {reopen}"
            )
        }
    }
}

impl Source {
    /// Opens the file, and migrates its schema first, as a server would.
    ///
    /// # Errors
    /// If the file does not exist, or is open in another process.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(StoreError::Unavailable(format!("{}: there is no such file", path.display())));
        }
        let path = std::path::absolute(path)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        match connect::open_exclusive(&path, BUSY_TIMEOUT) {
            Ok(db) => Ok(Self { db, path }),
            Err(fault) if fault.is_busy() => Err(StoreError::Unavailable(format!(
                "{}: a server has it open: stop it first, so that nothing is done twice",
                path.display()
            ))),
            Err(fault) => Err(fault.into_store_error(&path)),
        }
    }

    /// Returns the record of its copy, if it was copied.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn copy_record(&self) -> Result<Option<CopyRecord>> {
        read_copy_record(&self.db).map_err(|fault| fault.into_store_error(&self.path))
    }

    /// Marks it as copied, or removes the mark. The change is on disk when this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn mark(&self, record: Option<&CopyRecord>) -> Result<()> {
        mark(&self.db, record).map_err(|fault| fault.into_store_error(&self.path))
    }
}

/// Removes the mark of a moved file, so that it is served again. Returns false if it had none.
///
/// # Errors
/// If a server has the file open, or if the file cannot be written.
pub fn reopen(file: &Path) -> Result<bool> {
    let source = Source::open(file)?;
    let was_moved = source.copy_record()?.is_some();
    if was_moved {
        source.mark(None)?;
    }
    Ok(was_moved)
}

/// Refuses a file that was moved.
///
/// # Errors
/// If it was moved; the text names the fix.
pub(super) fn check_not_moved(db: &Connection, path: &Path) -> Result<(), SqliteError> {
    read_copy_record(db)?.map_or(Ok(()), |record| Err(SqliteError::Moved(record.refusal(path))))
}

fn read_copy_record(db: &Connection) -> Result<Option<CopyRecord>, SqliteError> {
    let sql = "SELECT value FROM facts WHERE name = ?1";
    let value: Option<String> = db.query_row(sql, [MOVED_FACT], |row| row.get(0)).optional()?;
    value.map(|value| serde_json::from_str(&value)).transpose().map_err(|error| {
        SqliteError::Broken(format!("its fact `{MOVED_FACT}` cannot be understood ({error})"))
    })
}

fn mark(db: &Connection, record: Option<&CopyRecord>) -> Result<(), SqliteError> {
    let tx = db.unchecked_transaction()?;
    match record
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| SqliteError::Broken(error.to_string()))?
    {
        Some(value) => {
            tx.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)", [MOVED_FACT, &value])?;
        }
        None => {
            tx.execute("DELETE FROM facts WHERE name = ?1", [MOVED_FACT])?;
        }
    }
    let sql = match record {
        Some(_) => "UPDATE taskbridge_schema SET oldest = oldest + ?1 WHERE oldest < ?1",
        None => "UPDATE taskbridge_schema SET oldest = oldest - ?1 WHERE oldest >= ?1",
    };
    tx.execute(sql, [MOVED_OFFSET])?;
    tx.commit()?;
    Ok(())
}
