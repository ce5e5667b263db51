//! [`Groups`] over SQLite.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use taskbridge_sdk::{GroupKey, JobHandle, Timestamp};

use super::fault::Fault;
use super::{Db, SqliteStore};
use crate::tasks::store::{Group, Groups, Holder, OpenJob, Result};
use crate::tasks::task::TaskId;

#[async_trait]
impl Groups for SqliteStore {
    async fn hold(&self, holder: &Holder, lease: Duration, elsewhere: &[String]) -> Result<Vec<Group>> {
        // Most calls find everything as it was, and write nothing.
        if let Some(held) = self.read(|db| settled(db, holder, lease, elsewhere))? {
            return Ok(held);
        }
        let (holder, elsewhere) = (holder.clone(), elsewhere.to_vec());
        self.write(move |db| hold(db, &holder, lease, &elsewhere)).await
    }

    async fn leave(&self, holder: &Holder) -> Result<()> {
        let holder = holder.clone();
        self.write(move |db| {
            db.sql("DELETE FROM groups WHERE holder = ?1")?.execute([&holder.0])?;
            Ok(())
        })
        .await
    }

    async fn let_go(&self, holder: &Holder) -> Result<()> {
        let holder = holder.clone();
        self.write(move |db| {
            db.sql("DELETE FROM groups WHERE holder = ?1")?.execute([&holder.0])?;
            // Both conditions can be told from the index on due rows, and leases are few.
            db.sql(
                "UPDATE tasks SET lease_holder = NULL, lease_until = NULL
                 WHERE due_at IS NOT NULL AND lease_until IS NOT NULL AND lease_holder = ?1",
            )?
            .execute([&holder.0])?;
            db.sql("UPDATE notices SET due_at = ?2, holder = NULL WHERE holder = ?1")?
                .execute(params![holder.0, db.now_ms()])?;
            Ok(())
        })
        .await
    }

    async fn open_jobs(&self, group: &Group, opened_since: Timestamp) -> Result<Vec<OpenJob>> {
        let group = group.clone();
        self.read_long(move |db| open_jobs(db, &group, opened_since)).await
    }

    async fn wanted(&self, group: &Group) -> Result<Vec<TaskId>> {
        self.read(|db| {
            let mut statement =
                db.sql("SELECT id FROM tasks WHERE backend = ?1 AND grp = ?2 AND log_until > ?3")?;
            let params = params![group.backend, group.key.as_str(), db.now_ms()];
            let ids = statement.query_map(params, |row| row.get::<_, String>(0).map(TaskId::from_wire))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// A group's lease, as it is in the file.
struct Held {
    group: Group,
    holder: String,
    until: i64,
}

/// What `holder` holds, if nothing needs to be written: no open group is free, no lease of its own runs low, and none
/// is on a group without open jobs.
fn settled(
    db: &Db<'_>,
    holder: &Holder,
    lease: Duration,
    elsewhere: &[String],
) -> Result<Option<Vec<Group>>, Fault> {
    let mut open = open_groups(db)?;
    open.retain(|group| !elsewhere.contains(&group.backend));
    let leases = leases(db)?;
    // Renewed when a third of it has passed, so that an idle server writes three times per lease at most.
    let low = db.until(lease * 2 / 3);
    let in_force = |group: &Group| {
        leases.iter().any(|held| {
            held.group == *group && held.until > if held.holder == holder.0 { low } else { db.now_ms() }
        })
    };
    let mine = leases.iter().filter(|held| held.holder == holder.0);
    if open.iter().all(in_force) && mine.clone().all(|held| open.contains(&held.group)) {
        return Ok(Some(mine.map(|held| held.group.clone()).collect()));
    }
    Ok(None)
}

fn hold(db: &Db<'_>, holder: &Holder, lease: Duration, elsewhere: &[String]) -> Result<Vec<Group>, Fault> {
    let open = open_groups(db)?;
    for Held { group, holder: other, until } in leases(db)? {
        let over = other == holder.0 || until <= db.now_ms();
        if over && !open.contains(&group) {
            db.sql("DELETE FROM groups WHERE backend = ?1 AND grp = ?2")?
                .execute([group.backend.as_str(), group.key.as_str()])?;
        }
    }
    let mut held = Vec::new();
    for group in open.into_iter().filter(|group| !elsewhere.contains(&group.backend)) {
        let taken = db
            .sql(
                "INSERT INTO groups (backend, grp, holder, until) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET holder = ?3, until = ?4 WHERE holder = ?3 OR until <= ?5",
            )?
            .execute(params![group.backend, group.key.as_str(), holder.0, db.until(lease), db.now_ms()])?;
        if taken == 1 {
            held.push(group);
        }
    }
    Ok(held)
}

/// The groups that have open jobs. Goes from group to group in the index and never along one.
fn open_groups(db: &Db<'_>) -> Result<Vec<Group>, Fault> {
    let mut statement = db.sql(
        "SELECT backend, grp FROM tasks WHERE backend IS NOT NULL AND (backend, grp) > (?1, ?2)
         ORDER BY backend, grp LIMIT 1",
    )?;
    let mut groups: Vec<Group> = Vec::new();
    loop {
        let last = groups.last().map_or(("", ""), |last| (last.backend.as_str(), last.key.as_str()));
        let mut rows = statement.query(last)?;
        let Some(next) = rows.next()? else { break };
        let group = group(next)?;
        drop(rows);
        groups.push(group);
    }
    Ok(groups)
}

fn leases(db: &Db<'_>) -> Result<Vec<Held>, Fault> {
    let mut statement = db.sql("SELECT backend, grp, holder, until FROM groups ORDER BY backend, grp")?;
    let mut rows = statement.query([])?;
    let mut leases = Vec::new();
    while let Some(next) = rows.next()? {
        leases.push(Held { group: group(next)?, holder: next.get(2)?, until: next.get(3)? });
    }
    Ok(leases)
}

fn group(row: &rusqlite::Row<'_>) -> Result<Group, Fault> {
    Ok(Group { backend: row.get(0)?, key: GroupKey::new(row.get::<_, String>(1)?) })
}

fn open_jobs(db: &Db<'_>, group: &Group, opened_since: Timestamp) -> Result<Vec<OpenJob>, Fault> {
    let mut statement = db.sql(
        "SELECT id, tool, handle, opened_at, version FROM tasks
         WHERE backend = ?1 AND grp = ?2 AND opened_at >= ?3 ORDER BY opened_at",
    )?;
    let mut rows = statement.query(params![group.backend, group.key.as_str(), opened_since.as_millis()])?;
    let mut jobs = Vec::new();
    while let Some(next) = rows.next()? {
        jobs.push(OpenJob {
            id: TaskId::from_wire(next.get::<_, String>(0)?),
            tool: next.get(1)?,
            handle: JobHandle::new(next.get::<_, String>(2)?),
            started_at: Timestamp::from_millis(next.get(3)?),
            version: next.get::<_, i64>(4)?.unsigned_abs(),
        });
    }
    Ok(jobs)
}
