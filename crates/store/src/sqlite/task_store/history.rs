//! [`History`] over SQLite.

use async_trait::async_trait;
use rusqlite::{named_params, params};
use taskbridge_sdk::Timestamp;

use super::row;
use crate::entry::{self, EntryColumns};
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::history::HistoryEntry;
use taskbridge_core::tasks::store::{History, Result};
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl History for SqliteStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        let id = id.clone();
        self.read_long(move |db| entries(db, &id)).await
    }

    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let before = before.as_millis();
        if !self.read(|db| db.exists("SELECT 1 FROM entries WHERE at < ?1", [before]))? {
            return Ok(0);
        }
        self.write(move |db| {
            db.execute(
                "DELETE FROM entries WHERE n IN (SELECT n FROM entries WHERE at < ?1 ORDER BY at, n LIMIT ?2)",
                params![before, limit],
            )
        })
        .await
    }
}

/// Writes an entry, in the transaction of its change.
pub(super) fn write_entry(
    db: &Db<'_>,
    task: &str,
    version: u64,
    columns: Option<&EntryColumns>,
) -> Result<(), SqliteError> {
    if let Some(EntryColumns { replica, what }) = columns {
        let mut statement = db.sql(
            "INSERT INTO entries (task, version, at, replica, what)
             VALUES (:task, :version, :now, :replica, :what)",
        )?;
        let params = named_params! {
            ":task": task, ":version": version, ":now": db.now_ms(), ":replica": replica, ":what": what,
        };
        row::execute(&mut statement, params)?;
    }
    Ok(())
}

fn entries(db: &Db<'_>, id: &TaskId) -> Result<Vec<HistoryEntry>, SqliteError> {
    let mut statement =
        db.sql("SELECT version, at, replica, what FROM entries WHERE task = ?1 ORDER BY n")?;
    let mut rows = statement.query([id.as_str()])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let what: String = row.get(3)?;
        entries.extend(entry::parse(row.get(0)?, row.get(1)?, row.get(2)?, &what));
    }
    Ok(entries)
}
