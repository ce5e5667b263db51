//! Tests of a store whose clock is set by hours or days, in either direction. No ended task is deleted
//! because of it, and leases of dead processes expire as usual.

use std::time::Duration;

use serde_json::json;
use taskbridge::tasks::task::{Outcome, TaskId};

use super::node::{LEASE, Node};
use super::place::{Place, call_with};

const HOUR: i64 = 3_600_000;

async fn call(node: &Node, delay_ms: u64) -> TaskId {
    let called = node.service.call(call_with(json!({ "delay_ms": delay_ms }))).await;
    called.expect("the store is there").into_task().id
}

/// The clock is set ahead by three days, and back.
#[tokio::test(start_paused = true)]
async fn leap_deletes_no_finished_task() {
    let place = Place::new();
    let node = place.start("one").await;
    let id = call(&node, 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(place.find(&id).await.and_then(|task| task.outcome()), Some(Outcome::Succeeded));
    place.clock.set(72 * HOUR);
    tokio::time::sleep(Duration::from_secs(30)).await;
    // Another process that starts at this time deletes nothing either.
    let second = place.start("two").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    place.clock.set(0);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(place.find(&id).await.is_some());
    // A clock that stays ahead is accepted as the store's time in the end.
    place.clock.set(72 * HOUR);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(place.find(&id).await, None);
    drop(second);
}

/// Without a correction, the lease of the dead process would last for another hour.
#[tokio::test(start_paused = true)]
async fn clock_set_back_stalls_no_lease() {
    for starts_later in [false, true] {
        let place = Place::new();
        let first = place.start("one").await;
        let id = call(&first, 5_000).await;
        // By then it has leased the group of the job.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let neighbour = if starts_later { None } else { Some(place.start("two").await) };
        drop(first);
        tokio::time::sleep(Duration::from_millis(100)).await;
        place.clock.set(-HOUR);
        let _node = match neighbour {
            Some(neighbour) => neighbour,
            None => place.start("three").await,
        };
        tokio::time::sleep(4 * LEASE).await;
        let task = place.row(&id).await;
        assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
    }
}
