//! [`Queue`] over PostgreSQL.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::row;
use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::executor::OperationPriority;
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use crate::row::queue_name;
use taskbridge_core::tasks::store::{Queue, Result, ServedBackend};
use taskbridge_core::tasks::task::Task;

/// The condition that a row is of a connected backend.
macro_rules! waiting {
    () => {
        "EXISTS (SELECT 1 FROM unnest(:backends::text[], :identities::text[]) AS served (backend, identity)
                 WHERE of_backend = served.backend
                     AND (tasks.identity IS NULL OR served.identity IS NULL OR tasks.identity = served.identity))"
    };
}

/// The first row of each queue that is of a connected backend.
const HEADS: &str = concat!(
    "WITH RECURSIVE lines (line) AS (
         SELECT min(line) FROM tasks WHERE line IS NOT NULL
         UNION ALL
         SELECT (SELECT min(line) FROM tasks WHERE line > lines.line) FROM lines WHERE lines.line IS NOT NULL)
     SELECT head.* FROM lines, LATERAL (
         SELECT version, body, n, line, created_at, id FROM tasks WHERE line = lines.line AND ",
    waiting!(),
    " ORDER BY created_at, id LIMIT 1) AS head"
);

/// The next such row of a queue, after a row.
const NEXT_IN_QUEUE: &str = concat!(
    "SELECT version, body, n, line, created_at, id FROM tasks
     WHERE line = :line AND (created_at, id) > (:created_at, :id) AND ",
    waiting!(),
    " ORDER BY created_at, id LIMIT 1"
);

impl PostgresStore {
    /// Returns the task of the first row of a queue, or else of the next readable row.
    async fn first_readable(
        &self,
        first: &Row,
        backends: &[String],
        identities: &[Option<String>],
    ) -> Result<Option<Task>> {
        let to_error = |fault: PostgresError| fault.into_store_error(&self.executor.config);
        let mut found = row::readable(first).map_err(to_error)?;
        let position = |row: &Row| -> Result<(String, i64, String), PostgresError> {
            Ok((row.try_get(3)?, row.try_get(4)?, row.try_get(5)?))
        };
        let mut at = position(first).map_err(to_error)?;
        while found.is_none() {
            let params = named_params! {
                ":backends": backends, ":identities": identities, ":line": at.0, ":created_at": at.1,
                ":id": at.2,
            };
            let rows = self.executor.read(OperationPriority::Loops, NEXT_IN_QUEUE, params).await?;
            let Some(next) = rows.first() else { break };
            found = row::readable(next).map_err(to_error)?;
            at = position(next).map_err(to_error)?;
        }
        Ok(found)
    }
}

/// Returns connected backends as two arrays of the same length.
pub(super) fn columns_of(served: &[ServedBackend]) -> (Vec<String>, Vec<Option<String>>) {
    let identity =
        |served: &ServedBackend| served.identity.as_deref().map(|text| column::encode(text).into_owned());
    served.iter().map(|served| (column::encode(&served.backend).into_owned(), identity(served))).unzip()
}

#[async_trait]
impl Queue for PostgresStore {
    /// Walks from queue to queue in the index; within a queue it skips only rows of other backends and
    /// unreadable ones.
    async fn queue_heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>> {
        let (backends, identities) = columns_of(served);
        let params = named_params! { ":backends": backends, ":identities": identities };
        let rows = self.executor.read(OperationPriority::Loops, HEADS, params).await?;
        let mut heads = Vec::with_capacity(rows.len());
        for first in &rows {
            heads.extend(self.first_readable(first, &backends, &identities).await?);
        }
        heads.sort_by(|a: &Task, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(heads)
    }

    async fn ahead(&self, task: &Task) -> Result<u64> {
        let sql = "SELECT count(*) FROM tasks WHERE line = :line AND (created_at, id) < (:created_at, :id)";
        let queue = queue_name(&task.slots);
        let (queue_key, id) = (column::encode_key(&queue), column::encode(task.id.as_str()));
        let params = named_params! {
            ":line": queue_key, ":created_at": task.created_at.as_millis(), ":id": id,
        };
        let count = |rows: &[Row]| Ok(rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?);
        let count = self.executor.query(OperationPriority::Request, sql, params, count).await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
