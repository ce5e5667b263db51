//! Tests of group commit and of failed writes.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all, join3};
use rusqlite::Connection;

use super::super::SqliteStore;
use super::super::connection::db::Db;
use super::super::connection::fault::SqliteError;
use super::opened;
use crate::suite::{Bench, forge};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{
    Change, Facts as _, Groups, Holder, InsertResult, Keys, NewTask, Result, SlotLimit, StoreError,
    TaskStore, UpdateResult,
};
use taskbridge_core::tasks::task::{Job, Task};

struct Setup {
    store: Arc<SqliteStore>,
    bench: Bench,
    directory: tempfile::TempDir,
}

fn setup() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let (store, bench) = opened(&directory.path().join("tasks.db"));
    Setup { store, bench, directory }
}

impl Setup {
    async fn insert(&self, task: &Task) -> Result<InsertResult> {
        let new = NewTask {
            task: task.clone(),
            identity: None,
            quota: None,
            limits: Vec::new(),
            queue_behind: Vec::new(),
            idempotency_key: None,
            attach: None,
            lease: None,
            transition: None,
            notices: Vec::new(),
        };
        self.store.insert(new).await
    }

    /// Submits everything while the writer is busy, so that it is written in one batch.
    async fn write_in_one_batch(
        &self,
        tasks: &[Task],
        other: impl FnMut(&Db<'_>) -> Result<(), SqliteError> + Send + 'static,
    ) -> (Vec<Result<InsertResult>>, Result<()>) {
        let (free, until_free) = mpsc::channel();
        let (busy, until_busy) = mpsc::channel();
        let gate = self.store.write(move |_| {
            busy.send(()).unwrap();
            until_free.recv().unwrap();
            Ok(())
        });
        let writes = async {
            until_busy.recv().unwrap();
            futures_util::future::join(
                join_all(tasks.iter().map(|task| self.insert(task))),
                self.store.write(other),
            )
            .await
        };
        let (gate, writes, ()) = join3(gate, writes, async { free.send(()).unwrap() }).await;
        gate.unwrap();
        writes
    }

    fn tasks(&self, count: usize) -> Vec<Task> {
        (0..count).map(|_| self.bench.task()).collect()
    }
}

#[tokio::test]
async fn writes_that_wait_share_one_commit() {
    let setup = setup();
    let before = setup.store.commits();
    let tasks = setup.tasks(100);
    let (inserted, _) = setup.write_in_one_batch(&tasks, |_| Ok(())).await;
    assert!(inserted.iter().all(|inserted| matches!(inserted, Ok(InsertResult::Created(_)))));
    assert_eq!(setup.store.commits() - before, 1);
}

/// A write that may wait is committed together with one that may not.
#[tokio::test]
async fn deferred_write_joins_next_commit() {
    let setup = setup();
    let task = setup.bench.add(setup.bench.task()).await;
    let before = setup.store.commits();
    // Submitted first; without the other write it would wait for an hour.
    let task = Task { message: Some("put off".to_owned()), ..task };
    let batch_delay = Duration::from_secs(3_600);
    let change = Change { batch_delay, ..Change::new(&task, setup.bench.clock.now()) };
    let (deferred, _) = join(setup.store.update(change), setup.bench.add(setup.bench.task())).await;
    assert!(matches!(deferred, Ok(UpdateResult::Written(2))), "{deferred:?}");
    assert_eq!(setup.store.commits() - before, 1);
}

/// A write that may wait is committed alone at its deadline.
#[tokio::test]
async fn deferred_write_commits_after_timeout() {
    let setup = setup();
    let task = setup.bench.add(setup.bench.task()).await;
    let batch_delay = Duration::from_millis(5);
    let change = Change { batch_delay, ..Change::new(&task, setup.bench.clock.now()) };
    assert!(matches!(setup.store.update(change).await, Ok(UpdateResult::Written(2))));
}

/// Closing the store commits the writes that wait.
#[tokio::test]
async fn deferred_write_commits_at_close() {
    let Setup { store, bench, directory } = setup();
    let task = bench.add(bench.task()).await;
    let task = Task { message: Some("put off".to_owned()), ..task };
    let batch_delay = Duration::from_secs(3_600);
    let change = Change { batch_delay, ..Change::new(&task, bench.clock.now()) };
    assert!(store.update(change).now_or_never().is_none());
    drop((store, bench));
    let (_store, bench) = opened(&directory.path().join("tasks.db"));
    assert_eq!(bench.read(&task.id).await.unwrap().message, task.message);
}

#[tokio::test]
async fn unchanged_write_skips_commit() {
    let setup = setup();
    let task = setup.bench.add(setup.bench.closed_task()).await;
    let before = setup.store.commits();
    setup.store.seal_key([1; 32]).await.unwrap();
    assert_eq!(setup.store.commits() - before, 1);
    setup.store.seal_key([1; 32]).await.unwrap();
    setup.bench.update(&Task { version: 7, ..task }).await;
    assert!(setup.bench.claim("a").await.is_empty());
    assert_eq!(setup.store.purge(setup.bench.clock.now(), 10).await.unwrap(), []);
    setup.store.others_wrote().await.unwrap();
    assert_eq!(setup.store.commits() - before, 1);
}

/// Groups that are held are written again only when a third of the lease has passed.
#[tokio::test]
async fn leases_renew_after_third_passed() {
    let setup = setup();
    setup.bench.add(setup.bench.open_task("g")).await;
    let (lease, holder) = (Duration::from_secs(30), Holder("a".to_owned()));
    let mut before = setup.store.commits();
    let mut writes = async |after: Duration| {
        setup.bench.clock.advance(after);
        assert_eq!(setup.store.acquire_groups(&holder, lease, &[forge()]).await.unwrap().len(), 1);
        let now = setup.store.commits();
        now - std::mem::replace(&mut before, now)
    };
    assert_eq!(writes(Duration::ZERO).await, 1);
    assert_eq!(writes(lease / 6).await, 0);
    assert_eq!(writes(lease / 6).await, 1);
    assert_eq!(writes(lease / 6).await, 0);
}

/// The other rows are still listed and claimed, and the corrupt one is retried later.
#[tokio::test]
async fn corrupt_row_hides_no_others() {
    let setup = setup();
    let broken = setup.bench.add(setup.bench.task()).await;
    let sound = setup.bench.add(setup.bench.task()).await;
    let id = broken.id.as_str().to_owned();
    let corrupt =
        move |db: &Db<'_>| Ok(db.conn.execute("UPDATE tasks SET body = '{}' WHERE id = ?1", [&id])?);
    setup.store.write(corrupt).await.unwrap();
    let error = setup.store.get(&broken.id, None).await.unwrap_err();
    assert!(error.to_string().contains("the task in row 1 cannot be understood"), "{error}");
    let listed = setup.store.list(&sound.owner, None, 10).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&sound));
    assert_eq!(setup.bench.claim("a").await, [sound.id]);
    assert!(setup.bench.next_due().await > Some(setup.bench.clock.now()), "it is not tried again at once");
}

/// The other writes of the same batch are committed.
#[tokio::test]
async fn failed_write_is_rolled_back_alone() {
    let setup = setup();
    let tasks = setup.tasks(10);
    let lost = "INSERT INTO keys (name, value) VALUES ('half', x'00')";
    let (inserted, failed) = setup
        .write_in_one_batch(&tasks, move |db| {
            db.conn.execute(lost, [])?;
            Err(SqliteError::Broken("on purpose".to_owned()))
        })
        .await;
    assert!(matches!(failed, Err(StoreError::Broken(why)) if why.contains("on purpose")));
    for (inserted, task) in inserted.iter().zip(&tasks) {
        assert!(matches!(inserted, Ok(InsertResult::Created(_))), "{inserted:?}");
        assert!(setup.bench.read(&task.id).await.is_some());
    }
    let half = setup.store.write(|db| {
        Ok(db
            .conn
            .query_row("SELECT count(*) FROM keys WHERE name = 'half'", [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(half.await.unwrap(), 0, "nothing of the failed one was written");
}

/// Every write of the batch gets the error, and the store works afterwards.
#[tokio::test]
async fn failed_commit_reaches_every_caller() {
    let setup = setup();
    let tasks = setup.tasks(3);
    let (inserted, failed) = setup
        .write_in_one_batch(&tasks, |db| {
            // A foreign key violation that is detected only at the commit.
            db.conn.pragma_update(None, "defer_foreign_keys", true)?;
            db.conn.execute("INSERT INTO slots (slot, task) VALUES ('s', 'nobody')", [])?;
            Ok(())
        })
        .await;
    assert!(failed.is_err());
    for (inserted, task) in inserted.iter().zip(&tasks) {
        assert!(inserted.is_err());
        assert_eq!(setup.bench.read(&task.id).await, None);
    }
    setup.bench.add(setup.bench.task()).await;
}

/// The error is reported, and the store works again when there is space.
#[tokio::test]
async fn full_disk_rolls_back_write() {
    let setup = setup();
    let first = setup.bench.add(setup.bench.task()).await;
    let limit = |pages: Option<i64>| {
        setup.store.write(move |db| {
            let used: i64 = db.conn.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let most = pages.map_or(1_000_000, |more| used + more);
            db.conn.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
            Ok(())
        })
    };
    limit(Some(4)).await.unwrap();
    let big = Task {
        message: Some("x".repeat(20_000)),
        slots: vec!["s".to_owned()],
        job: match setup.bench.task().job {
            Job::Pending { spec, not_before, .. } => {
                Job::Starting { spec, attempts: 1, sought: None, first_attempt_at: None, not_before }
            }
            other => other,
        },
        ..setup.bench.task()
    };
    let new_task = || NewTask {
        task: big.clone(),
        identity: None,
        quota: None,
        limits: vec![SlotLimit { slot: "s".to_owned(), limit: 1 }],
        queue_behind: Vec::new(),
        idempotency_key: None,
        attach: None,
        lease: None,
        transition: None,
        notices: Vec::new(),
    };
    let full = setup.store.insert(new_task()).await;
    assert!(
        matches!(&full, Err(StoreError::Unavailable(why)) if why.contains("full") && why.contains("tasks.db")),
        "{full:?}"
    );
    assert_eq!(setup.bench.read(&big.id).await, None);
    assert_eq!(setup.bench.read(&first.id).await, Some(first));
    assert_eq!(setup.store.write_failure(), Some("the disk is full"));
    setup.store.others_wrote().await.unwrap();
    assert_eq!(setup.store.write_failure(), Some("the disk is full"), "that wrote nothing");
    limit(None).await.unwrap();
    let inserted = setup.store.insert(new_task()).await;
    assert!(
        matches!(inserted, Ok(InsertResult::Created(_))),
        "it works again, and the slot was not lost: {inserted:?}"
    );
    assert_eq!(setup.store.write_failure(), None);
}

/// The panic does not affect writes in the same batch, or later ones.
#[tokio::test]
async fn panic_fails_only_its_write() {
    let setup = setup();
    let tasks = setup.tasks(3);
    let (inserted, panicked) = setup.write_in_one_batch(&tasks, |_| panic!("a bug")).await;
    assert!(inserted.iter().all(|inserted| matches!(inserted, Ok(InsertResult::Created(_)))), "{inserted:?}");
    assert!(
        matches!(&panicked, Err(StoreError::Broken(why)) if why.contains("panicked") && why.contains("tasks.db")),
        "{panicked:?}"
    );
    assert_eq!(setup.store.write_failure(), None, "other writes succeed");
    setup.bench.add(setup.bench.task()).await;
}

/// A write to a locked database fails with its reason, and reads continue.
#[tokio::test]
async fn locked_file_is_reported() {
    let setup = setup();
    setup.store.write(|db| Ok(db.conn.busy_timeout(Duration::from_millis(10))?)).await.unwrap();
    let other = Connection::open(setup.directory.path().join("tasks.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let task = setup.bench.task();
    let locked = setup.insert(&task).await;
    assert!(matches!(&locked, Err(StoreError::Unavailable(why)) if why.contains("locked")), "{locked:?}");
    assert_eq!(setup.bench.read(&task.id).await, None, "reading goes on");
    other.execute_batch("COMMIT").unwrap();
    setup.bench.add(task).await;
}

/// Pages of an open transaction are already on disk when the process is killed.
#[tokio::test]
async fn uncommitted_write_is_lost_after_crash() {
    let setup = setup();
    let kept = setup.bench.add(setup.bench.task()).await;
    let lost = setup.bench.task();
    // The files as a kill leaves them in the middle of a transaction whose pages are already on disk.
    let (from, to) = (setup.directory.path().to_owned(), tempfile::tempdir().unwrap());
    let image = to.path().join("tasks.db");
    let copy = image.clone();
    let row = (lost.id.as_str().to_owned(), serde_json::to_string(&lost).unwrap());
    let failed = setup.store.write(move |db| {
        db.conn.execute(
            "INSERT INTO tasks (id, owner, tool, created_at, version, expires_at, closed, body)
             VALUES (?1, 'alice', 'build', 1, 1, 9, 0, ?2)",
            [&row.0, &row.1],
        )?;
        db.conn.cache_flush()?;
        for file in ["tasks.db", "tasks.db-wal"] {
            std::fs::copy(from.join(file), copy.with_file_name(file)).unwrap();
        }
        Err::<(), _>(SqliteError::Broken("killed".to_owned()))
    });
    failed.await.unwrap_err();
    let wal = |path: &std::path::Path| std::fs::read(path.with_file_name("tasks.db-wal")).unwrap();
    let needle = lost.id.as_str().as_bytes();
    assert!(wal(&image).windows(needle.len()).any(|bytes| bytes == needle), "its pages are in the log");
    let (_, after) = opened(&image);
    assert_eq!(after.read(&kept.id).await, Some(kept));
    assert_eq!(after.read(&lost.id).await, None);
}

/// A write that was submitted is committed even if its caller was dropped.
#[tokio::test]
async fn close_commits_submitted_writes() {
    let setup = setup();
    let path = setup.directory.path().join("tasks.db");
    let task = setup.bench.task();
    {
        let mut insert = std::pin::pin!(setup.insert(&task));
        // Submitted, and then its caller is dropped.
        let _ = futures_util::poll!(&mut insert);
    }
    let Setup { store, bench, directory } = setup;
    drop((store, bench));
    let (_, again) = opened(&path);
    assert!(again.read(&task.id).await.is_some());
    drop(directory);
}
