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

use super::executor::{AdvisoryLocks, Db, Param, WriteTransaction};
use super::fault::PostgresError;
use super::notices::NoticeColumns;
use super::tasks::millis;
use super::{column, hints, row};
use crate::store::change::{InsertCommand, InsertDecision};
use crate::store::row::{Slots, queue_name};
use crate::tasks::store::{Hint, SlotLimit};

#[async_trait]
impl WriteTransaction for InsertCommand {
    type Output = InsertDecision;

    async fn write(&self, db: &Db, again: bool) -> Result<InsertDecision, PostgresError> {
        let (sql, notices) = statement(self);
        let needs_checks = self.idempotency_key.is_some() || self.attach.is_some() || self.quota.is_some();
        if !needs_checks && !matches!(self.row.slots, Slots::Taken(_)) {
            return match db.all(sql, &Columns::of(self, 1).params_with(&db.now, &notices)).await {
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
            db.finish(sql, &Columns::of(self, 1).params_with(&db.now, &notices)).await?;
            return Ok(InsertDecision::Inserted);
        };
        if let (InsertDecision::Abandoned(task), Some(idempotency_key)) = (&decision, &self.idempotency_key) {
            // The call's key then refers to the existing task, as it would to a new one.
            let (scope, key) =
                (column::encode_key(&idempotency_key.scope), column::encode_key(&idempotency_key.key));
            let params: [Param<'_>; 4] =
                [&scope, &key, &column::encode(&idempotency_key.digest), &column::encode(task.id.as_str())];
            db.finish(RECORD_KEY, &params).await?;
        } else {
            db.roll_back().await?;
        }
        Ok(decision)
    }

    fn hint(&self, decision: &InsertDecision) -> Option<Hint> {
        matches!(decision, InsertDecision::Inserted)
            .then(|| hints::task_hint(&self.row.id, self.session.as_ref()))
    }
}

/// All checks of an insert, in the columns of one row.
const CHECKS: &str = "
    SELECT known.version, known.body, known.n, known.digest, left_over.version, left_over.body, left_over.n,
           (SELECT place FROM unnest($8::text[], $9::bigint[]) WITH ORDINALITY AS limits (slot, most, place)
            WHERE (SELECT count(*) FROM (SELECT 1 FROM slots WHERE slots.slot = limits.slot LIMIT limits.most)
                                        AS taken) >= limits.most
            ORDER BY place LIMIT 1),
           EXISTS (SELECT 1 FROM tasks WHERE line = $10) OR EXISTS (
               WITH RECURSIVE lines (line) AS (
                   SELECT min(line) FROM tasks WHERE line IS NOT NULL AND cardinality($13::text[]) > 0
                   UNION ALL
                   SELECT (SELECT min(line) FROM tasks WHERE line > lines.line) FROM lines WHERE lines.line IS NOT NULL)
               SELECT 1 FROM lines, unnest($13::text[]) AS behind (slot) WHERE strpos(lines.line, behind.slot) > 0),
           EXISTS (SELECT 1 FROM tasks WHERE id = $11), kept.n, kept.bytes
    FROM (SELECT count(*) AS n, COALESCE(sum(bytes), 0)::bigint AS bytes
          FROM (SELECT bytes FROM tasks WHERE owner = $6 AND $12::bigint IS NOT NULL LIMIT $12::bigint) AS owned) AS kept
    LEFT JOIN LATERAL (
        SELECT t.version, t.body, t.n, o.digest FROM once o JOIN tasks t ON t.id = o.task
        WHERE o.scope = $2 AND o.key = $3 AND t.expires_at > moment($1)) AS known ON true
    LEFT JOIN LATERAL (
        SELECT version, body, n FROM tasks
        WHERE digest = $4 AND waiting_until <= moment($1) AND waiting_until > moment($1) - $5::bigint AND owner = $6
            AND expires_at > moment($1) AND $7
        ORDER BY created_at DESC, id DESC LIMIT 1) AS left_over ON true";

/// The row is written with its slots and its key. A key of an expired row is reassigned to this one.
macro_rules! insert {
    ($more:literal) => {
        concat!(
            "WITH made AS (
        INSERT INTO tasks (id, owner, tool, created_at, version, expires_at, due_at, lease_until, lease_holder,
                           backend, grp, opened_at, handle, closed, line, digest, waiting_until, body, session,
                           of_backend, identity, bytes)
        VALUES ($2, $3, $4, $5, $24, $6, $7, moment($1) + $8::bigint, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                $19, $27, $28, octet_length($18::text))
        RETURNING id),
    held AS (
        INSERT INTO slots (slot, task) SELECT DISTINCT slot, $2 FROM unnest($20::text[]) AS names (slot)),
    keyed AS (
        INSERT INTO once (scope, key, digest, task) SELECT $21, $22, $23, $2 WHERE $21::text IS NOT NULL
        ON CONFLICT (scope, key) DO UPDATE SET digest = excluded.digest, task = excluded.task),
    noted AS (
        INSERT INTO entries (task, version, at, replica, what)
        SELECT $2, $24, moment($1), $25, $26 WHERE $26::text IS NOT NULL)",
            $more,
            " SELECT id FROM made"
        )
    };
}

pub(super) const INSERT: &str = insert!("");

/// The same, with the notices to send.
const INSERT_WITH_NOTICES: &str = insert!(
    ", owed AS (INSERT INTO notices (id, receiver, since, due_at, body)
                SELECT n.id, n.receiver, n.since, moment($1), n.body
                FROM made, unnest($29::text[], $30::text[], $31::bigint[], $32::text[]) AS n (id, receiver, since, body)
                ON CONFLICT DO NOTHING)"
);

/// Returns the statement for this row, and its notices.
fn statement(command: &InsertCommand) -> (&'static str, Option<NoticeColumns>) {
    match command.notices.as_slice() {
        [] => (INSERT, None),
        notices => (INSERT_WITH_NOTICES, Some(NoticeColumns::of(notices))),
    }
}

/// Records the row of an idempotency key, unless that row was deleted in the meantime.
const RECORD_KEY: &str = "
    INSERT INTO once (scope, key, digest, task)
    SELECT $1, $2, $3, id FROM tasks WHERE id = $4 FOR KEY SHARE
    ON CONFLICT (scope, key) DO UPDATE SET digest = excluded.digest, task = excluded.task";

/// Begins the transaction and runs the checks.
async fn begin_and_check(db: &Db, command: &InsertCommand) -> Result<Row, PostgresError> {
    let (scope, key) = command
        .idempotency_key
        .as_ref()
        .map(|idempotency_key| {
            (column::encode_key(&idempotency_key.scope), column::encode_key(&idempotency_key.key))
        })
        .unzip();
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
    let queue_key = column::encode_optional_key(queue.as_ref()).map(std::borrow::Cow::into_owned);
    let (slot_names, slot_limits) = limits(&command.limits);
    let digest = command.attach.as_ref().map(|attach| column::encode_key(&attach.digest));
    let attach_window = command.attach.as_ref().map(|attach| millis(attach.within));
    let (owner, id) = (column::encode_key(&command.row.owner), column::encode(&command.row.id));
    let (attaches, row_quota) = (digest.is_some(), command.quota.map(|quota| i64::from(quota.rows)));
    let queue_behind: Vec<_> = command.queue_behind.iter().map(|slot| column::encode(slot)).collect();
    let params: [Param<'_>; 13] = [
        &db.now,
        &scope,
        &key,
        &digest,
        &attach_window,
        &owner,
        &attaches,
        &slot_names,
        &slot_limits,
        &queue_key,
        &id,
        &row_quota,
        &queue_behind,
    ];
    let row = db.begin(locks, CHECKS, &params).await?;
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

/// The parameters of [`INSERT`].
pub(super) struct Columns<'w> {
    command: &'w InsertCommand,
    texts: Texts<'w>,
    lease: Option<i64>,
    slots: Vec<String>,
    version: i64,
}

type Text<'w> = std::borrow::Cow<'w, str>;

struct Texts<'w> {
    id: Text<'w>,
    owner: Text<'w>,
    tool: Text<'w>,
    holder: Option<&'w str>,
    backend: Option<Text<'w>>,
    group: Option<Text<'w>>,
    handle: Option<Text<'w>>,
    queue: Option<Text<'w>>,
    digest: Option<Text<'w>>,
    session: Option<Text<'w>>,
    scope: Option<Text<'w>>,
    key: Option<Text<'w>>,
    once_digest: Option<Text<'w>>,
    replica: Option<Text<'w>>,
    what: Option<Text<'w>>,
    of_backend: Text<'w>,
    identity: Option<Text<'w>>,
}

impl<'w> Columns<'w> {
    /// Creates the parameters of a row with this version.
    pub(super) fn of(command: &'w InsertCommand, version: i64) -> Self {
        let row = &command.row;
        let idempotency_key = command.idempotency_key.as_ref();
        let texts = Texts {
            id: column::encode(&row.id),
            owner: column::encode_key(&row.owner),
            tool: column::encode(&row.tool),
            holder: command.lease.as_ref().map(|(holder, _)| holder.0.as_str()),
            backend: row.open.backend.as_deref().map(column::encode),
            group: row.open.group.as_deref().map(column::encode),
            handle: row.open.handle.as_deref().map(column::encode),
            queue: column::encode_optional_key(row.queue.as_ref()),
            digest: column::encode_optional_key(row.digest.as_ref()),
            session: column::encode_optional_key(row.session.as_ref()),
            scope: idempotency_key.map(|idempotency_key| column::encode_key(&idempotency_key.scope)),
            key: idempotency_key.map(|idempotency_key| column::encode_key(&idempotency_key.key)),
            once_digest: idempotency_key.map(|idempotency_key| column::encode(&idempotency_key.digest)),
            replica: command.history_entry.as_ref().map(|entry| column::encode(&entry.replica)),
            what: command.history_entry.as_ref().map(|entry| column::encode(&entry.what)),
            of_backend: column::encode(&row.of_backend),
            identity: command.identity.as_deref().map(column::encode),
        };
        let slots = match &row.slots {
            Slots::Taken(slots) => slots.iter().map(|slot| column::encode_key(slot).into_owned()).collect(),
            Slots::Free | Slots::Never => Vec::new(),
        };
        Self {
            command,
            texts,
            lease: command.lease.as_ref().map(|(_, lease)| millis(*lease)),
            slots,
            version,
        }
    }

    fn params_with<'p>(&'p self, now: &'p Option<i64>, notices: &'p Option<NoticeColumns>) -> Vec<Param<'p>> {
        let mut params = self.params(now).to_vec();
        params.extend(notices.iter().flat_map(NoticeColumns::params));
        params
    }

    /// Returns the parameters, with the current time first.
    pub(super) fn params<'p>(&'p self, now: &'p Option<i64>) -> [Param<'p>; 28] {
        let (row, texts) = (&self.command.row, &self.texts);
        [
            now,
            &texts.id,
            &texts.owner,
            &texts.tool,
            &row.created_at,
            &row.expires_at,
            &row.due_at,
            &self.lease,
            &texts.holder,
            &texts.backend,
            &texts.group,
            &row.open.opened_at,
            &texts.handle,
            &row.closed,
            &texts.queue,
            &texts.digest,
            &row.waiting_until,
            &row.body,
            &texts.session,
            &self.slots,
            &texts.scope,
            &texts.key,
            &texts.once_digest,
            &self.version,
            &texts.replica,
            &texts.what,
            &texts.of_backend,
            &texts.identity,
        ]
    }
}
