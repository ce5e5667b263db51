//! Tests of the leases of dead and living processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::SqliteStore;
use super::opened;
use crate::suite::Bench;
use taskbridge_core::tasks::store::{Groups as _, Holder, Notices as _, ServedBackend};
use taskbridge_core::tasks::task::TaskId;

fn holder(name: &str) -> Holder {
    Holder(name.to_owned())
}

/// Opens the store as a process with this holder.
async fn process(path: &Path, name: &str) -> (Arc<SqliteStore>, Bench) {
    let (store, bench) = opened(path);
    store.lock_holder(&holder(name)).await;
    (store, bench)
}

/// Returns the number of groups that this holder gets.
async fn acquire_groups(store: &SqliteStore, name: &str) -> usize {
    store
        .acquire_groups(&holder(name), Duration::from_secs(60), &[ServedBackend::named("forge")])
        .await
        .unwrap()
        .len()
}

fn lock_files(path: &Path) -> Vec<PathBuf> {
    let mut folder = path.to_owned().into_os_string();
    folder.push("-holders");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A dropped store has released nothing, like a killed process.
#[tokio::test]
async fn dead_holder_frees_leases_at_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (store, bench) = process(&path, "node-1.a").await;
    let task = bench.add(bench.task()).await;
    bench.add(bench.open_task("runs")).await;
    assert_eq!(bench.claim("node-1.a").await, std::slice::from_ref(&task.id));
    assert_eq!(acquire_groups(&store, "node-1.a").await, 1);
    drop((store, bench));
    let (store, bench) = process(&path, "node-1.b").await;
    assert_eq!(bench.claim("node-1.b").await, [task.id]);
    assert_eq!(acquire_groups(&store, "node-1.b").await, 1);
    let names: Vec<_> = lock_files(&path).iter().map(|file| file.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["node-1.b.lock"], "the lock file of the dead one is deleted");
}

/// A running process detects that another one died.
#[tokio::test]
async fn dead_holder_frees_leases_while_running() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (dies, bench) = process(&path, "a").await;
    let (lives, other) = process(&path, "b").await;
    let task = bench.add(bench.task()).await;
    assert_eq!(bench.claim("a").await, std::slice::from_ref(&task.id));
    assert!(!lives.release_dead_holders().await.unwrap(), "both live");
    assert_eq!(other.claim("b").await, [] as [TaskId; 0]);
    drop((dies, bench));
    assert!(lives.release_dead_holders().await.unwrap());
    assert!(!lives.release_dead_holders().await.unwrap(), "once is enough");
    assert_eq!(other.claim("b").await, [task.id]);
}

/// Older versions create no lock file.
#[tokio::test]
async fn missing_lock_file_proves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (store, bench) = opened(&path);
    bench.add(bench.task()).await;
    assert_eq!(bench.claim("old").await.len(), 1);
    drop((store, bench));
    let (store, bench) = process(&path, "new").await;
    assert!(!store.release_dead_holders().await.unwrap());
    assert_eq!(bench.claim("new").await, [] as [TaskId; 0]);
}

/// Other files in the folder are not touched.
#[tokio::test]
async fn foreign_files_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (store, _bench) = process(&path, "a").await;
    let folder = lock_files(&path)[0].parent().unwrap().to_owned();
    for name in ["notes.txt", ".hidden.lock", "a b.lock", ".lock"] {
        fs::write(folder.join(name), "").unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link.lock")).unwrap();
    fs::create_dir(folder.join("folder.lock")).unwrap();
    assert!(!store.release_dead_holders().await.unwrap());
    assert_eq!(lock_files(&path).len(), 7);
}

/// A process that finds the file before its owner has locked it deletes it. The owner creates another one.
#[tokio::test]
async fn deleted_file_is_locked_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (_first, _bench) = process(&path, "a").await;
    let file = lock_files(&path)[0].with_file_name("b.lock");
    let taken = fs::File::create(&file).unwrap();
    rustix::fs::flock(&taken, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let finder = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(&file).unwrap();
            drop(taken);
        });
        futures_util::FutureExt::now_or_never(async {
            let (store, bench) = opened(&path);
            assert!(store.holders.lock(&holder("b")).unwrap());
            (store, bench)
        })
    });
    assert!(finder.is_some());
    assert_eq!(lock_files(&path).len(), 2);
    assert!(!_first.release_dead_holders().await.unwrap(), "the new file is locked");
}

/// Notices that a dead process had leased are due again.
#[tokio::test]
async fn dead_holder_frees_notices() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (store, _bench) = process(&path, "a").await;
    store
        .write(|db| {
            db.conn.execute(
                "INSERT INTO notices (id, receiver, since, due_at, body) VALUES ('n', 'r', 0, 0, '{}')",
                [],
            )?;
            Ok(())
        })
        .await
        .unwrap();
    let lease = Duration::from_secs(60);
    store.take_notices("r", &holder("a"), lease, 10).await.unwrap();
    drop((store, _bench));
    let (store, _bench) = process(&path, "b").await;
    let due = store
        .write(|db| {
            let sql = "SELECT count(*) FROM notices WHERE due_at <= ?1 AND holder IS NULL";
            Ok(db.conn.query_row(sql, [db.now_ms()], |row| row.get::<_, i64>(0))?)
        })
        .await
        .unwrap();
    assert_eq!(due, 1);
}
