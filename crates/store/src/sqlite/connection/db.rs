//! One connection during one operation: executes its statements, and has its current time. It must not begin
//! or end a transaction: the writer does.

use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row};
use taskbridge_core::clock::Clock;
use taskbridge_sdk::Timestamp;

use super::fault::SqliteError;

/// One connection during one operation, and the operation's current time.
pub(in crate::sqlite) struct Db<'c> {
    pub(in crate::sqlite) conn: &'c Connection,
    pub(in crate::sqlite) now: Timestamp,
}

impl<'c> Db<'c> {
    pub(super) fn new(conn: &'c Connection, clock: &dyn Clock) -> Self {
        Self { conn, now: clock.now() }
    }

    /// Returns a statement, prepared on its first use.
    pub(in crate::sqlite) fn sql(&self, statement: &str) -> Result<CachedStatement<'c>, SqliteError> {
        Ok(self.conn.prepare_cached(statement)?)
    }

    /// Executes a statement, and returns how many rows it wrote.
    pub(in crate::sqlite) fn execute(
        &self,
        statement: &str,
        params: impl Params,
    ) -> Result<usize, SqliteError> {
        Ok(self.sql(statement)?.execute(params)?)
    }

    /// Returns what `read` makes of the first row of a query, if there is one.
    pub(in crate::sqlite) fn first<T>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, SqliteError> {
        Ok(self.sql(query)?.query_row(params, read).optional()?)
    }

    /// Returns what `read` makes of each row of a query.
    pub(in crate::sqlite) fn all<T, C: FromIterator<T>>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C, SqliteError> {
        Ok(self.sql(query)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns true if a query finds a row.
    pub(in crate::sqlite) fn exists(&self, query: &str, params: impl Params) -> Result<bool, SqliteError> {
        Ok(self.sql(query)?.exists(params)?)
    }

    /// Returns the current time in the unit of the columns.
    pub(in crate::sqlite) fn now_ms(&self) -> i64 {
        self.now.as_millis()
    }

    /// Returns the expiry of a lease that is acquired now.
    pub(in crate::sqlite) fn expiry_ms(&self, lease: Duration) -> i64 {
        (self.now + lease).as_millis()
    }
}
