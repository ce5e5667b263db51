//! Tests of ended runs with parts that are missing, late or large: the end is still reported.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskbridge_sdk::{JobHandle, JobState, Observation};

use crate::world::{World, output, run, text, workflow};

/// Maximum time until the end of a run is reported.
const MINUTE: Duration = Duration::from_secs(60);

async fn world() -> World {
    World::with(&[("work.yml", workflow(&run("echo")))]).await
}

/// Creates a simulated run that has ended with this conclusion.
fn ended_run(world: &World, conclusion: &str, more: Value) -> JobHandle {
    let id = world.control("runs", json!({"workflow": "work.yml"}))[0].as_u64().unwrap();
    let mut facts = json!({"id": id, "status": "completed", "conclusion": conclusion});
    crate::world::merge(&mut facts, &more);
    world.control("run", facts);
    world.handle("work.yml", id)
}

async fn observe(world: &World, handle: &JobHandle) -> Observation {
    world.backend.observe(handle).await.unwrap()
}

/// Polls a run until its end is reported.
async fn reported(world: &World, handle: &JobHandle) -> (Observation, Duration) {
    let began = Instant::now();
    loop {
        let seen = observe(world, handle).await;
        if seen.state.has_ended() {
            return (seen, began.elapsed());
        }
        assert!(began.elapsed() < MINUTE, "it is not reported within a minute: {seen:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The hosts of logs and artifacts are unreachable, or have lost them.
#[tokio::test(flavor = "multi_thread")]
async fn missing_blob_holds_no_end() {
    let world = world().await;
    world.control("blobs", json!({"blobs": 404}));
    let plain = json!({"plain": {"table.csv": "1,2"}});
    let succeeded = ended_run(&world, "success", plain.clone());
    let first = observe(&world, &succeeded).await;
    assert_eq!(first.state, JobState::Running, "it may come yet");
    let message = first.message.unwrap();
    assert!(
        message.starts_with("the run succeeded, and its result is being read: the artifact table.csv"),
        "{message}"
    );
    let (seen, _) = reported(&world, &succeeded).await;
    assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
    let said = text(output(&seen));
    assert!(
        said.contains(
            "This could not be read:\n- the artifact table.csv: localhost answers with the status 404"
        ),
        "{said}"
    );
    let data = output(&seen).structured.clone().unwrap();
    assert_eq!(data["not_read"].as_array().unwrap().len(), 1, "{data}");

    world.control("blobs", json!({"blobs": "away"}));
    let job =
        json!({"jobs": [{"name": "work", "conclusion": "failure", "log": "##[error]the tray is empty"}]});
    let failed = ended_run(&world, "failure", job);
    let (seen, took) = reported(&world, &failed).await;
    assert!(matches!(seen.state, JobState::Failed(_)), "{seen:?}");
    assert!(took < MINUTE, "{took:?}");
    let said = text(output(&seen));
    assert!(said.contains("the log of the job work: localhost cannot be reached"), "{said}");
    assert!(said.contains("- work: failure") && !said.contains("The last lines of"), "{said}");
}

/// GitHub may have no log for a moment after the end of a job.
#[tokio::test(flavor = "multi_thread")]
async fn late_log_is_read_again() {
    let world = world().await;
    let job =
        json!({"jobs": [{"name": "work", "conclusion": "failure", "log": "##[error]the tray is empty"}]});
    let handle = ended_run(&world, "failure", job);
    world.fault(
        "actions/download-job-logs-for-workflow-run",
        json!({"kind": "answer", "status": 404, "message": "Not Found"}),
    );
    assert_eq!(observe(&world, &handle).await.state, JobState::Running);
    let seen = observe(&world, &handle).await;
    assert!(seen.message.as_deref().unwrap().ends_with("the tray is empty"), "{seen:?}");
    assert!(!text(output(&seen)).contains("could not be read"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unarchived_artifact_keeps_its_name() {
    let world = world().await;
    let plain = json!({"table.csv": "1,2\n", "tool": "#!", "taskbridge-output.json": "{\"rows\": 1}"});
    let handle = ended_run(&world, "success", json!({"plain": plain}));
    let seen = observe(&world, &handle).await;
    let output = output(&seen);
    assert_eq!(output.structured, Some(json!({"rows": 1})));
    let mut offered: Vec<_> =
        output.artifacts.iter().map(|one| (one.name.as_str(), one.mime_type.as_deref())).collect();
    offered.sort();
    assert_eq!(offered, [("table.csv", Some("text/csv")), ("tool", None)]);
    let artifacts = world.backend.artifacts().unwrap();
    let read = artifacts.read(&handle, "table.csv", 100).await.unwrap().unwrap();
    assert_eq!((read.bytes.as_slice(), read.mime_type.as_deref()), (&b"1,2\n"[..], Some("text/csv")));
    assert!(artifacts.read(&handle, "table.csv/x", 100).await.unwrap().is_none(), "it has no files");
    assert!(artifacts.read(&handle, "table", 100).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_is_named_as_cause() {
    let world = world().await;
    let words = "Canceling since a higher priority waiting request for 'release-main' exists";
    let annotation = json!({"level": "failure", "path": ".github", "line": 1, "title": "", "message": words});
    let job = json!({"name": "work", "conclusion": "cancelled", "annotations": [annotation]});
    let handle = ended_run(&world, "cancelled", json!({"jobs": [job]}));
    let seen = observe(&world, &handle).await;
    let expected = format!("the run was cancelled by its concurrency group: {words}");
    assert_eq!(seen.message, Some(expected.clone()));
    assert!(text(output(&seen))[1..].starts_with(&expected[1..]), "{seen:?}");

    let unbegun = observe(&world, &ended_run(&world, "cancelled", json!({}))).await;
    let message = unbegun.message.unwrap();
    assert!(message.contains("before a job began") && message.contains("concurrency group"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_job_of_matrix_comes_first() {
    let world = world().await;
    let conclusion = |at| if at == 201 { "failure" } else { "success" };
    let job =
        |at| json!({"name": format!("test ({at})"), "conclusion": conclusion(at), "log": "##[error]no\n"});
    let handle = ended_run(&world, "failure", json!({"jobs": (0..250).map(job).collect::<Vec<_>>()}));
    let seen = observe(&world, &handle).await;
    assert!(seen.message.as_deref().unwrap().contains("in the job test (201)"), "{seen:?}");
    let said = text(output(&seen));
    assert_eq!(said.lines().nth(2), Some("- test (201): failure"), "{said}");
    assert!(said.contains("- and 235 more"), "{said}");
    assert_eq!(output(&seen).structured.as_ref().unwrap()["jobs"][0]["name"], "test (201)");
}
