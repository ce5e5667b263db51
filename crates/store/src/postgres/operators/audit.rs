//! [`AuditLineStore`] over PostgreSQL: the audit log as a table. The number of a line is its key. So if two
//! replicas add lines at the same time, one of them detects the conflict.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use crate::postgres::PostgresStore;
use crate::postgres::connection::db::Db;
use crate::postgres::connection::executor::{OperationPriority, WriteTransaction};
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::{Params, named_params, owned_params};
use crate::postgres::task_store::tasks::number;
use taskbridge_core::tasks::audit::AuditLineStore;
use taskbridge_core::tasks::store::Result;

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
        let params = named_params! { ":n": n, ":limit": limit };
        self.lines("SELECT n, line FROM audit WHERE n > :n ORDER BY n LIMIT :limit", params).await
    }

    async fn delete_lines(&self, before: Timestamp, limit: usize) -> Result<usize> {
        // Without a gap, regardless of the clock: the remaining chain begins with the first line that is
        // kept. The last line always is, because the chain continues from it.
        let sql = "WITH first AS (SELECT n, at FROM audit ORDER BY n LIMIT :limit)
                   DELETE FROM audit WHERE n IN (SELECT n FROM first) AND n < (SELECT max(n) FROM audit)
                   AND n < COALESCE((SELECT min(n) FROM first WHERE at >= :before), 9223372036854775807)";
        let params = owned_params! { ":before": before.as_millis(), ":limit": number(limit) };
        self.executor.execute(sql, params).await
    }
}

impl PostgresStore {
    async fn lines(&self, sql: &str, params: Params<'_>) -> Result<Vec<(u64, String)>> {
        let line = |row: &tokio_postgres::Row| {
            let n: i64 = row.try_get(0)?;
            Ok((u64::try_from(n).unwrap_or(0), row.try_get(1)?))
        };
        let lines = |rows: &[tokio_postgres::Row]| rows.iter().map(line).collect();
        self.executor.query(OperationPriority::Loops, sql, params, lines).await
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
                   SELECT :first::bigint + i - 1, moment(:now), line
                   FROM unnest(:lines::text[]) WITH ORDINALITY AS added (line, i)";
        let params = named_params! { ":now": db.now, ":first": self.first, ":lines": self.lines };
        match db.execute(sql, params).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_duplicate(KEY) => Ok(false),
            Err(fault) => Err(fault),
        }
    }
}
