//! [`History`] over SQLite. One thread writes, and by one clock, so that the oldest entries are those with the lowest
//! numbers, and are found without an index of their own.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::fault::Fault;
use super::{Db, SqliteStore};
use crate::store::entry::{self, Line};
use crate::tasks::history::Entry;
use crate::tasks::store::{History, Result};
use crate::tasks::task::TaskId;

#[async_trait]
impl History for SqliteStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<Entry>> {
        let id = id.clone();
        self.read_long(move |db| entries(db, &id)).await
    }

    async fn forget(&self, older_than: Duration, limit: usize) -> Result<usize> {
        if !self.read(move |db| is_old(db, older_than))? {
            return Ok(0);
        }
        self.write(move |db| {
            let before = (db.now - older_than).as_millis();
            let mut statement = db.sql(
                "DELETE FROM entries WHERE n IN (SELECT n FROM (SELECT n, at FROM entries ORDER BY n LIMIT ?2) AS first
                                                 WHERE at < ?1)",
            )?;
            Ok(statement.execute(params![before, limit])?)
        })
        .await
    }
}

/// Writes an entry, in the transaction of the change that it tells of.
pub(super) fn note(db: &Db<'_>, task: &str, version: u64, line: Option<&Line>) -> Result<(), Fault> {
    if let Some(Line { replica, what }) = line {
        db.sql("INSERT INTO entries (task, version, at, replica, what) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![task, version, db.now_ms(), replica, what])?;
    }
    Ok(())
}

fn entries(db: &Db<'_>, id: &TaskId) -> Result<Vec<Entry>, Fault> {
    let mut statement =
        db.sql("SELECT version, at, replica, what FROM entries WHERE task = ?1 ORDER BY n")?;
    let mut rows = statement.query([id.as_str()])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let what: String = row.get(3)?;
        entries.extend(entry::read(row.get(0)?, row.get(1)?, row.get(2)?, &what));
    }
    Ok(entries)
}

/// True if the first entry is older than this.
fn is_old(db: &Db<'_>, older_than: Duration) -> Result<bool, Fault> {
    let mut statement = db.sql("SELECT at FROM entries WHERE n = (SELECT min(n) FROM entries)")?;
    let first: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(first.is_some_and(|at| at < (db.now - older_than).as_millis()))
}
