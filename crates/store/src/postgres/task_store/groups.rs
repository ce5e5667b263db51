//! [`Groups`] over PostgreSQL. A group's lease is one row, and one compare-and-set statement decides who
//! gets it. If two replicas want it, the second waits for the first, reads the row again, and finds it
//! leased.

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::{GroupKey, JobHandle, Timestamp};
use tokio_postgres::Row;

use super::queue::columns_of;
use super::tasks::millis;
use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::{named_params, owned_params};
use taskbridge_core::tasks::store::{Group, Groups, Holder, OpenJob, Result, ServedBackend};
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl Groups for PostgresStore {
    async fn acquire_groups(
        &self,
        holder: &Holder,
        lease: Duration,
        served: &[ServedBackend],
    ) -> Result<Vec<Group>> {
        // Most calls find no change and write nothing. A lease is renewed after a third of its duration, so
        // that an idle server writes at most three times per lease.
        let renewal_threshold = millis(lease * 2 / 3);
        let (backends, identities) = columns_of(served);
        let names: Vec<_> = served.iter().map(|s| column::encode(&s.lease_name()).into_owned()).collect();
        let params = named_params! {
            ":now": self.executor.now(), ":holder": holder.0, ":renewal": renewal_threshold,
            ":backends": backends, ":identities": identities, ":names": names,
        };
        let unchanged =
            self.executor.query(OperationPriority::Loops, GROUP_LEASES, params, groups_if_unchanged);
        if let Some(groups) = unchanged.await? {
            return Ok(groups);
        }
        let acquire =
            AcquireGroups { holder: holder.0.clone(), lease: millis(lease), backends, identities, names };
        self.executor.write(OperationPriority::Loops, None, acquire).await
    }

    async fn release_groups(&self, holder: &Holder) -> Result<()> {
        self.release(holder, false).await
    }

    async fn release_all(&self, holder: &Holder) -> Result<()> {
        self.release(holder, true).await
    }

    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>> {
        let sql = "SELECT id, tool, handle, opened_at, version FROM tasks
                   WHERE backend = :backend AND grp = :grp AND opened_at >= :since
                       AND (identity IS NULL OR :identity::text IS NULL OR identity = :identity)
                   ORDER BY opened_at";
        let (backend, key) = (column::encode(&group.backend), column::encode(group.key.as_str()));
        let identity = identity.map(column::encode);
        let params = named_params! {
            ":backend": backend, ":grp": key, ":since": opened_since.as_millis(), ":identity": identity,
        };
        let jobs = |rows: &[Row]| rows.iter().map(open_job).collect();
        self.executor.query(OperationPriority::Loops, sql, params, jobs).await
    }

    async fn watched_jobs(&self, group: &Group) -> Result<Vec<TaskId>> {
        let sql = "SELECT id FROM tasks WHERE backend = :backend AND grp = :grp AND log_until > moment(:now)";
        let (backend, key) = (column::encode(&group.backend), column::encode(group.key.as_str()));
        let params = named_params! { ":backend": backend, ":grp": key, ":now": self.executor.now() };
        let id = |row: &Row| Ok(TaskId::from_wire(column::decode(row.try_get(0)?)));
        let ids = |rows: &[Row]| rows.iter().map(id).collect();
        self.executor.query(OperationPriority::Loops, sql, params, ids).await
    }
}

/// The groups of connected backends with open jobs, and the names of their leases. It walks from group to
/// group in the index; within a group it skips only jobs of another engine.
macro_rules! open_groups {
    () => {
        "WITH RECURSIVE served AS (
             SELECT * FROM unnest(:backends::text[], :identities::text[], :names::text[])
                               AS served (backend, identity, name)),
         open AS (
             SELECT served.*, next.grp FROM served, LATERAL (
                 SELECT grp FROM tasks
                 WHERE backend = served.backend AND (identity IS NULL OR served.identity IS NULL
                                                     OR identity = served.identity)
                 ORDER BY grp LIMIT 1) AS next
             UNION ALL
             SELECT open.backend, open.identity, open.name, next.grp FROM open, LATERAL (
                 SELECT grp FROM tasks
                 WHERE backend = open.backend AND grp > open.grp AND (identity IS NULL OR open.identity IS NULL
                                                                      OR identity = open.identity)
                 ORDER BY grp LIMIT 1) AS next)"
    };
}

/// The groups with open jobs, and those leased by the holder. For each: whether the holder has the lease,
/// and whether something must be written. That is the case if an open group is free or its lease is about
/// to expire, or if the holder has a group without open jobs.
const GROUP_LEASES: &str = concat!(
    open_groups!(),
    " SELECT open.backend, open.grp, COALESCE(groups.holder = :holder, false) AS mine,
             CASE WHEN open.name IS NOT NULL THEN
                      groups.holder IS NULL
                      OR groups.until <= moment(:now)
                         + CASE WHEN groups.holder = :holder THEN :renewal::bigint ELSE 0 END
                  ELSE true END AS unsettled
      FROM open FULL JOIN (SELECT * FROM groups) AS groups ON groups.backend = open.name AND groups.grp = open.grp
      WHERE open.name IS NOT NULL OR groups.holder = :holder
      ORDER BY open.backend, open.grp"
);

/// Leases free groups and renews the holder's leases. On groups without open jobs, deletes the holder's
/// leases and everyone's expired ones.
const ACQUIRE_GROUPS: &str = concat!(
    open_groups!(),
    ", gone AS (DELETE FROM groups WHERE (holder = :holder OR until <= moment(:now))
                    AND NOT EXISTS (SELECT 1 FROM open WHERE open.name = groups.backend AND open.grp = groups.grp)),
      taken AS (
          INSERT INTO groups AS held (backend, grp, holder, until)
          SELECT name, grp, :holder, moment(:now) + :lease::bigint FROM open ORDER BY name, grp
          ON CONFLICT (backend, grp) DO UPDATE SET holder = excluded.holder, until = excluded.until
              WHERE held.holder = excluded.holder OR held.until <= moment(:now)
          RETURNING backend AS name, grp)
      SELECT open.backend, open.grp FROM taken JOIN open USING (name, grp)"
);

/// Returns the holder's groups, if nothing needs to be written.
fn groups_if_unchanged(rows: &[Row]) -> Result<Option<Vec<Group>>, PostgresError> {
    let mut groups = Vec::new();
    for row in rows {
        if row.try_get::<_, Option<bool>>(3)?.unwrap_or(false) {
            return Ok(None);
        }
        if row.try_get(2)? {
            groups.push(group(row)?);
        }
    }
    Ok(Some(groups))
}

fn group(row: &Row) -> Result<Group, PostgresError> {
    let key = GroupKey::new(column::decode(row.try_get(1)?));
    Ok(Group { backend: column::decode(row.try_get(0)?), key })
}

fn open_job(row: &Row) -> Result<OpenJob, PostgresError> {
    Ok(OpenJob {
        id: TaskId::from_wire(column::decode(row.try_get(0)?)),
        tool: column::decode(row.try_get(1)?),
        handle: JobHandle::new(column::decode(row.try_get(2)?)),
        started_at: Timestamp::from_millis(row.try_get(3)?),
        version: row.try_get::<_, i64>(4)?.unsigned_abs(),
    })
}

struct AcquireGroups {
    holder: String,
    lease: i64,
    backends: Vec<String>,
    identities: Vec<Option<String>>,
    names: Vec<String>,
}

#[async_trait]
impl WriteTransaction for AcquireGroups {
    type Output = Vec<Group>;

    async fn write(&self, db: &Db, _again: bool) -> Result<Vec<Group>, PostgresError> {
        let params = named_params! {
            ":now": db.now, ":holder": self.holder, ":lease": self.lease, ":backends": self.backends,
            ":identities": self.identities, ":names": self.names,
        };
        let rows = db.all(ACQUIRE_GROUPS, params).await?;
        let mut groups = rows.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        groups.sort();
        Ok(groups)
    }
}

impl PostgresStore {
    /// Releases the holder's groups and, with `rows`, its leases of rows and notices. It notifies in the same
    /// transaction, as an exception: a process that releases its leases is about to end, and may not survive
    /// to notify later.
    async fn release(&self, holder: &Holder, rows: bool) -> Result<()> {
        let sql = "WITH left_alone AS (DELETE FROM groups WHERE holder = :holder),
                        given_back AS (UPDATE tasks SET lease_holder = NULL, lease_until = NULL
                                       WHERE due_at IS NOT NULL AND lease_until IS NOT NULL
                                           AND lease_holder = :holder AND :rows::boolean),
                        put_down AS (UPDATE notices SET due_at = moment(:now), holder = NULL
                                     WHERE holder = :holder AND :rows::boolean)
                   SELECT pg_notify('taskbridge.' || :schema::text, '')";
        let params = owned_params! {
            ":holder": holder.0.clone(), ":rows": rows, ":schema": self.executor.config.schema.clone(),
            ":now": self.executor.now(),
        };
        self.executor.execute(sql, params).await.map(drop)
    }
}
