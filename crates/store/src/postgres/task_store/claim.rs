//! Finds, leases and adopts due rows. `store::fair` decides the order of owners.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use super::queue::columns_of;
use super::row;
use super::tasks::{millis, number};
use crate::fair::{self, Candidate, ClaimOrder, VisitedOwners};
use crate::postgres::connection::column;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, PostgresExecutor, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::named_params;
use crate::row::NamedValue;
use crate::row::RowValue::{Number, Text};
use crate::{UNREADABLE_RETRY_MS, log_unreadable};
use taskbridge_core::tasks::store::{ClaimRequest, ClaimResult, Result, ServedBackend};
use taskbridge_core::tasks::task::{Owner, Task, TaskId};

/// Rows of a connected backend that can be claimed now and have been due for `:overdue`.
macro_rules! claimable {
    () => {
        "of_backend = :backend AND (identity IS NULL OR :identity::text IS NULL OR identity = :identity)
         AND due_at <= moment(:now) - :overdue::bigint AND (lease_until IS NULL OR lease_until <= moment(:now))"
    };
}

/// Returns the parameters of `claimable!`.
fn claimable_values(now: Option<i64>, served: &ServedBackend, overdue: Duration) -> [NamedValue<'_>; 4] {
    [
        (":overdue", Number(Some(millis(overdue)))),
        (":now", Number(now)),
        (":backend", Text(Some(&served.backend))),
        (":identity", Text(served.identity.as_deref())),
    ]
}

/// The longest-due rows, in that order.
const LONGEST_DUE: &str =
    concat!("SELECT id, owner FROM tasks WHERE ", claimable!(), " ORDER BY due_at, n LIMIT :limit::bigint");

/// Up to `:limit` owners of rows with a due time: those after a cursor, then from the first one; and whether
/// any row of the owner can be claimed.
const NEXT_OWNERS: &str = concat!(
    "WITH RECURSIVE visit (owner, began, step) AS (
         SELECT first.owner, first.owner, 1 FROM (
             SELECT COALESCE(
                 (SELECT min(owner) FROM tasks
                  WHERE of_backend = :backend AND due_at IS NOT NULL AND owner > :cursor),
                 (SELECT min(owner) FROM tasks
                  WHERE of_backend = :backend AND due_at IS NOT NULL)) AS owner) AS first
         WHERE first.owner IS NOT NULL
         UNION ALL
         SELECT next.owner, visit.began, visit.step + 1 FROM visit, LATERAL (
             SELECT COALESCE(
                 (SELECT min(owner) FROM tasks
                  WHERE of_backend = :backend AND due_at IS NOT NULL AND owner > visit.owner),
                 (SELECT min(owner) FROM tasks
                  WHERE of_backend = :backend AND due_at IS NOT NULL)) AS owner) AS next
         WHERE next.owner <> visit.began AND visit.step < :limit::bigint)
     SELECT visit.owner, EXISTS (SELECT 1 FROM tasks WHERE tasks.owner = visit.owner AND ",
    claimable!(),
    ") FROM visit ORDER BY step"
);

/// Up to `:each` rows of each of these owners, in the owners' order.
const ROWS_OF_OWNERS: &str = concat!(
    "SELECT due.id, owners.owner FROM unnest(:owners::text[]) WITH ORDINALITY AS owners (owner, place),
     LATERAL (
         SELECT id, due_at, n FROM tasks WHERE tasks.owner = owners.owner AND ",
    claimable!(),
    " ORDER BY due_at, n LIMIT :each::bigint) AS due ORDER BY owners.place, due.due_at, due.n"
);

/// Leases the first `:limit` of these rows that can still be claimed. Rows that another transaction has
/// locked are skipped.
const LEASE_ROWS: &str = concat!(
    "WITH due AS (SELECT tasks.id, wanted.place
                  FROM unnest(:ids::text[]) WITH ORDINALITY AS wanted (id, place)
                      JOIN tasks ON tasks.id = wanted.id
                  WHERE ",
    claimable!(),
    " ORDER BY wanted.place LIMIT :limit::bigint FOR NO KEY UPDATE OF tasks SKIP LOCKED)
     UPDATE tasks SET version = version + 1, lease_holder = :holder, lease_until = moment(:now) + :lease,
         identity = COALESCE(identity, :identity)
     FROM due WHERE tasks.id = due.id
     RETURNING tasks.version, tasks.body, tasks.n, due.place"
);

/// Leases rows. If the response is lost, the rows stay leased, and no replica acts on them until the lease
/// expires.
pub(super) struct Claim {
    pub(super) holder: String,
    pub(super) lease: i64,
    pub(super) request: ClaimRequest,
}

#[async_trait]
impl WriteTransaction for Claim {
    type Output = ClaimResult;

    async fn write(&self, db: &Db, _again: bool) -> Result<ClaimResult, PostgresError> {
        let ClaimRequest { served, limit, cursor, overdue } = &self.request;
        let claimable = claimable_values(db.now, served, *overdue);
        let first = db.all(LONGEST_DUE, &row::bind(&claimable, &[(":limit", &number(fair::WINDOW))])).await?;
        let first = first.iter().map(candidate).collect::<Result<Vec<_>, PostgresError>>()?;
        let visited = if first.len() < fair::WINDOW { None } else { self.visit(db).await? };
        let at = cursor.as_ref().map(|cursor| column::encode_key(cursor.as_str()));
        let order = ClaimOrder::of(first, visited, at.as_deref());
        let ids: Vec<&str> = order.rows.iter().map(|row| row.key.as_str()).collect();
        if ids.is_empty() {
            return Ok(ClaimResult { tasks: Vec::new(), cursor: cursor.clone() });
        }
        let limit = number(*limit);
        let more = named_params! {
            ":ids": ids, ":limit": limit, ":holder": self.holder, ":lease": self.lease,
        };
        let rows = db.all(LEASE_ROWS, &row::bind(&claimable, more)).await?;
        let mut leased = BTreeMap::new();
        for row in &rows {
            leased.insert(row.try_get::<_, i64>(3)?, row);
        }
        let last = leased.last_key_value().and_then(|(place, _)| usize::try_from(place - 1).ok());
        let after = last.and_then(|last| order.cursor_at(last));
        let after = after.map(|owner| Owner::new(column::decode(&owner)));
        let (mut tasks, mut unreadable) = (Vec::with_capacity(leased.len()), Vec::new());
        for row in leased.values() {
            match row::task(row) {
                Ok(task) => tasks.push(task),
                Err(PostgresError::Unreadable(why)) => {
                    log_unreadable(&why);
                    unreadable.push(row.try_get::<_, i64>(2)?);
                }
                Err(fault) => return Err(fault),
            }
        }
        if !unreadable.is_empty() {
            // Left unchanged, they would be the first in every claim once their leases expire.
            let sql = "UPDATE tasks SET due_at = moment(:now) + :delay::bigint, lease_holder = NULL,
                           lease_until = NULL
                       WHERE n = ANY(:rows)";
            let params = named_params! { ":now": db.now, ":delay": UNREADABLE_RETRY_MS, ":rows": unreadable };
            db.execute(sql, params).await?;
        }
        Ok(ClaimResult { tasks, cursor: after.or_else(|| cursor.clone()) })
    }
}

impl Claim {
    /// Visits owners after the cursor, then from the first one, until `limit` of them have due rows,
    /// [`fair::OWNERS`] were visited, or there are no others.
    async fn visit(&self, db: &Db) -> Result<Option<VisitedOwners<String>>, PostgresError> {
        let ClaimRequest { served, limit, cursor, overdue } = &self.request;
        let claimable = claimable_values(db.now, served, *overdue);
        let cursor = cursor.as_ref().map_or_else(Cow::default, |cursor| column::encode_key(cursor.as_str()));
        let most = number(fair::OWNERS);
        let params = row::bind(&claimable, named_params! { ":cursor": cursor, ":limit": most });
        let (mut owners, mut last): (Vec<String>, Option<String>) = (Vec::new(), None);
        for row in db.all(NEXT_OWNERS, &params).await? {
            let owner: String = row.try_get(0)?;
            if row.try_get(1)? {
                owners.push(owner.clone());
            }
            last = Some(owner);
            if owners.len() == *limit {
                break;
            }
        }
        let each = number(fair::rows_each(*limit, owners.len()));
        let params = row::bind(&claimable, named_params! { ":owners": owners, ":each": each });
        let rows = db.all(ROWS_OF_OWNERS, &params).await?;
        let rows = rows.iter().map(candidate).collect::<Result<_, PostgresError>>()?;
        Ok(last.map(|last| VisitedOwners { last, rows }))
    }
}

fn candidate(row: &Row) -> Result<Candidate<String>, PostgresError> {
    Ok(Candidate { key: row.try_get(0)?, owner: row.try_get(1)? })
}

pub(super) async fn list_due(
    executor: &PostgresExecutor,
    served: &ServedBackend,
    after: Option<&(Timestamp, TaskId)>,
    limit: usize,
) -> Result<Vec<Task>> {
    let sql = concat!(
        "SELECT version, body, n FROM tasks WHERE ",
        claimable!(),
        " AND due_at >= :due AND (due_at, id) > (:due, :id) ORDER BY due_at, id LIMIT :limit"
    );
    let (due, id) = after.map_or((i64::MIN, ""), |(due, id)| (due.as_millis(), id.as_str()));
    let (id, limit) = (column::encode(id), number(limit));
    let claimable = claimable_values(executor.now(), served, Duration::ZERO);
    let params = row::bind(&claimable, named_params! { ":due": due, ":id": id, ":limit": limit });
    executor.query(OperationPriority::Loops, sql, &params, row::tasks).await
}

/// For each backend: the due time of its first unleased row (a lease that ends before the row is due does not
/// count) or, if earlier, the first lease expiry among the rows that are due before it. It reads the index no
/// further than that row.
const NEXT_DUE: &str = "
    SELECT least(free.due_at,
                 (SELECT min(lease_until) FROM tasks
                  WHERE of_backend = served.backend AND lease_until > due_at
                      AND (tasks.identity IS NULL OR served.identity IS NULL OR tasks.identity = served.identity)
                      AND due_at < COALESCE(free.due_at, 9223372036854775807)))
    FROM unnest(:backends::text[], :identities::text[]) WITH ORDINALITY AS served (backend, identity, place)
    LEFT JOIN LATERAL (
        SELECT due_at FROM tasks
        WHERE of_backend = served.backend AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= due_at)
            AND (tasks.identity IS NULL OR served.identity IS NULL OR tasks.identity = served.identity)
        ORDER BY due_at LIMIT 1) AS free ON true
    ORDER BY served.place";

pub(super) async fn next_due(
    executor: &PostgresExecutor,
    served: &[ServedBackend],
) -> Result<Vec<Option<Timestamp>>> {
    let (backends, identities) = columns_of(served);
    let params = named_params! { ":backends": backends, ":identities": identities };
    let due = |row: &Row| Ok(row.try_get::<_, Option<i64>>(0)?.map(Timestamp::from_millis));
    let due = |rows: &[Row]| rows.iter().map(due).collect();
    executor.query(OperationPriority::Loops, NEXT_DUE, params, due).await
}

/// Assigns this identity to rows without one. A row with pending work has a due time, so only those rows are
/// updated. Returns the other identities of such rows, with their numbers.
pub(super) struct Adopt {
    pub(super) backend: String,
    pub(super) identity: String,
}

#[async_trait]
impl WriteTransaction for Adopt {
    type Output = Vec<(String, u64)>;

    async fn write(&self, db: &Db, _again: bool) -> Result<Vec<(String, u64)>, PostgresError> {
        let (backend, identity) = (column::encode(&self.backend), column::encode(&self.identity));
        let params = named_params! { ":backend": backend, ":identity": identity };
        let sql = "UPDATE tasks SET identity = :identity
                   WHERE of_backend = :backend AND due_at IS NOT NULL AND identity IS NULL";
        db.execute(sql, params).await?;
        let sql = "SELECT identity, count(*) FROM tasks
                   WHERE of_backend = :backend AND due_at IS NOT NULL AND identity <> :identity
                   GROUP BY identity ORDER BY identity";
        let other = |row: &Row| {
            let count: i64 = row.try_get(1)?;
            Ok((column::decode(row.try_get(0)?), count.unsigned_abs()))
        };
        db.all(sql, params).await?.iter().map(other).collect()
    }
}
