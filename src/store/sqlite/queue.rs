//! [`Queue`] over SQLite.

use async_trait::async_trait;
use rusqlite::params;

use super::row;
use super::{Db, SqliteStore, fault::Fault};
use crate::store::row::line;
use crate::tasks::store::{Queue, Result};
use crate::tasks::task::Task;

#[async_trait]
impl Queue for SqliteStore {
    async fn heads(&self) -> Result<Vec<Task>> {
        self.read_long(heads).await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.read(|db| {
            let mut statement =
                db.sql("SELECT count(*) FROM tasks WHERE line = ?1 AND (created_at, id) < (?2, ?3)")?;
            let place = params![line(&task.slots), task.created_at.as_millis(), task.id.as_str()];
            Ok(statement.query_row(place, |row| row.get(0))?)
        })
    }
}

/// Goes from line to line and never along one, however long it is.
fn heads(db: &Db<'_>) -> Result<Vec<Task>, Fault> {
    let mut statement = db.sql(
        "SELECT version, body, n, line FROM tasks WHERE line > ?1 ORDER BY line, created_at, id LIMIT 1",
    )?;
    let mut heads = Vec::new();
    let mut last = String::new();
    loop {
        let mut rows = statement.query([&last])?;
        let Some(next) = rows.next()? else { break };
        heads.extend(row::readable(next)?);
        last = next.get(3)?;
    }
    heads.sort_by(|a: &Task, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(heads)
}
