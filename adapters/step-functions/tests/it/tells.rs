//! Tests of the reports about a running execution: its progress, and its history as a log.

use std::time::Instant;

use serde_json::json;
use taskbridge_sdk::{LogRequest, Progress, Subject};

use crate::harness::standin::Kind;
use crate::harness::world::{World, poll_until, start};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];

/// A running execution reports its step, its progress and the length of its log.
#[tokio::test(flavor = "multi_thread")]
async fn progress_names_current_step() {
    for kind in BOTH {
        let world = World::new(kind).await;
        let states = json!({
            "First": {"Type": "Pass", "Next": "Nap"},
            "Nap": {"Type": "Wait", "Seconds": 600, "Next": "Last"},
            "Last": {"Type": "Succeed"},
        });
        let machine = world.machine(states).await;
        let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
        let progress = poll_until(&*world.backend, &handle, "the nap", |observation| {
            let message = observation.message.clone()?;
            message.starts_with("step 2 of 3: Nap, since 20").then_some(observation.progress)
        })
        .await;
        assert_eq!(progress, Some(Progress { done: 1.0, total: Some(3.0) }), "{kind:?}");
        // A client that follows the log sees its length.
        let request = LogRequest { max_bytes: 10_000, search: None };
        let log = world.backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap().text;
        let observation = world.backend.observe(&handle).await.unwrap();
        assert_eq!(observation.log_bytes, u64::try_from(log.len()).ok(), "{kind:?}: {log}");
        // A poll of many executions reports the same.
        let single = world.backend.observe(&handle).await.unwrap();
        let results = world
            .backend
            .observe_all(&world.backend.group(&handle), &Subject::watched(&[handle.clone(), handle.clone()]))
            .await;
        assert!(results.into_iter().all(|result| result.unwrap().progress == single.progress), "{kind:?}");
        world.backend.cancel(&handle).await.unwrap();
    }
}

/// A parallel state reports how many branches are done, and a map how many items.
#[tokio::test(flavor = "multi_thread")]
async fn progress_counts_branches_and_items() {
    let world = World::new(Kind::LocalStack).await;
    let branch = |name: &str, seconds: u32| json!({"StartAt": name, "States": {name: {"Type": "Wait", "Seconds": seconds, "End": true}}});
    let parallel = json!({"First": {"Type": "Parallel", "End": true, "Branches": [branch("Short", 1), branch("Long", 600)]}});
    let items = json!({"First": {"Type": "Map", "End": true, "MaxConcurrency": 1, "ItemProcessor": {
        "StartAt": "Each", "States": {"Each": {"Type": "Wait", "SecondsPath": "$", "End": true}},
    }}});
    for (states, input, expected) in [
        (parallel, json!({}), "First, 1 of 2 branches done"),
        (json!({"First": items["First"]}), json!({"list": [0, 600]}), "First, 1 of 2 items done"),
    ] {
        let mut states = states;
        if input.get("list").is_some() {
            states["First"]["ItemsPath"] = json!("$.list");
        }
        let machine = world.machine(states).await;
        let handle = world.backend.start(&start(&machine, input)).await.unwrap().handle;
        poll_until(&*world.backend, &handle, expected, |observation| {
            observation.message.as_ref()?.contains(expected).then_some(())
        })
        .await;
        world.backend.cancel(&handle).await.unwrap();
    }
}

/// `progress_calls_per_minute` limits how often histories are read.
#[tokio::test(flavor = "multi_thread")]
async fn history_reads_respect_configured_rate() {
    for allowed in [0, 2] {
        let started_at = Instant::now();
        let world = World::with(Kind::MiniStack, json!({"progress_calls_per_minute": allowed})).await;
        let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
        let mut handles = Vec::new();
        for _ in 0..6 {
            handles.push(world.backend.start(&start(&machine, json!({}))).await.unwrap().handle);
        }
        for handle in &handles {
            assert!(!world.backend.observe(handle).await.unwrap().state.has_ended());
        }
        let counts = world.proxy.take_counts();
        let reads = counts.get("GetExecutionHistory").copied().unwrap_or(0);
        // Calls that the bucket regains in the meantime on a busy machine are allowed too.
        let max_reads = allowed + usize::try_from(started_at.elapsed().as_secs()).unwrap() * allowed / 60;
        assert!((allowed..=max_reads).contains(&reads), "{counts:?}");
        for handle in &handles {
            world.backend.cancel(handle).await.unwrap();
        }
    }
}

/// Available calls go to watched executions. The history of an unwatched one is not read.
#[tokio::test(flavor = "multi_thread")]
async fn history_is_read_for_watched_only() {
    let world = World::with(Kind::MiniStack, json!({"progress_calls_per_minute": 1})).await;
    let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(world.backend.start(&start(&machine, json!({}))).await.unwrap().handle);
    }
    let group = world.backend.group(&handles[0]);
    world.proxy.take_counts();
    let mut jobs = Subject::watched(&handles);
    jobs.iter_mut().for_each(|job| job.watched = false);
    for _ in 0..3 {
        let results = world.backend.observe_all(&group, &jobs).await;
        assert!(results.iter().all(|result| result.as_ref().unwrap().log_bytes.is_none()));
    }
    assert_eq!(world.proxy.take_counts().get("GetExecutionHistory"), None);
    // The only available call goes to the watched execution, at any position.
    jobs[2].watched = true;
    let results = world.backend.observe_all(&group, &jobs).await;
    let was_read: Vec<bool> =
        results.iter().map(|result| result.as_ref().unwrap().log_bytes.is_some()).collect();
    assert_eq!(was_read, [false, false, true, false], "{results:?}");
    assert_eq!(world.proxy.take_counts().get("GetExecutionHistory"), Some(&1));
    for handle in &handles {
        world.backend.cancel(handle).await.unwrap();
    }
}

/// The log grows while the execution runs, and its last line has the reason of the failure.
#[tokio::test(flavor = "multi_thread")]
async fn log_grows_and_ends_with_failure() {
    for kind in BOTH {
        let world = World::new(kind).await;
        let states = json!({
            "First": {"Type": "Wait", "Seconds": 1, "Next": "Second"},
            "Second": {"Type": "Fail", "Error": "NoPaper", "Cause": "empty"},
        });
        let machine = world.machine(states).await;
        let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
        let logs = world.backend.abilities().logs.unwrap();
        let request = LogRequest { max_bytes: 10_000, search: None };
        poll_until(&*world.backend, &handle, "the first state", |observation| {
            observation.message.as_ref().map(drop)
        })
        .await;
        let early = logs.tail(&handle, &request).await.unwrap().text;
        assert!(
            early.contains(" the execution started\n") && early.contains(" entered First\n"),
            "{kind:?}: {early}"
        );
        crate::harness::world::poll_until_ended(&*world.backend, &handle).await;
        let log = logs.tail(&handle, &request).await.unwrap();
        assert!(log.text.starts_with(&early) && !log.cut, "{kind:?}: {}", log.text);
        let last = log.text.lines().next_back().unwrap();
        assert!(last.ends_with(" the execution failed: NoPaper: empty"), "{kind:?}: {last}");
    }
}
