//! The schema and its migrations. A file is migrated in one transaction, so that two processes that start
//! at once migrate it once, and a crash leaves it unchanged.

use rusqlite::Connection;

use super::fault::SqliteError;

/// All migrations in order. A released migration never changes; a new one is added at the end.
const MIGRATIONS: [&str; 9] = [
    include_str!("../../migrations/sqlite/0001_tasks.sql"),
    include_str!("../../migrations/sqlite/0002_sessions.sql"),
    include_str!("../../migrations/sqlite/0003_history.sql"),
    include_str!("../../migrations/sqlite/0004_notices.sql"),
    include_str!("../../migrations/sqlite/0005_followed_logs.sql"),
    include_str!("../../migrations/sqlite/0006_audit.sql"),
    include_str!("../../migrations/sqlite/0007_backends.sql"),
    include_str!("../../migrations/sqlite/0008_bytes.sql"),
    include_str!("../../migrations/sqlite/0009_deliveries.sql"),
];

/// The schema version that this program writes: the number of migrations.
const CURRENT_VERSION: usize = MIGRATIONS.len();

/// Marks the file as ours (`PRAGMA application_id`): "task" in ASCII.
const APPLICATION_ID: i32 = 0x7461_736b;

/// Returns the file's schema version; 0 for an empty file.
///
/// # Errors
/// If the file belongs to another program, or if only newer versions of this one can use it.
pub(super) fn version(db: &Connection) -> Result<usize, SqliteError> {
    // One transaction: another process may create the file between two reads.
    let _snapshot = db.is_autocommit().then(|| db.unchecked_transaction()).transpose()?;
    let application: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: usize = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let empty = application == 0 && version == 0 && tables == 0;
    if !empty && application != APPLICATION_ID {
        return Err(SqliteError::Broken(
            "this is the SQLite database of another program; name another file".to_owned(),
        ));
    }
    if version > CURRENT_VERSION {
        // Every newer schema has this table.
        let oldest: usize = db.query_row("SELECT oldest FROM taskbridge_schema", [], |row| row.get(0))?;
        if oldest > CURRENT_VERSION {
            return Err(SqliteError::Broken(format!(
                "its schema has version {version}, which programs that know version {oldest} can use, and this one \
                 knows versions up to {CURRENT_VERSION}: a newer taskbridge has used it. Run that one, or a newer one, or name \
                 another file (a copy from before the upgrade, if tasks since then need not be kept)"
            )));
        }
    }
    Ok(version)
}

/// Checks that the file has the schema of this program, or a newer one that it can use.
///
/// # Errors
/// As [`version`], or if its schema is older.
pub(super) fn is_current(db: &Connection) -> Result<(), SqliteError> {
    let version = version(db)?;
    if version >= CURRENT_VERSION {
        return Ok(());
    }
    Err(SqliteError::Broken(format!(
        "its schema has version {version}, and this program needs {CURRENT_VERSION}: start a server of this version on it first, \
         which brings it up to date"
    )))
}

/// Migrates the file to the newest schema that this program knows.
///
/// # Errors
/// As [`version`], or if it cannot be written; it is then unchanged.
pub(in crate::sqlite) fn migrate(db: &mut Connection) -> Result<(), SqliteError> {
    if version(db)? >= CURRENT_VERSION {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have migrated in the meantime.
    let before = version(&tx)?;
    if before >= CURRENT_VERSION {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(before) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", CURRENT_VERSION)?;
    tx.commit()?;
    Ok(())
}
