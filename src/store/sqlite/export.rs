//! All that a file holds, for a copy into another store. Nobody else has the file open meanwhile, so that nothing is
//! missing in the copy that a server was told is kept.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::FromSql;

use super::fault::Fault;
use super::{connect, row};
use crate::store::copy::{EntryKept, Kept, Key, Note, NoticeKept, Session, TaskKept};
use crate::tasks::store::{Result, StoreError};

/// How long another process may take to let go of the file.
const BUSY_WAIT: Duration = Duration::from_millis(200);

/// Reads everything. The file's schema is brought up to date first, as a server would.
///
/// # Errors
/// If the file is not there, is open in another process, or cannot be read as a whole.
pub(in crate::store) fn read(path: &Path) -> Result<Kept> {
    if !path.is_file() {
        return Err(StoreError::Unavailable(format!(
            "{}: there is no such file to copy from",
            path.display()
        )));
    }
    let path = &std::path::absolute(path)
        .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
    let db = connect::alone(path, BUSY_WAIT).map_err(|fault| match fault.is_busy() {
        true => StoreError::Unavailable(format!(
            "{}: a server has it open: stop it first, so that nothing is done twice",
            path.display()
        )),
        false => fault.at(path),
    })?;
    kept(&db).map_err(|fault| fault.at(path))
}

fn kept(db: &Connection) -> Result<Kept, Fault> {
    let mut statement = db.prepare(
        "SELECT t.version, t.body, t.n, o.body FROM tasks t LEFT JOIN outputs o ON o.task = t.id ORDER BY t.n",
    )?;
    let mut rows = statement.query([])?;
    let mut tasks = Vec::new();
    while let Some(next) = rows.next()? {
        tasks.push(TaskKept { task: row::task(next)?, output: next.get(3)? });
    }
    Ok(Kept {
        tasks,
        once: all(db, "SELECT scope, key, digest, task FROM once", |row| {
            Ok(Key { scope: row.get(0)?, key: row.get(1)?, digest: row.get(2)?, task: row.get(3)? })
        })?,
        entries: all(db, "SELECT task, version, at, replica, what FROM entries ORDER BY n", |row| {
            Ok(EntryKept {
                task: row.get(0)?,
                version: row.get(1)?,
                at: row.get(2)?,
                replica: row.get(3)?,
                what: row.get(4)?,
            })
        })?,
        notices: all(db, "SELECT id, receiver, since, due_at, attempts, body FROM notices", |row| {
            let (id, receiver, since) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (due_at, attempts, body) = (row.get(3)?, row.get(4)?, row.get(5)?);
            Ok(NoticeKept { id, receiver, since, due_at, attempts, body })
        })?,
        history: all(db, "SELECT tool, took, median FROM history", |row| {
            Ok(Note { tool: row.get(0)?, took: row.get(1)?, median: row.get(2)? })
        })?,
        sessions: all(db, "SELECT nonce, forget_after, settings FROM sessions", |row| {
            Ok(Session { nonce: row.get(0)?, forget_after: row.get(1)?, settings: row.get(2)? })
        })?,
        keys: all(db, "SELECT name, value FROM keys", |row| {
            Ok((row.get(0)?, FromSql::column_result(row.get_ref(1)?)?))
        })?,
    })
}

fn all<T>(
    db: &Connection,
    sql: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map([], |row| read(row))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
