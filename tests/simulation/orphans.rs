//! A caller disconnects while its row is being written. The row is processed at once, without waiting for
//! its lease to expire. Here the store writes on its own thread, and time is the machine's.

use std::sync::Arc;
use std::task::Poll;

use serde_json::json;
use taskbridge_core::clock::System;
use taskbridge_core::tasks::machine::CancelMode;
use taskbridge_core::tasks::service::{BlockingCall, Call, WhenFull};
use taskbridge_core::tasks::store::Store;
use taskbridge_core::tasks::task::{Origin, Outcome, Owner, Spec, Task};
use taskbridge_sdk::sim::{Mode, SimEngine};
use taskbridge_store::sqlite::{Mode as StoreMode, SqliteStore};

use super::node::{EngineLink, LEASE, Node, Parts};
use super::plan::terms;
use super::points::Points;
use super::rng::Rng;

/// Number of dropped calls. Few enough for the reconciler's queue.
const CALLS: usize = 8;

/// Returns a call of a plain client.
fn call(number: usize, delay_ms: u64, cancel_on_abandon: bool) -> Call {
    Call {
        owner: Owner::new("ana"),
        origin: Origin::default(),
        tool: "work".to_owned(),
        backend: "sim".to_owned(),
        spec: Spec {
            target: json!({}),
            arguments: json!({ "delay_ms": delay_ms }),
            sealed: None,
            unresolved: Default::default(),
        },
        references: Vec::new(),
        terms: terms(),
        slots: Vec::new(),
        when_full: WhenFull::Queue,
        quota: None,
        confirm: None,
        idempotency_key: None,
        kept_arguments: None,
        variant: None,
        // All calls differ, so none attaches to the task of another.
        blocking: Some(BlockingCall {
            digest: number.to_string(),
            timeout: LEASE,
            attach_within: LEASE,
            cancel_on_abandon,
        }),
    }
}

/// Drops calls as soon as their rows are queued at the writer, and returns the ended tasks.
async fn run_dropped_calls(delay_ms: u64, cancel_on_abandon: bool) -> Vec<Task> {
    let dir = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open(&dir.path().join("tasks.db"), System::clock(), StoreMode::Threaded).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let parts = Parts {
        name: "one".to_owned(),
        store: Arc::clone(&store),
        engine_links: vec![EngineLink::to("sim", SimEngine::new(Mode::Unkeyed).backend())],
        world_clock: System::clock(),
        leases: Arc::default(),
        entropy: System::entropy(),
        points: Points::new(Arc::new(Rng::new(1))),
        bug: None,
    };
    let node = Node::start(parts).await.expect("the store is there");
    for number in 0..CALLS {
        let mut call = std::pin::pin!(node.service.call(call(number, delay_ms, cancel_on_abandon)));
        // The first poll queues the row; the disk answers later. If this thread was delayed, the disk may
        // have answered already. That call was not dropped in time, so its client has to cancel it.
        if let Poll::Ready(call_result) = futures_util::poll!(&mut call)
            && cancel_on_abandon
        {
            let id = call_result.expect("the store is there").into_task().id;
            node.service
                .cancel(&Owner::new("ana"), &id, CancelMode::Immediate)
                .await
                .expect("the store is there");
        }
    }
    let owner = Owner::new("ana");
    let all_ended = async {
        loop {
            let tasks = store.list(&owner, None, 100).await.unwrap();
            match tasks.iter().find(|task| !task.has_ended()) {
                None if tasks.len() == CALLS => return tasks,
                None => tokio::task::yield_now().await,
                Some(task) => drop(node.service.wait(&owner, &task.id, Some(LEASE), Task::has_ended).await),
            }
        }
    };
    tokio::time::timeout(LEASE * 9 / 10, all_ended).await.expect("nobody acts on the rows")
}

/// The job starts at once, not only after the lease of the row has expired.
#[tokio::test]
async fn call_dropped_during_write_runs() {
    for task in run_dropped_calls(0, false).await {
        assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
    }
}

/// This is true for a tool with `cancel_on_abandon`.
#[tokio::test]
async fn call_dropped_during_write_is_cancelled() {
    for task in run_dropped_calls(3_600_000, true).await {
        assert_eq!(task.outcome(), Some(Outcome::Cancelled), "{task:?}");
    }
}
