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

use super::executor::{Db, Locks, Param, WriteTransaction};
use super::fault::PostgresError;
use super::notices::NoticeColumns;
use super::tasks::millis;
use super::{column, hints, row};
use crate::store::change::{InsertCommand, InsertDecision};
use crate::store::row::{Slots, queue_name};
use crate::tasks::store::{Hint, SlotLimit};

#[async_trait]
impl WriteTransaction for InsertCommand {
    type Done = InsertDecision;

    async fn write(&self, db: &Db, again: bool) -> Result<InsertDecision, PostgresError> {
        let (insert, owing) = statement(self);
        let depends = self.once.is_some() || self.attach.is_some() || self.most_kept.is_some();
        if !depends && !matches!(self.row.slots, Slots::Held(_)) {
            return match db.all(insert, &Columns::of(self, 1).params_with(&db.now, &owing)).await {
                Err(fault) if again && fault.is_there_already("tasks_pkey") => Ok(InsertDecision::Nothing),
                made => made.map(|_| InsertDecision::Nothing),
            };
        }
        let seen = begin_and_check(db, self).await?;
        let found = if seen.try_get(9)? && again {
            // Written by the attempt whose response was lost.
            InsertDecision::Nothing
        } else if let Some(found) = serves(&seen, self)? {
            found
        } else {
            db.finish(insert, &Columns::of(self, 1).params_with(&db.now, &owing)).await?;
            return Ok(InsertDecision::Nothing);
        };
        if let (InsertDecision::Abandoned(task), Some(once)) = (&found, &self.once) {
            // The call's key then refers to the existing task, as it would to a new one.
            let (scope, key) = (column::key(&once.scope), column::key(&once.key));
            let params: [Param<'_>; 4] =
                [&scope, &key, &column::text(&once.digest), &column::text(task.id.as_str())];
            db.finish(NOTE_KEY, &params).await?;
        } else {
            db.roll_back().await?;
        }
        Ok(found)
    }

    fn hint(&self, found: &InsertDecision) -> Option<Hint> {
        matches!(found, InsertDecision::Nothing).then(|| hints::of_task(&self.row.id, self.session.as_ref()))
    }
}

/// All checks of an insert, in the columns of one row.
const LOOK: &str = "
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
const INSERT_OWING: &str = insert!(
    ", owed AS (INSERT INTO notices (id, receiver, since, due_at, body)
                SELECT n.id, n.receiver, n.since, moment($1), n.body
                FROM made, unnest($29::text[], $30::text[], $31::bigint[], $32::text[]) AS n (id, receiver, since, body)
                ON CONFLICT DO NOTHING)"
);

/// Returns the statement for this row, and its notices.
fn statement(wish: &InsertCommand) -> (&'static str, Option<NoticeColumns>) {
    match wish.notices.as_slice() {
        [] => (INSERT, None),
        notices => (INSERT_OWING, Some(NoticeColumns::of(notices))),
    }
}

/// Records the row of an idempotency key, unless that row was deleted in the meantime.
const NOTE_KEY: &str = "
    INSERT INTO once (scope, key, digest, task)
    SELECT $1, $2, $3, id FROM tasks WHERE id = $4 FOR KEY SHARE
    ON CONFLICT (scope, key) DO UPDATE SET digest = excluded.digest, task = excluded.task";

/// Begins the transaction and runs the checks.
async fn begin_and_check(db: &Db, wish: &InsertCommand) -> Result<Row, PostgresError> {
    let (scope, key) =
        wish.once.as_ref().map(|once| (column::key(&once.scope), column::key(&once.key))).unzip();
    let mut locks = match &wish.once {
        Some(once) => db.locks("once", [format!("{} {}{}", once.scope.len(), once.scope, once.key).as_str()]),
        None => Locks::default(),
    };
    let mut waiting = None;
    if let Slots::Held(slots) = &wish.row.slots {
        waiting = Some(queue_name(slots));
        locks = lock_slots(db, locks, slots, &wish.limits);
    }
    let waiting = column::key_of(waiting.as_ref()).map(std::borrow::Cow::into_owned);
    let (names, most) = limits(&wish.limits);
    let digest = wish.attach.as_ref().map(|attach| column::key(&attach.digest));
    let within = wish.attach.as_ref().map(|attach| millis(attach.within));
    let (owner, id) = (column::key(&wish.row.owner), column::text(&wish.row.id));
    let (attaches, kept) = (digest.is_some(), wish.most_kept.map(|most| i64::from(most.rows)));
    let behind: Vec<_> = wish.behind.iter().map(|slot| column::text(slot)).collect();
    let params: [Param<'_>; 13] = [
        &db.now, &scope, &key, &digest, &within, &owner, &attaches, &names, &most, &waiting, &id, &kept,
        &behind,
    ];
    let seen = db.begin(locks, LOOK, &params).await?;
    seen.ok_or_else(|| PostgresError::Row("the database answered with nothing".to_owned()))
}

/// Returns the locks of slots that a row is about to take.
pub(super) fn lock_slots(db: &Db, locks: Locks, slots: &[String], limits: &[SlotLimit]) -> Locks {
    let names = slots.iter().chain(limits.iter().map(|limit| &limit.slot));
    db.more_locks(locks, "slot", names.map(String::as_str))
}

/// Returns limits as two arrays of the same length.
pub(super) fn limits(limits: &[SlotLimit]) -> (Vec<String>, Vec<i64>) {
    limits.iter().map(|limit| (column::key(&limit.slot).into_owned(), i64::from(limit.limit))).unzip()
}

/// Returns the existing row that replaces the new one, or the reason why the new row is refused.
fn serves(seen: &Row, wish: &InsertCommand) -> Result<Option<InsertDecision>, PostgresError> {
    if let Some(known) = seen.try_get::<_, Option<&str>>(3)? {
        let same = wish.once.as_ref().is_some_and(|once| column::text(&once.digest) == known);
        return Ok(Some(InsertDecision::Existing { task: row::task(seen)?, same }));
    }
    if seen.try_get::<_, Option<i64>>(4)?.is_some() {
        return Ok(Some(InsertDecision::Abandoned(row::task_at(seen, 4)?)));
    }
    if let Some(over) = wish.over(seen.try_get(10)?, seen.try_get(11)?) {
        return Ok(Some(over));
    }
    let full: Option<i64> = seen.try_get(7)?;
    let place = full.and_then(|place| usize::try_from(place - 1).ok());
    let slot = place.and_then(|place| wish.limits.get(place)).map(|limit| limit.slot.clone());
    let somebody_waits: bool = seen.try_get(8)?;
    let takes = matches!(wish.row.slots, Slots::Held(_));
    Ok((takes && (full.is_some() || somebody_waits)).then_some(InsertDecision::NoSlot { full: slot }))
}

/// The parameters of [`INSERT`].
pub(super) struct Columns<'w> {
    wish: &'w InsertCommand,
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
    line: Option<Text<'w>>,
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
    pub(super) fn of(wish: &'w InsertCommand, version: i64) -> Self {
        let row = &wish.row;
        let once = wish.once.as_ref();
        let texts = Texts {
            id: column::text(&row.id),
            owner: column::key(&row.owner),
            tool: column::text(&row.tool),
            holder: wish.lease.as_ref().map(|(holder, _)| holder.0.as_str()),
            backend: row.open.backend.as_deref().map(column::text),
            group: row.open.group.as_deref().map(column::text),
            handle: row.open.handle.as_deref().map(column::text),
            line: column::key_of(row.line.as_ref()),
            digest: column::key_of(row.digest.as_ref()),
            session: column::key_of(row.session.as_ref()),
            scope: once.map(|once| column::key(&once.scope)),
            key: once.map(|once| column::key(&once.key)),
            once_digest: once.map(|once| column::text(&once.digest)),
            replica: wish.line.as_ref().map(|line| column::text(&line.replica)),
            what: wish.line.as_ref().map(|line| column::text(&line.what)),
            of_backend: column::text(&row.of_backend),
            identity: wish.identity.as_deref().map(column::text),
        };
        let slots = match &row.slots {
            Slots::Held(slots) => slots.iter().map(|slot| column::key(slot).into_owned()).collect(),
            Slots::Free | Slots::Never => Vec::new(),
        };
        Self { wish, texts, lease: wish.lease.as_ref().map(|(_, lease)| millis(*lease)), slots, version }
    }

    fn params_with<'p>(&'p self, now: &'p Option<i64>, owing: &'p Option<NoticeColumns>) -> Vec<Param<'p>> {
        let mut params = self.params(now).to_vec();
        params.extend(owing.iter().flat_map(NoticeColumns::params));
        params
    }

    /// Returns the parameters, with the current time first.
    pub(super) fn params<'p>(&'p self, now: &'p Option<i64>) -> [Param<'p>; 28] {
        let (row, texts) = (&self.wish.row, &self.texts);
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
            &texts.line,
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
