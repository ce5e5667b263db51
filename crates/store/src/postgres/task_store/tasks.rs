//! [`TaskStore`] over PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::{Output, Timestamp};
use tokio_postgres::Row;

use super::claim::{self, Adopt, Claim};
use super::row;
use crate::change::{InsertCommand, UpdateCommand};
use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use crate::row::describe_deleted;
use taskbridge_core::tasks::store::{
    AccessScope, BoundedOutput, Change, ClaimRequest, ClaimResult, DeletedRow, Holder, InsertResult, NewTask,
    Position, Result, ServedBackend, StoreError, TaskStore, UpdateResult,
};
use taskbridge_core::tasks::task::{Owner, Task, TaskId};

#[async_trait]
impl TaskStore for PostgresStore {
    async fn insert(&self, new: NewTask) -> Result<InsertResult> {
        let (command, task) = InsertCommand::of(new).map_err(cannot_write)?;
        let decision =
            self.executor.write(OperationPriority::Request, Some(task.id.as_str()), command).await?;
        Ok(decision.into_result(task))
    }

    async fn get(&self, id: &TaskId, access_scope: Option<AccessScope<'_>>) -> Result<Option<Task>> {
        let id = column::encode(id.as_str());
        let task = |rows: &[Row]| rows.first().map(row::task).transpose();
        let Some(scope) = access_scope else {
            let sql = "SELECT version, body, n FROM tasks WHERE id = :id";
            return self.executor.query(OperationPriority::Loops, sql, &[(":id", &id)], task).await;
        };
        let sql = "SELECT version, body, n FROM tasks
                   WHERE id = :id AND (owner = :owner OR tool = ANY(:tools)) AND expires_at > moment(:now)";
        let owner = column::encode_key(scope.owner.as_str());
        let tools: Vec<_> = scope.tools.iter().map(|tool| column::encode(tool)).collect();
        let params = named_params! {
            ":id": id, ":owner": owner, ":tools": tools, ":now": self.executor.now(),
        };
        self.executor.query(OperationPriority::Request, sql, params, task).await
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        let sql = "SELECT body FROM outputs WHERE task = :id";
        let id = column::encode(id.as_str());
        let found = |rows: &[Row]| rows.first().map(|row| output(row, 0)).transpose();
        self.executor.query(OperationPriority::Request, sql, &[(":id", &id)], found).await
    }

    async fn output_within(&self, id: &TaskId, max_bytes: usize) -> Result<BoundedOutput> {
        let sql =
            "SELECT octet_length(body)::bigint, CASE WHEN octet_length(body) <= :limit::bigint THEN body END
                   FROM outputs WHERE task = :id";
        let limit = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        let id = column::encode(id.as_str());
        let params = named_params! { ":id": id, ":limit": limit };
        let found = |rows: &[Row]| {
            let Some(row) = rows.first() else { return Ok(BoundedOutput::Missing) };
            let bytes = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(usize::MAX);
            if bytes > max_bytes {
                Ok(BoundedOutput::TooLarge(bytes))
            } else {
                output(row, 1).map(BoundedOutput::Complete)
            }
        };
        self.executor.query(OperationPriority::Request, sql, params, found).await
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        // Without a position, the list begins after the latest possible time.
        let (created_at, id) = after.map_or((i64::MAX, ""), |p| (p.created_at.as_millis(), p.id.as_str()));
        let sql = "SELECT version, body, n FROM tasks
                   WHERE owner = :owner AND (created_at, id) < (:created_at, :id) AND expires_at > moment(:now)
                   ORDER BY created_at DESC, id DESC LIMIT :limit";
        let owner = column::encode_key(owner.as_str());
        let (id, limit) = (column::encode(id), number(limit));
        let params = named_params! {
            ":owner": owner, ":created_at": created_at, ":id": id, ":now": self.executor.now(),
            ":limit": limit,
        };
        self.executor.query(OperationPriority::Request, sql, params, row::tasks).await
    }

    async fn of_channel(&self, channel: &str) -> Result<Vec<Task>> {
        let sql = "SELECT version, body, n FROM tasks WHERE session = :channel ORDER BY created_at, id";
        let channel = column::encode_key(channel);
        let params = named_params! { ":channel": channel };
        self.executor.query(OperationPriority::Request, sql, params, row::tasks).await
    }

    /// The delay of a [`Change`] is not used: concurrent commits share a flush of the write-ahead log anyway.
    async fn update(&self, change: Change<'_>) -> Result<UpdateResult> {
        let command = UpdateCommand::of(change).map_err(cannot_write)?;
        let id = command.row.id.clone();
        self.executor.write(OperationPriority::Loops, Some(&id), command).await
    }

    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<ClaimResult> {
        let claim = Claim { holder: holder.0.clone(), lease: millis(lease), request: request.clone() };
        self.executor.write(OperationPriority::Loops, None, claim).await
    }

    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        claim::list_due(&self.executor, served, after, limit).await
    }

    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>> {
        match &served.identity {
            Some(identity) => {
                let adopt = Adopt { backend: served.backend.clone(), identity: identity.clone() };
                self.executor.write(OperationPriority::Loops, None, adopt).await
            }
            None => Ok(Vec::new()),
        }
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<DeletedRow>> {
        self.executor.write(OperationPriority::Loops, None, Purge(now.as_millis(), number(limit))).await
    }

    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>> {
        claim::next_due(&self.executor, served).await
    }
}

fn cannot_write(error: serde_json::Error) -> StoreError {
    StoreError::Broken(format!("a task cannot be written as JSON: {error}"))
}

/// Converts a number of rows to the database's type.
pub(in crate::postgres) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a duration to the unit of the columns. No lease is longer than a century.
pub(super) fn millis(span: Duration) -> i64 {
    const LONGEST: i64 = 100 * 366 * 86_400_000;
    i64::try_from(span.as_millis()).map_or(LONGEST, |span| span.min(LONGEST))
}

/// Parses the result in this column.
fn output(row: &Row, column: usize) -> Result<Output, PostgresError> {
    taskbridge_sdk::from_json(row.try_get::<_, &str>(column)?.as_bytes())
        .map_err(|error| PostgresError::Unreadable(format!("a result cannot be understood ({error})")))
}

/// The expiry time up to which rows are deleted (at most the database's current time), and the maximum number
/// of rows. Records of ended sessions are deleted by the same time.
struct Purge(i64, i64);

#[async_trait]
impl WriteTransaction for Purge {
    type Output = Vec<DeletedRow>;

    async fn write(&self, db: &Db, _again: bool) -> Result<Vec<DeletedRow>, PostgresError> {
        let sql = "WITH old AS (SELECT id FROM tasks
                                WHERE closed AND expires_at <= least(:before::bigint, moment(:now))
                                ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED),
                        forgotten AS (DELETE FROM sessions
                                      WHERE forget_after <= least(:before::bigint, moment(:now)))
                   DELETE FROM tasks USING old WHERE tasks.id = old.id
                   RETURNING tasks.of_backend, tasks.identity, tasks.body";
        let rows = db.all(sql, named_params! { ":before": self.0, ":limit": self.1, ":now": db.now }).await?;
        rows.iter()
            .map(|row| {
                Ok(describe_deleted(row.try_get(0)?, row.try_get(1)?, row.try_get::<_, &str>(2)?.as_bytes()))
            })
            .collect()
    }
}
