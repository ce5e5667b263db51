//! Finds, leases and adopts due rows. `store::fair` decides the order of owners.

use std::time::Duration;

use rusqlite::{OptionalExtension, named_params, params};
use taskbridge_sdk::Timestamp;

use super::row;
use crate::fair::{self, Candidate, ClaimOrder, VisitedOwners};
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use crate::{UNREADABLE_RETRY_MS, log_unreadable};
use taskbridge_core::tasks::store::{ClaimRequest, ClaimResult, Holder, ServedBackend};
use taskbridge_core::tasks::task::{Owner, Task, TaskId};

/// Rows of a connected backend that can be claimed now and were due at `:due_by`.
macro_rules! claimable {
    () => {
        "of_backend = :backend AND (identity IS NULL OR :identity IS NULL OR identity = :identity)
         AND due_at <= :due_by AND (lease_until IS NULL OR lease_until <= :now)"
    };
}

pub(super) fn claim(
    db: &Db<'_>,
    holder: &Holder,
    lease: Duration,
    request: &ClaimRequest,
) -> Result<ClaimResult, SqliteError> {
    let limit = request.limit;
    let first = longest_due(db, request)?;
    let visited = if first.len() < fair::WINDOW { None } else { visit(db, request, limit)? };
    let cursor = request.cursor.as_ref().map(Owner::as_str);
    let order = ClaimOrder::of(first, visited, cursor);
    let until = db.expiry_ms(lease);
    let mut read = db.sql("SELECT version, body, n FROM tasks WHERE n = ?1")?;
    let mut lease_row = db.sql(
        "UPDATE tasks SET version = version + 1, lease_holder = :holder, lease_until = :until,
             identity = coalesce(identity, :identity) WHERE n = :n",
    )?;
    let mut tasks = Vec::new();
    for row in order.rows.iter().take(limit) {
        match read.query_row([row.key], |found| Ok(row::task(found)))? {
            Ok(task) => {
                let params = named_params! {
                    ":n": row.key, ":holder": holder.0, ":until": until, ":identity": request.served.identity,
                };
                row::execute(&mut lease_row, params)?;
                tasks.push(Task { version: task.version + 1, ..task });
            }
            Err(SqliteError::Unreadable(why)) => {
                log_unreadable(&why);
                // Left unchanged, it would be the first in every claim.
                let sql = "UPDATE tasks SET version = version + 1, due_at = ?2 WHERE n = ?1";
                db.execute(sql, [row.key, db.now_ms() + UNREADABLE_RETRY_MS])?;
            }
            Err(fault) => return Err(fault),
        }
    }
    let taken = order.rows.len().min(limit);
    let cursor = taken.checked_sub(1).and_then(|last| order.cursor_at(last)).map(Owner::new);
    Ok(ClaimResult { tasks, cursor: cursor.or_else(|| request.cursor.clone()) })
}

/// Returns the longest-due rows, in that order.
fn longest_due(db: &Db<'_>, request: &ClaimRequest) -> Result<Vec<Candidate<i64>>, SqliteError> {
    let ServedBackend { backend, identity } = &request.served;
    let sql = concat!("SELECT n, owner FROM tasks WHERE ", claimable!(), " ORDER BY due_at, n LIMIT :limit");
    let mut statement = db.sql(sql)?;
    let params = named_params! {
        ":backend": backend, ":identity": identity, ":now": db.now_ms(), ":due_by": due_by(db, request),
        ":limit": fair::WINDOW,
    };
    Ok(row::query(&mut statement, params)?.mapped(candidate).collect::<rusqlite::Result<_>>()?)
}

/// Returns by when a row must have been due, in milliseconds since the epoch.
fn due_by(db: &Db<'_>, request: &ClaimRequest) -> i64 {
    db.now_ms().saturating_sub(i64::try_from(request.overdue.as_millis()).unwrap_or(i64::MAX))
}

fn candidate(row: &rusqlite::Row<'_>) -> rusqlite::Result<Candidate<i64>> {
    Ok(Candidate { key: row.get(0)?, owner: row.get(1)? })
}

/// Visits owners after the cursor, then from the first one, until `limit` of them have due rows,
/// [`fair::OWNERS`] were visited, or there are no others.
fn visit(
    db: &Db<'_>,
    request: &ClaimRequest,
    limit: usize,
) -> Result<Option<VisitedOwners<i64>>, SqliteError> {
    let ServedBackend { backend, identity } = &request.served;
    let mut next = db.sql(
        "SELECT owner FROM tasks WHERE of_backend = ?1 AND owner > ?2 AND due_at IS NOT NULL ORDER BY owner LIMIT 1",
    )?;
    let mut next =
        |after: &str| next.query_row(params![backend, after], |row| row.get::<_, String>(0)).optional();
    let sql = concat!(
        "SELECT n, owner FROM tasks WHERE owner = :owner AND ",
        claimable!(),
        " ORDER BY due_at, n LIMIT :limit"
    );
    let mut rows = db.sql(sql)?;
    let mut rows_of = |owner: &str, most: usize| -> rusqlite::Result<Vec<Candidate<i64>>> {
        let params = named_params! {
            ":backend": backend, ":identity": identity, ":now": db.now_ms(), ":due_by": due_by(db, request),
            ":owner": owner, ":limit": most,
        };
        row::query(&mut rows, params)?.mapped(candidate).collect()
    };
    let mut owners: Vec<String> = Vec::new();
    let mut due: Vec<Vec<Candidate<i64>>> = Vec::new();
    let mut at = request.cursor.as_ref().map_or(String::new(), |cursor| cursor.as_str().to_owned());
    while owners.len() < fair::OWNERS && due.len() < limit {
        let owner = match next(&at)? {
            Some(owner) => Some(owner),
            None => next("")?,
        };
        let Some(owner) = owner.filter(|owner| owners.first() != Some(owner)) else { break };
        let first = rows_of(&owner, 1)?;
        if !first.is_empty() {
            due.push(first);
        }
        at.clone_from(&owner);
        owners.push(owner);
    }
    let each = fair::rows_each(limit, due.len());
    if each > 1 {
        for rows in &mut due {
            *rows = rows_of(&rows[0].owner, each)?;
        }
    }
    let rows = due.into_iter().flatten().collect();
    Ok(owners.pop().map(|last| VisitedOwners { last, rows }))
}

pub(super) fn list_due(
    db: &Db<'_>,
    served: &ServedBackend,
    after: Option<&(Timestamp, TaskId)>,
    limit: usize,
) -> Result<Vec<Task>, SqliteError> {
    let (due, id) = after.map_or((i64::MIN, ""), |(due, id)| (due.as_millis(), id.as_str()));
    let sql = concat!(
        "SELECT version, body, n FROM tasks WHERE ",
        claimable!(),
        " AND due_at >= :due AND (due_at, id) > (:due, :id) ORDER BY due_at, id LIMIT :limit"
    );
    let params = named_params! {
        ":backend": served.backend, ":identity": served.identity, ":now": db.now_ms(), ":due_by": db.now_ms(),
        ":due": due, ":id": id, ":limit": limit,
    };
    row::tasks(row::query(&mut *db.sql(sql)?, params)?)
}

/// Walks the index by due time, up to the first row that is due no earlier than a time found before: the due
/// time of a row without a lease, or the expiry of a lease.
pub(super) fn next_due(db: &Db<'_>, served: &ServedBackend) -> Result<Option<Timestamp>, SqliteError> {
    let mut statement = db.sql(
        "SELECT due_at, lease_until FROM tasks WHERE of_backend = ?1 AND due_at IS NOT NULL
             AND (identity IS NULL OR ?2 IS NULL OR identity = ?2) ORDER BY due_at",
    )?;
    let mut rows = statement.query(params![served.backend, served.identity])?;
    let mut earliest: Option<i64> = None;
    while let Some(next) = rows.next()? {
        let due: i64 = next.get(0)?;
        if earliest.is_some_and(|earliest| due >= earliest) {
            break;
        }
        let available_at = next.get::<_, Option<i64>>(1)?.map_or(due, |until| until.max(due));
        earliest = Some(earliest.map_or(available_at, |earliest| earliest.min(available_at)));
    }
    Ok(earliest.map(Timestamp::from_millis))
}

/// Assigns the identity to rows without one. A row with pending work has a due time, so only those rows are
/// updated. Returns the other identities of such rows, with their numbers.
pub(super) fn adopt(db: &Db<'_>, backend: &str, identity: &str) -> Result<Vec<(String, u64)>, SqliteError> {
    db.execute(
        "UPDATE tasks SET identity = ?2 WHERE of_backend = ?1 AND due_at IS NOT NULL AND identity IS NULL",
        [backend, identity],
    )?;
    db.all(
        "SELECT identity, count(*) FROM tasks
         WHERE of_backend = ?1 AND due_at IS NOT NULL AND identity <> ?2 GROUP BY identity ORDER BY identity",
        [backend, identity],
        |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())),
    )
}
