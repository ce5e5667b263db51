//! [`Survey`] over SQLite.

use async_trait::async_trait;
use rusqlite::params;

use crate::row::RowValue;
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use crate::sqlite::task_store::row;
use crate::survey::{
    DEPENDENT_TABLES, PendingNotice, RelatedRecords, Survey, SurveyRow, UNFINISHED, UnfinishedRows,
    compare_columns,
};
use taskbridge_core::tasks::store::Result;
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl Survey for SqliteStore {
    async fn rows(&self, after: &str, limit: usize) -> Result<Vec<SurveyRow>> {
        let after = after.to_owned();
        self.read_long(move |db| rows(db, &after, limit)).await
    }

    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>> {
        let (from, to) = (prefix.to_owned(), format!("{prefix}{}", char::MAX));
        let sql = "SELECT id FROM tasks WHERE id >= ?1 AND id < ?2
                   UNION SELECT task FROM entries WHERE task >= ?1 AND task < ?2 LIMIT ?3";
        let id = |row: &rusqlite::Row<'_>| row.get::<_, String>(0).map(TaskId::from_wire);
        self.read_long(move |db| db.all(sql, params![from, to, limit], id)).await
    }

    async fn count_unfinished(&self) -> Result<Vec<UnfinishedRows>> {
        let read = |row: &rusqlite::Row<'_>| {
            let ids = [row.get(3)?, row.get(4)?];
            Ok(UnfinishedRows { backend: row.get(0)?, identity: row.get(1)?, count: row.get(2)?, ids })
        };
        self.read_long(move |db| db.all(UNFINISHED, [], read)).await
    }

    async fn related_records(&self) -> Result<RelatedRecords> {
        self.read_long(related_records).await
    }
}

fn related_records(db: &Db<'_>) -> Result<RelatedRecords, SqliteError> {
    let mut records = RelatedRecords::default();
    for table in DEPENDENT_TABLES {
        let sql =
            format!("SELECT DISTINCT task FROM {table} WHERE task NOT IN (SELECT id FROM tasks) LIMIT 100");
        let orphans: Vec<_> = db.all(&sql, [], |row| Ok((table, row.get(0)?)))?;
        records.orphans.extend(orphans);
    }
    let groups = "SELECT backend, grp, holder, until FROM groups";
    records.groups = db.all(groups, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let deliveries = "SELECT task, key, until FROM deliveries WHERE NOT over";
    records.deliveries = db.all(deliveries, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let ahead = "SELECT e.task, max(e.version), t.version FROM entries e JOIN tasks t ON t.id = e.task
                 WHERE e.version > t.version GROUP BY e.task, t.version LIMIT 100";
    records.histories_ahead = db.all(ahead, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let sessions = "SELECT nonce, settings FROM sessions WHERE settings IS NOT NULL";
    let sessions: Vec<(String, String)> = db.all(sessions, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (nonce, settings) in sessions {
        for (nonce_prefix, task) in records.check_session(&nonce, &settings) {
            let exists_sql =
                "SELECT 1 FROM tasks WHERE id = ?1 UNION ALL SELECT 1 FROM entries WHERE task = ?1";
            if !db.exists(exists_sql, [task.as_str()])? {
                records.dangling_sessions.push((nonce_prefix, task.to_string()));
            }
        }
    }
    let slots = "SELECT slot, count(*) FROM slots GROUP BY slot";
    records.slots = db.all(slots, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let notices = "SELECT id, receiver, due_at, body FROM notices";
    let notice = |row: &rusqlite::Row<'_>| {
        Ok(PendingNotice::of(row.get(0)?, row.get(1)?, row.get(2)?, &row.get::<_, String>(3)?))
    };
    records.notices = db.all(notices, [], notice)?;
    let mut entries = db.sql("SELECT task, what FROM entries")?;
    let mut entries = entries.query([])?;
    while let Some(found) = entries.next()? {
        records.check_entry(found.get(0)?, &found.get::<_, String>(1)?);
    }
    records.first_entry = db.first("SELECT at FROM entries ORDER BY at LIMIT 1", [], |row| row.get(0))?;
    Ok(records)
}

/// Reads rows. The first three columns are those that [`row::task`] reads.
fn rows(db: &Db<'_>, after: &str, limit: usize) -> Result<Vec<SurveyRow>, SqliteError> {
    let mut statement = db.sql(
        "SELECT version, body, n, id, owner, tool, created_at, expires_at, due_at, backend, grp, opened_at,
                handle, closed, session, line, digest, waiting_until, lease_holder, lease_until,
                (SELECT json_group_array(slot) FROM slots WHERE slots.task = tasks.id) AS taken,
                EXISTS (SELECT 1 FROM outputs WHERE outputs.task = tasks.id) AS has_output
         FROM tasks WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let mut rows = statement.query(params![after, limit])?;
    let mut surveyed = Vec::new();
    while let Some(found) = rows.next()? {
        let task = match row::task(found) {
            Ok(task) => Ok(task),
            Err(SqliteError::Unreadable(why)) => Err(why),
            Err(fault) => return Err(fault),
        };
        let slots = serde_json::from_str(&found.get::<_, String>("taken")?).unwrap_or_default();
        let is_stored =
            |column: &str, value: RowValue<'_>| found.get_ref(column).map(|found| found == value.stored());
        let mismatches = match &task {
            Ok(task) => compare_columns(task, is_stored, slots, str::to_owned)?,
            Err(_) => Vec::new(),
        };
        surveyed.push(SurveyRow {
            id: found.get("id")?,
            version: found.get("version")?,
            task,
            mismatches,
            holder: found.get("lease_holder")?,
            lease_until: found.get("lease_until")?,
            has_output: found.get("has_output")?,
        });
    }
    Ok(surveyed)
}
