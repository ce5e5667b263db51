//! Tests of the history of rows.

use std::time::Duration;

use super::Bench;
use super::bench::{holder, idempotency_key, limits, new_task, with_slots};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::history::{EngineCall, EngineOperation, Fact, HistoryEntry, Transition};
use taskbridge_core::tasks::store::{Change, Lease, NewTask, UpdateResult};
use taskbridge_core::tasks::task::{Task, TaskId};

fn transition(replica: &str, fact: Fact) -> Transition {
    let call = Some(EngineCall { to: EngineOperation::Start, ms: 3 });
    Transition { replica: replica.to_owned(), what: vec![fact], call }
}

async fn entries(bench: &Bench, id: &TaskId) -> Vec<HistoryEntry> {
    bench.store.entries(id).await.expect("the history can be read")
}

async fn change(bench: &Bench, task: &Task, transition: &Transition) -> UpdateResult {
    let (limits, holder) = (limits(&["s"], 1), holder("a"));
    let (lease, transition) = (Lease::Release(&holder), Some(transition));
    let change = Change { limits: &limits, lease, transition, ..Change::new(task, bench.clock.now()) };
    bench.store.update(change).await.expect("the store can be written")
}

pub async fn an_entry_is_written_with_its_change_or_not_at_all(bench: &Bench) {
    let task = with_slots(bench.task(), &["s"]);
    let born = transition("a", Fact::Attempt(1));
    let request = |task: &Task| NewTask {
        idempotency_key: idempotency_key("alice", "k", "d"),
        transition: Some(born.clone()),
        ..new_task(task.clone())
    };
    for _ in 0..2 {
        // The second call finds the first one's row.
        bench.store.insert(request(&task)).await.expect("the store can be written");
    }
    let other = bench.task();
    bench.store.insert(request(&other)).await.expect("the store can be written");
    assert_eq!(entries(bench, &other.id).await, [], "that call found the row of its key");
    let first = bench.clock.now();
    bench.clock.advance(Duration::from_secs(5));
    let known = Task { version: 1, ..task.clone() };
    let next = transition("b\0\\", Fact::Asked("'; DROP\0".to_owned()));
    for expected in ["written", "conflict"] {
        let updated = change(bench, &known, &next).await;
        assert_eq!(matches!(updated, UpdateResult::Written(2)), expected == "written", "{updated:?}");
    }
    // Rows without slots are written by another statement.
    let plain = bench.add(bench.task()).await;
    assert!(matches!(change(bench, &plain, &next).await, UpdateResult::Written(2)));
    let second = HistoryEntry { version: 2, at: bench.clock.now(), transition: next };
    assert_eq!(entries(bench, &plain.id).await, std::slice::from_ref(&second));
    assert_eq!(
        entries(bench, &task.id).await,
        [HistoryEntry { version: 1, at: first, transition: born.clone() }, second]
    );
    bench.update(&Task { version: 2, ..task.clone() }).await;
    assert_eq!(entries(bench, &task.id).await.len(), 2, "a change of which nothing is to be kept");
}

pub async fn entries_outlive_their_row_until_they_are_too_old(bench: &Bench) {
    let (long, day) = (Duration::from_secs(10 * 86_400), Duration::from_secs(86_400));
    let forget = async |age, limit| {
        bench.store.delete_entries(bench.clock.now() - age, limit).await.expect("the store can be written")
    };
    let mut task = bench.add(bench.closed_task()).await;
    for _ in 0..5 {
        let UpdateResult::Written(version) = change(bench, &task, &transition("a", Fact::Queued)).await
        else {
            panic!("nobody else writes it")
        };
        task.version = version;
    }
    bench.clock.advance(long);
    assert_eq!(bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written").len(), 1);
    let young = bench.add(bench.task()).await;
    change(bench, &young, &transition("a", Fact::Queued)).await;
    assert_eq!(entries(bench, &task.id).await.len(), 5);
    assert_eq!(forget(long + day, 100).await, 0);
    assert_eq!(forget(day, 2).await, 2);
    let left: Vec<u64> = entries(bench, &task.id).await.iter().map(|entry| entry.version).collect();
    assert_eq!(left, [4, 5, 6], "the oldest go first");
    assert_eq!(forget(day, 100).await, 3);
    assert_eq!(forget(day, 100).await, 0);
    assert_eq!((entries(bench, &task.id).await.len(), entries(bench, &young.id).await.len()), (0, 1));
}

/// An entry that was written while the clock was ahead does not block the deletion of others.
pub async fn future_entry_does_not_stop_purge(bench: &Bench) {
    let (day, year) = (Duration::from_secs(86_400), Duration::from_secs(366 * 86_400));
    bench.clock.advance(year);
    let ahead = bench.add(bench.task()).await;
    change(bench, &ahead, &transition("a", Fact::Queued)).await;
    bench.clock.set_back(year);
    let task = bench.add(bench.task()).await;
    change(bench, &task, &transition("a", Fact::Queued)).await;
    bench.clock.advance(day * 2);
    assert_eq!(
        bench.store.delete_entries(bench.clock.now() - day, 1).await.expect("the store can be written"),
        1
    );
    assert_eq!((entries(bench, &ahead.id).await.len(), entries(bench, &task.id).await.len()), (1, 0));
    assert_eq!(
        bench.store.delete_entries(bench.clock.now() - day, 1).await.expect("the store can be written"),
        0
    );
}
