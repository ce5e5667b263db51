//! Tests of polls of many runs: their number of calls, and their agreement with single polls.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{ErrorKind, JobHandle, JobState, Observation, Result, Subject};

use crate::world::{World, run, workflow};

const WORKFLOWS: usize = 10;
const RUNS: usize = 100;
const RUNS_OF_A_WORKFLOW: &str = "actions/list-workflow-runs";

/// Creates a thousand running runs of ten workflows.
async fn thousand_runs() -> (World, Vec<Vec<JobHandle>>) {
    let files: Vec<(String, String)> =
        (0..WORKFLOWS).map(|at| (format!("w{at}.yml"), workflow(&run("echo")))).collect();
    let files: Vec<(&str, String)> = files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let world = World::with_settings(&files, json!({}), json!({"progress_calls_per_minute": 0})).await;
    let mut handles = Vec::new();
    for (name, _) in &files {
        let runs = world.control("runs", json!({"workflow": name, "count": RUNS}));
        let runs = runs.as_array().unwrap().iter().map(|run| world.handle(name, run.as_u64().unwrap()));
        handles.push(runs.collect());
    }
    world.take_requests();
    (world, handles)
}

fn request_counts(world: &World) -> HashMap<(String, u64), usize> {
    let mut counts = HashMap::new();
    for request in world.take_requests() {
        *counts.entry(request).or_default() += 1;
    }
    counts
}

/// Polls all of them.
async fn poll_all(world: &World, handles: &[Vec<JobHandle>]) -> Vec<Result<Observation>> {
    let mut observations = Vec::new();
    for runs in handles {
        observations
            .extend(world.backend.observe_all(&world.backend.group(&runs[0]), &Subject::watched(runs)).await);
    }
    observations
}

fn all_running(observations: &[Result<Observation>]) -> bool {
    observations.len() == WORKFLOWS * RUNS
        && observations.iter().all(|observation| observation.as_ref().unwrap().state == JobState::Running)
}

/// A poll of a thousand runs requests one page per workflow. Unchanged pages are answered with 304.
#[tokio::test(flavor = "multi_thread")]
async fn thousand_runs_cost_page_per_workflow() {
    let (world, handles) = thousand_runs().await;
    for round in 0..3 {
        assert!(all_running(&poll_all(&world, &handles).await));
        let status = if round == 0 { 200 } else { 304 };
        let mut expected = HashMap::from([((RUNS_OF_A_WORKFLOW.to_owned(), status), WORKFLOWS)]);
        if round == 0 {
            // Files are refreshed occasionally, so that a start need not request them.
            expected.insert(("repos/get-content".to_owned(), 200), WORKFLOWS);
        }
        assert_eq!(request_counts(&world), expected, "round {round}");
    }
}

/// A rate limit pauses the polls of a thousand runs after one request. They resume after it.
#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_pauses_thousand_run_poll() {
    for limit in ["primary", "secondary"] {
        let (world, handles) = thousand_runs().await;
        let reset_at = jiff::Timestamp::now().as_second() + 1;
        let refusal = json!({"kind": "answer", "status": 403, "message": "You have exceeded a secondary rate limit",
            "headers": {"retry-after": "1"}});
        match limit {
            "primary" => {
                drop(world.control("change", json!({"token": {"remaining": 0, "reset": reset_at}})));
            }
            _ => world.inject_fault(RUNS_OF_A_WORKFLOW, refusal),
        }
        let results = poll_all(&world, &handles).await;
        let is_limited = |result: &Result<Observation>| {
            result.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Limited { .. }))
        };
        assert!(results.iter().all(is_limited), "{limit}");
        assert_eq!(
            world.take_requests().len(),
            1,
            "{limit}: after the refused request, no other is sent until the limit resets"
        );
        tokio::time::sleep(Duration::from_millis(2100)).await;
        world.control("change", json!({"token": {"remaining": 5000}}));
        assert!(all_running(&poll_all(&world, &handles).await), "{limit}");
    }
}

/// Jobs are not read for runs that are not watched.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_read_for_watched_runs() {
    let world = World::with_workflows(&[("w.yml", workflow(&run("echo")))]).await;
    let runs = world.control("runs", json!({"workflow": "w.yml", "count": 3}));
    let runs = runs.as_array().unwrap().iter().map(|run| world.handle("w.yml", run.as_u64().unwrap()));
    let subjects: Vec<Subject> = runs
        .enumerate()
        .map(|(at, handle)| Subject { handle, watched: at == 1, age: Duration::MAX })
        .collect();
    world.take_requests();
    let observations = world.backend.observe_all(&world.backend.group(&subjects[0].handle), &subjects).await;
    assert!(observations.iter().all(|observation| observation.as_ref().unwrap().state == JobState::Running));
    let counts = request_counts(&world);
    assert_eq!(
        counts.get(&("actions/list-jobs-for-workflow-run-attempt".to_owned(), 200)),
        Some(&1),
        "{counts:?}"
    );
}

/// Only a run that the page of the workflow does not list is requested by itself.
#[tokio::test(flavor = "multi_thread")]
async fn run_beyond_first_page_is_requested() {
    let world = World::with_settings(
        &[("w.yml", workflow(&run("echo")))],
        json!({}),
        json!({"progress_calls_per_minute": 0}),
    )
    .await;
    let old = world.control("runs", json!({"workflow": "w.yml"}))[0].as_u64().unwrap();
    world.control("runs", json!({"workflow": "w.yml", "count": 150}));
    let new = world
        .control("runs", json!({"workflow": "w.yml", "status": "completed", "conclusion": "cancelled"}))[0]
        .as_u64()
        .unwrap();
    let handles = [world.handle("w.yml", old), world.handle("w.yml", new)];
    world.take_requests();
    let observations =
        world.backend.observe_all(&world.backend.group(&handles[0]), &Subject::watched(&handles)).await;
    let observations: Vec<_> = observations.into_iter().map(Result::unwrap).collect();
    let counts = request_counts(&world);
    assert_eq!(counts.get(&("actions/list-workflow-runs".to_owned(), 200)), Some(&1), "{counts:?}");
    assert_eq!(counts.get(&("actions/get-workflow-run".to_owned(), 200)), Some(&1), "{counts:?}");
    for (handle, observation) in handles.iter().zip(observations) {
        assert_eq!(observation, world.backend.observe(handle).await.unwrap());
    }
}
