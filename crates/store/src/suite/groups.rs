//! Tests of the groups in which open jobs are watched.

use std::time::Duration;

use taskbridge_sdk::{GroupKey, Timestamp};

use super::Bench;
use super::bench::{LEASE, closed, forge, holder};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{Group, OpenJob};
use taskbridge_core::tasks::task::{LogSize, Task};

/// Returns the keys of the groups that this holder gets.
async fn acquire_groups(bench: &Bench, name: &str) -> Vec<String> {
    let groups =
        bench.store.acquire_groups(&holder(name), LEASE, &[forge()]).await.expect("groups can be held");
    assert!(groups.iter().all(|group| group.backend == "forge"));
    let mut keys: Vec<String> = groups.iter().map(|group| group.key.to_string()).collect();
    keys.sort();
    keys
}

pub async fn one_holder_at_a_time_watches_a_group(bench: &Bench) {
    assert!(acquire_groups(bench, "a").await.is_empty());
    for group in ["x", "y", "x"] {
        bench.add(bench.open_task(group)).await;
    }
    assert_eq!(acquire_groups(bench, "a").await, ["x", "y"]);
    assert!(acquire_groups(bench, "b").await.is_empty());
    bench.add(bench.open_task("z")).await;
    assert_eq!(acquire_groups(bench, "b").await, ["z"]);
    assert_eq!(acquire_groups(bench, "a").await, ["x", "y"]);
}

pub async fn a_group_without_open_jobs_is_let_go(bench: &Bench) {
    let x = bench.add(bench.open_task("x")).await;
    bench.add(bench.open_task("y")).await;
    assert_eq!(acquire_groups(bench, "a").await, ["x", "y"]);
    bench.update(&closed(x, bench.clock.now())).await;
    assert_eq!(acquire_groups(bench, "a").await, ["y"]);
    bench.add(bench.open_task("x")).await;
    assert_eq!(acquire_groups(bench, "b").await, ["x"], "it was free");
}

pub async fn a_group_can_be_held_when_its_lease_ran_out(bench: &Bench) {
    bench.add(bench.open_task("x")).await;
    // A holder that renews often keeps the group indefinitely.
    for _ in 0..10 {
        assert_eq!(acquire_groups(bench, "a").await, ["x"]);
        bench.clock.advance(LEASE / 4);
        assert!(acquire_groups(bench, "b").await.is_empty());
    }
    assert_eq!(acquire_groups(bench, "a").await, ["x"]);
    bench.clock.advance(LEASE);
    assert_eq!(acquire_groups(bench, "b").await, ["x"]);
    assert!(acquire_groups(bench, "a").await.is_empty());
}

pub async fn letting_go_frees_groups_and_rows(bench: &Bench) {
    bench.add(bench.open_task("x")).await;
    bench.add(bench.open_task("y")).await;
    let first = bench.add(bench.task()).await;
    assert_eq!(acquire_groups(bench, "a").await, ["x", "y"]);
    assert_eq!(bench.claim("a").await, std::slice::from_ref(&first.id));
    let second = bench.add(bench.task()).await;
    assert_eq!(bench.claim("b").await, [second.id]);
    bench.store.release_all(&holder("a")).await.expect("leases can be let go");
    assert_eq!(acquire_groups(bench, "c").await, ["x", "y"]);
    assert_eq!(bench.claim("c").await, [first.id], "and nobody else's row");
}

pub async fn leaving_groups_keeps_rows(bench: &Bench) {
    bench.add(bench.open_task("x")).await;
    bench.add(bench.task()).await;
    assert_eq!(acquire_groups(bench, "a").await, ["x"]);
    assert_eq!(bench.claim("a").await.len(), 1);
    bench.store.release_groups(&holder("b")).await.expect("groups can be left");
    assert!(acquire_groups(bench, "b").await.is_empty(), "it had none, and left nobody else's");
    bench.store.release_groups(&holder("a")).await.expect("groups can be left");
    assert_eq!(acquire_groups(bench, "b").await, ["x"]);
    assert!(bench.claim("b").await.is_empty(), "the row is acted on still");
}

pub async fn jobs_that_somebody_watches_are_told_by_group_until_nobody_does(bench: &Bench) {
    let group = Group { backend: "forge".to_owned(), key: GroupKey::new("x") };
    let watched_jobs = async || bench.store.watched_jobs(&group).await.expect("watched jobs can be read");
    let follow = async |task: &Task, wanted_until| {
        let printed = Some(LogSize { bytes: 0, wanted_until });
        bench.update(&Task { printed, ..task.clone() }).await;
        bench.read(&task.id).await.expect("it is there")
    };
    let until = bench.clock.now() + LEASE;
    let one = bench.add(bench.open_task("x")).await;
    bench.add(bench.open_task("x")).await;
    let in_other_group = bench.add(bench.open_task("y")).await;
    let not_open = bench.add(bench.task()).await;
    assert_eq!(watched_jobs().await, []);
    for task in [&in_other_group, &not_open] {
        follow(task, until).await;
    }
    let one = follow(&one, until).await;
    assert_eq!(watched_jobs().await, std::slice::from_ref(&one.id));
    bench.clock.advance(LEASE);
    assert_eq!(watched_jobs().await, [], "nobody has said so again");
    let watched_until = Some(bench.clock.now() + LEASE);
    bench.update(&Task { watched_until, ..one.clone() }).await;
    let one = bench.read(&one.id).await.expect("it is there");
    assert_eq!(watched_jobs().await, std::slice::from_ref(&one.id));
    bench.update(&closed(one, bench.clock.now())).await;
    assert_eq!(watched_jobs().await, [], "its job is over");
}

pub async fn open_jobs_are_told_from_a_moment_on(bench: &Bench) {
    let group = Group { backend: "forge".to_owned(), key: GroupKey::new("x") };
    let jobs = async |since| {
        let jobs = bench.store.open_jobs(&group, None, since).await.expect("open jobs can be read");
        let mut jobs: Vec<OpenJob> = jobs;
        jobs.sort_by_key(|job| job.started_at);
        jobs
    };
    let seen = |task: &Task| OpenJob {
        id: task.id.clone(),
        tool: task.tool.clone(),
        handle: task.handle().expect("the job is open").clone(),
        started_at: task.created_at,
        version: task.version,
    };
    let older = bench.add(bench.open_task("x")).await;
    bench.clock.advance(Duration::from_secs(1));
    let since = bench.clock.now();
    let newer = bench.add(bench.open_task("x")).await;
    bench.add(bench.open_task("y")).await;
    bench.add(Task { backend: "other".to_owned(), ..bench.open_task("x") }).await;
    bench.add(bench.task()).await;
    assert_eq!(jobs(Timestamp::from_millis(0)).await, [seen(&older), seen(&newer)]);
    assert_eq!(jobs(since).await, [seen(&newer)]);
    bench.update(&newer).await;
    let newer = bench.read(&newer.id).await.expect("it is there");
    assert_eq!(jobs(since).await, [seen(&newer)], "with the version that the row has now");
    bench.update(&closed(newer, since)).await;
    assert_eq!(jobs(since).await, []);
}
