//! Tests of a store whose clock is set by hours or days, in either direction. No ended task is deleted
//! because of it, and leases of dead processes expire as usual.

use std::time::Duration;

use serde_json::json;
use taskbridge_core::tasks::task::{Outcome, TaskId};

use super::fixture::{Fixture, call_with};
use super::node::{LEASE, Node};

const HOUR: i64 = 3_600_000;

async fn call(node: &Node, delay_ms: u64) -> TaskId {
    let call_result = node.service.call(call_with(json!({ "delay_ms": delay_ms }))).await;
    call_result.expect("the store is there").into_task().id
}

/// The clock is set ahead by three days, and back.
#[tokio::test(start_paused = true)]
async fn leap_deletes_no_finished_task() {
    let fixture = Fixture::new();
    let node = fixture.start("one").await;
    let id = call(&node, 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.find(&id).await.and_then(|task| task.outcome()), Some(Outcome::Succeeded));
    fixture.clock.set(72 * HOUR);
    tokio::time::sleep(Duration::from_secs(30)).await;
    // Another process that starts at this time deletes nothing either.
    let second = fixture.start("two").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    fixture.clock.set(0);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(fixture.find(&id).await.is_some());
    // A clock that stays ahead is accepted as the store's time in the end.
    fixture.clock.set(72 * HOUR);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(fixture.find(&id).await, None);
    drop(second);
}

/// Without a correction, the lease of the dead process would last for another hour.
#[tokio::test(start_paused = true)]
async fn clock_set_back_stalls_no_lease() {
    for starts_later in [false, true] {
        let fixture = Fixture::new();
        let first = fixture.start("one").await;
        let id = call(&first, 5_000).await;
        // By then it has leased the group of the job.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let neighbour = if starts_later { None } else { Some(fixture.start("two").await) };
        drop(first);
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture.clock.set(-HOUR);
        let _node = match neighbour {
            Some(neighbour) => neighbour,
            None => fixture.start("three").await,
        };
        tokio::time::sleep(4 * LEASE).await;
        let task = fixture.row(&id).await;
        assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
    }
}
