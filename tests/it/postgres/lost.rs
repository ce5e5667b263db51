//! Tests for lost replies of the database: a proxy between a store and the database cuts the connection at
//! the n-th chunk of a reply, which may be after the commit. The write is made in any case, exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use taskbridge::clock::Clock as _;
use taskbridge::store::postgres::{ConnectionConfig, PostgresStore, StoreClock};
use taskbridge::store::suite::Bench;
use taskbridge::tasks::store::{Change, IdempotencyKey, InsertResult, NewTask, SlotLimit, UpdateResult};
use taskbridge::tasks::task::{Job, Task};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::clock;
use crate::support::postgres::{schema, shared};

/// More than the number of chunks of the longest reply.
const MAX_CHUNKS: i64 = 8;

/// When to cut a connection: after this many further chunks. Below zero, none is cut.
#[derive(Default)]
struct ConnectionCutter {
    after_chunks: AtomicI64,
    cut_count: AtomicI64,
}

impl ConnectionCutter {
    fn should_cut(&self) -> bool {
        let cut_now = self.after_chunks.fetch_sub(1, Ordering::SeqCst) == 1;
        self.cut_count.fetch_add(i64::from(cut_now), Ordering::SeqCst);
        cut_now
    }
}

/// Forwards clients to the database until it is dropped.
async fn serve(listener: TcpListener, cutter: Arc<ConnectionCutter>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(shared().address()).await.unwrap();
        connections.spawn(forward(client, server, Arc::clone(&cutter)));
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, cutter: Arc<ConnectionCutter>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    // A connection that only carries hints may break, so it is not cut here.
    let hints = AtomicBool::new(false);
    let up = async {
        let mut chunk = [0; 16_384];
        while let Ok(length @ 1..) = from_client.read(&mut chunk).await {
            if chunk[..length].windows(6).any(|word| word == b"LISTEN") {
                hints.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&chunk[..length]).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        let mut chunk = [0; 16_384];
        while let Ok(length @ 1..) = from_server.read(&mut chunk).await {
            if (!hints.load(Ordering::SeqCst) && cutter.should_cut())
                || to_client.write_all(&chunk[..length]).await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

fn starting(task: Task) -> Task {
    let Job::Pending { spec, not_before, .. } = task.job else { panic!("only a pending job can be started") };
    Task {
        job: Job::Starting { spec, attempts: 1, sought: None, first_attempt_at: None, not_before },
        ..task
    }
}

/// Makes one write of each kind, whose reply is cut off after this many chunks.
async fn write_all(bench: &Bench, cutter: &ConnectionCutter, after: i64) {
    let slot = format!("slot {after}");
    let limits = [SlotLimit { slot: slot.clone(), limit: 1 }];
    let new = |task: Task| NewTask {
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
    };
    let change = async |task: &Task, limits: &[SlotLimit]| {
        let change = Change { limits, ..Change::new(task, bench.clock.now()) };
        cutter.after_chunks.store(after, Ordering::SeqCst);
        let updated = bench.store.update(change).await;
        cutter.after_chunks.store(-1, Ordering::SeqCst);
        assert!(matches!(updated, Ok(UpdateResult::Written(2))), "after {after}: {updated:?}");
        assert_eq!(bench.read(&task.id).await, Some(Task { version: 2, ..task.clone() }), "after {after}");
    };
    let insert = async |new: NewTask| {
        cutter.after_chunks.store(after, Ordering::SeqCst);
        let inserted = bench.store.insert(new).await;
        cutter.after_chunks.store(-1, Ordering::SeqCst);
        let Ok(InsertResult::Created(task)) = inserted else { panic!("after {after}: {inserted:?}") };
        assert_eq!(bench.read(&task.id).await.as_ref(), Some(&task));
        task
    };
    let plain = insert(new(bench.task())).await;
    change(&Task { message: Some("changed".to_owned()), ..plain }, &[]).await;
    let idempotency_key =
        Some(IdempotencyKey { scope: "x".to_owned(), key: slot.clone(), digest: "d".to_owned() });
    let with_slot = starting(Task { slots: vec![slot.clone()], ..bench.task() });
    let slot_holder = insert(NewTask { idempotency_key, limits: limits.to_vec(), ..new(with_slot) }).await;
    // Its slot becomes free, and the next task takes it in an update.
    let waiting = Task { slots: vec![slot], ..bench.task() };
    bench.update(&Task { job: Job::Closed { handle: None }, due_at: None, ..slot_holder }).await;
    let waiting = bench.add(waiting).await;
    change(&starting(waiting), &limits).await;
}

#[tokio::test]
async fn write_with_lost_reply_applies_once() {
    let (schema, clock) = (schema(), clock());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let cutter = Arc::new(ConnectionCutter::default());
    let mut proxy = JoinSet::new();
    proxy.spawn(serve(listener, Arc::clone(&cutter)));
    let url = shared().url().replace(&shared().address(), &address);
    let config = ConnectionConfig::parse(&url).unwrap().in_schema(&schema).unwrap().with_connections(2);
    let store = PostgresStore::open(config, StoreClock::Custom(clock.clone())).await.unwrap();
    let bench = Bench::new(Arc::new(store), clock);
    // The first round has no cut, so that the statements are prepared.
    for after in [-1].into_iter().chain(1..=MAX_CHUNKS) {
        write_all(&bench, &cutter, after).await;
    }
    let cut_count = cutter.cut_count.load(Ordering::SeqCst);
    assert!(cut_count >= 8, "only {cut_count} answers were cut off");
    let client = shared().client(&schema).await;
    let rows = client.query_one("SELECT count(*), max(version) FROM tasks", &[]).await.unwrap();
    assert_eq!((rows.get::<_, i64>(0), rows.get::<_, i64>(1)), (3 * (MAX_CHUNKS + 1), 2));
}
