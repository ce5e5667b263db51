//! Tests of processes that are suspended, by their machine or by SIGSTOP, and continue with stale state.
//! `leaps.rs` tests the pause of deletions after a leap of the store's clock, not this file.

use std::time::Duration;

use futures_util::future::join;
use serde_json::json;
use taskbridge_core::clock::Clock as _;
use taskbridge_core::tasks::machine::Event;
use taskbridge_core::tasks::store::Lease;
use taskbridge_core::tasks::task::{Outcome, Task};

use super::fixture::{Fixture, call_with};
use super::node::Node;

const DAY: i64 = 86_400_000;
/// Shorter than the job and than its `max_runtime`.
const SUSPENSION: Duration = Duration::from_secs(20 * 60);

/// Starts a job of this duration, and returns its row once the engine has it.
async fn start_job(fixture: &Fixture, node: &Node, delay_ms: u64) -> Task {
    let call_result = node.service.call(call_with(json!({ "delay_ms": delay_ms }))).await;
    let id = call_result.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.row(&id).await
}

async fn abandon(node: &Node, task: &Task) -> Task {
    let result = node.writer.apply(task.clone(), Event::OutcomeUnknown, Lease::Keep).await;
    result.expect("the store is there").expect("the row is there")
}

/// The store's clock was three days ahead for longer than deletions pause, and is set right while the
/// process is suspended. Found by seed 105790.
#[tokio::test(start_paused = true)]
async fn suspended_process_purges_by_store_clock() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.start("one").await, fixture.start("two").await);
    fixture.clock.set(3 * DAY);
    tokio::time::sleep(Duration::from_secs(900)).await;
    first.points.freeze(true);
    fixture.clock.set(0);
    // The other process notices it, and writes the right times.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let id = start_job(&fixture, &second, 0).await.id;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(fixture.row(&id).await.outcome(), Some(Outcome::Succeeded));
    first.points.freeze(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fixture.find(&id).await.is_some());
}

/// The row would expire by the time at which its end was decided. Found by seed 101391.
#[tokio::test(start_paused = true)]
async fn suspended_commit_ends_when_written() {
    let fixture = Fixture::new();
    let node = fixture.start("one").await;
    let task = start_job(&fixture, &node, 3_600_000).await;
    node.points.freeze(true);
    let resume = async {
        tokio::time::sleep(SUSPENSION).await;
        node.points.freeze(false);
    };
    let (ended, ()) = join(abandon(&node, &task), resume).await;
    let since_end = fixture.clock.now().since(ended.ended_at.expect("it has ended"));
    assert!(since_end < Duration::from_secs(10), "it ended {since_end:?} ago");
}

/// The process has not read the store's clock since it was set.
#[tokio::test(start_paused = true)]
async fn commit_after_leap_uses_store_clock() {
    for leap in [DAY, -DAY] {
        let fixture = Fixture::new();
        let node = fixture.start("one").await;
        let task = start_job(&fixture, &node, 3_600_000).await;
        fixture.clock.set(leap);
        let ended = abandon(&node, &task).await.ended_at.expect("it has ended");
        let now = fixture.clock.now();
        assert!(now.since(ended).max(ended.since(now)) < Duration::from_secs(1), "{ended:?} is not {now:?}");
    }
}
