//! Tests of writes that are late because of a store outage, and of bulk deletion.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge_core::clock::Clock as _;
use taskbridge_core::tasks::history::{Fact, Transition};
use taskbridge_core::tasks::service::{BlockingCall, Call, CallResult};
use taskbridge_core::tasks::store::{History as _, NewTask, TaskStore as _};
use taskbridge_core::tasks::task::{Outcome, Task, TaskId, TaskPolicy};

use super::fixture::{Fixture, call_with};
use super::late_polls::call;
use super::node::LEASE;
use super::plan::terms;
use super::store_faults::StoreFaults;

/// A plain caller disconnects while the store refuses writes. Its job is cancelled after the outage.
#[tokio::test(start_paused = true)]
async fn abandoned_call_is_cancelled_after_outage() {
    let (fixture, store_faults) = (Fixture::new(), Arc::new(StoreFaults::default()));
    let node = fixture.start_with_faults("one", &store_faults).await;
    let blocking_call = BlockingCall {
        digest: "d".to_owned(),
        timeout: LEASE * 4,
        attach_within: LEASE,
        cancel_on_abandon: true,
    };
    let call_result = node
        .service
        .call(Call { blocking: Some(blocking_call), ..call() })
        .await
        .expect("the store is there");
    let task = call_result.into_task();
    let wait_guard = node.service.guard_call(&task, true);
    tokio::time::sleep(Duration::from_secs(2)).await;
    store_faults.refuse_writes();
    drop(wait_guard);
    tokio::time::sleep(LEASE).await;
    assert!(!fixture.row(&task.id).await.has_ended());
    store_faults.clear();
    tokio::time::sleep(LEASE).await;
    assert_eq!(fixture.row(&task.id).await.outcome(), Some(Outcome::Cancelled));
}

/// A plain caller disconnects after its wait is over, and an equal call has attached to its task since. The
/// job continues.
#[tokio::test(start_paused = true)]
async fn late_abandonment_spares_next_caller() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.start("one").await, fixture.start("two").await);
    let blocking_call = BlockingCall {
        digest: "d".to_owned(),
        timeout: LEASE,
        attach_within: LEASE,
        cancel_on_abandon: true,
    };
    let call = Call { blocking: Some(blocking_call), ..call_with(json!({"delay_ms": 3_600_000})) };
    let task = one.service.call(call.clone()).await.expect("the store is there").into_task();
    let first_guard = one.service.guard_call(&task, true);
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    let attached = two.service.call(call.clone()).await.expect("the store is there");
    let CallResult::Attached(attached) = attached else { panic!("a second job: {attached:?}") };
    let second_guard = two.service.guard_call(&attached, true);
    assert_eq!(attached.id, task.id);
    let third_result = two.service.call(call).await.expect("the store is there");
    assert!(
        matches!(third_result, CallResult::Created(_)),
        "two callers wait for one task: {third_result:?}"
    );

    drop(first_guard);
    tokio::time::sleep(LEASE / 3).await;
    assert!(!fixture.row(&task.id).await.has_ended(), "the second caller still waits");
    drop(second_guard);
    tokio::time::sleep(LEASE).await;
    assert_eq!(fixture.row(&task.id).await.outcome(), Some(Outcome::Cancelled));
}

/// While the store can be read but not written, as on a full disk, due rows are not retried in a busy loop.
#[tokio::test(start_paused = true)]
async fn refused_writes_are_paced() {
    let (fixture, store_faults) = (Fixture::new(), Arc::new(StoreFaults::default()));
    let node = fixture.start_with_faults("one", &store_faults).await;
    let call = call_with(json!({"delay_ms": 3_600_000}));
    let call_result =
        node.service.call(Call { terms: TaskPolicy { max_runtime: LEASE, ..terms() }, ..call }).await;
    let id = call_result.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    store_faults.refuse_writes();
    tokio::time::sleep(4 * LEASE).await;
    assert!(fixture.row(&id).await.due_at.is_some_and(|due| due < fixture.clock.now()), "something is due");
    assert!(
        store_faults.refused_writes() < 600,
        "{} writes were tried in a minute",
        store_faults.refused_writes()
    );
    store_faults.clear();
    tokio::time::sleep(4 * LEASE).await;
    assert!(fixture.row(&id).await.has_ended());
}

/// Old history is deleted without pauses, no matter how much there is.
#[tokio::test(start_paused = true)]
async fn old_history_is_deleted_in_seconds() {
    const TASK_COUNT: u32 = 5_000;
    let fixture = Fixture::new();
    let node = fixture.start("one").await;
    let task = node.service.call(call()).await.expect("the store is there").into_task();
    let store = fixture.store();
    let id = |n: u32| {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        TaskId::from_bytes(bytes)
    };
    for n in 0..TASK_COUNT {
        let transition = Transition { replica: "a".to_owned(), what: vec![Fact::Queued], call: None };
        let new = NewTask {
            task: Task { id: id(n), due_at: None, ..task.clone() },
            identity: None,
            limits: Vec::new(),
            quota: None,
            queue_behind: Vec::new(),
            idempotency_key: None,
            attach: None,
            lease: None,
            transition: Some(transition),
            notices: Vec::new(),
        };
        store.insert(new).await.expect("the file can be written");
    }
    // History is kept for three hours, and checked once a minute.
    tokio::time::sleep(Duration::from_secs(3 * 3600 + 60 + 10)).await;
    let mut remaining = 0;
    for n in 0..TASK_COUNT {
        remaining += store.entries(&id(n)).await.expect("the file can be read").len();
    }
    assert_eq!(remaining, 0);
}
