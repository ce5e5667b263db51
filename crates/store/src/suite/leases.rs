//! Tests of leases: which holder may act on a row, and until when.

use std::time::Duration;

use futures_util::future::join_all;
use taskbridge_sdk::{GroupKey, Timestamp};

use super::Bench;
use super::bench::{LEASE, closed, forge, holder, new_task};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{
    ClaimRequest, Group, InsertResult, Lease, NewTask, ServedBackend, UpdateResult,
};
use taskbridge_core::tasks::task::{Owner, Task, TaskId};

pub async fn a_claim_leases_what_is_due(bench: &Bench) {
    let due = bench.add(bench.task()).await;
    let later = Duration::from_secs(5);
    let not_yet = bench.add(Task { due_at: Some(bench.clock.now() + later), ..bench.task() }).await;
    bench.add(bench.closed_task()).await;
    let claimed = bench.claim_rows("a", 10).await;
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
    let claimed = bench.claim_rows("a", 2).await;
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
    let claimed = bench.claim_rows("a", 5).await;
    let owners: Vec<_> = claimed.iter().map(|task| task.owner.as_str()).collect();
    assert_eq!(owners, ["noisy", "quiet", "noisy", "quiet", "noisy"]);
    assert_eq!((&claimed[1].id, &claimed[3].id), (&quiet[0].id, &quiet[1].id));
    assert!(claimed[0].due_at < claimed[2].due_at && claimed[2].due_at < claimed[4].due_at);
}

pub async fn rows_are_claimed_once_when_many_claim(bench: &Bench) {
    for _ in 0..40 {
        bench.add(bench.task()).await;
    }
    let holders: Vec<_> = (0..8).map(|n: u8| n.to_string()).collect();
    let claims = join_all(holders.iter().map(|holder| bench.claim_rows(holder, 6))).await;
    let mut ids: Vec<_> = claims.into_iter().flatten().map(|task| task.id).collect();
    assert_eq!(ids.len(), 40);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40, "a row was claimed twice");
}

pub async fn a_lease_that_ran_out_is_claimed_by_another(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let claimed = bench.claim_rows("a", 1).await.remove(0);
    bench.clock.advance(LEASE - Duration::from_millis(1));
    assert!(bench.claim("b").await.is_empty());
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.claim("b").await, [task.id]);
    // A holder that was frozen in the meantime cannot write its outdated row.
    assert!(matches!(bench.update(&claimed).await, UpdateResult::Conflict));
}

pub async fn an_update_releases_only_the_holders_own_lease(bench: &Bench) {
    bench.add(bench.task()).await;
    let row = bench.claim_rows("a", 1).await.remove(0);
    let released = bench.change(&row, Lease::Release(&holder("b"))).await;
    assert!(matches!(released, UpdateResult::Written(3)), "the change itself is written: {released:?}");
    assert!(bench.claim("b").await.is_empty(), "somebody else's lease stays");
    bench.change(&Task { version: 3, ..row.clone() }, Lease::Keep).await;
    assert!(bench.claim("b").await.is_empty(), "a change that keeps the lease keeps it");
    bench.change(&Task { version: 4, ..row.clone() }, Lease::Release(&holder("a"))).await;
    assert_eq!(bench.claim("b").await, [row.id]);
}

pub async fn an_update_holds_a_lease_that_nobody_else_has(bench: &Bench) {
    let row = bench.add(bench.task()).await;
    let acquire = async |name: &str, version| {
        let row = Task { version, ..row.clone() };
        bench.change(&row, Lease::Acquire(&holder(name), LEASE)).await
    };
    assert!(matches!(acquire("a", 1).await, UpdateResult::Written(2)), "nobody had it");
    assert!(matches!(acquire("b", 2).await, UpdateResult::Conflict), "somebody has it");
    bench.clock.advance(LEASE / 2);
    assert!(matches!(acquire("a", 2).await, UpdateResult::Written(3)), "it is prolonged");
    bench.clock.advance(LEASE / 2);
    assert!(bench.claim("b").await.is_empty(), "from the moment of the change on");
    bench.clock.advance(LEASE / 2);
    assert!(matches!(acquire("b", 3).await, UpdateResult::Written(4)), "it had run out");
    assert!(matches!(acquire("a", 4).await, UpdateResult::Conflict));
}

pub async fn the_next_due_time_respects_leases(bench: &Bench) {
    let next = async || bench.next_due().await;
    let now = bench.clock.now();
    let seconds = |n| now + Duration::from_secs(n);
    assert_eq!(next().await, None);
    bench.add(bench.closed_task()).await;
    assert_eq!(next().await, None);
    // Due immediately, and leased for 30 s.
    let request = NewTask { lease: Some((holder("a"), LEASE)), ..new_task(bench.task()) };
    let Ok(InsertResult::Created(leased)) = bench.store.insert(request).await else { panic!("not created") };
    assert_eq!(next().await, Some(now + LEASE));
    bench.add(Task { due_at: Some(seconds(50)), ..bench.task() }).await;
    assert_eq!(next().await, Some(now + LEASE));
    let soon = bench.add(Task { due_at: Some(seconds(20)), ..bench.task() }).await;
    assert_eq!(next().await, Some(seconds(20)));
    bench.update(&closed(soon, now)).await;
    // Due long after its lease has expired.
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

/// A claim can leave out rows that became due a moment ago.
pub async fn claim_leaves_rows_that_became_due(bench: &Bench) {
    let (overdue, served) = (Duration::from_millis(200), forge());
    let early = bench.add(Task { due_at: Some(bench.clock.now()), ..bench.task() }).await;
    bench.clock.advance(Duration::from_millis(1));
    let late = bench.add(Task { due_at: Some(bench.clock.now()), ..bench.task() }).await;
    bench.clock.advance(Duration::from_millis(199));
    let claim = async || {
        let request = ClaimRequest { served: served.clone(), limit: 10, cursor: None, overdue };
        let claimed = bench.store.claim(&holder("a"), LEASE, &request).await.expect("rows can be claimed");
        claimed.tasks.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(claim().await, [early.id]);
    assert_eq!(claim().await, []);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(claim().await, [late.id]);
}

fn served(backend: &str, identity: Option<&str>) -> ServedBackend {
    ServedBackend { backend: backend.to_owned(), identity: identity.map(str::to_owned) }
}

async fn claim(bench: &Bench, name: &str, served: &ServedBackend) -> Vec<TaskId> {
    let request = ClaimRequest { served: served.clone(), limit: 10, cursor: None, overdue: Duration::ZERO };
    let claimed = bench.store.claim(&holder(name), LEASE, &request).await.expect("rows can be claimed");
    claimed.tasks.into_iter().map(|task| task.id).collect()
}

async fn acquire_groups(bench: &Bench, name: &str, served: &[ServedBackend]) -> Vec<String> {
    let groups = bench.store.acquire_groups(&holder(name), LEASE, served).await.expect("groups can be held");
    groups.iter().map(|group| group.key.to_string()).collect()
}

async fn add(bench: &Bench, task: Task, identity: Option<&str>) -> Task {
    let request = NewTask { identity: identity.map(str::to_owned), ..new_task(task) };
    let inserted = bench.store.insert(request).await.expect("a row can be added");
    let InsertResult::Created(task) = inserted else { panic!("not created: {inserted:?}") };
    task
}

/// A process serves only the backends that it has connected.
pub async fn rows_of_unconnected_backends_stay(bench: &Bench) {
    let away = |task: Task| Task { backend: "away".to_owned(), ..task };
    let far = bench.add(away(bench.task())).await;
    bench.clock.advance(Duration::from_secs(1));
    let near = bench.add(bench.task()).await;
    bench.add(away(bench.open_task("x"))).await;
    bench.add(bench.open_task("y")).await;
    let [here, there] = ["forge", "away"].map(ServedBackend::named);
    let both = [here.clone(), there.clone(), ServedBackend::named("gone")];
    let due = bench.store.next_due(&both).await.expect("the store can be read");
    assert_eq!(due, [near.due_at, far.due_at, None]);
    assert_eq!(bench.store.next_due(&[]).await.expect("the store can be read"), []);
    assert_eq!(claim(bench, "a", &here).await, [near.id]);
    assert!(bench.next_due().await > Some(bench.clock.now()), "there is nothing to wake for");
    assert_eq!(claim(bench, "a", &here).await, []);
    assert_eq!(claim(bench, "b", &there).await, [far.id]);
    assert_eq!(acquire_groups(bench, "a", std::slice::from_ref(&here)).await, ["y"]);
    assert_eq!(acquire_groups(bench, "b", &both).await, ["x"]);
    // A holder that is no longer connected gives the group up.
    assert_eq!(acquire_groups(bench, "b", &[here]).await, Vec::<String>::new());
    assert_eq!(acquire_groups(bench, "c", &[there]).await, ["x"]);
}

/// Two engines under one name are served separately.
pub async fn rows_of_other_identities_stay(bench: &Bench) {
    let ours = served("forge", Some("sim one"));
    let other = served("forge", Some("sim two"));
    let one = add(bench, bench.task(), Some("sim one")).await;
    let two = add(bench, bench.task(), Some("sim two")).await;
    let open = add(bench, bench.open_task("x"), Some("sim one")).await;
    let list = async |served: &ServedBackend| {
        let rows = bench.store.list_due(served, None, 10).await.expect("due rows can be read");
        rows.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(list(&ours).await, std::slice::from_ref(&one.id));
    assert_eq!(claim(bench, "a", &ours).await, [one.id]);
    assert_eq!(claim(bench, "a", &ours).await, []);
    assert_eq!(claim(bench, "b", &forge()).await, [two.id], "an engine that is not known serves all");
    let group = Group { backend: "forge".to_owned(), key: GroupKey::new("x") };
    let jobs = async |identity| {
        let all = Timestamp::from_millis(0);
        bench.store.open_jobs(&group, identity, all).await.expect("open jobs can be read").len()
    };
    assert_eq!((jobs(Some("sim one")).await, jobs(Some("sim two")).await, jobs(None).await), (1, 0, 1));
    assert_eq!(acquire_groups(bench, "b", &[other]).await, Vec::<String>::new());
    assert_eq!(acquire_groups(bench, "a", &[ours]).await, ["x"]);
    bench.update(&closed(open, bench.clock.now())).await;
}

/// A row without an identity gets the first connected one, at startup or with a claim.
pub async fn rows_without_identity_are_adopted(bench: &Bench) {
    let [one, two] = ["sim one", "sim two"].map(|identity| served("forge", Some(identity)));
    let adopt = async |served: &ServedBackend| bench.store.adopt(served).await.expect("rows can be adopted");
    let old = bench.add(bench.task()).await;
    add(bench, Task { backend: "other".to_owned(), ..bench.task() }, None).await;
    assert_eq!(adopt(&forge()).await, [], "without an identity there is nothing to adopt for");
    assert_eq!(adopt(&one).await, []);
    assert_eq!(adopt(&two).await, [("sim one".to_owned(), 1)], "it has one now");
    assert_eq!(claim(bench, "b", &two).await, []);
    assert_eq!(claim(bench, "a", &one).await, [old.id]);
    let late = bench.add(bench.task()).await;
    assert_eq!(claim(bench, "b", &two).await, std::slice::from_ref(&late.id));
    bench.clock.advance(LEASE);
    assert!(!claim(bench, "a", &one).await.contains(&late.id), "a claim adopts, too");
}

/// Each owner's first row is claimed within one round, regardless of another owner's backlog.
pub async fn large_backlog_serves_every_owner(bench: &Bench) {
    for n in 0..600 {
        bench.add(Task { owner: Owner::new(if n < 400 { "a" } else { "m" }), ..bench.task() }).await;
    }
    let later = Some(bench.clock.now() + Duration::from_secs(3600));
    for n in 0..300 {
        let owner = Owner::new(format!("b{n}"));
        bench.add(Task { owner, due_at: later, ..bench.task() }).await;
    }
    bench.clock.advance(Duration::from_secs(1));
    bench.add(Task { owner: Owner::new("z"), ..bench.task() }).await;
    let overdue = Duration::from_millis(500);
    let request = ClaimRequest { served: forge(), limit: 9, cursor: None, overdue };
    let claimed = bench.store.claim(&holder("a"), LEASE, &request).await.expect("rows can be claimed");
    assert!(claimed.tasks.len() == 9 && claimed.tasks.iter().all(|task| task.owner.as_str() != "z"));
    let mut cursor = None;
    let mut owners = Vec::new();
    for _ in 0..6 {
        let request = ClaimRequest { served: forge(), limit: 2, cursor, overdue: Duration::ZERO };
        let claimed = bench.store.claim(&holder("a"), LEASE, &request).await.expect("rows can be claimed");
        assert_eq!(claimed.tasks.len(), 2, "a claim takes what it may");
        owners.extend(claimed.tasks.iter().map(|task| task.owner.as_str().to_owned()));
        cursor = claimed.cursor;
    }
    let claims_of = |owner: &str| owners.iter().filter(|name| *name == owner).count();
    assert_eq!(claims_of("z"), 1, "{owners:?}");
    assert!(claims_of("m") >= 2 && claims_of("a") >= 3, "{owners:?}");
}

/// A list of due rows leases nothing and can start after a row.
pub async fn due_rows_are_listed_unleased(bench: &Bench) {
    let mut rows = Vec::new();
    for _ in 0..5 {
        rows.push(bench.add(bench.task()).await);
    }
    bench.clock.advance(Duration::from_secs(1));
    rows.push(bench.add(bench.task()).await);
    bench.add(Task { due_at: Some(bench.clock.now() + LEASE), ..bench.task() }).await;
    rows.sort_by(|a, b| (a.due_at, &a.id).cmp(&(b.due_at, &b.id)));
    let list = async |after: Option<&Task>| {
        let after = after.map(|task| (task.due_at.expect("it is due"), task.id.clone()));
        bench.store.list_due(&forge(), after.as_ref(), 2).await.expect("due rows can be read")
    };
    assert_eq!(list(None).await, rows[..2]);
    assert_eq!(list(Some(&rows[3])).await, rows[4..]);
    assert_eq!(list(Some(&rows[5])).await, []);
    assert_eq!(bench.claim("a").await.len(), 6);
    assert_eq!(list(None).await, [], "they are leased");
}

/// Two processes with different engines under one name each watch their own jobs.
pub async fn groups_of_two_identities_are_independent(bench: &Bench) {
    let [one, two] = ["sim one", "sim two"].map(|identity| served("forge", Some(identity)));
    add(bench, bench.open_task("x"), Some("sim one")).await;
    let open = add(bench, bench.open_task("x"), Some("sim two")).await;
    for _ in 0..2 {
        assert_eq!(acquire_groups(bench, "a", std::slice::from_ref(&one)).await, ["x"]);
        assert_eq!(acquire_groups(bench, "b", std::slice::from_ref(&two)).await, ["x"]);
        assert_eq!(acquire_groups(bench, "c", std::slice::from_ref(&one)).await, Vec::<String>::new());
    }
    bench.update(&closed(open, bench.clock.now())).await;
    assert_eq!(acquire_groups(bench, "b", &[two]).await, Vec::<String>::new());
    assert_eq!(acquire_groups(bench, "a", &[one]).await, ["x"]);
}

/// Needed after the clock was set back: otherwise a lease would last longer by that difference.
pub async fn leases_are_shortened(bench: &Bench) {
    let (hour, short) = (Duration::from_secs(3600), Duration::from_secs(60));
    let task = bench.add(bench.task()).await;
    bench.add(bench.open_task("runs")).await;
    let acquire = async |name, lease| {
        bench.store.acquire_groups(&holder(name), lease, &[forge()]).await.expect("groups can be held").len()
    };
    let request = ClaimRequest { served: forge(), limit: 9, cursor: None, overdue: Duration::ZERO };
    let claimed = bench.store.claim(&holder("a"), hour, &request).await.expect("rows can be claimed");
    assert_eq!(claimed.tasks.len(), 1);
    assert_eq!(acquire("a", hour).await, 1);
    bench.store.shorten_leases(short).await.expect("the store can be written");
    assert!(bench.claim("b").await.is_empty(), "they are not over");
    assert_eq!(acquire("b", short).await, 0);
    bench.clock.advance(Duration::from_secs(61));
    assert_eq!(bench.claim("b").await, [task.id]);
    assert_eq!(acquire("b", hour).await, 1);
    bench.store.shorten_leases(2 * hour).await.expect("the store can be written");
    bench.clock.advance(short);
    assert_eq!(acquire("c", short).await, 0, "none lasts longer for it");
}
