//! Converts a row into a task, binds the columns of a row, and checks named parameters.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Error, Rows, Statement};

use crate::row::{NamedValue, RowValue};
use crate::sqlite::connection::fault::SqliteError;
use taskbridge_core::tasks::task::Task;

/// Parses the task of a row whose first columns are `version`, `body` and `n`.
pub(in crate::sqlite) fn task(row: &rusqlite::Row<'_>) -> Result<Task, SqliteError> {
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
    pub(in crate::sqlite) fn stored(&self) -> ValueRef<'_> {
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
    check_count(&statement, bound)?;
    Ok(statement.raw_execute()?)
}

/// Executes a statement with named parameters, and checks that none is missing.
pub(super) fn execute(
    statement: &mut Statement<'_>,
    params: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<usize> {
    check_count(statement, params.len())?;
    statement.execute(params)
}

/// Queries with named parameters, and checks that none is missing.
pub(in crate::sqlite) fn query<'s>(
    statement: &'s mut Statement<'_>,
    params: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<Rows<'s>> {
    check_count(statement, params.len())?;
    statement.query(params)
}

/// Checks that as many parameters are bound as the statement has: SQLite takes one that is not bound as
/// null, without an error.
fn check_count(statement: &Statement<'_>, bound: usize) -> rusqlite::Result<()> {
    let count = statement.parameter_count();
    if bound == count { Ok(()) } else { Err(Error::InvalidParameterCount(bound, count)) }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, named_params};

    use super::*;

    #[test]
    fn missing_parameter_is_an_error() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE pairs (a, b)").unwrap();
        let mut insert = db.prepare("INSERT INTO pairs (a, b) VALUES (:a, :b)").unwrap();
        let missing = execute(&mut insert, named_params! { ":a": 1 });
        assert_eq!(missing, Err(Error::InvalidParameterCount(1, 2)));
        assert_eq!(execute(&mut insert, named_params! { ":a": 1, ":b": 2 }), Ok(1));
        let mut select = db.prepare("SELECT b FROM pairs WHERE a = :a AND b = :b").unwrap();
        assert!(query(&mut select, named_params! { ":b": 2 }).is_err());
        let mut rows = query(&mut select, named_params! { ":a": 1, ":b": 2 }).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), Ok(2));
    }
}
