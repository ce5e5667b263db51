//! Database errors: their classification for retries, and messages with a fix for the operator. A message
//! of the database is passed on, but never its detail: that may repeat the content of a row.

use std::error::Error as _;
use std::fmt::Display;

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::connection_config::STATEMENT_TIMEOUT;
use taskbridge_core::tasks::store::StoreError;

/// A failure of one operation, without the name of the database.
#[derive(Debug)]
pub(in crate::postgres) enum PostgresError {
    /// The database or the connection to it failed.
    Sql(Error),
    /// No connection could be opened, so that nothing was sent.
    Connect(Error),
    /// All connections were in use until the timeout.
    Busy,
    /// No response arrived before the timeout.
    ResponseTimeout,
    /// No connection was opened before the timeout, so that nothing was sent.
    ConnectTimeout,
    /// A failure that a retry does not fix.
    Broken(String),
    /// One row exists but is unreadable; other rows are not affected.
    Unreadable(String),
}

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        PostgresError::Sql(error)
    }
}

impl From<PoolError> for PostgresError {
    fn from(error: PoolError) -> Self {
        use deadpool_postgres::TimeoutType;
        match error {
            PoolError::Backend(error) => PostgresError::Connect(error),
            PoolError::Timeout(TimeoutType::Wait) => PostgresError::Busy,
            PoolError::Timeout(_) => PostgresError::ConnectTimeout,
            other => PostgresError::Broken(other.to_string()),
        }
    }
}

impl PostgresError {
    /// Returns true if the database rolled back the transaction because of others: it can be retried
    /// immediately.
    pub(super) fn is_conflict(&self) -> bool {
        let conflict_codes = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, PostgresError::Sql(error) if error.code().is_some_and(|code| conflict_codes.contains(code)))
    }

    /// Returns true if the connection is unusable, so that the progress of its work counts as unknown.
    pub(super) fn is_connection_lost(&self) -> bool {
        match self {
            PostgresError::ResponseTimeout => true,
            PostgresError::ConnectTimeout
            | PostgresError::Busy
            | PostgresError::Broken(_)
            | PostgresError::Unreadable(_) => false,
            // Closed before use: an administrator terminates connections one by one.
            PostgresError::Connect(error) => {
                error.code() == Some(&SqlState::ADMIN_SHUTDOWN) || error.is_closed()
            }
            PostgresError::Sql(error) => match error.code() {
                Some(code) => closes_connection(code),
                None => error.is_closed() || is_io(error),
            },
        }
    }

    /// Returns the reason, as fixed text, if other writes fail as well; `None` if the failure is specific
    /// to this operation.
    pub(super) fn outage_reason(&self) -> Option<&'static str> {
        match self {
            PostgresError::ResponseTimeout | PostgresError::ConnectTimeout | PostgresError::Connect(_) => {
                Some("the database cannot be reached")
            }
            PostgresError::Busy | PostgresError::Broken(_) | PostgresError::Unreadable(_) => None,
            PostgresError::Sql(error) => match error.code() {
                Some(code) if *code == SqlState::DISK_FULL => Some("the disk is full"),
                Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                    Some("the database only takes reads")
                }
                Some(code) if *code == SqlState::IO_ERROR => Some("the database cannot write"),
                _ => self.is_connection_lost().then_some("the database cannot be reached"),
            },
        }
    }

    /// Returns true if the row to be added already exists.
    pub(in crate::postgres) fn is_duplicate(&self, constraint: &str) -> bool {
        let PostgresError::Sql(error) = self else { return false };
        error.as_db_error().is_some_and(|error| {
            *error.code() == SqlState::UNIQUE_VIOLATION && error.constraint() == Some(constraint)
        })
    }

    /// Converts the failure into an error with the database's name and the fix.
    pub(in crate::postgres) fn into_store_error(self, database: &impl Display) -> StoreError {
        let error = match self {
            PostgresError::Broken(what) => return StoreError::Broken(format!("{database}: {what}")),
            PostgresError::Unreadable(what) => return StoreError::Unreadable(format!("{database}: {what}")),
            PostgresError::Busy => {
                return StoreError::Unavailable(format!(
                    "all connections to {database} are in use: raise `max_connections` in [store], or see what keeps the \
                     database busy"
                ));
            }
            PostgresError::ResponseTimeout => {
                return StoreError::Unavailable(format!(
                    "{database} did not answer in time; it is tried again"
                ));
            }
            PostgresError::ConnectTimeout => {
                return StoreError::Unavailable(format!(
                    "{database} cannot be reached: no connection was made in time"
                ));
            }
            PostgresError::Connect(error) | PostgresError::Sql(error) => error,
        };
        let Some(db_error) = error.as_db_error() else {
            let message = error_chain(&error);
            return match error.is_closed() || is_io(&error) {
                true => StoreError::Unavailable(format!("{database} cannot be reached: {message}")),
                false => StoreError::Broken(format!("{database}: {message}")),
            };
        };
        let message = db_error.message();
        let unavailable = |what: String| StoreError::Unavailable(format!("{database}: {what}"));
        let code = db_error.code();
        match code {
            _ if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                unavailable(format!(
                    "the database lets us not in ({message}): mend the user or the password in [store], or the database's \
                     pg_hba.conf"
                ))
            }
            _ if *code == SqlState::INVALID_CATALOG_NAME => unavailable(format!(
                "{message}: create it (CREATE DATABASE), or name another one in `url` in [store]"
            )),
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                unavailable(format!("{message}: grant the user of [store] that right, or name another user"))
            }
            _ if *code == SqlState::TOO_MANY_CONNECTIONS => unavailable(format!(
                "{message}: lower `max_connections` in [store], or raise the database's own"
            )),
            _ if *code == SqlState::DISK_FULL => {
                unavailable(format!("its disk is full ({message}): free some space; nothing was written"))
            }
            _ if *code == SqlState::QUERY_CANCELED => unavailable(format!(
                "a statement took longer than {} s and was undone ({message})",
                STATEMENT_TIMEOUT.as_secs()
            )),
            _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_FUNCTION => {
                StoreError::Broken(format!(
                    "{database}: {message}: its schema is not there, or not this version's; run `taskbridge migrate`, and \
                     start the server again"
                ))
            }
            // Transient classes: resources (53), operator intervention (57), system errors (58),
            // unavailable locks (55), connections (08), rollbacks (40), and a read-only server (25006).
            _ if ["53", "57", "58", "55", "08", "40", "25"].contains(&&code.code()[..2]) => {
                unavailable(message.to_owned())
            }
            _ => StoreError::Broken(format!("{database}: {message} ({})", code.code())),
        }
    }
}

/// Returns true if the database closes this connection, or has become read-only.
fn closes_connection(code: &SqlState) -> bool {
    let codes = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    codes.contains(code) || code.code().starts_with("08")
}

fn is_io(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    // The driver's own timeouts have no cause.
    error.to_string().contains("timeout")
}

/// Formats an error with all its causes: none of them repeats another.
fn error_chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
