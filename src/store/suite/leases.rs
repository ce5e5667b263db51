//! Who may act on a row, and until when.

use std::time::Duration;

use futures_util::future::join_all;

use super::Bench;
use super::bench::{LEASE, closed, holder, new};
use crate::clock::Clock;
use crate::tasks::store::{Inserted, Lease, NewTask, Updated};
use crate::tasks::task::{Owner, Task};

pub async fn a_claim_leases_what_is_due(bench: &Bench) {
    let due = bench.add(bench.task()).await;
    let later = Duration::from_secs(5);
    let not_yet = bench.add(Task { due_at: Some(bench.clock.now() + later), ..bench.task() }).await;
    bench.add(bench.closed_task()).await;
    let claimed = bench.store.claim(&holder("a"), LEASE, 10, &[]).await.expect("rows can be claimed");
    assert_eq!(claimed, [Task { version: 2, ..due.clone() }]);
    assert_eq!(
        bench.read(&due.id).await,
        Some(claimed[0].clone()),
        "its version was raised in the store as well"
    );
    assert!(bench.claim("b").await.is_empty());
    assert!(bench.claim("a").await.is_empty(), "not even by the same holder");
    bench.clock.advance(later);
    assert_eq!(bench.claim("b").await, [not_yet.id]);
}

pub async fn a_claim_begins_with_what_is_due_longest(bench: &Bench) {
    let mut rows = Vec::new();
    for seconds in [3, 1, 2, 5, 4] {
        let due_at = Some(bench.clock.now() + Duration::from_secs(seconds));
        rows.push(bench.add(Task { due_at, ..bench.task() }).await);
    }
    bench.clock.advance(Duration::from_secs(10));
    rows.sort_by_key(|task| task.due_at);
    let claimed = bench.store.claim(&holder("a"), LEASE, 2, &[]).await.expect("rows can be claimed");
    let ids = |rows: &[Task]| rows.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&claimed), ids(&rows[..2]));
    assert_eq!(bench.claim("b").await, ids(&rows[2..]));
}

pub async fn a_claim_takes_owners_in_turn(bench: &Bench) {
    let row = |owner: &str, due: u64| {
        let due_at = Some(bench.clock.now() + Duration::from_millis(due));
        Task { due_at, owner: Owner::new(owner), ..bench.task() }
    };
    for due in 0..2_000 {
        bench.add(row("noisy", due)).await;
    }
    let quiet = [bench.add(row("quiet", 2_500)).await, bench.add(row("quiet", 2_501)).await];
    bench.clock.advance(Duration::from_secs(10));
    let claimed = bench.store.claim(&holder("a"), LEASE, 5, &[]).await.expect("rows can be claimed");
    let owners: Vec<_> = claimed.iter().map(|task| task.owner.as_str()).collect();
    assert_eq!(owners, ["noisy", "quiet", "noisy", "quiet", "noisy"]);
    assert_eq!((&claimed[1].id, &claimed[3].id), (&quiet[0].id, &quiet[1].id));
    assert!(claimed[0].due_at < claimed[2].due_at && claimed[2].due_at < claimed[4].due_at);
}

pub async fn rows_are_claimed_once_when_many_claim(bench: &Bench) {
    for _ in 0..40 {
        bench.add(bench.task()).await;
    }
    let holders: Vec<_> = (0..8).map(|n| holder(&n.to_string())).collect();
    let claims = join_all(holders.iter().map(|holder| bench.store.claim(holder, LEASE, 6, &[]))).await;
    let mut ids: Vec<_> =
        claims.into_iter().flat_map(|rows| rows.expect("rows can be claimed")).map(|task| task.id).collect();
    assert_eq!(ids.len(), 40);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40, "a row was claimed twice");
}

pub async fn a_lease_that_ran_out_is_claimed_by_another(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let claimed =
        bench.store.claim(&holder("a"), LEASE, 1, &[]).await.expect("the row can be claimed").remove(0);
    bench.clock.advance(LEASE - Duration::from_millis(1));
    assert!(bench.claim("b").await.is_empty());
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.claim("b").await, [task.id]);
    // Whoever was frozen meanwhile cannot write what it holds of the row.
    assert!(matches!(bench.update(&claimed).await, Updated::Conflict));
}

pub async fn an_update_releases_only_the_holders_own_lease(bench: &Bench) {
    bench.add(bench.task()).await;
    let row = bench.store.claim(&holder("a"), LEASE, 1, &[]).await.expect("the row can be claimed").remove(0);
    let released = bench.change(&row, Lease::Release(&holder("b"))).await;
    assert!(matches!(released, Updated::Written(3)), "the change itself is written: {released:?}");
    assert!(bench.claim("b").await.is_empty(), "somebody else's lease stays");
    bench.change(&Task { version: 3, ..row.clone() }, Lease::Keep).await;
    assert!(bench.claim("b").await.is_empty(), "a change that keeps the lease keeps it");
    bench.change(&Task { version: 4, ..row.clone() }, Lease::Release(&holder("a"))).await;
    assert_eq!(bench.claim("b").await, [row.id]);
}

pub async fn an_update_holds_a_lease_that_nobody_else_has(bench: &Bench) {
    let row = bench.add(bench.task()).await;
    let hold = async |name: &str, version| {
        let row = Task { version, ..row.clone() };
        bench.change(&row, Lease::Hold(&holder(name), LEASE)).await
    };
    assert!(matches!(hold("a", 1).await, Updated::Written(2)), "nobody had it");
    assert!(matches!(hold("b", 2).await, Updated::Conflict), "somebody has it");
    bench.clock.advance(LEASE / 2);
    assert!(matches!(hold("a", 2).await, Updated::Written(3)), "it is prolonged");
    bench.clock.advance(LEASE / 2);
    assert!(bench.claim("b").await.is_empty(), "from the moment of the change on");
    bench.clock.advance(LEASE / 2);
    assert!(matches!(hold("b", 3).await, Updated::Written(4)), "it had run out");
    assert!(matches!(hold("a", 4).await, Updated::Conflict));
}

pub async fn the_next_due_time_respects_leases(bench: &Bench) {
    let next = async || bench.store.next_due(&[]).await.expect("the store can be read");
    let now = bench.clock.now();
    let seconds = |n| now + Duration::from_secs(n);
    assert_eq!(next().await, None);
    bench.add(bench.closed_task()).await;
    assert_eq!(next().await, None);
    // Due at once, and leased for 30 s.
    let wish = NewTask { lease: Some((holder("a"), LEASE)), ..new(bench.task()) };
    let Ok(Inserted::Created(leased)) = bench.store.insert(wish).await else { panic!("not created") };
    assert_eq!(next().await, Some(now + LEASE));
    bench.add(Task { due_at: Some(seconds(50)), ..bench.task() }).await;
    assert_eq!(next().await, Some(now + LEASE));
    let soon = bench.add(Task { due_at: Some(seconds(20)), ..bench.task() }).await;
    assert_eq!(next().await, Some(seconds(20)));
    bench.update(&closed(soon, now)).await;
    // Due long after its lease has run out.
    bench.update(&Task { due_at: Some(seconds(40)), ..leased }).await;
    assert_eq!(next().await, Some(seconds(40)));
}

pub async fn the_time_is_what_leases_and_due_times_are_compared_with(bench: &Bench) {
    let time = async || bench.store.now().await.expect("the store can be read");
    let due = Duration::from_secs(20);
    let row = bench.add(Task { due_at: Some(time().await + due), ..bench.task() }).await;
    bench.clock.advance(due - Duration::from_millis(1));
    assert_eq!(time().await, bench.clock.now());
    assert!(bench.claim("a").await.is_empty());
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(Some(time().await), row.due_at);
    assert_eq!(bench.claim("a").await, [row.id]);
}

pub async fn what_is_elsewhere_is_left_to_others(bench: &Bench) {
    let elsewhere = ["away".to_owned(), "gone".to_owned()];
    let away = |task: Task| Task { backend: "away".to_owned(), ..task };
    let far = bench.add(away(bench.task())).await;
    bench.clock.advance(Duration::from_secs(1));
    let near = bench.add(bench.task()).await;
    bench.add(away(bench.open_task("x"))).await;
    bench.add(bench.open_task("y")).await;
    let next =
        async |elsewhere: &[String]| bench.store.next_due(elsewhere).await.expect("the store can be read");
    assert_eq!((next(&[]).await, next(&elsewhere).await), (far.due_at, near.due_at));
    let claim = async |name: &str, elsewhere: &[String]| {
        let rows = bench.store.claim(&holder(name), LEASE, 10, elsewhere).await.expect("rows can be claimed");
        rows.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(claim("a", &elsewhere).await, [near.id]);
    assert!(next(&elsewhere).await > Some(bench.clock.now()), "there is nothing to wake for");
    assert_eq!(claim("a", &elsewhere).await, []);
    assert_eq!(claim("b", &[]).await, [far.id]);

    let hold = async |name: &str, elsewhere: &[String]| {
        let held = bench.store.hold(&holder(name), LEASE, elsewhere).await.expect("groups can be held");
        held.iter().map(|group| group.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(hold("a", &elsewhere).await, ["y"]);
    assert_eq!(hold("b", &[]).await, ["x"]);
    // Whoever held one that is elsewhere now gives it up, at the latest when its lease runs out.
    assert_eq!(hold("b", &elsewhere).await, Vec::<String>::new());
    bench.clock.advance(LEASE);
    let mut all = hold("c", &[]).await;
    all.sort();
    assert_eq!(all, ["x", "y"]);
}
