//! Converts a row into a task.

use tokio_postgres::Row;

use super::fault::PostgresError;
use crate::tasks::task::Task;

/// Parses the task of a row whose first columns are `version`, `body` and `n`.
pub(super) fn task(row: &Row) -> Result<Task, PostgresError> {
    task_at(row, 0)
}

/// Parses the task of a row with those columns at this index.
pub(super) fn task_at(row: &Row, first: usize) -> Result<Task, PostgresError> {
    let body: &str = row.try_get(first + 1)?;
    match taskbridge_sdk::from_json::<Task>(body.as_bytes()) {
        Ok(task) => Ok(Task { version: version(row.try_get(first)?)?, ..task }),
        Err(error) => {
            let n: i64 = row.try_get(first + 2)?;
            Err(PostgresError::Unreadable(format!(
                "the task in row {n} cannot be understood ({error}); was it changed by hand?"
            )))
        }
    }
}

fn version(version: i64) -> Result<u64, PostgresError> {
    u64::try_from(version).map_err(|_| PostgresError::Unreadable(format!("a row's version is {version}")))
}

/// Parses the task of such a row, or skips it if it is unreadable, so that it does not hide the other rows.
/// Clients list often, so only a claim logs it as an error.
pub(super) fn readable(row: &Row) -> Result<Option<Task>, PostgresError> {
    match task(row) {
        Ok(task) => Ok(Some(task)),
        Err(PostgresError::Unreadable(why)) => {
            tracing::debug!(%why, "a row is left out");
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Parses the tasks of such rows.
pub(super) fn tasks(rows: &[Row]) -> Result<Vec<Task>, PostgresError> {
    let mut tasks = Vec::with_capacity(rows.len());
    for row in rows {
        tasks.extend(readable(row)?);
    }
    Ok(tasks)
}
