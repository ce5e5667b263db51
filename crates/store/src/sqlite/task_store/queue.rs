//! [`Queue`] over SQLite.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::row;
use crate::row::queue_name;
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::store::{Queue, Result, ServedBackend};
use taskbridge_core::tasks::task::Task;

#[async_trait]
impl Queue for SqliteStore {
    async fn queue_heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>> {
        let served = served.to_vec();
        self.read_long(move |db| queue_heads(db, &served)).await
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        self.read(|db| {
            let mut statement =
                db.sql("SELECT count(*) FROM tasks WHERE line = ?1 AND (created_at, id) < (?2, ?3)")?;
            let position = params![queue_name(&task.slots), task.created_at.as_millis(), task.id.as_str()];
            Ok(statement.query_row(position, |row| row.get(0))?)
        })
    }
}

/// Walks from queue to queue; within a queue it skips only rows of other backends and unreadable ones.
fn queue_heads(db: &Db<'_>, served: &[ServedBackend]) -> Result<Vec<Task>, SqliteError> {
    let mut next_queue = db.sql("SELECT line FROM tasks WHERE line > ?1 ORDER BY line LIMIT 1")?;
    let mut queued_rows = db.sql(
        "SELECT version, body, n, of_backend, identity FROM tasks WHERE line = ?1 ORDER BY created_at, id",
    )?;
    let mut heads = Vec::new();
    let mut last = String::new();
    while let Some(queue) = next_queue.query_row([&last], |row| row.get::<_, String>(0)).optional()? {
        let mut rows = queued_rows.query([&queue])?;
        while let Some(row) = rows.next()? {
            let (backend, identity): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
            let backend = backend.unwrap_or_default();
            if !served.iter().any(|served| served.matches(&backend, identity.as_deref())) {
                continue;
            }
            if let Some(task) = row::readable(row)? {
                heads.push(task);
                break;
            }
        }
        last = queue;
    }
    heads.sort_by(|a: &Task, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(heads)
}
