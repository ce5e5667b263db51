//! Tests of ended runs with parts that are missing, late or large: the end is still reported.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskbridge_sdk::{JobHandle, JobState, Observation};

use crate::world::{World, output, run, text, workflow};

/// Maximum time until the end of a run is reported.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

async fn world() -> World {
    World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await
}

/// Creates a simulated run that has ended with this conclusion.
fn ended_run(world: &World, conclusion: &str, overrides: Value) -> JobHandle {
    let id = world.control("runs", json!({"workflow": "work.yml"}))[0].as_u64().unwrap();
    let mut fields = json!({"id": id, "status": "completed", "conclusion": conclusion});
    crate::world::merge(&mut fields, &overrides);
    world.control("run", fields);
    world.handle("work.yml", id)
}

async fn observe(world: &World, handle: &JobHandle) -> Observation {
    world.backend.observe(handle).await.unwrap()
}

/// Polls a run until its end is reported.
async fn wait_for_end(world: &World, handle: &JobHandle) -> (Observation, Duration) {
    let start = Instant::now();
    loop {
        let observation = observe(world, handle).await;
        if observation.state.has_ended() {
            return (observation, start.elapsed());
        }
        assert!(start.elapsed() < REPORT_TIMEOUT, "the end is not reported within a minute: {observation:?}");
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
    let first_observation = observe(&world, &succeeded).await;
    assert_eq!(first_observation.state, JobState::Running, "the artifact may still appear");
    let message = first_observation.message.unwrap();
    assert!(
        message.starts_with("the run succeeded, and its result is being read: the artifact table.csv"),
        "{message}"
    );
    let (observation, _) = wait_for_end(&world, &succeeded).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    let output_text = text(output(&observation));
    assert!(
        output_text.contains(
            "This could not be read:\n- the artifact table.csv: localhost answers with the status 404"
        ),
        "{output_text}"
    );
    let data = output(&observation).structured.clone().unwrap();
    assert_eq!(data["not_read"].as_array().unwrap().len(), 1, "{data}");

    world.control("blobs", json!({"blobs": "away"}));
    let job =
        json!({"jobs": [{"name": "work", "conclusion": "failure", "log": "##[error]the tray is empty"}]});
    let failed = ended_run(&world, "failure", job);
    let (observation, elapsed) = wait_for_end(&world, &failed).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert!(elapsed < REPORT_TIMEOUT, "{elapsed:?}");
    let output_text = text(output(&observation));
    assert!(output_text.contains("the log of the job work: localhost cannot be reached"), "{output_text}");
    assert!(
        output_text.contains("- work: failure") && !output_text.contains("The last lines of"),
        "{output_text}"
    );
}

/// GitHub may have no log for a moment after the end of a job.
#[tokio::test(flavor = "multi_thread")]
async fn late_log_is_read_again() {
    let world = world().await;
    let job =
        json!({"jobs": [{"name": "work", "conclusion": "failure", "log": "##[error]the tray is empty"}]});
    let handle = ended_run(&world, "failure", job);
    world.inject_fault(
        "actions/download-job-logs-for-workflow-run",
        json!({"kind": "answer", "status": 404, "message": "Not Found"}),
    );
    assert_eq!(observe(&world, &handle).await.state, JobState::Running);
    let observation = observe(&world, &handle).await;
    assert!(observation.message.as_deref().unwrap().ends_with("the tray is empty"), "{observation:?}");
    assert!(!text(output(&observation)).contains("could not be read"), "{observation:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unarchived_artifact_keeps_its_name() {
    let world = world().await;
    let plain = json!({"table.csv": "1,2\n", "tool": "#!", "taskbridge-output.json": "{\"rows\": 1}"});
    let handle = ended_run(&world, "success", json!({"plain": plain}));
    let observation = observe(&world, &handle).await;
    let output = output(&observation);
    assert_eq!(output.structured, Some(json!({"rows": 1})));
    let mut names_and_types: Vec<_> = output
        .artifacts
        .iter()
        .map(|artifact| (artifact.name.as_str(), artifact.mime_type.as_deref()))
        .collect();
    names_and_types.sort();
    assert_eq!(names_and_types, [("table.csv", Some("text/csv")), ("tool", None)]);
    let artifacts = world.backend.abilities().artifacts.unwrap();
    let read = artifacts.read(&handle, "table.csv", 100).await.unwrap().unwrap();
    assert_eq!((read.bytes.as_slice(), read.mime_type.as_deref()), (&b"1,2\n"[..], Some("text/csv")));
    assert!(
        artifacts.read(&handle, "table.csv/x", 100).await.unwrap().is_none(),
        "a plain artifact contains no files"
    );
    assert!(artifacts.read(&handle, "table", 100).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_is_named_as_cause() {
    let world = world().await;
    let annotation_text = "Canceling since a higher priority waiting request for 'release-main' exists";
    let annotation =
        json!({"level": "failure", "path": ".github", "line": 1, "title": "", "message": annotation_text});
    let job = json!({"name": "work", "conclusion": "cancelled", "annotations": [annotation]});
    let handle = ended_run(&world, "cancelled", json!({"jobs": [job]}));
    let observation = observe(&world, &handle).await;
    let expected = format!("the run was cancelled by its concurrency group: {annotation_text}");
    assert_eq!(observation.message, Some(expected.clone()));
    assert!(text(output(&observation))[1..].starts_with(&expected[1..]), "{observation:?}");

    let unstarted_run = observe(&world, &ended_run(&world, "cancelled", json!({}))).await;
    let message = unstarted_run.message.unwrap();
    assert!(message.contains("before a job began") && message.contains("concurrency group"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_job_of_matrix_comes_first() {
    let world = world().await;
    let conclusion = |at| if at == 201 { "failure" } else { "success" };
    let job =
        |at| json!({"name": format!("test ({at})"), "conclusion": conclusion(at), "log": "##[error]no\n"});
    let handle = ended_run(&world, "failure", json!({"jobs": (0..250).map(job).collect::<Vec<_>>()}));
    let observation = observe(&world, &handle).await;
    assert!(observation.message.as_deref().unwrap().contains("in the job test (201)"), "{observation:?}");
    let output_text = text(output(&observation));
    assert_eq!(output_text.lines().nth(2), Some("- test (201): failure"), "{output_text}");
    assert!(output_text.contains("- and 235 more"), "{output_text}");
    assert_eq!(output(&observation).structured.as_ref().unwrap()["jobs"][0]["name"], "test (201)");
}
