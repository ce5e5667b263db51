//! [`History`] over PostgreSQL. Entries are numbered nearly in the order in which they are written, so that the oldest are
//! found among those with the lowest numbers, without an index of their own.

use std::time::Duration;

use async_trait::async_trait;

use super::desk::{Db, Door, Write};
use super::fault::Fault;
use super::tasks::{millis, number};
use super::{PostgresStore, column};
use crate::store::entry;
use crate::tasks::history::Entry;
use crate::tasks::store::{History, Result};
use crate::tasks::task::TaskId;

#[async_trait]
impl History for PostgresStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<Entry>> {
        let sql = "SELECT version, at, replica, what FROM entries WHERE task = $1 ORDER BY version, n";
        let rows = self.desk.read(Door::Request, sql, &[&column::text(id.as_str())]).await?;
        let entries: Result<Vec<Option<Entry>>, Fault> = rows.iter().map(entry_of).collect();
        let entries = entries.map_err(|fault| fault.at(&self.desk.place))?;
        Ok(entries.into_iter().flatten().collect())
    }

    async fn forget(&self, older_than: Duration, limit: usize) -> Result<usize> {
        let age = millis(older_than);
        let sql = "SELECT 1 FROM (SELECT at FROM entries ORDER BY n LIMIT 1) AS first WHERE at < moment($1) - $2::bigint";
        if self.desk.read(Door::Loops, sql, &[&self.desk.now(), &age]).await?.is_empty() {
            return Ok(0);
        }
        self.desk.write(Door::Loops, None, Forget { age, limit: number(limit) }).await
    }
}

fn entry_of(row: &tokio_postgres::Row) -> Result<Option<Entry>, Fault> {
    let (replica, what): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    Ok(entry::read(row.try_get(0)?, row.try_get(1)?, column::read(replica), &column::read(what)))
}

struct Forget {
    age: i64,
    limit: i64,
}

/// Entries that another process is deleting are passed over.
#[async_trait]
impl Write for Forget {
    type Done = usize;

    async fn write(&self, db: &Db, _again: bool) -> Result<usize, Fault> {
        let sql = "WITH old AS (SELECT n FROM (SELECT n, at FROM entries ORDER BY n LIMIT $3 FOR UPDATE SKIP LOCKED) AS first
                                WHERE at < moment($1) - $2::bigint)
                   DELETE FROM entries USING old WHERE entries.n = old.n";
        Ok(usize::try_from(db.execute(sql, &[&db.now, &self.age, &self.limit]).await?).unwrap_or(usize::MAX))
    }
}
