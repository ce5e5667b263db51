//! [`RowCounts`] over PostgreSQL. Rows with pending work are those with a due time; the others are only
//! counted.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::connection::column;
use crate::postgres::connection::executor::OperationPriority;
use crate::postgres::connection::fault::PostgresError;
use taskbridge_core::tasks::meter::Phase;
use taskbridge_core::tasks::store::{Counts, Result, RowCounts};

/// [`Phase::of`] as an expression over a row. The last two lines, under names that no phase has, count the
/// finished rows and the pending notices. It is one statement, so that all counts are of one moment.
const COUNT_ROWS: &str = "
    SELECT tool, phase, count(*), NULL::bigint FROM (
        SELECT tool, CASE
            WHEN json_typeof(body::json -> 'state') = 'object' THEN 'ending'
            WHEN body::json ->> 'state' = 'input_required' THEN 'input_required'
            WHEN line IS NOT NULL THEN 'queued'
            WHEN backend IS NOT NULL THEN 'running'
            WHEN body::json -> 'job' -> 'starting' IS NOT NULL THEN 'starting'
            ELSE 'pending' END AS phase
        FROM tasks WHERE due_at IS NOT NULL) AS live
    GROUP BY tool, phase
    UNION ALL SELECT '', '#kept', count(*), NULL FROM tasks WHERE closed
    UNION ALL SELECT '', '#owed', count(*), min(since) FROM notices";

#[async_trait]
impl RowCounts for PostgresStore {
    async fn row_counts(&self) -> Result<Counts> {
        self.executor.query(OperationPriority::Loops, COUNT_ROWS, &[], parse_counts).await
    }
}

fn parse_counts(rows: &[Row]) -> Result<Counts, PostgresError> {
    let mut counts = Counts::default();
    for row in rows {
        let (tool, phase): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let count = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or(0);
        match phase {
            "#kept" => counts.retained = count,
            "#owed" => {
                let since: Option<i64> = row.try_get(3)?;
                (counts.pending_notices, counts.notices_pending_since) =
                    (count, since.map(Timestamp::from_millis));
            }
            phase => {
                counts.active.extend(Phase::named(phase).map(|phase| (column::decode(tool), phase, count)));
            }
        }
    }
    Ok(counts)
}
