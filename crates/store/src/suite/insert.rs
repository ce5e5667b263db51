//! Tests of inserts: idempotency keys, abandoned rows, slots, and initial leases.

use std::time::Duration;

use futures_util::future::join_all;
use taskbridge_sdk::Output;

use super::Bench;
use super::bench::{
    LEASE, attach, closed, holder, idempotency_key, limits, new_task, outcome_name, pending, starting,
    waiting, with_slots,
};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{InsertResult, NewTask, Quota};
use taskbridge_core::tasks::task::{Owner, Task};

pub async fn a_new_row_has_version_1_and_reads_back_as_it_was_written(bench: &Bench) {
    let task = waiting(bench.open_task("g"), "d", bench.clock.now());
    let added = bench.add(task.clone()).await;
    assert_eq!(added, Task { version: 1, ..task });
    assert_eq!(bench.read(&added.id).await, Some(added));
}

pub async fn an_idempotency_key_stands_for_its_row(bench: &Bench) {
    let insert = |scope, key, digest| {
        bench.store.insert(NewTask {
            idempotency_key: idempotency_key(scope, key, digest),
            ..new_task(bench.task())
        })
    };
    let Ok(InsertResult::Created(first)) = insert("alice", "k", "d").await else { panic!("not created") };
    let Ok(InsertResult::Existing { task, same: true }) = insert("alice", "k", "d").await else {
        panic!("the first row was not found")
    };
    assert_eq!(task, first);
    assert_eq!(outcome_name(&insert("alice", "k", "other arguments").await), "other");
    assert_eq!(outcome_name(&insert("alice", "other key", "d").await), "created");
    assert_eq!(outcome_name(&insert("bob", "k", "d").await), "created");
    let rows = bench.store.list(&first.owner, None, 10).await.expect("the rows are listed");
    assert_eq!(rows.len(), 3, "nothing was written for a key that stood");
}

pub async fn a_key_is_free_again_when_its_row_has_expired(bench: &Bench) {
    let insert = || {
        bench.store.insert(NewTask {
            idempotency_key: idempotency_key("alice", "k", "d"),
            ..new_task(bench.closed_task())
        })
    };
    let Ok(InsertResult::Created(first)) = insert().await else { panic!("not created") };
    bench.clock.advance(first.kept_until().since(first.created_at));
    let Ok(InsertResult::Created(second)) = insert().await else { panic!("an expired row was found") };
    bench.store.purge(bench.clock.now(), 10).await.expect("the first row is purged");
    let Ok(InsertResult::Existing { task, .. }) = insert().await else {
        panic!("the key was purged with the row")
    };
    assert_eq!(task.id, second.id);
}

pub async fn equal_keys_at_the_same_time_make_one_row(bench: &Bench) {
    let inserted = join_all((0..20).map(|_| {
        bench
            .store
            .insert(NewTask { idempotency_key: idempotency_key("alice", "k", "d"), ..new_task(bench.task()) })
    }))
    .await;
    assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "created").count(), 1);
    assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "existing").count(), 19);
}

pub async fn a_row_that_holds_slots_is_refused_where_one_is_taken_up(bench: &Bench) {
    let insert = |slots: &'static [&'static str]| {
        let task = with_slots(starting(bench.task()), slots);
        bench.store.insert(NewTask { limits: limits(slots, 2), ..new_task(task) })
    };
    assert_eq!(outcome_name(&insert(&["deploy", "forge"]).await), "created");
    assert_eq!(outcome_name(&insert(&["deploy"]).await), "created");
    assert_eq!(outcome_name(&insert(&["deploy"]).await), "no slot");
    assert_eq!(outcome_name(&insert(&["forge", "deploy"]).await), "no slot");
    assert_eq!(outcome_name(&insert(&["forge"]).await), "created");
    // A row that takes no slot yet is not refused: it queues, or takes them later.
    let task = with_slots(bench.task(), &["deploy"]);
    let inserted = bench.store.insert(NewTask { limits: limits(&["deploy"], 2), ..new_task(task) }).await;
    assert_eq!(outcome_name(&inserted), "created");
    let rows = bench.store.list(&bench.task().owner, None, 10).await.expect("the rows are listed");
    assert_eq!(rows.len(), 4, "a refused row is not written");
}

pub async fn a_newcomer_does_not_overtake_those_who_wait(bench: &Bench) {
    let insert = |slots: &'static [&'static str]| {
        let task = with_slots(starting(bench.task()), slots);
        bench.store.insert(NewTask { limits: limits(slots, 5), ..new_task(task) })
    };
    let queued = Task { job: pending(true, bench.clock.now()), ..with_slots(bench.task(), &["b", "a"]) };
    let queued = bench.add(queued).await;
    assert_eq!(
        outcome_name(&insert(&["a", "b"]).await),
        "no slot",
        "the same line, in whatever order it is named"
    );
    assert_eq!(outcome_name(&insert(&["a"]).await), "created", "another line");
    bench.update(&closed(queued, bench.clock.now())).await;
    assert_eq!(outcome_name(&insert(&["a", "b"]).await), "created");
}

pub async fn a_newcomer_stands_behind_other_lines_where_it_says_so(bench: &Bench) {
    let insert = |behind: &[&str]| {
        let task = with_slots(starting(bench.task()), &["a", "mine"]);
        let behind = behind.iter().map(|slot| (*slot).to_owned()).collect();
        bench.store.insert(NewTask {
            limits: limits(&["a", "mine"], 9),
            queue_behind: behind,
            ..new_task(task)
        })
    };
    let waits = |slots| Task { job: pending(true, bench.clock.now()), ..with_slots(bench.task(), slots) };
    bench.add(waits(&["b", "c"])).await;
    bench.add(waits(&[r#"say "a""#, "b"])).await;
    assert_eq!(outcome_name(&insert(&["a"]).await), "created", "nobody waits for it");
    let queued = bench.add(waits(&["yours", "b", "a"])).await;
    assert_eq!(outcome_name(&insert(&["a"]).await), "no slot");
    assert_eq!(outcome_name(&insert(&["mine", "b"]).await), "no slot");
    assert_eq!(outcome_name(&insert(&["mine"]).await), "created", "nobody waits for that");
    assert_eq!(outcome_name(&insert(&[]).await), "created");
    bench.update(&closed(queued, bench.clock.now())).await;
    assert_eq!(outcome_name(&insert(&["a"]).await), "created");
}

pub async fn slots_are_exact_when_many_want_them(bench: &Bench) {
    let inserted = join_all((0..30).map(|_| {
        let task = with_slots(starting(bench.task()), &["s"]);
        bench.store.insert(NewTask { limits: limits(&["s"], 7), ..new_task(task) })
    }))
    .await;
    assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "created").count(), 7);
    assert_eq!(inserted.iter().filter(|inserted| outcome_name(inserted) == "no slot").count(), 23);
}

pub async fn an_abandoned_row_is_found_by_its_digest(bench: &Bench) {
    let within = Duration::from_secs(60);
    let find_abandoned = |digest| async move {
        let request = NewTask {
            attach: attach(digest, within),
            ..new_task(waiting(bench.task(), "another", bench.clock.now()))
        };
        match bench.store.insert(request).await {
            Ok(InsertResult::Abandoned(task)) => Some(task),
            Ok(InsertResult::Created(_)) => None,
            other => panic!("neither found nor created: {other:?}"),
        }
    };
    let until = bench.clock.now() + Duration::from_secs(10);
    let older = bench.add(waiting(bench.task(), "d", until)).await;
    bench.clock.advance(Duration::from_secs(1));
    let newer = bench.add(waiting(bench.task(), "d", until)).await;
    let other = Task { owner: Owner::new("bob"), ..bench.task() };
    bench.add(waiting(other, "d", until)).await;
    assert_eq!(find_abandoned("d").await, None, "its call still waits");
    bench.clock.advance(Duration::from_secs(9));
    assert_eq!(find_abandoned("d").await, Some(newer.clone()), "the newest of the same owner");
    assert_eq!(find_abandoned("e").await, None, "another digest");
    assert_eq!(bench.read(&newer.id).await, Some(newer.clone()), "nothing was changed on it");
    bench.update(&Task { undelivered: None, ..newer }).await;
    assert_eq!(find_abandoned("d").await, Some(older), "what was delivered is not taken over");
    bench.clock.advance(within);
    assert_eq!(find_abandoned("d").await, None, "it was abandoned too long ago");
}

pub async fn a_key_goes_before_an_abandoned_row_and_that_before_slots(bench: &Bench) {
    let now = bench.clock.now();
    let occupant = with_slots(starting(bench.task()), &["s"]);
    bench
        .store
        .insert(NewTask { idempotency_key: idempotency_key("alice", "k", "d"), ..new_task(occupant) })
        .await
        .expect("the slot is taken");
    bench.add(waiting(bench.task(), "d", now)).await;
    let request =
        || NewTask { limits: limits(&["s"], 1), ..new_task(with_slots(starting(bench.task()), &["s"])) };
    let attach = || attach("d", LEASE);
    let both = NewTask { idempotency_key: idempotency_key("alice", "k", "d"), attach: attach(), ..request() };
    assert_eq!(outcome_name(&bench.store.insert(both).await), "existing");
    assert_eq!(
        outcome_name(&bench.store.insert(NewTask { attach: attach(), ..request() }).await),
        "abandoned"
    );
    assert_eq!(outcome_name(&bench.store.insert(request()).await), "no slot");
}

pub async fn owner_over_byte_limit_is_refused(bench: &Bench) {
    let insert = |task| {
        let quota = Some(Quota { rows: 10, bytes: 10_000 });
        bench.store.insert(NewTask { quota, ..new_task(task) })
    };
    let Ok(InsertResult::Created(task)) = insert(bench.task()).await else { panic!("not created") };
    assert_eq!(outcome_name(&insert(bench.task()).await), "created", "two rows take less");
    bench.end_with(&closed(task, bench.clock.now()), &Output::text("x".repeat(10_000))).await;
    let Ok(InsertResult::TooLarge { stored_bytes }) = insert(bench.task()).await else {
        panic!("it was not refused")
    };
    assert!((10_000..20_000).contains(&stored_bytes), "the result is counted once: {stored_bytes}");
    let of_bob = || Task { owner: Owner::new("bob"), ..bench.task() };
    assert_eq!(outcome_name(&insert(of_bob()).await), "created", "each owner has a limit of their own");
    bench.clock.advance(Duration::from_secs(7 * 86_400));
    bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written");
    assert_eq!(outcome_name(&insert(bench.task()).await), "created", "what was deleted is not counted");
}

pub async fn files_count_towards_byte_limit(bench: &Bench) {
    let insert = |task| {
        let quota = Some(Quota { rows: 10, bytes: 10_000 });
        bench.store.insert(NewTask { quota, ..new_task(task) })
    };
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let Ok(InsertResult::Created(task)) = insert(bench.task()).await else { panic!("not created") };
        tasks.push(task);
    }
    // A job can report any number.
    for task in tasks {
        let ended = Task { files_bytes: u64::MAX, ..closed(task, bench.clock.now()) };
        bench.end_with(&ended, &Output::text("done")).await;
    }
    let Ok(InsertResult::TooLarge { stored_bytes }) = insert(bench.task()).await else {
        panic!("it was not refused")
    };
    let most = 2 << 50;
    assert!((most..most + 10_000).contains(&stored_bytes), "{stored_bytes}");
}

pub async fn large_arguments_count_until_the_end(bench: &Bench) {
    let insert = |task| {
        let quota = Some(Quota { rows: 10, bytes: 10_000 });
        bench.store.insert(NewTask { quota, ..new_task(task) })
    };
    let large = Task { message: Some("x".repeat(6_000)), ..bench.task() };
    let Ok(InsertResult::Created(task)) = insert(large.clone()).await else { panic!("not created") };
    assert_eq!(
        outcome_name(&insert(Task { id: bench.task().id, ..large }).await),
        "too large",
        "with its own bytes"
    );
    bench.update(&closed(Task { message: None, ..task }, bench.clock.now())).await;
    assert_eq!(
        outcome_name(&insert(bench.task()).await),
        "created",
        "what the row no longer has is not counted"
    );
}

pub async fn a_row_can_be_born_leased(bench: &Bench) {
    let request = NewTask { lease: Some((holder("a"), LEASE)), ..new_task(bench.task()) };
    let Ok(InsertResult::Created(task)) = bench.store.insert(request).await else { panic!("not created") };
    assert_eq!(task.version, 1);
    assert!(bench.claim("b").await.is_empty(), "the creator has it");
    bench.clock.advance(LEASE);
    assert_eq!(bench.claim("b").await, [task.id]);
}
