//! Converts a row into a task, and binds what is written with a row.

use tokio_postgres::Row;

use super::notices::NoticeColumns;
use crate::entry::EntryColumns;
use crate::postgres::connection::column;
use crate::postgres::connection::fault::PostgresError;
use crate::postgres::connection::named::{NamedParam, Param};
use crate::row::{NamedValue, RowValue, Slots};
use taskbridge_core::tasks::task::Task;

/// Parses the task of a row whose first columns are `version`, `body` and `n`.
pub(in crate::postgres) fn task(row: &Row) -> Result<Task, PostgresError> {
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

/// A statement that writes a row, with its parameters.
pub(super) struct RowWrite<'c> {
    pub(super) sql: &'static str,
    /// The columns, and what else is one value.
    pub(super) values: Vec<NamedValue<'c>>,
    /// The slots to take, unless the statement takes none.
    pub(super) slots: Option<Vec<String>>,
    pub(super) notices: Option<NoticeColumns>,
}

impl RowWrite<'_> {
    pub(super) fn params(&self) -> Vec<NamedParam<'_>> {
        let mut params = bind(&self.values, &[]);
        params.extend(self.slots.iter().map(|slots| (":slots", slots as Param<'_>)));
        params.extend(self.notices.iter().flat_map(NoticeColumns::params));
        params
    }
}

/// Returns these values as parameters, with more.
pub(super) fn bind<'p>(values: &'p [NamedValue<'_>], more: &[NamedParam<'p>]) -> Vec<NamedParam<'p>> {
    let values = values.iter().map(|(name, value)| (*name, value as Param<'p>));
    values.chain(more.iter().copied()).collect()
}

/// Returns the values of a history entry; both are null if there is none.
pub(super) fn entry_values(entry: Option<&EntryColumns>) -> [NamedValue<'_>; 2] {
    [
        (":replica", RowValue::Text(entry.map(|entry| entry.replica.as_str()))),
        (":what", RowValue::Text(entry.map(|entry| entry.what.as_str()))),
    ]
}

/// Returns the slots that a row has taken.
pub(super) fn taken_slots(slots: &Slots) -> Vec<String> {
    match slots {
        Slots::Taken(slots) => slots.iter().map(|slot| column::encode_key(slot).into_owned()).collect(),
        Slots::Free | Slots::Never => Vec::new(),
    }
}
