//! [`History`] over PostgreSQL.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use super::tasks::number;
use crate::entry;
use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::executor::OperationPriority;
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::owned_params;
use taskbridge_core::tasks::history::HistoryEntry;
use taskbridge_core::tasks::store::{History, Result};
use taskbridge_core::tasks::task::TaskId;

#[async_trait]
impl History for PostgresStore {
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>> {
        let sql = "SELECT version, at, replica, what FROM entries WHERE task = :id ORDER BY version, n";
        let id = column::encode(id.as_str());
        let entries = |rows: &[Row]| rows.iter().filter_map(|row| entry_of(row).transpose()).collect();
        self.executor.query(OperationPriority::Request, sql, &[(":id", &id)], entries).await
    }

    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let before = before.as_millis();
        let sql = "SELECT 1 FROM entries WHERE at < :before LIMIT 1";
        if self.executor.read(OperationPriority::Loops, sql, &[(":before", &before)]).await?.is_empty() {
            return Ok(0);
        }
        // Entries that another process is deleting are skipped.
        let sql = "WITH old AS (SELECT n FROM entries WHERE at < :before
                                ORDER BY at, n LIMIT :limit FOR UPDATE SKIP LOCKED)
                   DELETE FROM entries USING old WHERE entries.n = old.n";
        self.executor.execute(sql, owned_params! { ":before": before, ":limit": number(limit) }).await
    }
}

fn entry_of(row: &Row) -> Result<Option<HistoryEntry>, PostgresError> {
    let (replica, what): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    Ok(entry::parse(row.try_get(0)?, row.try_get(1)?, column::decode(replica), &column::decode(what)))
}
