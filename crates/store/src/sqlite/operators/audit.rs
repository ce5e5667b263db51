//! [`AuditLineStore`] over SQLite: the audit log as a table.

use async_trait::async_trait;
use rusqlite::{Row, params};
use taskbridge_sdk::Timestamp;

use crate::sqlite::SqliteStore;
use taskbridge_core::tasks::audit::AuditLineStore;
use taskbridge_core::tasks::store::Result;

#[async_trait]
impl AuditLineStore for SqliteStore {
    async fn last_line(&self) -> Result<Option<(u64, String)>> {
        self.read(|db| db.first("SELECT n, line FROM audit ORDER BY n DESC LIMIT 1", [], line))
    }

    async fn add_lines(&self, first: u64, lines: Vec<String>) -> Result<bool> {
        self.write(move |db| {
            if db.exists("SELECT 1 FROM audit WHERE n >= ?1", [first])? {
                return Ok(false);
            }
            for (n, line) in (first..).zip(&lines) {
                let sql = "INSERT INTO audit (n, at, line) VALUES (?1, ?2, ?3)";
                db.execute(sql, params![n, db.now_ms(), line])?;
            }
            Ok(true)
        })
        .await
    }

    async fn lines_after(&self, n: u64, limit: usize) -> Result<Vec<(u64, String)>> {
        let sql = "SELECT n, line FROM audit WHERE n > ?1 ORDER BY n LIMIT ?2";
        self.read_long(move |db| db.all(sql, params![n, limit], line)).await
    }

    async fn delete_lines(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let before = before.as_millis();
        self.write(move |db| {
            db.execute(
                // Without a gap, regardless of the clock: the remaining chain begins with the first line that
                // is kept. The last line always is, because the chain continues from it.
                "WITH first AS (SELECT n, at FROM audit ORDER BY n LIMIT ?2)
                 DELETE FROM audit WHERE n IN (SELECT n FROM first) AND n < (SELECT max(n) FROM audit)
                 AND n < COALESCE((SELECT min(n) FROM first WHERE at >= ?1), 9223372036854775807)",
                params![before, limit],
            )
        })
        .await
    }
}

fn line(row: &Row<'_>) -> rusqlite::Result<(u64, String)> {
    Ok((row.get(0)?, row.get(1)?))
}
