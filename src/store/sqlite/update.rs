//! Changing a row: compare-and-set on its version, with its result, slots and lease in the same transaction.

use std::time::Duration;

use rusqlite::params;

use super::fault::Fault;
use super::row::{Row, Slots};
use super::{Db, insert};
use crate::tasks::store::{Change, Lease, SlotLimit, Updated};

/// A change, with all that it needs.
pub(super) struct Amend {
    row: Row,
    version: u64,
    output: Option<String>,
    limits: Vec<SlotLimit>,
    lease: LeaseChange,
}

enum LeaseChange {
    Keep,
    Release(String),
    Hold(String, Duration),
}

impl Amend {
    /// Copies what is to be written, so that the writer can have it.
    pub(super) fn of(change: Change<'_>) -> Result<Self, serde_json::Error> {
        Ok(Self {
            row: Row::of(change.task)?,
            version: change.task.version,
            output: change.output.map(serde_json::to_string).transpose()?,
            limits: change.limits.to_vec(),
            lease: match change.lease {
                Lease::Keep => LeaseChange::Keep,
                Lease::Release(holder) => LeaseChange::Release(holder.0.clone()),
                Lease::Hold(holder, lease) => LeaseChange::Hold(holder.0.clone(), lease),
            },
        })
    }

    /// Writes it, unless somebody was first or a slot is taken up.
    pub(super) fn write(&self, db: &Db<'_>) -> Result<Updated, Fault> {
        if let Slots::Held(_) = &self.row.slots
            && !self.holds_already(db)?
            && insert::taken_up(db, &self.limits)?
        {
            return Ok(if self.is_current(db)? { Updated::NoSlot } else { Updated::Conflict });
        }
        if self.write_row(db)? == 0 {
            return Ok(Updated::Conflict);
        }
        let id = &self.row.id;
        match &self.row.slots {
            Slots::Never => {}
            Slots::Free => {
                db.sql("DELETE FROM slots WHERE task = ?1")?.execute([id])?;
            }
            Slots::Held(slots) => insert::hold(db, slots, id)?,
        }
        if let Some(output) = &self.output {
            db.sql("INSERT OR IGNORE INTO outputs (task, body) VALUES (?1, ?2)")?.execute([id, output])?;
        }
        Ok(Updated::Written(self.version + 1))
    }

    fn write_row(&self, db: &Db<'_>) -> Result<usize, Fault> {
        let (hold, holder, until) = match &self.lease {
            LeaseChange::Keep => (false, None, None),
            LeaseChange::Release(holder) => (false, Some(holder), None),
            LeaseChange::Hold(holder, lease) => (true, Some(holder), Some(db.until(*lease))),
        };
        let row = &self.row;
        // ?16 is the holder who holds (?14) or releases; where it is null, `=` is never true, and the lease is kept.
        let written = db
            .sql(
                "UPDATE tasks SET version = version + 1, expires_at = ?3, due_at = ?4, backend = ?5, grp = ?6,
                     opened_at = ?7, handle = ?8, closed = ?9, line = ?10, digest = ?11, waiting_until = ?12,
                     body = ?13, session = ?18,
                     lease_until = CASE WHEN ?14 THEN ?17 WHEN lease_holder = ?16 THEN NULL ELSE lease_until END,
                     lease_holder = CASE WHEN ?14 THEN ?16 WHEN lease_holder = ?16 THEN NULL ELSE lease_holder END
                 WHERE id = ?1 AND version = ?2
                     AND (NOT ?14 OR lease_holder IS NULL OR lease_holder = ?16 OR lease_until <= ?15)",
            )?
            .execute(params![
                row.id,
                self.version,
                row.expires_at,
                row.due_at,
                row.open.backend,
                row.open.group,
                row.open.opened_at,
                row.open.handle,
                row.closed,
                row.line,
                row.digest,
                row.waiting_until,
                row.body,
                hold,
                db.now_ms(),
                holder,
                until,
                row.session,
            ])?;
        Ok(written)
    }

    fn holds_already(&self, db: &Db<'_>) -> Result<bool, Fault> {
        let mut statement = db.sql("SELECT EXISTS (SELECT 1 FROM slots WHERE task = ?1)")?;
        Ok(statement.query_row([&self.row.id], |row| row.get(0))?)
    }

    fn is_current(&self, db: &Db<'_>) -> Result<bool, Fault> {
        let mut statement = db.sql("SELECT EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND version = ?2)")?;
        Ok(statement.query_row(params![self.row.id, self.version], |row| row.get(0))?)
    }
}
