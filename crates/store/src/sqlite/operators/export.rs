//! Reads the whole content of a file, to copy it into another store. No other process has the file open in
//! the meantime, so that the copy includes everything that a server has committed.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows, Statement};

use taskbridge_core::tasks::store::Result;

use crate::copy::{CopyValue, Table};
use crate::sqlite::connection::fault::SqliteError;
use crate::sqlite::connection::moved::{MOVED_FACT, Source};

/// Maximum number of rows of a page.
const PAGE_ROWS: usize = 200;

/// Page size in bytes: a page ends after the row that exceeds it.
const PAGE_BYTES: usize = 4 << 20;

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
