//! Tests of writes that are late because of a store outage, and of bulk deletion.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge::clock::Clock as _;
use taskbridge::tasks::history::{Fact, Transition};
use taskbridge::tasks::service::{BlockingCall, Call, CallResult};
use taskbridge::tasks::store::{History as _, NewTask, TaskStore as _};
use taskbridge::tasks::task::{Outcome, Task, TaskId, TaskPolicy};

use super::node::LEASE;
use super::overtaken::call;
use super::place::{Place, call_with};
use super::plan::terms;
use super::store_faults::StoreFaults;

/// A plain caller disconnects while the store refuses writes. Its job is cancelled after the outage.
#[tokio::test(start_paused = true)]
async fn abandoned_call_is_cancelled_after_outage() {
    let (place, store_faults) = (Place::new(), Arc::new(StoreFaults::default()));
    let node = place.start_in("one", &store_faults).await;
    let plain = BlockingCall {
        digest: "d".to_owned(),
        waits: LEASE * 4,
        attach_within: LEASE,
        cancel_on_abandon: true,
    };
    let called = node.service.call(Call { plain: Some(plain), ..call() }).await.expect("the store is there");
    let task = called.into_task();
    let waiting = node.service.waiting(&task, true);
    tokio::time::sleep(Duration::from_secs(2)).await;
    store_faults.refuse_writes();
    drop(waiting);
    tokio::time::sleep(LEASE).await;
    assert!(!place.row(&task.id).await.has_ended());
    store_faults.clear();
    tokio::time::sleep(LEASE).await;
    assert_eq!(place.row(&task.id).await.outcome(), Some(Outcome::Cancelled));
}

/// A plain caller disconnects after its wait is over, and an equal call has attached to its task since. The
/// job continues.
#[tokio::test(start_paused = true)]
async fn late_abandonment_spares_next_caller() {
    let place = Place::new();
    let (one, two) = (place.start("one").await, place.start("two").await);
    let plain =
        BlockingCall { digest: "d".to_owned(), waits: LEASE, attach_within: LEASE, cancel_on_abandon: true };
    let call = Call { plain: Some(plain), ..call_with(json!({"delay_ms": 3_600_000})) };
    let task = one.service.call(call.clone()).await.expect("the store is there").into_task();
    let first = one.service.waiting(&task, true);
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    let attached = two.service.call(call.clone()).await.expect("the store is there");
    let CallResult::Attached(attached) = attached else { panic!("a second job: {attached:?}") };
    let second = two.service.waiting(&attached, true);
    assert_eq!(attached.id, task.id);
    let third = two.service.call(call).await.expect("the store is there");
    assert!(matches!(third, CallResult::Created(_)), "two callers wait for one task: {third:?}");

    drop(first);
    tokio::time::sleep(LEASE / 3).await;
    assert!(!place.row(&task.id).await.has_ended(), "the second caller still waits");
    drop(second);
    tokio::time::sleep(LEASE).await;
    assert_eq!(place.row(&task.id).await.outcome(), Some(Outcome::Cancelled));
}

/// While the store can be read but not written, as on a full disk, due rows are not retried in a busy loop.
#[tokio::test(start_paused = true)]
async fn refused_writes_are_paced() {
    let (place, store_faults) = (Place::new(), Arc::new(StoreFaults::default()));
    let node = place.start_in("one", &store_faults).await;
    let call = call_with(json!({"delay_ms": 3_600_000}));
    let called =
        node.service.call(Call { terms: TaskPolicy { max_runtime: LEASE, ..terms() }, ..call }).await;
    let id = called.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    store_faults.refuse_writes();
    tokio::time::sleep(4 * LEASE).await;
    assert!(place.row(&id).await.due_at.is_some_and(|due| due < place.clock.now()), "something is due");
    assert!(store_faults.refused() < 600, "{} writes were tried in a minute", store_faults.refused());
    store_faults.clear();
    tokio::time::sleep(4 * LEASE).await;
    assert!(place.row(&id).await.has_ended());
}

/// Old history is deleted without pauses, no matter how much there is.
#[tokio::test(start_paused = true)]
async fn old_history_is_deleted_in_seconds() {
    const MANY: u32 = 5_000;
    let place = Place::new();
    let node = place.start("one").await;
    let task = node.service.call(call()).await.expect("the store is there").into_task();
    let store = place.store();
    let id = |n: u32| {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        TaskId::from_bytes(bytes)
    };
    for n in 0..MANY {
        let transition = Transition { replica: "a".to_owned(), what: vec![Fact::Queued], call: None };
        let new = NewTask {
            task: Task { id: id(n), due_at: None, ..task.clone() },
            identity: None,
            limits: Vec::new(),
            most_kept: None,
            behind: Vec::new(),
            once: None,
            attach: None,
            lease: None,
            transition: Some(transition),
            notices: Vec::new(),
        };
        store.insert(new).await.expect("the file can be written");
    }
    // History is kept for three hours, and checked once a minute.
    tokio::time::sleep(Duration::from_secs(3 * 3600 + 60 + 10)).await;
    let mut left = 0;
    for n in 0..MANY {
        left += store.entries(&id(n)).await.expect("the file can be read").len();
    }
    assert_eq!(left, 0);
}
