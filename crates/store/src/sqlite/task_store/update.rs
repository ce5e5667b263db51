//! Updates a row: compare-and-set on its version, with its result, slots and lease in the same transaction.

use rusqlite::{named_params, params};

use super::{history, insert, notices, row};
use crate::change::{LeaseChange, UpdateCommand};
use crate::row::Slots;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::store::{Change, UpdateResult};

/// Writes the change, unless its decision is stale, another write came first, or a slot is full.
pub(super) fn update(db: &Db<'_>, command: &UpdateCommand) -> Result<UpdateResult, SqliteError> {
    if Change::is_stale(command.decided_at, db.now) {
        return Ok(UpdateResult::Stale);
    }
    if let Slots::Taken(_) = &command.row.slots
        && !db.exists("SELECT 1 FROM slots WHERE task = ?1", [&command.row.id])?
        && let Some(full) = insert::first_full_slot(db, &command.limits)?
    {
        let full = UpdateResult::NoSlot(full.to_owned());
        return Ok(if is_current(db, command)? { full } else { UpdateResult::Conflict });
    }
    if write_row(db, command)? == 0 {
        return Ok(UpdateResult::Conflict);
    }
    let id = &command.row.id;
    match &command.row.slots {
        Slots::Never => {}
        Slots::Free => drop(db.execute("DELETE FROM slots WHERE task = ?1", [id])?),
        Slots::Taken(slots) => insert::record_slots(db, slots, id)?,
    }
    if let Some(output) = &command.output {
        db.execute("INSERT OR IGNORE INTO outputs (task, body) VALUES (?1, ?2)", [id, output])?;
    }
    // Only when the result is written or the job is closed: `bytes` is part of the index on the owner's rows,
    // which every change of it updates.
    if command.output.is_some() || command.row.closed {
        db.execute(
            "UPDATE tasks SET bytes = octet_length(body)
                 + coalesce((SELECT octet_length(body) FROM outputs WHERE task = ?1), 0) + ?2 WHERE id = ?1",
            params![id, command.row.files_bytes],
        )?;
    }
    history::write_entry(db, id, command.version + 1, command.history_entry.as_ref())?;
    notices::write_notices(db, &command.notices)?;
    Ok(UpdateResult::Written(command.version + 1))
}

fn write_row(db: &Db<'_>, command: &UpdateCommand) -> Result<usize, SqliteError> {
    let (acquires_lease, holder, until) = match &command.lease {
        LeaseChange::Keep => (false, None, None),
        LeaseChange::Release(holder) => (false, Some(holder), None),
        LeaseChange::Acquire(holder, lease) => (true, Some(holder), Some(db.expiry_ms(*lease))),
    };
    // `:holder` acquires or releases the lease. If it is null, `=` is never true, and the lease is kept.
    let statement = db.sql(
        "UPDATE tasks SET version = version + 1, expires_at = :expires_at, due_at = :due_at,
             backend = :backend, grp = :grp, opened_at = :opened_at, handle = :handle, closed = :closed,
             session = :session, line = :line, digest = :digest, waiting_until = :waiting_until,
             log_until = :log_until, body = :body,
             lease_until = CASE WHEN :acquires THEN :lease_until WHEN lease_holder = :holder THEN NULL
                                ELSE lease_until END,
             lease_holder = CASE WHEN :acquires THEN :holder WHEN lease_holder = :holder THEN NULL
                                 ELSE lease_holder END
         WHERE id = :id AND version = :version
             AND (NOT :acquires OR lease_holder IS NULL OR lease_holder = :holder OR lease_until <= :now)",
    )?;
    let more = named_params! {
        ":id": command.row.id, ":version": command.version, ":now": db.now_ms(),
        ":acquires": acquires_lease, ":holder": holder, ":lease_until": until,
    };
    row::write(statement, &command.row.changing_columns(), more)
}

fn is_current(db: &Db<'_>, command: &UpdateCommand) -> Result<bool, SqliteError> {
    let sql = "SELECT 1 FROM tasks WHERE id = ?1 AND version = ?2";
    db.exists(sql, params![command.row.id, command.version])
}
