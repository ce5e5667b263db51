//! Tests of unusable files and their error messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Duration;

use rusqlite::Connection;
use taskbridge_sdk::{Level, Timestamp};

use super::{open, opened};
use taskbridge_core::clock::Clock as _;
use taskbridge_core::sessions::{SessionChange, Sessions};
use taskbridge_core::tasks::audit::AuditLineStore as _;
use taskbridge_core::tasks::store::{Keys, StoreError, TaskStore};

struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("tasks.db")
    }
}

/// Returns the error of opening this file.
fn open_error(path: &Path) -> StoreError {
    match open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[track_caller]
fn assert_mentions(error: &StoreError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

#[tokio::test]
async fn database_file_is_private() {
    let directory = TestDirectory::new();
    let (_, bench) = opened(&directory.file());
    bench.add(bench.task()).await;
    let files: Vec<_> = fs::read_dir(directory.0.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(files.len(), 3, "the database, its log and the index of that: {files:?}");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

/// A line that was written while the clock was ahead ends the deletion: the remaining chain has no gap.
#[tokio::test]
async fn audit_lines_are_deleted_without_gap() {
    let directory = TestDirectory::new();
    let (store, bench) = opened(&directory.file());
    let line = async |n: u64| assert!(store.add_lines(n, vec![format!("line {n}")]).await.unwrap());
    let day = Duration::from_hours(24);
    line(1).await;
    bench.clock.advance(3 * day);
    line(2).await;
    bench.clock.set_back(3 * day);
    for n in 3..=5 {
        line(n).await;
    }
    bench.clock.advance(day);
    assert_eq!(store.delete_lines(bench.clock.now(), 100).await.unwrap(), 1);
    let left = store.lines_after(0, 100).await.unwrap();
    assert_eq!(left.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 3, 4, 5]);
    bench.clock.advance(3 * day);
    assert_eq!(store.delete_lines(bench.clock.now(), 2).await.unwrap(), 2);
    assert_eq!(store.delete_lines(bench.clock.now(), 100).await.unwrap(), 1, "never the last");
}

#[tokio::test]
async fn rows_outlive_the_store() {
    let directory = TestDirectory::new();
    let (store, bench) = opened(&directory.file());
    let task = bench.add(bench.task()).await;
    drop((store, bench));
    assert!(!directory.file().with_file_name("tasks.db-wal").exists(), "the log was put into the database");
    let (_, bench) = opened(&directory.file());
    assert_eq!(bench.read(&task.id).await, Some(task));
}

/// Eight processes that create the file at once share one seal key.
#[tokio::test]
async fn concurrent_creation_makes_one_database() {
    let directory = TestDirectory::new();
    let path = &directory.file();
    let start = &Barrier::new(8);
    let stores: Vec<_> = std::thread::scope(|scope| {
        let open = |_| {
            scope.spawn(move || {
                start.wait();
                open(path).unwrap()
            })
        };
        let threads: Vec<_> = (0..8).map(open).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut keys = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        keys.push(store.seal_key([n as u8; 32]).await.unwrap());
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
}

/// A database of the first schema version keeps its rows.
#[tokio::test]
async fn older_schema_is_migrated() {
    let directory = TestDirectory::new();
    let db = Connection::open(directory.file()).unwrap();
    db.execute_batch(include_str!("../../migrations/sqlite/0001_tasks.sql")).unwrap();
    db.pragma_update(None, "application_id", 0x7461_736b).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    db.execute("INSERT INTO sessions (nonce, forget_after) VALUES ('gone', 9000000000000000)", []).unwrap();
    drop(db);
    let (store, _bench) = opened(&directory.file());
    assert!(store.has_ended("gone").await.unwrap());
    assert!(
        store
            .set("new", SessionChange::Level(Level::Error), Timestamp::from_millis(i64::MAX))
            .await
            .unwrap()
            .is_some()
    );
    assert!(!store.has_ended("new").await.unwrap());
}

#[test]
fn newer_schema_is_left_alone() {
    let directory = TestDirectory::new();
    drop(open(&directory.file()).unwrap());
    let db = Connection::open(directory.file()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    // The newer schema only added something, and declares that this program can use it.
    drop(open(&directory.file()).unwrap());
    assert_eq!(db.pragma_query_value(None, "user_version", |row| row.get(0)), Ok(99));
    db.execute("UPDATE taskbridge_schema SET oldest = 98", []).unwrap();
    drop(db);
    let error = open_error(&directory.file());
    assert!(matches!(error, StoreError::Broken(_)));
    assert_mentions(
        &error,
        &["tasks.db", "version 99", "version 98", "up to 9", "newer taskbridge", "name another file"],
    );
}

/// A SQLite database of another program is refused and not changed.
#[test]
fn foreign_database_is_left_alone() {
    let directory = TestDirectory::new();
    let db = Connection::open(directory.file()).unwrap();
    db.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    assert_mentions(&open_error(&directory.file()), &["tasks.db", "another program", "name another file"]);
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    let mode: String = db.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!((tables, mode.as_str()), (1, "delete"));
}

/// A file that is no database is refused and not changed.
#[test]
fn foreign_file_is_left_alone() {
    let directory = TestDirectory::new();
    let text = "to do: buy milk\n".repeat(500);
    fs::write(directory.file(), &text).unwrap();
    let error = open_error(&directory.file());
    assert!(matches!(error, StoreError::Broken(_)));
    assert_mentions(&error, &["tasks.db", "damaged or no SQLite database", "backup"]);
    assert_eq!(fs::read_to_string(directory.file()).unwrap(), text);
}

/// The error names the file and mentions a backup.
#[tokio::test]
async fn corrupt_database_is_reported() {
    let directory = TestDirectory::new();
    let (store, bench) = opened(&directory.file());
    let task = bench.add(bench.task()).await;
    drop((store, bench));
    let mut bytes = fs::read(directory.file()).unwrap();
    let id = task.id.as_str().as_bytes();
    for page in bytes.chunks_mut(4096).filter(|page| page.windows(id.len()).any(|bytes| bytes == id)) {
        page.fill(0xff);
    }
    fs::write(directory.file(), bytes).unwrap();
    let error = open(&directory.file()).unwrap().get(&task.id, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Broken(_)), "{error:?}");
    assert_mentions(&error, &["tasks.db", "damaged", "backup"]);
}

#[test]
fn a_missing_directory_is_named() {
    let directory = TestDirectory::new();
    let error = open_error(&directory.0.path().join("none/tasks.db"));
    assert!(matches!(error, StoreError::Unavailable(_)));
    assert_mentions(&error, &["none/tasks.db", "the directory", "does not exist", "create it"]);
}

/// The error names the path and the permission that is missing.
#[test]
fn unwritable_path_is_named() {
    // No user can create files here.
    let error = open_error(Path::new("/sys/tasks.db"));
    assert!(matches!(error, StoreError::Unavailable(_)));
    assert_mentions(&error, &["/sys/tasks.db", "cannot be opened for writing", "this user needs to write"]);
    let directory = TestDirectory::new();
    assert_mentions(&open_error(directory.0.path()), &["cannot be opened for writing"]);
}
