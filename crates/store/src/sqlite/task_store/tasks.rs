//! [`TaskStore`] over SQLite.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{named_params, params};
use taskbridge_sdk::{Output, Timestamp};

use super::task_cache::TaskCache;
use super::{claim, insert, row, update};
use crate::change::{InsertCommand, UpdateCommand};
use crate::row::describe_deleted;
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::store::{
    AccessScope, BoundedOutput, Change, ClaimRequest, ClaimResult, DeletedRow, Holder, InsertResult, NewTask,
    Position, Result, ServedBackend, StoreError, TaskStore, UpdateResult,
};
use taskbridge_core::tasks::task::{Owner, Task, TaskId};

#[async_trait]
impl TaskStore for SqliteStore {
    async fn insert(&self, new: NewTask) -> Result<InsertResult> {
        let (command, task) = InsertCommand::of(new).map_err(cannot_write)?;
        let decision = self.write(move |db| insert::insert(db, &command)).await?;
        Ok(decision.into_result(task))
    }

    async fn get(&self, id: &TaskId, access_scope: Option<AccessScope<'_>>) -> Result<Option<Task>> {
        self.read(|db| match access_scope {
            Some(scope) => poll(db, &self.poll_cache, id, scope),
            None => get(db, id),
        })
    }

    async fn output(&self, id: &TaskId) -> Result<Option<Output>> {
        self.read(|db| {
            let mut statement = db.sql("SELECT body FROM outputs WHERE task = ?1")?;
            let mut rows = statement.query([id.as_str()])?;
            rows.next()?.map(|found| output(found, 0)).transpose()
        })
    }

    async fn output_within(&self, id: &TaskId, max_bytes: usize) -> Result<BoundedOutput> {
        self.read(|db| {
            let sql =
                "SELECT octet_length(body), CASE WHEN octet_length(body) <= ?2 THEN body END FROM outputs
                       WHERE task = ?1";
            let mut statement = db.sql(sql)?;
            let mut rows = statement.query((id.as_str(), i64::try_from(max_bytes).unwrap_or(i64::MAX)))?;
            let Some(found) = rows.next()? else { return Ok(BoundedOutput::Missing) };
            let bytes: i64 = found.get(0)?;
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            if bytes > max_bytes {
                Ok(BoundedOutput::TooLarge(bytes))
            } else {
                output(found, 1).map(BoundedOutput::Complete)
            }
        })
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        let owner = owner.clone();
        let after = after.cloned();
        self.read_long(move |db| list(db, &owner, after.as_ref(), limit)).await
    }

    async fn of_channel(&self, channel: &str) -> Result<Vec<Task>> {
        let session = channel.to_owned();
        self.read_long(move |db| {
            let mut statement =
                db.sql("SELECT version, body, n FROM tasks WHERE session = ?1 ORDER BY created_at, id")?;
            row::tasks(statement.query([session])?)
        })
        .await
    }

    async fn update(&self, change: Change<'_>) -> Result<UpdateResult> {
        let batch_delay = change.batch_delay;
        let command = UpdateCommand::of(change).map_err(cannot_write)?;
        self.write_within(batch_delay, move |db| update::update(db, &command)).await
    }

    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<ClaimResult> {
        let (holder, request) = (holder.clone(), request.clone());
        self.write(move |db| claim::claim(db, &holder, lease, &request)).await
    }

    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>> {
        let (served, after) = (served.clone(), after.cloned());
        self.read_long(move |db| claim::list_due(db, &served, after.as_ref(), limit)).await
    }

    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>> {
        let ServedBackend { backend, identity: Some(identity) } = served.clone() else {
            return Ok(Vec::new());
        };
        self.write(move |db| claim::adopt(db, &backend, &identity)).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<DeletedRow>> {
        let now = now.as_millis();
        if !self.read(|db| purgeable(db, now.min(db.now_ms())))? {
            return Ok(Vec::new());
        }
        self.write(move |db| {
            let now = now.min(db.now_ms());
            db.execute("DELETE FROM sessions WHERE forget_after <= ?1", [now])?;
            let mut statement = db.sql(
                "DELETE FROM tasks WHERE n IN (SELECT n FROM tasks WHERE closed = 1 AND expires_at <= ?1
                                               ORDER BY expires_at LIMIT ?2)
                 RETURNING of_backend, identity, body",
            )?;
            let (mut rows, mut deleted) = (statement.query(params![now, limit])?, Vec::new());
            while let Some(row) = rows.next()? {
                let text =
                    |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
                let body = row.get_ref(2)?.as_bytes().map_err(rusqlite::Error::from)?;
                deleted.push(describe_deleted(text(0)?, text(1)?, body));
            }
            Ok(deleted)
        })
        .await
    }

    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>> {
        self.read(|db| served.iter().map(|served| claim::next_due(db, served)).collect())
    }
}

fn cannot_write(error: serde_json::Error) -> StoreError {
    StoreError::Broken(format!("a task cannot be written as JSON: {error}"))
}

/// Returns the task with this id, for any owner.
fn get(db: &Db<'_>, id: &TaskId) -> Result<Option<Task>, SqliteError> {
    let mut statement = db.sql("SELECT version, body, n FROM tasks WHERE id = ?1")?;
    statement.query([id.as_str()])?.next()?.map(row::task).transpose()
}

/// Returns the task within this scope, unless it has expired. Clients poll often, and usually find no
/// change.
fn poll(
    db: &Db<'_>,
    cache: &TaskCache,
    id: &TaskId,
    scope: AccessScope<'_>,
) -> Result<Option<Task>, SqliteError> {
    let mut statement = db.sql(
        "SELECT version, body, n FROM tasks
         WHERE id = ?1 AND (owner = ?2 OR tool IN (SELECT value FROM json_each(?3))) AND expires_at > ?4",
    )?;
    let tools = if scope.tools.is_empty() { Cow::Borrowed("[]") } else { Cow::Owned(names(scope.tools)) };
    // By position, unlike other statements of this size: no other is executed so often.
    let mut rows = statement.query(params![id.as_str(), scope.owner.as_str(), tools, db.now_ms()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let body = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
    if let Some(task) = cache.get(id, body) {
        return Ok(Some(Task { version: row.get(0)?, ..task }));
    }
    let task = row::task(row)?;
    cache.insert(&task, body);
    Ok(Some(task))
}

fn list(
    db: &Db<'_>,
    owner: &Owner,
    after: Option<&Position>,
    limit: usize,
) -> Result<Vec<Task>, SqliteError> {
    // Without a position, the list begins after the latest possible time.
    let (created_at, id) = after.map_or((i64::MAX, ""), |p| (p.created_at.as_millis(), p.id.as_str()));
    let mut statement = db.sql(
        "SELECT version, body, n FROM tasks
         WHERE owner = :owner AND (created_at, id) < (:created_at, :id) AND expires_at > :now
         ORDER BY created_at DESC, id DESC LIMIT :limit",
    )?;
    let params = named_params! {
        ":owner": owner.as_str(), ":created_at": created_at, ":id": id, ":now": db.now_ms(), ":limit": limit,
    };
    row::tasks(row::query(&mut statement, params)?)
}

/// Encodes names as JSON.
fn names(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

/// Parses the result in this column.
fn output(row: &rusqlite::Row<'_>, column: usize) -> Result<Output, SqliteError> {
    let body = row.get_ref(column)?.as_bytes().map_err(rusqlite::Error::from)?;
    taskbridge_sdk::from_json(body)
        .map_err(|error| SqliteError::Unreadable(format!("a result cannot be understood ({error})")))
}

/// Returns true if a purge would delete something.
fn purgeable(db: &Db<'_>, now: i64) -> Result<bool, SqliteError> {
    Ok(db.exists("SELECT 1 FROM tasks WHERE closed = 1 AND expires_at <= ?1", [now])?
        || db.exists("SELECT 1 FROM sessions WHERE forget_after <= ?1", [now])?)
}
