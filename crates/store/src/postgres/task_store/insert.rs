//! Adds a row. The checks and the write are one transaction, so that of two equal calls one finds the
//! other's row.
//!
//! A new row depends on names: its idempotency key, and the slots that it takes. Every transaction that
//! creates a row for a key, or takes a slot, has the lock of that name from its check until its commit. So it
//! sees all earlier transactions with that name. Transactions that free a slot, or queue a row for one, take
//! no lock. Another transaction that does not see them yet decides as if it had come first, and that order
//! was possible as well.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::notices::NoticeColumns;
use super::row::{self, RowWrite};
use super::tasks::millis;
use crate::change::{InsertCommand, InsertDecision};
use crate::postgres::connection::db::{AdvisoryLocks, Db};
use crate::postgres::connection::executor::WriteTransaction;
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use crate::postgres::connection::{column, hints};
use crate::row::RowValue::{Key, Number, Plain, Text};
use crate::row::{NamedValue, Slots, queue_name};
use taskbridge_core::tasks::store::{Hint, IdempotencyKey, SlotLimit};

#[async_trait]
impl WriteTransaction for InsertCommand {
    type Output = InsertDecision;

    async fn write(&self, db: &Db, again: bool) -> Result<InsertDecision, PostgresError> {
        let insert = statement(db, self);
        let needs_checks = self.idempotency_key.is_some() || self.attach.is_some() || self.quota.is_some();
        if !needs_checks && !matches!(self.row.slots, Slots::Taken(_)) {
            return match db.all(insert.sql, &insert.params()).await {
                Err(fault) if again && fault.is_duplicate("tasks_pkey") => Ok(InsertDecision::Inserted),
                result => result.map(|_| InsertDecision::Inserted),
            };
        }
        let checks = begin_and_check(db, self).await?;
        let decision = if checks.try_get(9)? && again {
            // Written by the attempt whose response was lost.
            InsertDecision::Inserted
        } else if let Some(decision) = decide(&checks, self)? {
            decision
        } else {
            db.finish(insert.sql, &insert.params()).await?;
            return Ok(InsertDecision::Inserted);
        };
        if let (InsertDecision::Abandoned(task), Some(idempotency_key)) = (&decision, &self.idempotency_key) {
            // The call's key then refers to the existing task, as it would to a new one.
            let (key, id) = (key_values(Some(idempotency_key)), column::encode(task.id.as_str()));
            db.finish(RECORD_KEY, &row::bind(&key, &[(":id", &id)])).await?;
        } else {
            db.roll_back().await?;
        }
        Ok(decision)
    }

    fn hint(&self, decision: &InsertDecision) -> Option<Hint> {
        matches!(decision, InsertDecision::Inserted)
            .then(|| hints::task_hint(&self.row.id, self.channel.as_ref()))
    }
}

/// All checks of an insert, in the columns of one row.
const CHECKS: &str = "
    SELECT known.version, known.body, known.n, known.digest, left_over.version, left_over.body, left_over.n,
           (SELECT place
            FROM unnest(:slots::text[], :limits::bigint[]) WITH ORDINALITY AS limits (slot, most, place)
            WHERE (SELECT count(*) FROM (SELECT 1 FROM slots WHERE slots.slot = limits.slot LIMIT limits.most)
                                        AS taken) >= limits.most
            ORDER BY place LIMIT 1),
           EXISTS (SELECT 1 FROM tasks WHERE line = :queue) OR EXISTS (
               WITH RECURSIVE lines (line) AS (
                   SELECT min(line) FROM tasks WHERE line IS NOT NULL AND cardinality(:behind::text[]) > 0
                   UNION ALL
                   SELECT (SELECT min(line) FROM tasks WHERE line > lines.line) FROM lines WHERE lines.line IS NOT NULL)
               SELECT 1 FROM lines, unnest(:behind::text[]) AS behind (slot)
               WHERE strpos(lines.line, behind.slot) > 0),
           EXISTS (SELECT 1 FROM tasks WHERE id = :id), kept.n, kept.bytes
    FROM (SELECT count(*) AS n, COALESCE(sum(bytes), 0)::bigint AS bytes
          FROM (SELECT bytes FROM tasks WHERE owner = :owner AND :max_rows::bigint IS NOT NULL
                LIMIT :max_rows::bigint) AS owned) AS kept
    LEFT JOIN LATERAL (
        SELECT t.version, t.body, t.n, o.digest FROM once o JOIN tasks t ON t.id = o.task
        WHERE o.scope = :scope AND o.key = :key AND t.expires_at > moment(:now)) AS known ON true
    LEFT JOIN LATERAL (
        SELECT version, body, n FROM tasks
        WHERE digest = :digest AND waiting_until <= moment(:now)
            AND waiting_until > moment(:now) - :within::bigint
            AND owner = :owner AND expires_at > moment(:now) AND :attaches
        ORDER BY created_at DESC, id DESC LIMIT 1) AS left_over ON true";

/// The row is written with its slots and its key. A key of an expired row is reassigned to this one.
macro_rules! insert {
    ($more:literal) => {
        concat!(
            "WITH made AS (
        INSERT INTO tasks (id, owner, tool, created_at, version, expires_at, due_at, lease_until,
                           lease_holder, backend, grp, opened_at, handle, closed, session, line, digest,
                           waiting_until, log_until, body, of_backend, identity, bytes)
        VALUES (:id, :owner, :tool, :created_at, 1, :expires_at, :due_at, moment(:now) + :lease::bigint,
                :holder, :backend, :grp, :opened_at, :handle, :closed, :session, :line, :digest,
                :waiting_until, :log_until, :body, :of_backend, :identity, octet_length(:body::text))
        RETURNING id),
    held AS (
        INSERT INTO slots (slot, task) SELECT DISTINCT slot, :id FROM unnest(:slots::text[]) AS names (slot)),
    keyed AS (
        INSERT INTO once (scope, key, digest, task)
        SELECT :scope, :key, :key_digest, :id WHERE :scope::text IS NOT NULL
        ON CONFLICT (scope, key) DO UPDATE SET digest = excluded.digest, task = excluded.task),
    noted AS (
        INSERT INTO entries (task, version, at, replica, what)
        SELECT :id, 1, moment(:now), :replica, :what WHERE :what::text IS NOT NULL)",
            $more,
            " SELECT id FROM made"
        )
    };
}

const INSERT: &str = insert!("");

/// The same, with the notices to send.
const INSERT_WITH_NOTICES: &str = insert!(
    ", owed AS (INSERT INTO notices (id, receiver, since, due_at, body)
                SELECT n.id, n.receiver, n.since, moment(:now), n.body
                FROM made, unnest(:notices::text[], :receivers::text[], :since::bigint[], :contents::text[])
                               AS n (id, receiver, since, body)
                ON CONFLICT DO NOTHING)"
);

/// Returns the statement for this row.
fn statement<'c>(db: &Db, command: &'c InsertCommand) -> RowWrite<'c> {
    let mut values = command.row.all_columns();
    let lease = command.lease.as_ref();
    values.extend([
        (":now", Number(db.now)),
        (":holder", Plain(lease.map(|(holder, _)| holder.0.as_str()))),
        (":lease", Number(lease.map(|(_, lease)| millis(*lease)))),
        (":identity", Text(command.identity.as_deref())),
    ]);
    values.extend(key_values(command.idempotency_key.as_ref()));
    values.extend(row::entry_values(command.history_entry.as_ref()));
    let notices = NoticeColumns::of(&command.notices);
    let sql = if notices.is_some() { INSERT_WITH_NOTICES } else { INSERT };
    RowWrite { sql, values, slots: Some(row::taken_slots(&command.row.slots)), notices }
}

/// Returns the values of an idempotency key; all are null if there is none.
fn key_values(key: Option<&IdempotencyKey>) -> [NamedValue<'_>; 3] {
    [
        (":scope", Key(key.map(|key| key.scope.as_str()))),
        (":key", Key(key.map(|key| key.key.as_str()))),
        (":key_digest", Text(key.map(|key| key.digest.as_str()))),
    ]
}

/// Records the row of an idempotency key, unless that row was deleted in the meantime.
const RECORD_KEY: &str = "
    INSERT INTO once (scope, key, digest, task)
    SELECT :scope, :key, :key_digest, id FROM tasks WHERE id = :id FOR KEY SHARE
    ON CONFLICT (scope, key) DO UPDATE SET digest = excluded.digest, task = excluded.task";

/// Begins the transaction and runs the checks.
async fn begin_and_check(db: &Db, command: &InsertCommand) -> Result<Row, PostgresError> {
    let mut locks = match &command.idempotency_key {
        Some(idempotency_key) => db.locks(
            "once",
            [format!("{} {}{}", idempotency_key.scope.len(), idempotency_key.scope, idempotency_key.key)
                .as_str()],
        ),
        None => AdvisoryLocks::default(),
    };
    let mut queue = None;
    if let Slots::Taken(slots) = &command.row.slots {
        queue = Some(queue_name(slots));
        locks = lock_slots(db, locks, slots, &command.limits);
    }
    let (slots, limits) = limits(&command.limits);
    let (key, attach) = (command.idempotency_key.as_ref(), command.attach.as_ref());
    let behind: Vec<_> = command.queue_behind.iter().map(|slot| column::encode(slot)).collect();
    let params = named_params! {
        ":now": db.now, ":scope": Key(key.map(|key| key.scope.as_str())),
        ":key": Key(key.map(|key| key.key.as_str())),
        ":digest": Key(attach.map(|attach| attach.digest.as_str())),
        ":within": attach.map(|attach| millis(attach.within)), ":owner": Key(Some(&command.row.owner)),
        ":attaches": attach.is_some(), ":slots": slots, ":limits": limits, ":queue": Key(queue.as_deref()),
        ":id": Text(Some(&command.row.id)), ":max_rows": command.quota.map(|quota| i64::from(quota.rows)),
        ":behind": behind,
    };
    let row = db.begin(locks, CHECKS, params).await?;
    row.ok_or_else(|| PostgresError::Broken("the database answered with nothing".to_owned()))
}

/// Returns the locks of slots that a row is about to take.
pub(super) fn lock_slots(
    db: &Db,
    locks: AdvisoryLocks,
    slots: &[String],
    limits: &[SlotLimit],
) -> AdvisoryLocks {
    let names = slots.iter().chain(limits.iter().map(|limit| &limit.slot));
    db.add_locks(locks, "slot", names.map(String::as_str))
}

/// Returns limits as two arrays of the same length.
pub(super) fn limits(limits: &[SlotLimit]) -> (Vec<String>, Vec<i64>) {
    limits.iter().map(|limit| (column::encode_key(&limit.slot).into_owned(), i64::from(limit.limit))).unzip()
}

/// Returns the existing row that replaces the new one, or the reason why the new row is refused.
fn decide(checks: &Row, command: &InsertCommand) -> Result<Option<InsertDecision>, PostgresError> {
    if let Some(stored_digest) = checks.try_get::<_, Option<&str>>(3)? {
        let same = command
            .idempotency_key
            .as_ref()
            .is_some_and(|idempotency_key| column::encode(&idempotency_key.digest) == stored_digest);
        return Ok(Some(InsertDecision::Existing { task: row::task(checks)?, same }));
    }
    if checks.try_get::<_, Option<i64>>(4)?.is_some() {
        return Ok(Some(InsertDecision::Abandoned(row::task_at(checks, 4)?)));
    }
    if let Some(refusal) = command.check_quota(checks.try_get(10)?, checks.try_get(11)?) {
        return Ok(Some(refusal));
    }
    let full: Option<i64> = checks.try_get(7)?;
    let place = full.and_then(|place| usize::try_from(place - 1).ok());
    let slot = place.and_then(|place| command.limits.get(place)).map(|limit| limit.slot.clone());
    let has_waiters: bool = checks.try_get(8)?;
    let takes_slots = matches!(command.row.slots, Slots::Taken(_));
    Ok((takes_slots && (full.is_some() || has_waiters)).then_some(InsertDecision::NoSlot { slot }))
}
