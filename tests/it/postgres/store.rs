//! Tests for what only this store can get wrong: broken connections, crowds that use all connections, and
//! databases that cannot be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use taskbridge::clock::Clock as _;
use taskbridge::store::postgres::{ConnectionConfig, PostgresStore, StoreClock};
use taskbridge::store::suite::Bench;
use taskbridge::tasks::audit::AuditLineStore as _;
use taskbridge::tasks::store::{
    Change, IdempotencyKey, InsertResult, Keys as _, NewTask, Result, SlotLimit, StoreError, TaskStore as _,
    Time as _, UpdateResult,
};
use taskbridge::tasks::task::{Job, Task};
use taskbridge_sdk::Timestamp;

use super::{clock, open_store};
use crate::support::postgres::{self, Postgres, schema, shared};

/// Timeout for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(60);

fn new_task(task: Task) -> NewTask {
    NewTask {
        task,
        identity: None,
        limits: Vec::new(),
        quota: None,
        queue_behind: Vec::new(),
        idempotency_key: None,
        attach: None,
        lease: None,
        transition: None,
        notices: Vec::new(),
    }
}

fn change<'a>(task: &'a Task, now: Timestamp, limits: &'a [SlotLimit]) -> Change<'a> {
    Change { limits, ..Change::new(task, now) }
}

fn starting(task: Task) -> Task {
    let Job::Pending { spec, not_before, .. } = task.job else { panic!("only a pending job can be started") };
    Task {
        job: Job::Starting { spec, attempts: 1, sought: None, first_attempt_at: None, not_before },
        ..task
    }
}

pub(super) async fn open_error(config: ConnectionConfig) -> StoreError {
    match PostgresStore::open(config, StoreClock::Database).await {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

#[track_caller]
pub(super) fn assert_contains(error: &StoreError, expected: &[&str]) {
    let text = error.to_string();
    for word in expected {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains("s3cret"), "the password is in {text:?}");
}

/// An insert whose caller is gone is complete before the next write to its row.
#[tokio::test]
async fn abandoned_insert_precedes_next_write() {
    let clock = clock();
    let store = open_store(&schema(), &clock).await;
    let bench = Bench::new(Arc::clone(&store) as _, clock);
    for _ in 0..30 {
        let task = bench.task();
        {
            let mut insert = std::pin::pin!(store.insert(new_task(task.clone())));
            // The insert is begun, and then its future is dropped.
            assert!(futures_util::poll!(&mut insert).is_pending());
        }
        let next = Task { version: 1, message: Some("next".to_owned()), ..task.clone() };
        let updated = store.update(change(&next, bench.clock.now(), &[])).await;
        assert!(matches!(updated, Ok(UpdateResult::Written(2))), "{updated:?}");
        assert_eq!(bench.read(&task.id).await, Some(Task { version: 2, ..next }));
    }
}

/// While connections are terminated, every write applies exactly once.
#[tokio::test]
async fn broken_connections_apply_writes_once() {
    let server = Postgres::start();
    let config = server.connection_config("cut").with_connections(6);
    let clock = clock();
    let store = Arc::new(PostgresStore::open(config, StoreClock::Custom(clock.clone())).await.unwrap());
    let bench = Bench::new(Arc::clone(&store) as _, clock);
    let limits = [SlotLimit { slot: "s".to_owned(), limit: 4 }];
    let (finished, terminated) = (AtomicBool::new(false), AtomicI64::new(0));
    let updates_made = AtomicI64::new(0);
    let terminate_connections = async {
        let client = server.client("cut").await;
        // Terminates one connection that has already worked, then lets three updates pass: a busy machine makes
        // fewer of them, and a rhythm by the clock would end more tries of a write than the store makes.
        let terminate_sql = "SELECT count(pg_terminate_backend(pid)) FROM (
                          SELECT pid FROM pg_stat_activity
                          WHERE pid <> pg_backend_pid() AND application_name = 'taskbridge'
                              AND query <> '' AND query NOT LIKE 'SHOW%'
                          ORDER BY random() LIMIT 1) AS one";
        while !finished.load(Ordering::Relaxed) {
            let count: i64 = client.query_one(terminate_sql, &[]).await.unwrap().get(0);
            terminated.fetch_add(count, Ordering::Relaxed);
            let next = updates_made.load(Ordering::Relaxed) + 3;
            while updates_made.load(Ordering::Relaxed) < next && !finished.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let writer = async |number: usize| -> Result<usize> {
        let mut slots = 0;
        for round in 0.. {
            if terminated.load(Ordering::Relaxed) >= 40 {
                break;
            }
            let with_slot = (number + round).is_multiple_of(2);
            let task =
                Task { slots: with_slot.then(|| "s".to_owned()).into_iter().collect(), ..bench.task() };
            let idempotency_key = Some(IdempotencyKey {
                scope: "x".to_owned(),
                key: task.id.to_string(),
                digest: "d".to_owned(),
            });
            let inserted = store.insert(NewTask { idempotency_key, ..new_task(task.clone()) }).await?;
            assert!(matches!(inserted, InsertResult::Created(_)), "{inserted:?}");
            let mut row = Task { version: 1, ..starting(task) };
            for version in 2..5 {
                row.message = Some(format!("{number} {round} {version}"));
                let updated = store.update(change(&row, bench.clock.now(), &limits)).await?;
                updates_made.fetch_add(1, Ordering::Relaxed);
                match updated {
                    UpdateResult::Written(new_version) => {
                        assert_eq!(new_version, version, "nobody else writes this row");
                        slots += usize::from(version == 2 && with_slot);
                        row.version = new_version;
                    }
                    UpdateResult::NoSlot(_) if with_slot => break,
                    other => panic!("{other:?}"),
                }
            }
            // A read gives up earlier than a write, which loses nothing.
            let read = loop {
                if let Ok(read) = store.get(&row.id, None).await {
                    break read;
                }
            };
            assert_eq!(read.map(|task| task.version), Some(row.version));
        }
        Ok(slots)
    };
    let writers = async {
        let results = join_all((0..6).map(writer)).await;
        finished.store(true, Ordering::Relaxed);
        results
    };
    let all = futures_util::future::join(terminate_connections, writers);
    let ((), results) = tokio::time::timeout(TIMEOUT, all).await.unwrap();
    let slots_taken: usize =
        results.into_iter().map(|result| result.expect("every write is made in the end")).sum();
    assert_eq!(slots_taken, 4, "as many took a slot as there are, and none was lost");
    let slot_count = server.client("cut").await.query_one("SELECT count(*) FROM slots", &[]).await.unwrap();
    assert_eq!(slot_count.get::<_, i64>(0), 4);
}

/// Requests cannot use all connections of the store: the loops still claim rows.
#[tokio::test]
async fn request_burst_leaves_loop_connections() {
    let schema = schema();
    let clock = clock();
    let config = shared().connection_config(&schema).with_connections(4);
    let store = PostgresStore::open(config, StoreClock::Custom(clock.clone())).await.unwrap();
    let bench = Bench::new(Arc::new(store), clock);
    let due = bench.add(bench.task()).await;
    // From here on, every insert with a key waits for this lock.
    let mut other = shared().client(&schema).await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE once").await.unwrap();
    let mut inserts = Box::pin(join_all((0..40).map(|n: u32| {
        let idempotency_key =
            Some(IdempotencyKey { scope: "x".to_owned(), key: n.to_string(), digest: "d".to_owned() });
        bench.store.insert(NewTask { idempotency_key, ..new_task(bench.task()) })
    })));
    let loops = async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'once'::regclass";
        while lock.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..10 {
            bench.next_due().await;
            bench.read(&due.id).await.unwrap();
        }
        bench.claim_rows("a", 1).await
    };
    let claimed = tokio::select! {
        _ = &mut inserts => panic!("nobody gets in while the table is locked"),
        claimed = tokio::time::timeout(TIMEOUT, loops) => claimed.expect("the loops are not kept waiting"),
    };
    assert_eq!(claimed[0].id, due.id);
    lock.commit().await.unwrap();
    for inserted in inserts.await {
        assert!(matches!(inserted, Ok(InsertResult::Created(_))), "{inserted:?}");
    }
}

/// Errors say that the database is unavailable. Listening also resumes by itself.
#[tokio::test]
async fn unavailable_database_is_used_again() {
    let mut server = Postgres::start();
    let clock = clock();
    let config = server.connection_config("away");
    let store = Arc::new(PostgresStore::open(config, StoreClock::Custom(clock.clone())).await.unwrap());
    let bench = Bench::new(Arc::clone(&store) as _, clock);
    let task = bench.add(bench.task()).await;
    server.stop();
    let error = store.get(&task.id, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)));
    assert_contains(&error, &["cannot be reached", &server.address()]);
    let error = store.insert(new_task(bench.task())).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    server.run();
    assert_eq!(store.get(&task.id, None).await.unwrap(), Some(task.clone()));
    bench.add(bench.task()).await;
    // Hints resume as well.
    let other = PostgresStore::open(server.connection_config("away"), StoreClock::Database).await.unwrap();
    let noticed = tokio::time::timeout(TIMEOUT, async {
        use taskbridge::tasks::store::{Hint, Hints as _};
        // Missed changes are reported as `Hint::Anything` after the reconnect, and before it as a precaution.
        assert_eq!(store.changed_elsewhere().await, [Hint::Anything]);
        let task_hint = Hint::Task { id: task.id.clone(), channel: task.origin.channel.clone() };
        let mut row = task.clone();
        loop {
            let next = Task { message: Some("by the other".to_owned()), ..row };
            let now = other.now().await.unwrap();
            other.update(change(&next, now, &[])).await.unwrap();
            row = store.get(&task.id, None).await.unwrap().unwrap();
            let hints = store.changed_elsewhere().await;
            if hints.contains(&task_hint) {
                break;
            }
            assert_eq!(hints, [Hint::Anything]);
        }
    });
    noticed.await.expect("the other's write is noticed");
}

#[tokio::test]
async fn unusable_database_error_names_cause() {
    let config_at = |url: &str| ConnectionConfig::parse(url).unwrap();
    let address = shared().address();
    let error =
        open_error(config_at(&format!("postgres://tester:s3cret-and-wrong@{address}/postgres"))).await;
    assert_contains(&error, &["password authentication failed", "mend the user or the password"]);
    let error = open_error(shared().connection_config("x").with_password("s3cret-and-wrong")).await;
    assert_contains(&error, &["password authentication failed"]);
    let error =
        open_error(config_at(&format!("{}/nowhere", shared().url().rsplit_once('/').unwrap().0))).await;
    assert_contains(&error, &["nowhere", "create it"]);
    // Nothing listens on a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = open_error(config_at(&format!("postgres://tester:s3cret@{free}/postgres"))).await;
    assert!(matches!(error, StoreError::Unavailable(_)));
    assert_contains(&error, &["cannot be reached", &free.to_string()]);
    let error = open_error(shared().connection_config("x").with_tls(Some(true), None)).await;
    assert_contains(&error, &["TLS"]);
    let client = shared().client("public").await;
    client.batch_execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0").await.unwrap();
    let url = shared().url();
    let (server, _) = url.rsplit_once('/').unwrap();
    assert_contains(
        &open_error(config_at(&format!("{server}/ascii"))).await,
        &["SQL_ASCII", "ENCODING 'UTF8'"],
    );
}

#[tokio::test]
async fn database_certificate_is_verified() {
    let mut server = Postgres::start();
    let certificate = server.with_tls();
    // No authority of this machine has signed its certificate.
    let error = open_error(server.connection_config("tls").with_tls(Some(true), None)).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert_contains(&error, &["TLS", "certificate"]);
    let config = server.connection_config("tls").with_tls(None, Some(certificate));
    let store = PostgresStore::open(config, StoreClock::Database).await.unwrap();
    store.seal_key([1; 32]).await.unwrap();
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE application_name = 'taskbridge'";
    let client = server.client("tls").await;
    assert!(client.query_one(encrypted, &[]).await.unwrap().get::<_, bool>(0));
    let error = open_error(server.connection_config("tls").with_tls(None, Some("/nowhere.pem".into()))).await;
    assert_contains(&error, &["`ca_file` /nowhere.pem cannot be read"]);
}

#[tokio::test]
async fn corrupt_row_hides_no_other() {
    let (schema, clock) = (postgres::schema(), clock());
    let bench = Bench::new(open_store(&schema, &clock).await, clock);
    let broken = bench.add(bench.task()).await;
    let intact = bench.add(bench.task()).await;
    let client = shared().client(&schema).await;
    client.execute("UPDATE tasks SET body = '{}' WHERE id = $1", &[&broken.id.as_str()]).await.unwrap();
    let error = bench.store.get(&broken.id, None).await.unwrap_err();
    assert_contains(&error, &["the task in row 1 cannot be understood"]);
    let listed = bench.store.list(&intact.owner, None, 10).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&intact));
    assert_eq!(bench.claim("a").await, [intact.id]);
}

/// As with SQLite: a line that was written while the clock was ahead stops the deletion.
#[tokio::test]
async fn audit_lines_are_deleted_without_gap() {
    let clock = clock();
    let store = open_store(&schema(), &clock).await;
    let line = async |n: u64| assert!(store.add_lines(n, vec![format!("line {n}")]).await.unwrap());
    let day = Duration::from_hours(24);
    line(1).await;
    clock.advance(3 * day);
    line(2).await;
    clock.set_back(3 * day);
    for n in 3..=5 {
        line(n).await;
    }
    clock.advance(day);
    assert_eq!(store.delete_lines(clock.now(), 100).await.unwrap(), 1);
    let remaining = store.lines_after(0, 100).await.unwrap();
    assert_eq!(remaining.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 3, 4, 5]);
}
