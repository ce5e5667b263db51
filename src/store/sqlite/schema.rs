//! The schema and its versions. A file is brought up to date in one transaction, so that two processes that start at
//! once do it once, and a crash leaves it as it was.

use rusqlite::Connection;

use super::fault::Fault;

/// All migrations in order. A migration that was released never changes; a new one is added at the end.
const MIGRATIONS: [&str; 8] = [
    include_str!("../migrations/sqlite/0001_tasks.sql"),
    include_str!("../migrations/sqlite/0002_sessions.sql"),
    include_str!("../migrations/sqlite/0003_history.sql"),
    include_str!("../migrations/sqlite/0004_notices.sql"),
    include_str!("../migrations/sqlite/0005_followed_logs.sql"),
    include_str!("../migrations/sqlite/0006_audit.sql"),
    include_str!("../migrations/sqlite/0007_backends.sql"),
    include_str!("../migrations/sqlite/0008_bytes.sql"),
];

/// The schema version that this program writes: the number of migrations.
const KNOWN: usize = MIGRATIONS.len();

/// Marks the file as ours (`PRAGMA application_id`): "task" in ASCII.
const APPLICATION: i32 = 0x7461_736b;

/// The file's schema version; 0 for an empty file.
///
/// # Errors
/// If the file is another program's, or only newer versions of this one work on it.
pub(super) fn version(db: &Connection) -> Result<usize, Fault> {
    // One look: another process may be making the file between two reads.
    let _look = db.is_autocommit().then(|| db.unchecked_transaction()).transpose()?;
    let application: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: usize = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let empty = application == 0 && version == 0 && tables == 0;
    if !empty && application != APPLICATION {
        return Err(Fault::Row(
            "this is the SQLite database of another program; name another file".to_owned(),
        ));
    }
    if version > KNOWN {
        // What is newer than this table has it.
        let oldest: usize = db.query_row("SELECT oldest FROM taskbridge_schema", [], |row| row.get(0))?;
        if oldest > KNOWN {
            return Err(Fault::Row(format!(
                "its schema has version {version}, which programs that know version {oldest} can use, and this one \
                 knows versions up to {KNOWN}: a newer taskbridge has used it. Run that one, or a newer one, or name \
                 another file (a copy from before the upgrade, if tasks since then need not be kept)"
            )));
        }
    }
    Ok(version)
}

/// Makes sure that the file has the schema of this program, or one that it can work on.
///
/// # Errors
/// As [`version`], or if its schema is older.
pub(super) fn is_current(db: &Connection) -> Result<(), Fault> {
    let version = version(db)?;
    if version >= KNOWN {
        return Ok(());
    }
    Err(Fault::Row(format!(
        "its schema has version {version}, and this program needs {KNOWN}: start a server of this version on it first, \
         which brings it up to date"
    )))
}

/// Brings the file to the newest schema.
///
/// # Errors
/// As [`version`], or if it cannot be written; it is as it was then.
pub(super) fn migrate(db: &mut Connection) -> Result<(), Fault> {
    if version(db)? >= KNOWN {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have done it meanwhile.
    let before = version(&tx)?;
    if before >= KNOWN {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(before) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", KNOWN)?;
    tx.commit()?;
    Ok(())
}
