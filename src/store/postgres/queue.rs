//! [`Queue`] over PostgreSQL.

use async_trait::async_trait;

use super::desk::{Door, Param};
use super::fault::Fault;
use super::{PostgresStore, column, row};
use crate::store::row::line;
use crate::tasks::store::{Queue, Result};
use crate::tasks::task::Task;

#[async_trait]
impl Queue for PostgresStore {
    /// Goes from line to line in the index and never along one, however long it is.
    async fn heads(&self) -> Result<Vec<Task>> {
        let sql = "WITH RECURSIVE heads AS (
                       (SELECT version, body, n, line FROM tasks WHERE line IS NOT NULL
                        ORDER BY line, created_at, id LIMIT 1)
                       UNION ALL
                       SELECT next.* FROM heads, LATERAL (
                           SELECT version, body, n, line FROM tasks WHERE line > heads.line
                           ORDER BY line, created_at, id LIMIT 1) AS next)
                   SELECT version, body, n FROM heads";
        let rows = self.desk.read(Door::Loops, sql, &[]).await?;
        let mut heads = row::tasks(&rows).map_err(|fault| fault.at(&self.desk.place))?;
        heads.sort_by(|a: &Task, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(heads)
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        let sql = "SELECT count(*) FROM tasks WHERE line = $1 AND (created_at, id) < ($2, $3)";
        let line = line(&task.slots);
        let (line, id) = (column::key(&line), column::text(task.id.as_str()));
        let params: [Param<'_>; 3] = [&line, &task.created_at.as_millis(), &id];
        let rows = self.desk.read(Door::Request, sql, &params).await?;
        let Some(row) = rows.first() else { return Ok(0) };
        let count: i64 = row.try_get(0).map_err(|error| Fault::from(error).at(&self.desk.place))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
