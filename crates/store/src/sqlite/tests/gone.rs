//! Tests of database files that are removed while the store is open.

use std::fs;
use std::path::{Path, PathBuf};

use super::opened;
use taskbridge_core::tasks::store::{Facts as _, StoreError};

const REASON: Option<&str> = Some("a database file was deleted, moved or replaced");

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Asserts that writes are refused, and that the error names the file and the fix.
async fn assert_refused(store: &super::SqliteStore, words: &[&str]) {
    let result = store.set_fact("a", "b").await;
    let Err(StoreError::Unavailable(why)) = result else { panic!("it was written: {result:?}") };
    for word in words.iter().chain(&["put it back", "restart"]) {
        assert!(why.contains(word), "{word:?} is not in {why:?}");
    }
    assert_eq!(store.write_failure(), REASON);
}

/// Writes succeed again once the same file is back.
#[tokio::test]
async fn moved_file_refuses_writes_until_back() {
    for suffix in ["", "-wal", "-shm"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tasks.db");
        let (store, bench) = opened(&path);
        bench.add(bench.task()).await;
        let (file, away) = (with_suffix(&path, suffix), directory.path().join("away"));
        fs::rename(&file, &away).unwrap();
        assert_refused(&store, &[file.to_str().unwrap(), "deleted or moved"]).await;
        fs::rename(&away, &file).unwrap();
        store.set_fact("a", "b").await.unwrap();
        assert_eq!(store.write_failure(), None);
    }
}

/// Anything written into the old file would be lost.
#[tokio::test]
async fn replaced_file_refuses_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (store, bench) = opened(&path);
    bench.add(bench.task()).await;
    let copy = directory.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert_refused(&store, &["tasks.db", "replaced"]).await;
}

/// Its folder can be moved as well.
#[tokio::test]
async fn moved_folder_refuses_writes() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("state");
    fs::create_dir(&folder).unwrap();
    let (store, _bench) = opened(&folder.join("tasks.db"));
    fs::rename(&folder, directory.path().join("elsewhere")).unwrap();
    assert_refused(&store, &["state/tasks.db", "deleted or moved"]).await;
}
