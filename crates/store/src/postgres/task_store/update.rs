//! Updates a row: compare-and-set on its version, with its result, slots and lease in the same statement.
//! If two processes write one version, the second waits for the first, reads the row again, and finds
//! another version.
//!
//! The slots of a row change only with its version. So an update that finds its base version also finds the
//! slots that the row had then. Whether it takes new ones is known before it is written.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::insert::{limits, lock_slots};
use super::notices::NoticeColumns;
use super::row::{self, RowWrite};
use super::tasks::millis;
use crate::change::{LeaseChange, UpdateCommand};
use crate::postgres::connection::db::{AdvisoryLocks, Db};
use crate::postgres::connection::executor::WriteTransaction;
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::hints;
use crate::postgres::connection::named::named_params;
use crate::row::RowValue::{Flag, Number, Plain, Text};
use crate::row::Slots;
use taskbridge_core::tasks::store::{Change, Hint, MAX_DECISION_AGE, UpdateResult};

/// The maximum difference between `:decided_at` and the database's clock, as in `update_row`: 60,000 ms.
const _: () = assert!(MAX_DECISION_AGE.as_millis() == 60_000);

/// The update of the row itself. `:holder` acquires (`:acquires`) or releases the lease. If it is null, `=`
/// is never true, and the lease is kept. The row's bytes are recomputed when it gets its result, or is
/// closed, and include those of its files.
macro_rules! update_row {
    ($output:literal) => {
        concat!(
            "UPDATE tasks SET version = version + 1, expires_at = :expires_at, due_at = :due_at,
             backend = :backend, grp = :grp, opened_at = :opened_at, handle = :handle, closed = :closed,
             session = :session, line = :line, digest = :digest, waiting_until = :waiting_until,
             log_until = :log_until, body = :body,
             bytes = CASE WHEN :closed::boolean OR ",
            $output,
            " IS NOT NULL THEN octet_length(:body::text)
                 + COALESCE(octet_length(",
            $output,
            "), (SELECT octet_length(o.body) FROM outputs o WHERE o.task = :id), 0)
                 + :files_bytes::bigint ELSE bytes END,
             lease_until = CASE WHEN :acquires::boolean THEN moment(:now) + :lease::bigint
                                WHEN lease_holder = :holder THEN NULL ELSE lease_until END,
             lease_holder = CASE WHEN :acquires::boolean THEN :holder WHEN lease_holder = :holder THEN NULL
                                 ELSE lease_holder END
         WHERE id = :id AND version = :version
             AND (NOT :acquires::boolean OR lease_holder IS NULL OR lease_holder = :holder
                  OR lease_until <= moment(:now))
             AND abs(moment(:now) - :decided_at::bigint) <= 60000"
        )
    };
}

/// The history entry of a `written` row, and the returned id.
macro_rules! note {
    () => {
        "noted AS (INSERT INTO entries (task, version, at, replica, what)
                   SELECT id, :version + 1, moment(:now), :replica, :what FROM written
                   WHERE :what::text IS NOT NULL)
          SELECT id FROM written"
    };
}

/// For rows that never have slots, without a result, a history entry or notices.
const UPDATE: &str = concat!(update_row!("NULL::text"), " RETURNING id");

/// The same with a history entry.
const UPDATE_WITH_ENTRY: &str =
    concat!("WITH written AS (", update_row!("NULL::text"), " RETURNING id), ", note!());

/// For the others. `:has_slots` requires that the row already has slots, and `:frees_slots` frees all its
/// slots.
macro_rules! update_all {
    ($more:literal) => {
        concat!(
            "WITH written AS (",
            update_row!(":output::text"),
            " AND (NOT :has_slots::boolean OR EXISTS (SELECT 1 FROM slots WHERE task = :id)) RETURNING id),
      freed AS (DELETE FROM slots WHERE :frees_slots::boolean AND task IN (SELECT id FROM written)),
      held AS (INSERT INTO slots (slot, task)
               SELECT DISTINCT names.slot, written.id FROM written, unnest(:slots::text[]) AS names (slot)
               ON CONFLICT DO NOTHING),
      kept AS (INSERT INTO outputs (task, body) SELECT id, :output FROM written
               WHERE :output::text IS NOT NULL
               ON CONFLICT DO NOTHING), ",
            $more,
            note!()
        )
    };
}

const UPDATE_ALL: &str = update_all!("");

/// For rows with notices. The others avoid the arrays.
const UPDATE_ALL_WITH_NOTICES: &str = update_all!(
    "owed AS (INSERT INTO notices (id, receiver, since, due_at, body)
              SELECT n.id, n.receiver, n.since, moment(:now), n.body
              FROM written, unnest(:notices::text[], :receivers::text[], :since::bigint[], :contents::text[])
                                AS n (id, receiver, since, body)
              ON CONFLICT DO NOTHING), "
);

/// The checks before slots are taken.
const SLOT_CHECKS: &str = "
    SELECT EXISTS (SELECT 1 FROM slots WHERE task = :id),
           (SELECT place
            FROM unnest(:slots::text[], :limits::bigint[]) WITH ORDINALITY AS limits (slot, most, place)
            WHERE (SELECT count(*) FROM (SELECT 1 FROM slots WHERE slots.slot = limits.slot LIMIT limits.most)
                                        AS taken) >= limits.most
            ORDER BY place LIMIT 1),
           EXISTS (SELECT 1 FROM tasks WHERE id = :id AND version = :version)";

/// True if the row is as an attempt with a lost response would have left it.
const IS_DONE: &str = "
    SELECT EXISTS (SELECT 1 FROM tasks
                   WHERE id = :id AND version = :version::bigint + 1 AND body = :body
                       AND (NOT :acquires::boolean OR lease_holder = :holder))";

#[async_trait]
impl WriteTransaction for UpdateCommand {
    type Output = UpdateResult;

    async fn write(&self, db: &Db, again: bool) -> Result<UpdateResult, PostgresError> {
        // Usually a row with slots already has them: then one statement is enough.
        let update = statement(db, self, matches!(self.row.slots, Slots::Taken(_)))?;
        let mut written = !db.all(update.sql, &update.params()).await?.is_empty();
        if let (Slots::Taken(slots), false) = (&self.row.slots, written) {
            match take_slots(db, self, slots).await? {
                UpdateResult::Written(_) => written = true,
                UpdateResult::Conflict | UpdateResult::Stale => {}
                full @ UpdateResult::NoSlot(_) => return Ok(full),
            }
        }
        if written || (again && is_done(db, self).await?) {
            return Ok(UpdateResult::Written(self.version + 1));
        }
        let is_stale = Change::is_stale(self.decided_at, current_time(db).await?);
        Ok(if is_stale { UpdateResult::Stale } else { UpdateResult::Conflict })
    }

    fn hint(&self, updated: &UpdateResult) -> Option<Hint> {
        matches!(updated, UpdateResult::Written(_))
            .then(|| hints::task_hint(&self.row.id, self.channel.as_ref()))
    }
}

/// Takes slots: no other transaction takes one of them between the count and the commit.
async fn take_slots(
    db: &Db,
    command: &UpdateCommand,
    slots: &[String],
) -> Result<UpdateResult, PostgresError> {
    let locks = lock_slots(db, AdvisoryLocks::default(), slots, &command.limits);
    let (slot_names, slot_limits) = limits(&command.limits);
    let params = named_params! {
        ":id": Text(Some(&command.row.id)), ":version": version(command)?, ":slots": slot_names,
        ":limits": slot_limits,
    };
    let row = db.begin(locks, SLOT_CHECKS, params).await?;
    let checks = row.ok_or_else(|| PostgresError::Broken("the database answered with nothing".to_owned()))?;
    let (has_slots, full, is_current): (bool, Option<i64>, bool) =
        (checks.try_get(0)?, checks.try_get(1)?, checks.try_get(2)?);
    let full = full.and_then(|place| command.limits.get(usize::try_from(place - 1).ok()?));
    match full.filter(|_| !has_slots) {
        Some(full) if is_current => {
            db.roll_back().await?;
            return Ok(UpdateResult::NoSlot(full.slot.clone()));
        }
        _ if !is_current => {
            db.roll_back().await?;
            return Ok(UpdateResult::Conflict);
        }
        _ => {}
    }
    let update = statement(db, command, false)?;
    let written = db.finish(update.sql, &update.params()).await?;
    Ok(if written.is_empty() { UpdateResult::Conflict } else { UpdateResult::Written(command.version + 1) })
}

/// Returns the current time of the store: the database's, or that of a given clock.
async fn current_time(db: &Db) -> Result<Timestamp, PostgresError> {
    let row = db.first("SELECT moment(:now)", &[(":now", &db.now)]).await?;
    let row = row.ok_or_else(|| PostgresError::Broken("the database did not return its time".to_owned()))?;
    Ok(Timestamp::from_millis(row.try_get(0)?))
}

async fn is_done(db: &Db, command: &UpdateCommand) -> Result<bool, PostgresError> {
    let (acquires, holder, _) = lease_change(command);
    let params = named_params! {
        ":id": Text(Some(&command.row.id)), ":version": version(command)?, ":body": command.row.body,
        ":acquires": acquires, ":holder": holder,
    };
    let row = db.first(IS_DONE, params).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}

/// Returns the statement for this row. With `has_slots`, it writes only a row that already has slots.
fn statement<'c>(
    db: &Db,
    command: &'c UpdateCommand,
    has_slots: bool,
) -> Result<RowWrite<'c>, PostgresError> {
    let (acquires, holder, lease) = lease_change(command);
    let mut values = command.row.changing_columns().to_vec();
    values.extend([
        (":now", Number(db.now)),
        (":id", Text(Some(&command.row.id))),
        (":version", Number(Some(version(command)?))),
        (":decided_at", Number(Some(command.decided_at.as_millis()))),
        (":files_bytes", Number(Some(command.row.files_bytes))),
        (":acquires", Flag(acquires)),
        (":holder", Plain(holder)),
        (":lease", Number(lease)),
    ]);
    let entry = row::entry_values(command.history_entry.as_ref());
    let notices = NoticeColumns::of(&command.notices);
    if matches!(command.row.slots, Slots::Never) && command.output.is_none() && notices.is_none() {
        if command.history_entry.is_none() {
            return Ok(RowWrite { sql: UPDATE, values, slots: None, notices });
        }
        values.extend(entry);
        return Ok(RowWrite { sql: UPDATE_WITH_ENTRY, values, slots: None, notices });
    }
    values.extend(entry);
    values.extend([
        (":output", Plain(command.output.as_deref())),
        (":has_slots", Flag(has_slots)),
        (":frees_slots", Flag(matches!(command.row.slots, Slots::Free))),
    ]);
    let sql = if notices.is_some() { UPDATE_ALL_WITH_NOTICES } else { UPDATE_ALL };
    Ok(RowWrite { sql, values, slots: Some(row::taken_slots(&command.row.slots)), notices })
}

/// Returns whether the lease is acquired, the holder that acquires or releases it, and its duration.
fn lease_change(command: &UpdateCommand) -> (bool, Option<&str>, Option<i64>) {
    match &command.lease {
        LeaseChange::Keep => (false, None, None),
        LeaseChange::Release(holder) => (false, Some(holder), None),
        LeaseChange::Acquire(holder, lease) => (true, Some(holder), Some(millis(*lease))),
    }
}

/// Returns the version that the update expects.
fn version(command: &UpdateCommand) -> Result<i64, PostgresError> {
    i64::try_from(command.version)
        .map_err(|_| PostgresError::Broken(format!("a row's version is said to be {}", command.version)))
}
