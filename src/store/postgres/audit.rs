//! [`AuditLineStore`] over PostgreSQL: the audit log as a table. The number of a line is its key. So if two
//! replicas add lines at the same time, one of them detects the conflict.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::PostgresStore;
use super::executor::{Db, OperationPriority, WriteTransaction};
use super::fault::PostgresError;
use super::tasks::number;
use crate::tasks::audit::AuditLineStore;
use crate::tasks::store::Result;

/// The name of the table's key constraint.
const KEY: &str = "audit_n";

#[async_trait]
impl AuditLineStore for PostgresStore {
    async fn last_line(&self) -> Result<Option<(u64, String)>> {
        let sql = "SELECT n, line FROM audit ORDER BY n DESC LIMIT 1";
        Ok(self.lines(sql, &[]).await?.pop())
    }

    async fn add_lines(&self, first: u64, lines: Vec<String>) -> Result<bool> {
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        self.executor.write(OperationPriority::Loops, None, AddLines { first, lines }).await
    }

    async fn lines_after(&self, n: u64, limit: usize) -> Result<Vec<(u64, String)>> {
        let (n, limit) = (i64::try_from(n).unwrap_or(i64::MAX), number(limit));
        self.lines("SELECT n, line FROM audit WHERE n > $1 ORDER BY n LIMIT $2", &[&n, &limit]).await
    }

    async fn delete_lines(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let forget = DeleteLines { before: before.as_millis(), limit: number(limit) };
        self.executor.write(OperationPriority::Loops, None, forget).await
    }
}

impl PostgresStore {
    async fn lines(&self, sql: &str, params: &[super::executor::Param<'_>]) -> Result<Vec<(u64, String)>> {
        let rows = self.executor.read(OperationPriority::Loops, sql, params).await?;
        let line = |row: &tokio_postgres::Row| -> Result<(u64, String), PostgresError> {
            let n: i64 = row.try_get(0)?;
            Ok((u64::try_from(n).unwrap_or(0), row.try_get(1)?))
        };
        rows.iter()
            .map(line)
            .collect::<Result<_, PostgresError>>()
            .map_err(|fault| fault.into_store_error(&self.executor.config))
    }
}

struct AddLines {
    first: i64,
    lines: Vec<String>,
}

#[async_trait]
impl WriteTransaction for AddLines {
    type Output = bool;

    async fn write(&self, db: &Db, _again: bool) -> Result<bool, PostgresError> {
        let sql = "INSERT INTO audit (n, at, line)
                   SELECT $2::bigint + i - 1, moment($1), line FROM unnest($3::text[]) WITH ORDINALITY AS added (line, i)";
        match db.execute(sql, &[&db.now, &self.first, &self.lines]).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_duplicate(KEY) => Ok(false),
            Err(fault) => Err(fault),
        }
    }
}

struct DeleteLines {
    before: i64,
    limit: i64,
}

#[async_trait]
impl WriteTransaction for DeleteLines {
    type Output = usize;

    async fn write(&self, db: &Db, _again: bool) -> Result<usize, PostgresError> {
        // Without a gap, regardless of the clock: the remaining chain begins with the first line that is
        // kept. The last line always is, because the chain continues from it.
        let sql = "WITH first AS (SELECT n, at FROM audit ORDER BY n LIMIT $2)
                   DELETE FROM audit WHERE n IN (SELECT n FROM first) AND n < (SELECT max(n) FROM audit)
                   AND n < COALESCE((SELECT min(n) FROM first WHERE at >= $1), 9223372036854775807)";
        Ok(usize::try_from(db.execute(sql, &[&self.before, &self.limit]).await?).unwrap_or(usize::MAX))
    }
}
