//! [`Groups`] over SQLite.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, named_params, params};
use taskbridge_sdk::{GroupKey, JobHandle, Timestamp};

use super::holders::DeadHolder;
use super::row;
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::store::{Group, Groups, Holder, OpenJob, Result, ServedBackend};
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl Groups for SqliteStore {
    async fn acquire_groups(
        &self,
        holder: &Holder,
        lease: Duration,
        served: &[ServedBackend],
    ) -> Result<Vec<Group>> {
        // Most calls find no change and write nothing.
        if let Some(groups) = self.read(|db| groups_if_unchanged(db, holder, lease, served))? {
            return Ok(groups);
        }
        let (holder, served) = (holder.clone(), served.to_vec());
        self.write(move |db| acquire(db, &holder, lease, &served)).await
    }

    async fn release_groups(&self, holder: &Holder) -> Result<()> {
        let holder = holder.clone();
        self.write(move |db| db.execute("DELETE FROM groups WHERE holder = ?1", [&holder.0]).map(drop)).await
    }

    async fn release_all(&self, holder: &Holder) -> Result<()> {
        let holder = holder.clone();
        self.write(move |db| release_leases(db, &holder.0)).await
    }

    async fn release_dead_holders(&self) -> Result<bool> {
        let dead = self.holders.find_dead();
        if dead.is_empty() {
            return Ok(false);
        }
        let holders: Vec<String> = dead.iter().map(|dead| dead.holder.clone()).collect();
        tracing::info!(?holders, "these processes no longer run: their leases end");
        self.write(move |db| holders.iter().try_for_each(|holder| release_leases(db, holder))).await?;
        dead.into_iter().for_each(DeadHolder::delete);
        Ok(true)
    }

    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>> {
        let (group, identity) = (group.clone(), identity.map(str::to_owned));
        self.read_long(move |db| open_jobs(db, &group, identity.as_deref(), opened_since)).await
    }

    async fn watched_jobs(&self, group: &Group) -> Result<Vec<TaskId>> {
        self.read(|db| {
            let sql = "SELECT id FROM tasks WHERE backend = ?1 AND grp = ?2 AND log_until > ?3";
            let params = params![group.backend, group.key.as_str(), db.now_ms()];
            db.all(sql, params, |row| row.get::<_, String>(0).map(TaskId::from_wire))
        })
    }
}

/// Releases every lease of this holder.
fn release_leases(db: &Db<'_>, holder: &str) -> Result<(), SqliteError> {
    db.execute("DELETE FROM groups WHERE holder = ?1", [holder])?;
    // The index on due rows covers both conditions, and leases are few.
    db.execute(
        "UPDATE tasks SET lease_holder = NULL, lease_until = NULL
         WHERE due_at IS NOT NULL AND lease_until IS NOT NULL AND lease_holder = ?1",
        [holder],
    )?;
    let sql = "UPDATE notices SET due_at = ?2, holder = NULL WHERE holder = ?1";
    db.execute(sql, params![holder, db.now_ms()]).map(drop)
}

/// A group's lease, as stored in the file.
struct GroupLease {
    /// [`ServedBackend::lease_name`] and the group's key.
    name: (String, String),
    holder: String,
    until: i64,
}

/// Returns the groups leased by `holder`, if nothing needs to be written: no open group is free, none of
/// its leases is about to expire, and none is on a group without open jobs.
fn groups_if_unchanged(
    db: &Db<'_>,
    holder: &Holder,
    lease: Duration,
    served: &[ServedBackend],
) -> Result<Option<Vec<Group>>, SqliteError> {
    let open = open_groups(db, served)?;
    let leases = leases(db)?;
    // Renewed after a third of its duration, so that an idle server writes at most three times per lease.
    let renewal_threshold = db.expiry_ms(lease * 2 / 3);
    let lease_of = |name: &(String, String)| leases.iter().find(|group_lease| group_lease.name == *name);
    let mut own = Vec::new();
    for OpenGroup { group, name } in &open {
        let Some(group_lease) = lease_of(name) else { return Ok(None) };
        let is_own = group_lease.holder == holder.0;
        if group_lease.until <= if is_own { renewal_threshold } else { db.now_ms() } {
            return Ok(None);
        }
        if is_own {
            own.push(group.clone());
        }
    }
    let all_open = leases.iter().filter(|group_lease| group_lease.holder == holder.0).count() == own.len();
    Ok(all_open.then_some(own))
}

fn acquire(
    db: &Db<'_>,
    holder: &Holder,
    lease: Duration,
    served: &[ServedBackend],
) -> Result<Vec<Group>, SqliteError> {
    let open = open_groups(db, served)?;
    for GroupLease { name, holder: other, until } in leases(db)? {
        let is_releasable = other == holder.0 || until <= db.now_ms();
        if is_releasable && !open.iter().any(|open| open.name == name) {
            db.execute("DELETE FROM groups WHERE backend = ?1 AND grp = ?2", [name.0, name.1])?;
        }
    }
    let mut acquired = Vec::new();
    for OpenGroup { group, name } in open {
        let mut statement = db.sql(
            "INSERT INTO groups (backend, grp, holder, until) VALUES (:backend, :grp, :holder, :until)
             ON CONFLICT DO UPDATE SET holder = :holder, until = :until
                 WHERE holder = :holder OR until <= :now",
        )?;
        let params = named_params! {
            ":backend": name.0, ":grp": name.1, ":holder": holder.0, ":until": db.expiry_ms(lease),
            ":now": db.now_ms(),
        };
        if row::execute(&mut statement, params)? == 1 {
            acquired.push(group);
        }
    }
    Ok(acquired)
}

/// A group with open jobs.
struct OpenGroup {
    group: Group,
    /// As in [`GroupLease::name`].
    name: (String, String),
}

/// Returns the groups of these backends with open jobs. It walks from group to group in the index; within a
/// group it skips only jobs of another engine.
fn open_groups(db: &Db<'_>, served: &[ServedBackend]) -> Result<Vec<OpenGroup>, SqliteError> {
    let mut statement = db.sql(
        "SELECT grp FROM tasks WHERE backend = ?1 AND (?2 IS NULL OR grp > ?2)
             AND (identity IS NULL OR ?3 IS NULL OR identity = ?3) ORDER BY grp LIMIT 1",
    )?;
    let mut groups = Vec::new();
    for served in served {
        let mut last: Option<String> = None;
        loop {
            let params = params![served.backend, last, served.identity];
            let next = statement.query_row(params, |row| row.get::<_, String>(0)).optional()?;
            let Some(key) = next else { break };
            groups.push(OpenGroup {
                group: Group { backend: served.backend.clone(), key: GroupKey::new(key.clone()) },
                name: (served.lease_name(), key.clone()),
            });
            last = Some(key);
        }
    }
    Ok(groups)
}

fn leases(db: &Db<'_>) -> Result<Vec<GroupLease>, SqliteError> {
    db.all("SELECT backend, grp, holder, until FROM groups ORDER BY backend, grp", [], |row| {
        Ok(GroupLease { name: (row.get(0)?, row.get(1)?), holder: row.get(2)?, until: row.get(3)? })
    })
}

fn open_jobs(
    db: &Db<'_>,
    group: &Group,
    identity: Option<&str>,
    opened_since: Timestamp,
) -> Result<Vec<OpenJob>, SqliteError> {
    let sql = "SELECT id, tool, handle, opened_at, version FROM tasks
               WHERE backend = :backend AND grp = :grp AND opened_at >= :since
                   AND (identity IS NULL OR :identity IS NULL OR identity = :identity) ORDER BY opened_at";
    let params = named_params! {
        ":backend": group.backend, ":grp": group.key.as_str(), ":since": opened_since.as_millis(),
        ":identity": identity,
    };
    let job = |row: &Row<'_>| {
        Ok(OpenJob {
            id: TaskId::from_wire(row.get::<_, String>(0)?),
            tool: row.get(1)?,
            handle: JobHandle::new(row.get::<_, String>(2)?),
            started_at: Timestamp::from_millis(row.get(3)?),
            version: row.get::<_, i64>(4)?.unsigned_abs(),
        })
    };
    Ok(row::query(&mut *db.sql(sql)?, params)?.mapped(job).collect::<rusqlite::Result<_>>()?)
}
