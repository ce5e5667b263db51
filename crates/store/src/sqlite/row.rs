//! Converts a row into a task, and binds the columns of a row.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Error};

use super::fault::SqliteError;
use crate::row::{NamedValue, RowValue};
use taskbridge_core::tasks::task::Task;

/// Parses the task of a row whose first columns are `version`, `body` and `n`.
pub(super) fn task(row: &rusqlite::Row<'_>) -> Result<Task, SqliteError> {
    let body = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
    match taskbridge_sdk::from_json::<Task>(body) {
        Ok(task) => Ok(Task { version: row.get(0)?, ..task }),
        Err(error) => {
            let n: i64 = row.get(2)?;
            Err(SqliteError::Unreadable(format!(
                "the task in row {n} cannot be understood ({error}); was it changed by hand?"
            )))
        }
    }
}

/// Parses the task of such a row, or skips it if it is unreadable, so that it does not hide the other rows.
/// Clients list often, so only a claim logs it as an error.
pub(super) fn readable(row: &rusqlite::Row<'_>) -> Result<Option<Task>, SqliteError> {
    match task(row) {
        Ok(task) => Ok(Some(task)),
        Err(SqliteError::Unreadable(why)) => {
            tracing::debug!(%why, "a row is left out");
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Parses the tasks of such rows.
pub(super) fn tasks(mut rows: rusqlite::Rows<'_>) -> Result<Vec<Task>, SqliteError> {
    let mut tasks = Vec::new();
    while let Some(next) = rows.next()? {
        tasks.extend(readable(next)?);
    }
    Ok(tasks)
}

impl RowValue<'_> {
    /// Returns the value as it is stored.
    pub(super) fn stored(&self) -> ValueRef<'_> {
        match *self {
            RowValue::Number(number) => number.map_or(ValueRef::Null, ValueRef::Integer),
            RowValue::Flag(flag) => ValueRef::Integer(flag.into()),
            RowValue::Text(text) | RowValue::Key(text) | RowValue::Plain(text) => text.into(),
        }
    }
}

impl ToSql for RowValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.stored()))
    }
}

/// Executes a statement that writes these columns of a row, with more parameters. Returns the number of
/// written rows.
pub(super) fn write(
    mut statement: CachedStatement<'_>,
    columns: &[NamedValue<'_>],
    more: &[(&str, &dyn ToSql)],
) -> Result<usize, SqliteError> {
    let bound = columns.len() + more.len();
    let columns = columns.iter().map(|(name, value)| (*name, value as &dyn ToSql));
    for (name, value) in columns.chain(more.iter().copied()) {
        let index = statement.parameter_index(name)?;
        let index = index.ok_or_else(|| Error::InvalidParameterName(name.to_owned()))?;
        statement.raw_bind_parameter(index, value)?;
    }
    // SQLite would write null for a parameter that is not bound.
    if bound != statement.parameter_count() {
        return Err(Error::InvalidParameterCount(bound, statement.parameter_count()).into());
    }
    Ok(statement.raw_execute()?)
}
