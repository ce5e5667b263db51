//! Reads the whole content of a file, to copy it into another store. No other process has the file open in
//! the meantime, so that the copy includes everything that a server has committed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Rows, Statement};

use super::connect;
use super::fault::SqliteError;
use crate::copy::{CopyRecord, CopyValue, MOVED_FACT, Table};
use taskbridge_core::tasks::store::{Result, StoreError};

/// How long another process may take to close the file.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum number of rows of a page.
const PAGE_ROWS: usize = 200;

/// Page size in bytes: a page ends after the row that exceeds it.
const PAGE_BYTES: usize = 4 << 20;

/// Added to `taskbridge_schema.oldest` of a moved file, so that programs that do not know the mark refuse
/// the file.
const MOVED_OFFSET: i64 = 1_000_000;

/// A file that is open in no other process.
pub(crate) struct Source {
    db: Connection,
    path: PathBuf,
}

/// The rows of a table.
pub(crate) struct Select<'s> {
    statement: Statement<'s>,
    path: &'s Path,
}

/// The rows of a table, page by page.
pub(crate) struct Pages<'s> {
    rows: Rows<'s>,
    path: &'s Path,
}

impl Source {
    /// Opens the file, and migrates its schema first, as a server would.
    ///
    /// # Errors
    /// If the file does not exist, or is open in another process.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(StoreError::Unavailable(format!(
                "{}: there is no such file to copy from",
                path.display()
            )));
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

    /// Returns the number of tasks that have not ended, without rows that are not JSON.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn running(&self) -> Result<usize> {
        let sql = "SELECT count(*) FROM tasks WHERE CASE WHEN json_valid(body) THEN body ->> '$.ended_at' IS NULL END";
        self.db
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| SqliteError::from(error).into_store_error(&self.path))
    }

    /// Selects the rows of a table, without the mark.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn select(&self, table: &Table) -> Result<Select<'_>> {
        let columns: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let rest =
            if table.name == "facts" { format!("WHERE name <> '{MOVED_FACT}'") } else { String::new() };
        let sql =
            format!("SELECT {} FROM {} {rest} ORDER BY {}", columns.join(", "), table.name, table.order);
        let statement =
            self.db.prepare(&sql).map_err(|error| SqliteError::from(error).into_store_error(&self.path))?;
        Ok(Select { statement, path: &self.path })
    }
}

impl Select<'_> {
    /// Starts to read.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn pages(&mut self) -> Result<Pages<'_>> {
        let rows =
            self.statement.query([]).map_err(|error| SqliteError::from(error).into_store_error(self.path))?;
        Ok(Pages { rows, path: self.path })
    }
}

impl Pages<'_> {
    /// Returns the next rows; empty at the end.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn next(&mut self) -> Result<Vec<Vec<CopyValue>>> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < PAGE_ROWS && bytes < PAGE_BYTES {
            let row =
                self.rows.next().map_err(|error| SqliteError::from(error).into_store_error(self.path))?;
            let Some(row) = row else { break };
            let cells = cells(row).map_err(|error| SqliteError::from(error).into_store_error(self.path))?;
            bytes += cells.iter().map(CopyValue::bytes).sum::<usize>();
            page.push(cells);
        }
        Ok(page)
    }
}

fn cells(row: &Row<'_>) -> rusqlite::Result<Vec<CopyValue>> {
    (0..row.as_ref().column_count())
        .map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Integer(number) => CopyValue::Number(number),
                ValueRef::Text(text) => CopyValue::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => CopyValue::Bytes(bytes.to_vec()),
                // No column contains such numbers.
                ValueRef::Null | ValueRef::Real(_) => CopyValue::Null,
            })
        })
        .collect()
}

impl CopyValue {
    fn bytes(&self) -> usize {
        match self {
            CopyValue::Null | CopyValue::Number(_) => 8,
            CopyValue::Text(text) => text.len(),
            CopyValue::Bytes(bytes) => bytes.len(),
        }
    }
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
