//! File and database errors, with messages that name the fix for the operator.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use taskbridge_core::tasks::store::StoreError;

/// A failure of one operation, without the name of the file.
#[derive(Debug)]
pub(in crate::sqlite) enum SqliteError {
    /// An error of the database engine.
    Sql(rusqlite::Error),
    /// The content of the file is invalid.
    Broken(String),
    /// The file is marked: its rows were copied into another store, or a copy was begun.
    Moved(String),
    /// One row exists but is unreadable; other rows are not affected.
    Unreadable(String),
    /// A database file is no longer at its path, and what happened to it.
    FileMissing(PathBuf, String),
    /// The operation panicked.
    Panic,
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        SqliteError::Sql(error)
    }
}

impl SqliteError {
    /// Returns true if another connection has the file locked.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, SqliteError::Sql(error) if matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        ))
    }

    /// Returns the reason, as fixed text, if other writes fail as well; `None` if the failure is specific
    /// to this operation.
    pub(super) fn outage_reason(&self) -> Option<&'static str> {
        let SqliteError::Sql(error) = self else {
            return matches!(self, SqliteError::FileMissing(..))
                .then_some("a database file was deleted, moved or replaced");
        };
        match error.sqlite_error_code()? {
            ErrorCode::DiskFull => Some("the disk is full"),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                Some("another process has the database locked")
            }
            ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen
            | ErrorCode::SystemIoFailure
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt => Some("the database file cannot be written"),
            _ => None,
        }
    }

    /// Converts the failure into an error with the file's name and the fix.
    pub(in crate::sqlite) fn into_store_error(self, path: &Path) -> StoreError {
        let path = path.display();
        let error = match self {
            SqliteError::Broken(what) => return StoreError::Broken(format!("{path}: {what}")),
            SqliteError::Moved(what) => return StoreError::Unavailable(format!("{path}: {what}")),
            SqliteError::Unreadable(what) => return StoreError::Unreadable(format!("{path}: {what}")),
            SqliteError::FileMissing(file, how) => {
                return StoreError::Unavailable(format!(
                    "{} {how} while the server runs: put it back, or restart the server to go on with what is there; \
                     nothing was written",
                    file.display()
                ));
            }
            SqliteError::Panic => {
                return StoreError::Broken(format!(
                    "{path}: a write panicked and was rolled back; this is a bug, and the panic is on standard error"
                ));
            }
            SqliteError::Sql(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(format!(
                "another process has kept {path} locked for more than {} s",
                super::BUSY_TIMEOUT.as_secs()
            )),
            Some(ErrorCode::DiskFull) => StoreError::Unavailable(disk_full(&path)),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                StoreError::Unavailable(not_writable(&path, &error))
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => {
                StoreError::Unavailable(format!("reading or writing {path} failed: {error}"))
            }
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(format!(
                "{path} is damaged ({error}): stop its servers, then put a backup in its place, or save what can be read: \
                 `sqlite3 {path} .recover | sqlite3 recovered.db`, and put recovered.db in its place; `taskbridge store check` \
                 says what is missing"
            )),
            Some(ErrorCode::NotADatabase) => StoreError::Broken(format!(
                "{path} is damaged or no SQLite database ({error}): put a backup in its place, or move it and \
                 its -wal file away to begin with an empty one"
            )),
            _ => StoreError::Broken(format!("{path}: {error}")),
        }
    }
}

/// Returns the error for a file that could not be opened or created.
pub(in crate::sqlite) fn cannot_open(path: &Path, error: &io::Error) -> StoreError {
    let file = path.display();
    StoreError::Unavailable(match error.kind() {
        io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path).display();
            format!("{file} cannot be made: the directory {parent} does not exist; create it")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => disk_full(&file),
        _ => not_writable(&file, error),
    })
}

fn disk_full(path: &impl std::fmt::Display) -> String {
    format!("the disk that holds {path} is full: free some space; nothing was written")
}

fn not_writable(path: &impl std::fmt::Display, error: &impl std::fmt::Display) -> String {
    format!(
        "{path} cannot be opened for writing ({error}): this user needs to write the file and its directory, \
         where SQLite keeps two more files beside it"
    )
}
