//! Tests of the messages that carry questions to clients.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use taskbridge_sdk::Question;

use super::Bench;
use super::bench::{LEASE, closed};
use taskbridge_core::clock::Clock as _;
use taskbridge_core::sessions::{DeliveredQuestion, Delivery, DeliveryChange};
use taskbridge_core::tasks::task::{QuestionSource, Task, TaskId, TaskQuestion};

/// A text that databases must encode.
const PROBLEM: &str = "at least 3\0'\\";

/// Returns a question of this task, of which an older version recorded nothing.
pub(super) fn question(task: &Task, key: &str) -> DeliveredQuestion {
    let asked = Question::form("x", "x?", serde_json::json!({"type": "object", "properties": {}}));
    let asked = TaskQuestion::new(key.to_owned(), asked, QuestionSource::Job, task.created_at);
    DeliveredQuestion::of(task, &asked)
}

pub(super) async fn change(
    bench: &Bench,
    question: &DeliveredQuestion,
    change: DeliveryChange,
) -> Option<Delivery> {
    bench.store.change_delivery(question, change).await.expect("the store can be written")
}

pub(super) async fn claim(
    bench: &Bench,
    question: &DeliveredQuestion,
    seen: Option<Delivery>,
) -> Option<Delivery> {
    change(bench, question, DeliveryChange::Claim { seen, lease: LEASE }).await
}

async fn deliveries(bench: &Bench, task: &TaskId) -> BTreeMap<String, Delivery> {
    bench.store.deliveries(task).await.expect("the store can be read")
}

fn end(n: u32, handled: bool, problem: Option<&str>) -> DeliveryChange {
    DeliveryChange::End { n, handled, problem: problem.map(str::to_owned) }
}

pub async fn a_delivery_is_claimed_renewed_and_ended(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let (one, other) = (question(&task, "q1"), question(&task, "q\0"));
    assert_eq!(deliveries(bench, &task.id).await, BTreeMap::new());
    let first = claim(bench, &one, None).await.expect("nobody has it");
    let until = bench.clock.now() + LEASE;
    assert_eq!(first, Delivery { n: 1, until, over: false, problem: None });
    assert_eq!(claim(bench, &one, None).await, None, "it has been claimed since");
    bench.clock.advance(Duration::from_secs(10));
    let renewed = change(bench, &one, DeliveryChange::Renew { n: 1, lease: LEASE }).await;
    assert_eq!(renewed.as_ref().map(|renewed| renewed.until), Some(bench.clock.now() + LEASE));
    let ended = change(bench, &one, end(1, true, Some(PROBLEM))).await.expect("it is on a stream");
    assert_eq!(
        ended,
        Delivery { n: 1, until: bench.clock.now(), over: true, problem: Some(PROBLEM.to_owned()) }
    );
    assert_eq!(change(bench, &one, DeliveryChange::Renew { n: 1, lease: LEASE }).await, None);
    assert_eq!(change(bench, &one, end(2, true, None)).await, None, "there is no such message yet");
    let second = claim(bench, &other, None).await.expect("questions are independent");
    let expected = [("q1".to_owned(), ended.clone()), ("q\0".to_owned(), second)];
    assert_eq!(deliveries(bench, &task.id).await, expected.into());
    assert_eq!(deliveries(bench, &bench.add(bench.task()).await.id).await, BTreeMap::new());
    assert_eq!(claim(bench, &one, Some(ended)).await.map(|again| again.n), Some(2));
}

pub async fn a_question_is_claimed_once_when_many_want_it(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let question = question(&task, "q1");
    let mut seen = None;
    for n in 1..4 {
        let claims = join_all((0..20).map(|_| claim(bench, &question, seen.clone()))).await;
        let claimed: Vec<Delivery> = claims.into_iter().flatten().collect();
        assert_eq!(claimed.iter().map(|delivery| delivery.n).collect::<Vec<_>>(), [n]);
        seen = claimed.into_iter().next();
    }
}

pub async fn what_an_older_version_recorded_counts(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let recorded = |n| Delivery { n, until: bench.clock.now(), over: false, problem: None };
    let with_recorded = |n| DeliveredQuestion { recorded: Some(recorded(n)), ..question(&task, "q1") };
    assert_eq!(claim(bench, &with_recorded(3), None).await, None, "it has a message");
    let ended = change(bench, &with_recorded(3), end(3, true, None)).await.expect("it is the newest");
    assert_eq!(deliveries(bench, &task.id).await, [("q1".to_owned(), ended.clone())].into());
    let claimed = claim(bench, &with_recorded(3), Some(ended)).await.expect("nobody has it");
    assert_eq!(claimed.n, 4);
    assert_eq!(claim(bench, &with_recorded(5), Some(claimed)).await, None, "an older version has it");
    assert_eq!(claim(bench, &with_recorded(5), Some(recorded(5))).await.map(|claimed| claimed.n), Some(6));
}

pub async fn deliveries_are_deleted_with_their_row(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let question = question(&task, "q1");
    assert!(claim(bench, &question, None).await.is_some());
    bench.update(&closed(task.clone(), bench.clock.now())).await;
    bench.clock.advance(Duration::from_secs(7 * 86_400));
    assert_eq!(bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written").len(), 1);
    assert_eq!(deliveries(bench, &task.id).await, BTreeMap::new());
    assert_eq!(claim(bench, &question, None).await, None, "there is no such task");
    // A row with the same id has none of them.
    bench.add(task.clone()).await;
    assert_eq!(deliveries(bench, &task.id).await, BTreeMap::new());
}

pub async fn claims_of_questions_are_shortened(bench: &Bench) {
    let (hour, short) = (Duration::from_secs(3600), Duration::from_secs(60));
    let task = bench.add(bench.task()).await;
    let question = question(&task, "q1");
    let claim = DeliveryChange::Claim { seen: None, lease: hour };
    assert!(change(bench, &question, claim).await.is_some());
    for longest in [short, hour] {
        bench.store.shorten_leases(longest).await.expect("the store can be written");
        assert_eq!(deliveries(bench, &task.id).await["q1"].until, bench.clock.now() + short);
    }
}
