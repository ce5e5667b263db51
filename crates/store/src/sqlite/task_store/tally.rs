//! [`RowCounts`] over SQLite. Rows with pending work are those with a due time; the others are only counted.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use crate::sqlite::SqliteStore;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::meter::Phase;
use taskbridge_core::tasks::store::{Counts, Result, RowCounts};

/// [`Phase::of`] as an expression over a row.
const COUNT_BY_PHASE: &str = "
    SELECT tool, phase, count(*) FROM (
        SELECT tool, CASE
            WHEN json_type(body, '$.state') = 'object' THEN 'ending'
            WHEN body ->> '$.state' = 'input_required' THEN 'input_required'
            WHEN line IS NOT NULL THEN 'queued'
            WHEN backend IS NOT NULL THEN 'running'
            WHEN json_type(body, '$.job.starting') IS NOT NULL THEN 'starting'
            ELSE 'pending' END AS phase
        FROM tasks WHERE due_at IS NOT NULL AND json_valid(body))
    GROUP BY tool, phase";

#[async_trait]
impl RowCounts for SqliteStore {
    async fn row_counts(&self) -> Result<Counts> {
        self.read_long(row_counts).await
    }
}

fn row_counts(db: &Db<'_>) -> Result<Counts, SqliteError> {
    let mut counts = Counts::default();
    let mut statement = db.sql(COUNT_BY_PHASE)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (tool, phase, count): (String, String, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        counts.active.extend(Phase::named(&phase).map(|phase| (tool, phase, count)));
    }
    counts.retained =
        db.sql("SELECT count(*) FROM tasks WHERE closed = 1")?.query_row([], |row| row.get(0))?;
    let parse = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
    let (pending, since) = db.sql("SELECT count(*), min(since) FROM notices")?.query_row([], parse)?;
    (counts.pending_notices, counts.notices_pending_since) = (pending, since.map(Timestamp::from_millis));
    Ok(counts)
}
