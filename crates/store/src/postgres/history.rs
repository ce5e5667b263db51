//! [`History`] over PostgreSQL.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::executor::{Db, OperationPriority, WriteTransaction};
use super::fault::PostgresError;
use super::named::named_params;
use super::tasks::number;
use super::{PostgresStore, column};
use crate::entry;
use taskbridge_core::tasks::history::HistoryEntry;
use taskbridge_core::tasks::store::{History, Result};
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl History for PostgresStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        let sql = "SELECT version, at, replica, what FROM entries WHERE task = :id ORDER BY version, n";
        let id = column::encode(id.as_str());
        let rows = self.executor.read(OperationPriority::Request, sql, &[(":id", &id)]).await?;
        let entries: Result<Vec<Option<HistoryEntry>>, PostgresError> = rows.iter().map(entry_of).collect();
        let entries = entries.map_err(|fault| fault.into_store_error(&self.executor.config))?;
        Ok(entries.into_iter().flatten().collect())
    }

    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let before = before.as_millis();
        let sql = "SELECT 1 FROM entries WHERE at < :before LIMIT 1";
        if self.executor.read(OperationPriority::Loops, sql, &[(":before", &before)]).await?.is_empty() {
            return Ok(0);
        }
        self.executor
            .write(OperationPriority::Loops, None, DeleteEntries { before, limit: number(limit) })
            .await
    }
}

fn entry_of(row: &tokio_postgres::Row) -> Result<Option<HistoryEntry>, PostgresError> {
    let (replica, what): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    Ok(entry::parse(row.try_get(0)?, row.try_get(1)?, column::decode(replica), &column::decode(what)))
}

struct DeleteEntries {
    before: i64,
    limit: i64,
}

/// Entries that another process is deleting are skipped.
#[async_trait]
impl WriteTransaction for DeleteEntries {
    type Output = usize;

    async fn write(&self, db: &Db, _again: bool) -> Result<usize, PostgresError> {
        let sql = "WITH old AS (SELECT n FROM entries WHERE at < :before
                                ORDER BY at, n LIMIT :limit FOR UPDATE SKIP LOCKED)
                   DELETE FROM entries USING old WHERE entries.n = old.n";
        let deleted = db.execute(sql, named_params! { ":before": self.before, ":limit": self.limit }).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}
