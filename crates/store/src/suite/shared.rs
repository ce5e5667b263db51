//! Tests of two processes over one store: guarantees of exactness also apply between them.
//!
//! Each behaviour gets two benches over the same rows, and creates its rows with the first.

use std::time::Duration;

use futures_util::future::{join, join_all};

use super::Bench;
use super::bench::{
    LEASE, forge, holder, idempotency_key, limits, new_task, outcome_name, starting, with_slots,
};
use super::deliveries::{claim, question};
use taskbridge_core::tasks::store::{NewTask, UpdateResult};
use taskbridge_core::tasks::task::Task;

/// Like [`crate::store_suite`], for two stores over the same rows. Takes an expression that returns two
/// benches.
#[macro_export]
macro_rules! shared_store_suite {
    ($benches:expr) => {
        $crate::shared_store_suite! {
            $benches;
            what_one_writes_the_other_reads
            two_processes_never_claim_the_same_row
            two_processes_make_one_row_of_a_key
            two_processes_never_take_more_slots_than_there_are
            of_two_processes_one_writes_a_version
            of_two_processes_one_watches_a_group
            two_processes_never_claim_the_same_question
            two_processes_have_one_seal_key
            one_process_hears_that_the_other_wrote
        }
    };
    ($benches:expr; $($behaviour:ident)*) => {$(
        #[tokio::test]
        async fn $behaviour() {
            let (a, b) = $benches;
            $crate::suite::$behaviour(&a, &b).await;
        }
    )*};
}

pub async fn what_one_writes_the_other_reads(a: &Bench, b: &Bench) {
    let task = a.add(a.task()).await;
    assert_eq!(b.read(&task.id).await, Some(task.clone()));
    b.update(&Task { message: Some("by b".to_owned()), ..task.clone() }).await;
    let read = a.read(&task.id).await.expect("the row is there");
    assert_eq!((read.version, read.message.as_deref()), (2, Some("by b")));
}

pub async fn two_processes_never_claim_the_same_row(a: &Bench, b: &Bench) {
    for _ in 0..100 {
        a.add(a.task()).await;
    }
    let claim_all = async |bench: &Bench, name: &str| {
        let mut claimed = Vec::new();
        loop {
            let rows = bench.claim_rows(name, 3).await;
            if rows.is_empty() {
                return claimed;
            }
            claimed.extend(rows.into_iter().map(|task| task.id));
        }
    };
    let (mut claimed, others) = join(claim_all(a, "a"), claim_all(b, "b")).await;
    claimed.extend(others);
    claimed.sort();
    claimed.dedup_by(|a, b| {
        assert_ne!(a, b, "a row was claimed by both");
        false
    });
    assert_eq!(claimed.len(), 100);
}

pub async fn two_processes_make_one_row_of_a_key(a: &Bench, b: &Bench) {
    for key in ["k", "l", "m"] {
        let requests: Vec<_> = (0..20)
            .map(|_| NewTask { idempotency_key: idempotency_key("alice", key, "d"), ..new_task(a.task()) })
            .collect();
        let inserts = requests.into_iter().zip([a, b].into_iter().cycle());
        let inserted = join_all(inserts.map(|(request, bench)| bench.store.insert(request))).await;
        assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "created").count(), 1);
        assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "existing").count(), 19);
    }
}

pub async fn two_processes_never_take_more_slots_than_there_are(a: &Bench, b: &Bench) {
    let request =
        |_| NewTask { limits: limits(&["s"], 7), ..new_task(with_slots(starting(a.task()), &["s"])) };
    let inserts = (0..40).map(request).zip([a, b].into_iter().cycle()).collect::<Vec<_>>();
    let inserted = join_all(inserts.into_iter().map(|(request, bench)| bench.store.insert(request))).await;
    assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "created").count(), 7);
    assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "no slot").count(), 33);
}

pub async fn of_two_processes_one_writes_a_version(a: &Bench, b: &Bench) {
    let mut row = a.add(a.task()).await;
    for round in 0..20 {
        let by = |name: &str| Task { message: Some(format!("{name} {round}")), ..row.clone() };
        let (by_a, by_b) = (by("a"), by("b"));
        let written = join(a.update(&by_a), b.update(&by_b)).await;
        row = match written {
            (UpdateResult::Written(version), UpdateResult::Conflict) => Task { version, ..by_a },
            (UpdateResult::Conflict, UpdateResult::Written(version)) => Task { version, ..by_b },
            other => panic!("not exactly one was written: {other:?}"),
        };
        assert_eq!(a.read(&row.id).await.as_ref(), Some(&row));
    }
}

pub async fn of_two_processes_one_watches_a_group(a: &Bench, b: &Bench) {
    for n in 0..10 {
        a.add(a.open_task(&n.to_string())).await;
    }
    let (by_a, by_b, all) = (holder("a"), holder("b"), [forge()]);
    let (own, others) =
        join(a.store.acquire_groups(&by_a, LEASE, &all), b.store.acquire_groups(&by_b, LEASE, &all)).await;
    let (own, others) = (own.expect("groups can be held"), others.expect("groups can be held"));
    assert_eq!(own.len() + others.len(), 10);
    assert!(!own.iter().any(|group| others.contains(group)));
}

pub async fn two_processes_never_claim_the_same_question(a: &Bench, b: &Bench) {
    let task = a.add(a.task()).await;
    let question = question(&task, "q1");
    let mut seen = None;
    for n in 1..20 {
        let claimed = join(claim(a, &question, seen.clone()), claim(b, &question, seen)).await;
        seen = match claimed {
            (Some(claimed), None) | (None, Some(claimed)) => Some(claimed),
            other => panic!("not exactly one has claimed it: {other:?}"),
        };
        assert_eq!(seen.as_ref().map(|claimed| claimed.n), Some(n));
    }
}

pub async fn two_processes_have_one_seal_key(a: &Bench, b: &Bench) {
    let (by_a, by_b) = join(a.store.seal_key([1; 32]), b.store.seal_key([2; 32])).await;
    assert_eq!(by_a.expect("the key can be read"), by_b.expect("the key can be read"));
}

pub async fn one_process_hears_that_the_other_wrote(a: &Bench, b: &Bench) {
    for bench in [a, b] {
        let other = if std::ptr::eq(bench, a) { b } else { a };
        let hint = tokio::time::timeout(Duration::from_secs(30), bench.store.changed_elsewhere());
        let (hint, _) = join(hint, other.add(a.task())).await;
        hint.expect("the other's write is noticed");
    }
}
