//! Updates a row: compare-and-set on its version, with its result, slots and lease in the same statement.
//! If two processes write one version, the second waits for the first, reads the row again, and finds
//! another version.
//!
//! The slots of a row change only with its version. So an update that finds its base version also finds the
//! slots that the row had then. Whether it takes new ones is known before it is written.

use std::borrow::Cow;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use super::executor::{AdvisoryLocks, Db, Param, WriteTransaction};
use super::fault::PostgresError;
use super::insert::{limits, lock_slots};
use super::notices::NoticeColumns;
use super::tasks::millis;
use super::{column, hints};
use crate::store::change::{LeaseChange, UpdateCommand};
use crate::store::row::Slots;
use crate::tasks::store::{Change, Hint, MAX_DECISION_AGE, UpdateResult};

/// The maximum difference between the decision time, `$20`, and the database's clock, as in `update_row`:
/// 60,000 ms.
const _: () = assert!(MAX_DECISION_AGE.as_millis() == 60_000);

/// The update of the row itself. `$14` is the holder that acquires (`$13`) or releases the lease. If it is
/// null, `=` is never true, and the lease is kept. The row's bytes are recomputed when it gets its result,
/// or is closed, and include those of its files, `$21`.
macro_rules! update_row {
    ($output:literal) => {
        concat!(
            "UPDATE tasks SET version = version + 1, expires_at = $4, due_at = $5, backend = $6, grp = $7, opened_at = $8,
             handle = $9, closed = $10, line = $11, digest = $12, body = $16, session = $17, waiting_until = $18,
             log_until = $19,
             bytes = CASE WHEN $10::boolean OR ",
            $output,
            " IS NOT NULL THEN octet_length($16::text)
                 + COALESCE(octet_length(",
            $output,
            "), (SELECT octet_length(o.body) FROM outputs o WHERE o.task = $2), 0) + $21::bigint ELSE bytes END,
             lease_until = CASE WHEN $13::boolean THEN moment($1) + $15::bigint
                                WHEN lease_holder = $14 THEN NULL ELSE lease_until END,
             lease_holder = CASE WHEN $13::boolean THEN $14 WHEN lease_holder = $14 THEN NULL ELSE lease_holder END
         WHERE id = $2 AND version = $3
             AND (NOT $13::boolean OR lease_holder IS NULL OR lease_holder = $14 OR lease_until <= moment($1))
             AND abs(moment($1) - $20::bigint) <= 60000"
        )
    };
}

/// The history entry of a `written` row, and the returned id.
macro_rules! note {
    ($replica:literal, $what:literal) => {
        concat!(
            "noted AS (INSERT INTO entries (task, version, at, replica, what)
                       SELECT id, $3 + 1, moment($1), ",
            $replica,
            ", ",
            $what,
            " FROM written WHERE ",
            $what,
            "::text IS NOT NULL)
              SELECT id FROM written"
        )
    };
}

/// For rows that never have slots, without a result, a history entry or notices.
const UPDATE: &str = concat!(update_row!("NULL::text"), " RETURNING id");

/// The same with a history entry: `$22` and `$23`.
const UPDATE_WITH_ENTRY: &str =
    concat!("WITH written AS (", update_row!("NULL::text"), " RETURNING id), ", note!("$22", "$23"));

/// For the others: `$22` requires that the row already has slots, and `$23` frees all its slots.
macro_rules! update_all {
    ($more:literal) => {
        concat!(
            "WITH written AS (",
            update_row!("$25::text"),
            " AND (NOT $22::boolean OR EXISTS (SELECT 1 FROM slots WHERE task = $2)) RETURNING id),
      freed AS (DELETE FROM slots WHERE $23::boolean AND task IN (SELECT id FROM written)),
      held AS (INSERT INTO slots (slot, task)
               SELECT DISTINCT names.slot, written.id FROM written, unnest($24::text[]) AS names (slot)
               ON CONFLICT DO NOTHING),
      kept AS (INSERT INTO outputs (task, body) SELECT id, $25 FROM written WHERE $25::text IS NOT NULL
               ON CONFLICT DO NOTHING), ",
            $more,
            note!("$26", "$27")
        )
    };
}

const UPDATE_ALL: &str = update_all!("");

/// For rows with notices. The others avoid the arrays.
const UPDATE_ALL_WITH_NOTICES: &str = update_all!(
    "owed AS (INSERT INTO notices (id, receiver, since, due_at, body)
              SELECT n.id, n.receiver, n.since, moment($1), n.body
              FROM written, unnest($28::text[], $29::text[], $30::bigint[], $31::text[]) AS n (id, receiver, since, body)
              ON CONFLICT DO NOTHING), "
);

/// The checks before slots are taken.
const SLOT_CHECKS: &str = "
    SELECT EXISTS (SELECT 1 FROM slots WHERE task = $1),
           (SELECT place FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS limits (slot, most, place)
            WHERE (SELECT count(*) FROM (SELECT 1 FROM slots WHERE slots.slot = limits.slot LIMIT limits.most)
                                        AS taken) >= limits.most
            ORDER BY place LIMIT 1),
           EXISTS (SELECT 1 FROM tasks WHERE id = $1 AND version = $2)";

/// True if the row is as an attempt with a lost response would have left it.
const IS_DONE: &str = "
    SELECT EXISTS (SELECT 1 FROM tasks
                   WHERE id = $1 AND version = $2::bigint + 1 AND body = $3 AND (NOT $4::boolean OR lease_holder = $5))";

#[async_trait]
impl WriteTransaction for UpdateCommand {
    type Output = UpdateResult;

    async fn write(&self, db: &Db, again: bool) -> Result<UpdateResult, PostgresError> {
        let columns = Columns::of(self)?;
        let written = match (&self.row.slots, &self.output) {
            (Slots::Never, None) if self.notices.is_empty() => match columns.params_with_entry(db) {
                Some(params) => !db.all(UPDATE_WITH_ENTRY, &params).await?.is_empty(),
                None => !db.all(UPDATE, &columns.params(db)[..21]).await?.is_empty(),
            },
            (Slots::Never | Slots::Free, _) => !columns.write_all(db).await?.is_empty(),
            (Slots::Taken(slots), _) => {
                // Usually the row already has its slots: then one statement is enough.
                let requiring_slots = Columns { requires_slots: true, ..Columns::of(self)? };
                if requiring_slots.write_all(db).await?.is_empty() {
                    match take_slots(db, self, slots, &columns).await? {
                        UpdateResult::Written(_) => true,
                        UpdateResult::Conflict | UpdateResult::Stale => false,
                        full @ UpdateResult::NoSlot(_) => return Ok(full),
                    }
                } else {
                    true
                }
            }
        };
        if written || (again && is_done(db, self, &columns).await?) {
            return Ok(UpdateResult::Written(self.version + 1));
        }
        let is_stale = Change::is_stale(self.decided_at, current_time(db).await?);
        Ok(if is_stale { UpdateResult::Stale } else { UpdateResult::Conflict })
    }

    fn hint(&self, updated: &UpdateResult) -> Option<Hint> {
        matches!(updated, UpdateResult::Written(_))
            .then(|| hints::task_hint(&self.row.id, self.session.as_ref()))
    }
}

/// Takes slots: no other transaction takes one of them between the count and the commit.
async fn take_slots(
    db: &Db,
    command: &UpdateCommand,
    slots: &[String],
    columns: &Columns<'_>,
) -> Result<UpdateResult, PostgresError> {
    let locks = lock_slots(db, AdvisoryLocks::default(), slots, &command.limits);
    let (slot_names, slot_limits) = limits(&command.limits);
    let check_params: [Param<'_>; 4] = [&columns.id, &columns.version, &slot_names, &slot_limits];
    let row = db.begin(locks, SLOT_CHECKS, &check_params).await?;
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
    let (sql, notices) = columns.full_statement();
    let written = db.finish(sql, &columns.params_with(db, &notices)).await?;
    Ok(if written.is_empty() { UpdateResult::Conflict } else { UpdateResult::Written(command.version + 1) })
}

/// Returns the current time of the store: the database's, or that of a given clock.
async fn current_time(db: &Db) -> Result<Timestamp, PostgresError> {
    let row = db.first("SELECT moment($1)", &[&db.now]).await?;
    let row = row.ok_or_else(|| PostgresError::Broken("the database did not return its time".to_owned()))?;
    Ok(Timestamp::from_millis(row.try_get(0)?))
}

async fn is_done(db: &Db, command: &UpdateCommand, columns: &Columns<'_>) -> Result<bool, PostgresError> {
    let params: [Param<'_>; 5] =
        [&columns.id, &columns.version, &command.row.body, &columns.acquires_lease, &columns.holder];
    let row = db.first(IS_DONE, &params).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}

type Text<'w> = Cow<'w, str>;

/// The parameters of the statements.
struct Columns<'w> {
    command: &'w UpdateCommand,
    id: Text<'w>,
    version: i64,
    decided_at: i64,
    backend: Option<Text<'w>>,
    group: Option<Text<'w>>,
    handle: Option<Text<'w>>,
    queue: Option<Text<'w>>,
    digest: Option<Text<'w>>,
    session: Option<Text<'w>>,
    acquires_lease: bool,
    holder: Option<&'w str>,
    lease: Option<i64>,
    requires_slots: bool,
    frees_slots: bool,
    slots: Vec<String>,
    replica: Option<Text<'w>>,
    what: Option<Text<'w>>,
}

impl<'w> Columns<'w> {
    fn of(command: &'w UpdateCommand) -> Result<Self, PostgresError> {
        let row = &command.row;
        let (acquires_lease, holder, lease) = match &command.lease {
            LeaseChange::Keep => (false, None, None),
            LeaseChange::Release(holder) => (false, Some(holder.as_str()), None),
            LeaseChange::Acquire(holder, lease) => (true, Some(holder.as_str()), Some(millis(*lease))),
        };
        let version = i64::try_from(command.version).map_err(|_| {
            PostgresError::Broken(format!("a row's version is said to be {}", command.version))
        })?;
        Ok(Self {
            command,
            id: column::encode(&row.id),
            version,
            decided_at: command.decided_at.as_millis(),
            backend: row.open.backend.as_deref().map(column::encode),
            group: row.open.group.as_deref().map(column::encode),
            handle: row.open.handle.as_deref().map(column::encode),
            queue: column::encode_optional_key(row.queue.as_ref()),
            digest: column::encode_optional_key(row.digest.as_ref()),
            session: column::encode_optional_key(row.session.as_ref()),
            acquires_lease,
            holder,
            lease,
            requires_slots: false,
            frees_slots: matches!(row.slots, Slots::Free),
            slots: match &row.slots {
                Slots::Taken(slots) => {
                    slots.iter().map(|slot| column::encode_key(slot).into_owned()).collect()
                }
                Slots::Free | Slots::Never => Vec::new(),
            },
            replica: command.history_entry.as_ref().map(|entry| column::encode(&entry.replica)),
            what: command.history_entry.as_ref().map(|entry| column::encode(&entry.what)),
        })
    }

    /// Returns the parameters of [`UPDATE_NOTED`], if there is an entry.
    fn params_with_entry<'p>(&'p self, db: &'p Db) -> Option<Vec<Param<'p>>> {
        self.what.as_ref()?;
        let all = self.params(db);
        Some(all[..21].iter().chain(&all[25..]).copied().collect())
    }

    /// Returns the full statement, and its notices.
    fn full_statement(&self) -> (&'static str, Option<NoticeColumns>) {
        match self.command.notices.as_slice() {
            [] => (UPDATE_ALL, None),
            notices => (UPDATE_ALL_WITH_NOTICES, Some(NoticeColumns::of(notices))),
        }
    }

    async fn write_all(&self, db: &Db) -> Result<Vec<Row>, PostgresError> {
        let (sql, notices) = self.full_statement();
        db.all(sql, &self.params_with(db, &notices)).await
    }

    fn params_with<'p>(&'p self, db: &'p Db, notices: &'p Option<NoticeColumns>) -> Vec<Param<'p>> {
        let mut params = self.params(db).to_vec();
        params.extend(notices.iter().flat_map(NoticeColumns::params));
        params
    }

    fn params<'p>(&'p self, db: &'p Db) -> [Param<'p>; 27] {
        let row = &self.command.row;
        [
            &db.now,
            &self.id,
            &self.version,
            &row.expires_at,
            &row.due_at,
            &self.backend,
            &self.group,
            &row.open.opened_at,
            &self.handle,
            &row.closed,
            &self.queue,
            &self.digest,
            &self.acquires_lease,
            &self.holder,
            &self.lease,
            &row.body,
            &self.session,
            &row.waiting_until,
            &row.open.log_until,
            &self.decided_at,
            &row.files_bytes,
            &self.requires_slots,
            &self.frees_slots,
            &self.slots,
            &self.command.output,
            &self.replica,
            &self.what,
        ]
    }
}
