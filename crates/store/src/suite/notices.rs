//! Tests of notices: each is committed atomically with its change, leased to one sender at a time, and kept
//! until it is deleted.

use std::time::Duration;

use taskbridge_sdk::Output;

use super::bench::{Bench, LEASE, holder, new_task};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::notices::{Notice, NoticeCause, NoticeContent};
use taskbridge_core::tasks::store::{Change, LeasedNotice, NewTask, ReceiverFilter, UpdateResult};
use taskbridge_core::tasks::task::{Outcome, Task};

pub(super) fn notice(task: &Task, id: &str, receiver: &str) -> Notice {
    let content = NoticeContent {
        task: task.id.clone(),
        tool: task.tool.clone(),
        at: task.created_at,
        what: NoticeCause::Ended(Outcome::Succeeded),
    };
    Notice { id: id.to_owned(), receiver: receiver.to_owned(), content }
}

async fn take(bench: &Bench, receiver: &str, holder_name: &str, limit: usize) -> Vec<LeasedNotice> {
    let taken = bench.store.take_notices(receiver, &holder(holder_name), LEASE, limit).await;
    taken.expect("notices can be taken")
}

async fn update(bench: &Bench, task: &Task, output: Option<&Output>, notices: &[Notice]) -> UpdateResult {
    let change = Change { output, notices, ..Change::new(task, bench.clock.now()) };
    bench.store.update(change).await.expect("a row can be written")
}

pub async fn notices_are_owed_with_the_change_that_caused_them(bench: &Bench) {
    let task = bench.task();
    let (asks, ended) = (notice(&task, "asks", "r"), notice(&task, "ended", "r"));
    let request = NewTask { notices: vec![asks.clone(), notice(&task, "asks", "s")], ..new_task(task) };
    bench.store.insert(request.clone()).await.expect("a row can be added");
    let row = bench.read(&request.task.id).await.expect("the row is there");
    let stale = Task { version: 9, ..row.clone() };
    assert!(matches!(
        update(bench, &stale, None, std::slice::from_ref(&ended)).await,
        UpdateResult::Conflict
    ));
    assert_eq!(
        take(bench, "r", "a", 9).await,
        [LeasedNotice { notice: asks, attempts: 1 }],
        "nothing came of the other"
    );
    assert!(take(bench, "r", "b", 9).await.is_empty(), "it is being sent");
    let output = Output::text("done");
    let written = update(bench, &row, Some(&output), &[ended.clone(), ended.clone()]).await;
    assert!(matches!(written, UpdateResult::Written(_)));
    assert_eq!(take(bench, "r", "a", 9).await, [LeasedNotice { notice: ended, attempts: 1 }]);
    assert_eq!(take(bench, "s", "a", 9).await.len(), 1, "each receiver has its own");
}

pub async fn a_notice_is_owed_until_it_is_struck(bench: &Bench) {
    let task = bench.task();
    let notices: Vec<Notice> = ["a", "b", "c"].iter().map(|id| notice(&task, id, "r")).collect();
    bench
        .store
        .insert(NewTask { notices: notices.clone(), ..new_task(task) })
        .await
        .expect("a row can be added");
    let ids = |leased: Vec<LeasedNotice>| {
        leased.into_iter().map(|notice| (notice.notice.id, notice.attempts)).collect::<Vec<_>>()
    };
    let pairs = |of: &[(&str, u32)]| of.iter().map(|(id, n)| ((*id).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(ids(take(bench, "r", "x", 2).await), pairs(&[("a", 1), ("b", 1)]));
    let (store, pause) = (&bench.store, Duration::from_secs(5));
    store.ack_notice(&notices[0]).await.expect("a notice can be struck");
    store
        .retry_notice_later(&notices[1], &holder("y"), pause)
        .await
        .expect("it is not y's, so nothing happens");
    bench.clock.advance(pause);
    assert_eq!(ids(take(bench, "r", "y", 9).await), pairs(&[("c", 1)]));
    store.retry_notice_later(&notices[1], &holder("x"), pause).await.expect("a notice can be put off");
    bench.clock.advance(pause);
    assert_eq!(ids(take(bench, "r", "y", 9).await), pairs(&[("b", 2)]));
    store.release_all(&holder("y")).await.expect("leases can be let go");
    assert_eq!(ids(take(bench, "r", "x", 9).await), pairs(&[("b", 3), ("c", 2)]));
    bench.clock.advance(LEASE);
    assert_eq!(ids(take(bench, "r", "x", 9).await), pairs(&[("b", 4), ("c", 3)]), "the lease ran out");
}

pub async fn what_is_owed_can_be_forgotten(bench: &Bench) {
    let task = bench.task();
    let notice_for = |receiver: &str| notice(&task, "n", receiver);
    let notices = vec![notice_for("r"), notice_for("s"), notice_for("t")];
    bench.store.insert(NewTask { notices, ..new_task(task.clone()) }).await.expect("a row can be added");
    let (then, now) = (task.created_at, task.created_at + Duration::from_millis(1));
    let forget = async |which, before| {
        bench.store.delete_notices(which, before).await.expect("notices can be forgotten")
    };
    assert_eq!(forget(ReceiverFilter::Only("r"), then).await, 0, "it is not that old");
    assert_eq!(forget(ReceiverFilter::Only("r"), now).await, 1);
    assert_eq!(forget(ReceiverFilter::AllExcept(&["s".to_owned()]), now).await, 1);
    assert!(take(bench, "t", "a", 9).await.is_empty() && take(bench, "r", "a", 9).await.is_empty());
    assert_eq!(take(bench, "s", "a", 9).await.len(), 1);
}

pub async fn a_notice_outlives_its_row(bench: &Bench) {
    let task = bench.closed_task();
    let notices = vec![notice(&task, "n", "r")];
    bench.store.insert(NewTask { notices, ..new_task(task) }).await.expect("a row can be added");
    bench.clock.advance(Duration::from_secs(1_000_000));
    assert_eq!(bench.store.purge(bench.clock.now(), 9).await.expect("rows can be deleted").len(), 1);
    assert_eq!(take(bench, "r", "a", 9).await.len(), 1);
}
