//! Adds a row ([`InsertCommand`]). The checks and the write are one transaction, so that of two equal calls
//! one finds the other's row.

use rusqlite::{OptionalExtension, named_params, params};

use super::{history, notices, row};
use crate::change::{InsertCommand, InsertDecision};
use crate::row::{Slots, queue_name};
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::store::{AttachRequest, IdempotencyKey, Quota, SlotLimit};
use taskbridge_core::tasks::task::Task;

/// Searches for an existing row that serves the call, and writes the new one if there is none.
pub(super) fn insert(db: &Db<'_>, command: &InsertCommand) -> Result<InsertDecision, SqliteError> {
    if let Some(idempotency_key) = &command.idempotency_key
        && let Some((task, digest)) = find_by_key(db, idempotency_key)?
    {
        return Ok(InsertDecision::Existing { task, same: digest == idempotency_key.digest });
    }
    if let Some(attach) = &command.attach
        && let Some(task) = find_abandoned(db, attach, &command.row.owner)?
    {
        // The call's key then refers to the existing task, as it would to a new one.
        record_key(db, command.idempotency_key.as_ref(), task.id.as_str())?;
        return Ok(InsertDecision::Abandoned(task));
    }
    if let Some(quota) = command.quota {
        let (rows, bytes) = owner_usage(db, &command.row.owner, quota)?;
        if let Some(refusal) = command.check_quota(rows, bytes) {
            return Ok(refusal);
        }
    }
    if let Slots::Taken(slots) = &command.row.slots {
        let full = first_full_slot(db, &command.limits)?;
        if full.is_some() || has_waiters(db, &queue_name(slots), &command.queue_behind)? {
            return Ok(InsertDecision::NoSlot { slot: full.map(str::to_owned) });
        }
    }
    write(db, command)?;
    notices::write_notices(db, &command.notices)?;
    Ok(InsertDecision::Inserted)
}

/// Returns the row of a key, and the digest of the call that used the key. An expired row counts as deleted.
fn find_by_key(db: &Db<'_>, idempotency_key: &IdempotencyKey) -> Result<Option<(Task, String)>, SqliteError> {
    let mut statement = db.sql(
        "SELECT t.version, t.body, t.n, o.digest FROM once o JOIN tasks t ON t.id = o.task
         WHERE o.scope = ?1 AND o.key = ?2 AND t.expires_at > ?3",
    )?;
    let mut rows = statement.query(params![idempotency_key.scope, idempotency_key.key, db.now_ms()])?;
    match rows.next()? {
        Some(found) => Ok(Some((row::task(found)?, found.get(3)?))),
        None => Ok(None),
    }
}

/// Returns the newest row of this digest whose call was abandoned within the time limit.
fn find_abandoned(db: &Db<'_>, attach: &AttachRequest, owner: &str) -> Result<Option<Task>, SqliteError> {
    let mut statement = db.sql(
        "SELECT version, body, n FROM tasks
         WHERE digest = :digest AND waiting_until <= :now AND waiting_until > :earliest AND owner = :owner
             AND expires_at > :now
         ORDER BY created_at DESC, id DESC LIMIT 1",
    )?;
    let earliest = db.now - attach.within;
    let params = named_params! {
        ":digest": attach.digest, ":now": db.now_ms(), ":earliest": earliest.as_millis(), ":owner": owner,
    };
    let mut rows = row::query(&mut statement, params)?;
    rows.next()?.map(row::task).transpose()
}

/// Returns the number and bytes of an owner's rows, up to the limit of rows. Expired rows count until they
/// are deleted, so that the index alone is sufficient.
fn owner_usage(db: &Db<'_>, owner: &str, quota: Quota) -> Result<(i64, i64), SqliteError> {
    let usage = db.first(
        "SELECT count(*), coalesce(sum(bytes), 0) FROM (SELECT bytes FROM tasks WHERE owner = ?1 LIMIT ?2)",
        params![owner, quota.rows],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(usage.unwrap_or_default())
}

/// Returns the first of these slots that is full.
pub(super) fn first_full_slot<'l>(
    db: &Db<'_>,
    limits: &'l [SlotLimit],
) -> Result<Option<&'l str>, SqliteError> {
    for SlotLimit { slot, limit } in limits {
        let sql = "SELECT count(*) >= ?2 FROM (SELECT 1 FROM slots WHERE slot = ?1 LIMIT ?2)";
        if db.first(sql, params![slot, limit], |row| row.get(0))? == Some(true) {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Returns true if a row is queued in this queue, or in any queue of one of the slots in `queue_behind`.
/// It walks from queue to queue, and reads only the first row of each.
fn has_waiters(db: &Db<'_>, queue: &str, queue_behind: &[String]) -> Result<bool, SqliteError> {
    if db.exists("SELECT 1 FROM tasks WHERE line = ?1 LIMIT 1", [queue])? {
        return Ok(true);
    }
    let mut next = db.sql("SELECT line FROM tasks WHERE line > ?1 ORDER BY line LIMIT 1")?;
    let mut last = String::new();
    while !queue_behind.is_empty() {
        let Some(other_queue) = next.query_row([&last], |row| row.get::<_, String>(0)).optional()? else {
            break;
        };
        if queue_behind.iter().any(|slot| other_queue.contains(slot)) {
            return Ok(true);
        }
        last = other_queue;
    }
    Ok(false)
}

fn write(db: &Db<'_>, command: &InsertCommand) -> Result<(), SqliteError> {
    let InsertCommand { row, idempotency_key, lease, .. } = command;
    let (holder, until) = match lease {
        Some((holder, lease)) => (Some(&holder.0), Some(db.expiry_ms(*lease))),
        None => (None, None),
    };
    let statement = db.sql(
        "INSERT INTO tasks (id, owner, tool, created_at, version, expires_at, due_at, lease_until,
                            lease_holder, backend, grp, opened_at, handle, closed, session, line, digest,
                            waiting_until, log_until, body, of_backend, identity, bytes)
         VALUES (:id, :owner, :tool, :created_at, 1, :expires_at, :due_at, :lease_until, :lease_holder,
                 :backend, :grp, :opened_at, :handle, :closed, :session, :line, :digest, :waiting_until,
                 :log_until, :body, :of_backend, :identity, octet_length(:body))",
    )?;
    let more = named_params! {
        ":lease_until": until, ":lease_holder": holder, ":identity": command.identity,
    };
    row::write(statement, &row.all_columns(), more)?;
    if let Slots::Taken(slots) = &row.slots {
        record_slots(db, slots, &row.id)?;
    }
    record_key(db, idempotency_key.as_ref(), &row.id)?;
    history::write_entry(db, &row.id, 1, command.history_entry.as_ref())
}

/// Records the row of an idempotency key. A key of an expired row is reassigned to this one.
fn record_key(db: &Db<'_>, idempotency_key: Option<&IdempotencyKey>, task: &str) -> Result<(), SqliteError> {
    if let Some(IdempotencyKey { scope, key, digest }) = idempotency_key {
        let mut statement = db.sql(
            "INSERT OR REPLACE INTO once (scope, key, digest, task) VALUES (:scope, :key, :digest, :task)",
        )?;
        let params = named_params! { ":scope": scope, ":key": key, ":digest": digest, ":task": task };
        row::execute(&mut statement, params)?;
    }
    Ok(())
}

/// Records the slots that a row has taken; it may already have them.
pub(super) fn record_slots(db: &Db<'_>, slots: &[String], task: &str) -> Result<(), SqliteError> {
    for slot in slots {
        db.execute("INSERT OR IGNORE INTO slots (slot, task) VALUES (?1, ?2)", [slot, task])?;
    }
    Ok(())
}
