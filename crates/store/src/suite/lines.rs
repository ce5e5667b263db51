//! Tests of rows that queue for slots. A slot is a name under which the store counts jobs against a limit,
//! and a queue is all rows that wait for the same set of slots.

use std::time::Duration;

use super::Bench;
use super::bench::{closed, forge, pending, with_slots};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::ServedBackend;
use taskbridge_core::tasks::task::Task;

/// Adds a row that queues for these slots. It is newer than all others.
async fn queue(bench: &Bench, slots: &[&str]) -> Task {
    bench.clock.advance(Duration::from_millis(1));
    let queued = true;
    let job = pending(queued, bench.clock.now());
    bench.add(Task { job, ..with_slots(bench.task(), slots) }).await
}

pub async fn the_head_of_a_line_is_its_oldest_row(bench: &Bench) {
    let heads = async || bench.store.queue_heads(&[forge()]).await.expect("the queues can be read");
    assert_eq!(heads().await, []);
    bench.add(with_slots(bench.task(), &["a"])).await;
    assert_eq!(heads().await, [], "a row that does not wait is in no queue");
    let first = queue(bench, &["b"]).await;
    let second = queue(bench, &["a", "b"]).await;
    queue(bench, &["b", "a"]).await;
    let third = queue(bench, &["a"]).await;
    let behind = queue(bench, &["b"]).await;
    assert_eq!(heads().await, [first.clone(), second.clone(), third.clone()]);
    bench.update(&closed(first, bench.clock.now())).await;
    assert_eq!(heads().await, [second, third, behind], "the oldest head is first");
}

/// A row of a backend that is not connected does not block the rows behind it.
pub async fn line_heads_are_of_connected_backends(bench: &Bench) {
    bench.clock.advance(Duration::from_millis(1));
    let queued = true;
    let job = pending(queued, bench.clock.now());
    let away = Task { backend: "away".to_owned(), job, ..with_slots(bench.task(), &["a"]) };
    let away = bench.add(away).await;
    let behind = queue(bench, &["a"]).await;
    let heads = async |served: &[ServedBackend]| {
        bench.store.queue_heads(served).await.expect("the queues can be read")
    };
    assert_eq!(heads(&[forge()]).await, [behind]);
    assert_eq!(heads(&[forge(), ServedBackend::named("away")]).await, [away]);
    assert_eq!(heads(&[]).await, []);
}

pub async fn a_row_knows_how_many_wait_before_it(bench: &Bench) {
    let ahead = async |task: &Task| bench.store.ahead(task).await.expect("the queue can be read");
    let first = queue(bench, &["a"]).await;
    let second = queue(bench, &["a"]).await;
    queue(bench, &["b"]).await;
    let third = queue(bench, &["a"]).await;
    assert_eq!((ahead(&first).await, ahead(&second).await, ahead(&third).await), (0, 1, 2));
    bench.update(&closed(second, bench.clock.now())).await;
    assert_eq!(ahead(&third).await, 1);
}
