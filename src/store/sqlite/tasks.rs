//! [`TaskStore`] over SQLite.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};
use taskbridge_sdk::{Output, Timestamp};

use super::fault::Fault;
use super::insert;
use super::polled::Polled;
use super::row;
use super::update;
use super::{Db, SqliteStore};
use crate::store::FAIR_AMONG;
use crate::store::change::{Amend, Wish};
use crate::tasks::store::{
    Change, Found, Holder, Inserted, NewTask, Position, Reach, Result, StoreError, TaskStore, Updated,
};
use crate::tasks::task::{Owner, Task, TaskId};

#[async_trait]
impl TaskStore for SqliteStore {
    async fn insert(&self, new: NewTask) -> Result<Inserted> {
        let (wish, task) = Wish::of(new).map_err(cannot_write)?;
        let found = self.write(move |db| insert::insert(db, &wish)).await?;
        Ok(found.with(task))
    }

    async fn get(&self, id: &TaskId, within: Option<Reach<'_>>) -> Result<Option<Task>> {
        self.read(|db| match within {
            Some(reach) => poll(db, &self.polled, id, reach),
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

    async fn output_within(&self, id: &TaskId, most: usize) -> Result<Found> {
        self.read(|db| {
            let sql =
                "SELECT octet_length(body), CASE WHEN octet_length(body) <= ?2 THEN body END FROM outputs
                       WHERE task = ?1";
            let mut statement = db.sql(sql)?;
            let mut rows = statement.query((id.as_str(), i64::try_from(most).unwrap_or(i64::MAX)))?;
            let Some(found) = rows.next()? else { return Ok(Found::Nothing) };
            let bytes: i64 = found.get(0)?;
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            if bytes > most { Ok(Found::Longer(bytes)) } else { output(found, 1).map(Found::Whole) }
        })
    }

    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>> {
        let owner = owner.clone();
        let after = after.cloned();
        self.read_long(move |db| list(db, &owner, after.as_ref(), limit)).await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Task>> {
        let session = session.to_owned();
        self.read_long(move |db| {
            let mut statement =
                db.sql("SELECT version, body, n FROM tasks WHERE session = ?1 ORDER BY created_at, id")?;
            row::tasks(statement.query([session])?)
        })
        .await
    }

    async fn update(&self, change: Change<'_>) -> Result<Updated> {
        let patience = change.patience;
        let amend = Amend::of(change).map_err(cannot_write)?;
        self.write_within(patience, move |db| update::update(db, &amend)).await
    }

    async fn claim(
        &self,
        holder: &Holder,
        lease: Duration,
        limit: usize,
        elsewhere: &[String],
    ) -> Result<Vec<Task>> {
        let elsewhere = names(elsewhere);
        // An idle tick only reads: a transaction that writes would cost a flush to the disk.
        if !self.read(|db| claimable(db, &elsewhere))? {
            return Ok(Vec::new());
        }
        let holder = holder.clone();
        self.write(move |db| claim(db, &holder, lease, limit, &elsewhere)).await
    }

    async fn purge(&self, limit: usize) -> Result<usize> {
        if !self.read(purgeable)? {
            return Ok(0);
        }
        self.write(move |db| {
            db.sql("DELETE FROM sessions WHERE forget_after <= ?1")?.execute([db.now_ms()])?;
            let gone = db
                .sql(
                    "DELETE FROM tasks WHERE n IN (SELECT n FROM tasks WHERE closed = 1 AND expires_at <= ?1
                                                   ORDER BY expires_at LIMIT ?2)",
                )?
                .execute(params![db.now_ms(), limit])?;
            Ok(gone)
        })
        .await
    }

    async fn next_due(&self, elsewhere: &[String]) -> Result<Option<Timestamp>> {
        self.read(|db| next_due(db, &names(elsewhere)))
    }
}

fn cannot_write(error: serde_json::Error) -> StoreError {
    StoreError::Broken(format!("a task cannot be written as JSON: {error}"))
}

/// The row of a task, whoever owns it.
fn get(db: &Db<'_>, id: &TaskId) -> Result<Option<Task>, Fault> {
    let mut statement = db.sql("SELECT version, body, n FROM tasks WHERE id = ?1")?;
    statement.query([id.as_str()])?.next()?.map(row::task).transpose()
}

/// The row of a task within this reach, unless it has expired. Clients poll it again and again, and mostly it is as it was.
fn poll(db: &Db<'_>, polled: &Polled, id: &TaskId, reach: Reach<'_>) -> Result<Option<Task>, Fault> {
    let mut statement = db.sql(
        "SELECT version, body, n FROM tasks
         WHERE id = ?1 AND (owner = ?2 OR tool IN (SELECT value FROM json_each(?4))) AND expires_at > ?3",
    )?;
    let tools = if reach.tools.is_empty() { Cow::Borrowed("[]") } else { Cow::Owned(names(reach.tools)) };
    let mut rows = statement.query(params![id.as_str(), reach.owner.as_str(), db.now_ms(), tools])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let body = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
    if let Some(task) = polled.known(id, body) {
        return Ok(Some(Task { version: row.get(0)?, ..task }));
    }
    let task = row::task(row)?;
    polled.keep(&task, body);
    Ok(Some(task))
}

fn list(db: &Db<'_>, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>, Fault> {
    // Without a position the list begins behind every moment that there is.
    let (created_at, id) = after.map_or((i64::MAX, ""), |p| (p.created_at.as_millis(), p.id.as_str()));
    let mut statement = db.sql(
        "SELECT version, body, n FROM tasks
         WHERE owner = ?1 AND (created_at, id) < (?2, ?3) AND expires_at > ?4
         ORDER BY created_at DESC, id DESC LIMIT ?5",
    )?;
    row::tasks(statement.query(params![owner.as_str(), created_at, id, db.now_ms(), limit])?)
}

/// True if a claim would find something. Where no backend is elsewhere, nothing of a row's body is read.
fn claimable(db: &Db<'_>, elsewhere: &str) -> Result<bool, Fault> {
    let mut statement = db.sql(
        "SELECT 1 FROM tasks WHERE due_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1) AND
             NOT EXISTS (SELECT 1 FROM json_each(?2) WHERE value = json_extract(tasks.body, '$.backend'))
         LIMIT 1",
    )?;
    Ok(statement.query_row(params![db.now_ms(), elsewhere], |_| Ok(())).optional()?.is_some())
}

/// Names as JSON.
fn names(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

fn claim(
    db: &Db<'_>,
    holder: &Holder,
    lease: Duration,
    limit: usize,
    elsewhere: &str,
) -> Result<Vec<Task>, Fault> {
    let mut statement = db.sql(
        "SELECT t.version, t.body, t.n FROM (
             SELECT n, due_at, row_number() OVER (PARTITION BY owner ORDER BY due_at) AS turn
             FROM (SELECT n, owner, due_at FROM tasks
                   WHERE due_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1) AND
                       (?3 = '[]' OR NOT EXISTS
                           (SELECT 1 FROM json_each(?3) WHERE value = json_extract(tasks.body, '$.backend')))
                   ORDER BY due_at LIMIT ?4)) AS fair
         JOIN tasks AS t ON t.n = fair.n ORDER BY fair.turn, fair.due_at LIMIT ?2",
    )?;
    let mut rows = statement.query(params![db.now_ms(), limit, elsewhere, FAIR_AMONG])?;
    let mut due = Vec::new();
    while let Some(next) = rows.next()? {
        // One that cannot be understood is leased as well: it would be the first in every claim.
        due.push((next.get::<_, i64>(2)?, row::readable(next)?));
    }
    drop(rows);
    let until = db.until(lease);
    let mut claimed = Vec::with_capacity(due.len());
    let mut statement =
        db.sql("UPDATE tasks SET version = version + 1, lease_holder = ?2, lease_until = ?3 WHERE n = ?1")?;
    for (n, task) in due {
        statement.execute(params![n, holder.0, until])?;
        claimed.extend(task.map(|task| Task { version: task.version + 1, ..task }));
    }
    Ok(claimed)
}

/// The result in this column.
fn output(row: &rusqlite::Row<'_>, column: usize) -> Result<Output, Fault> {
    let body = row.get_ref(column)?.as_bytes().map_err(rusqlite::Error::from)?;
    serde_json::from_slice(body)
        .map_err(|error| Fault::Row(format!("a result cannot be understood ({error})")))
}

/// True if a purge would delete something.
fn purgeable(db: &Db<'_>) -> Result<bool, Fault> {
    let mut statement = db.sql(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE closed = 1 AND expires_at <= ?1)
             OR EXISTS (SELECT 1 FROM sessions WHERE forget_after <= ?1)",
    )?;
    Ok(statement.query_row([db.now_ms()], |row| row.get(0))?)
}

fn next_due(db: &Db<'_>, elsewhere: &str) -> Result<Option<Timestamp>, Fault> {
    // Walks the index by due time, past the rows that are being worked on, and no further than the first that is not.
    let mut statement = db.sql(
        "SELECT due_at, lease_until FROM tasks WHERE due_at IS NOT NULL AND
             NOT EXISTS (SELECT 1 FROM json_each(?1) WHERE value = json_extract(tasks.body, '$.backend'))
         ORDER BY due_at",
    )?;
    let mut rows = statement.query([elsewhere])?;
    let mut earliest: Option<i64> = None;
    while let Some(next) = rows.next()? {
        let due: i64 = next.get(0)?;
        if earliest.is_some_and(|earliest| due >= earliest) {
            break;
        }
        let free = next.get::<_, Option<i64>>(1)?.map_or(due, |until| until.max(due));
        earliest = Some(earliest.map_or(free, |earliest| earliest.min(free)));
    }
    Ok(earliest.map(Timestamp::from_millis))
}
