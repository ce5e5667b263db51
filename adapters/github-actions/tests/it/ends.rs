//! Tests of what a task shows of a run: its states, its progress, its end, and its artifacts.

use serde_json::{Value, json};
use taskbridge_sdk::{ErrorKind, JobState, LogRequest};

use crate::world::{World, output, poll_until, poll_until_ended, run, start, text, workflow};

/// Size of the largest logs and artifacts in these tests, in bytes.
const LARGE: u64 = 200 * 1024 * 1024;

/// Returns the peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Creates a simulated run in this state.
fn simulated(world: &World, fields: Value) -> taskbridge_sdk::JobHandle {
    let mut request = json!({"workflow": "work.yml"});
    crate::world::merge(&mut request, &fields);
    let run = world.control("runs", request)[0].as_u64().unwrap();
    world.handle("work.yml", run)
}

/// Every pair of status and conclusion, also an unknown one, has a state and a message.
#[tokio::test(flavor = "multi_thread")]
async fn status_and_conclusion_map_to_state() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    for (status, conclusion, state, expected) in [
        (json!("queued"), Value::Null, "queued", "waits for a runner"),
        (json!("pending"), Value::Null, "queued", "concurrency group"),
        (json!("waiting"), Value::Null, "running", "waits for GitHub"),
        (json!("in_progress"), Value::Null, "running", ""),
        (json!("paused"), Value::Null, "running", "unknown status: paused"),
        (Value::Null, Value::Null, "running", "reports no status"),
        (json!("completed"), Value::Null, "running", "no conclusion yet"),
        (json!("completed"), json!("success"), "succeeded", ""),
        (json!("completed"), json!("neutral"), "succeeded", ""),
        (json!("completed"), json!("skipped"), "succeeded", ""),
        (json!("completed"), json!("timed_out"), "failed", "the run timed out"),
        (json!("completed"), json!("startup_failure"), "failed", "could not be started"),
        (json!("completed"), json!("exploded"), "failed", "unknown conclusion: exploded"),
        (json!("completed"), json!("cancelled"), "cancelled", "the run was cancelled"),
    ] {
        let handle = simulated(&world, json!({"status": status, "conclusion": conclusion}));
        let observation = world.backend.observe(&handle).await.unwrap();
        let serialized = serde_json::to_value(&observation.state).unwrap();
        let name =
            serialized.as_str().map(str::to_owned).or_else(|| serialized.as_object()?.keys().next().cloned());
        assert_eq!(name.as_deref(), Some(state), "{status} {conclusion}");
        assert!(observation.message.unwrap_or_default().contains(expected), "{status} {conclusion}");
    }
}

/// A failed run reports the job, the step, the annotations and the last lines of the log.
#[tokio::test(flavor = "multi_thread")]
async fn failure_names_job_step_and_log() {
    let matrix = workflow(
        &(run("echo compiling")
            + &run("echo '::error file=a.c,line=3::one is not two'; exit ${{ matrix.n }}")),
    )
    .replace("runs-on:", "strategy: {matrix: {n: [0, 3]}, fail-fast: false}\n    runs-on:");
    let world = World::with_workflows(&[("work.yml", matrix)]).await;
    let (handle, observation) = world.run("work.yml", json!({})).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    let message = observation.message.as_deref().unwrap();
    assert!(message.starts_with("the run failed in the job work (3), step Run echo"), "{message}");
    assert!(message.ends_with(": one is not two"), "{message}");
    let text = text(output(&observation));
    assert!(text.contains("- work (0): success") && text.contains("- work (3): failure"), "{text}");
    assert!(text.contains("one is not two\nProcess completed"), "{text}");
    let data = output(&observation).structured.clone().unwrap();
    assert_eq!(data["conclusion"], "failure");
    let failed =
        data["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "work (3)").unwrap().clone();
    assert_eq!(
        failed["annotations"][0],
        json!({"level": "failure", "path": "a.c", "line": 3, "message": "one is not two"})
    );

    let request = LogRequest { max_bytes: 10_000, search: None };
    let log = world.backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap().text;
    assert!(log.contains("== work (0): success\n") && log.contains("== work (3): failure\n"), "{log}");
}

/// A running run reports its current job and step, and the count of steps.
#[tokio::test(flavor = "multi_thread")]
async fn running_run_reports_job_and_step() {
    let world =
        World::with_workflows(&[("work.yml", workflow(&(run("echo begun") + &run("sleep 600"))))]).await;
    let handle = world.backend.start(&start("work.yml", json!({}))).await.unwrap().handle;
    let observation = poll_until(&*world.backend, &handle, "the second step", |observation| {
        observation
            .message
            .as_deref()
            .is_some_and(|message| message.contains("step 3 of 4"))
            .then(|| observation.clone())
    })
    .await;
    assert_eq!(observation.message.as_deref(), Some("job work running, step 3 of 4: Run sleep 600"));
    let progress = observation.progress.unwrap();
    assert_eq!((progress.done, progress.total), (2.0, Some(4.0)));
    world.backend.cancel(&handle).await.unwrap();
    poll_until_ended(&*world.backend, &handle).await;
}

/// A rerun at GitHub does not change the state of the earlier attempt.
#[tokio::test(flavor = "multi_thread")]
async fn rerun_leaves_task_state_unchanged() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    let (handle, observation) = world.run("work.yml", json!({})).await;
    let run = handle.as_str().split('/').nth(3).unwrap();
    world.control("rerun", json!({"id": run}));
    assert_eq!(
        world.backend.observe(&handle).await.unwrap().state,
        observation.state,
        "while the second attempt runs"
    );
}

/// If the repository cannot be seen, the run is not gone: that is a config error.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_run_is_gone() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    let handle = simulated(&world, json!({}));
    let id = handle.as_str().split('/').nth(3).unwrap().to_owned();
    world.control("run", json!({"id": id, "gone": true}));
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Gone);
    let not_found = || json!({"kind": "answer", "status": 404, "message": "Not Found"});
    world.inject_fault("repos/get", not_found());
    world.inject_fault("actions/get-workflow-run", not_found());
    assert_eq!(world.backend.observe(&handle).await.unwrap_err().kind(), ErrorKind::Config);
}

/// Artifacts and the files in them are listed. A read with an expired link requests a new one.
#[tokio::test(flavor = "multi_thread")]
async fn expired_artifact_link_is_requested_again() {
    let script =
        "mkdir -p $TEST_GITHUB_ARTIFACTS/report/deep && echo 1,2 > $TEST_GITHUB_ARTIFACTS/report/deep/t.csv";
    let world = World::with_workflows(&[("work.yml", workflow(&run(script)))]).await;
    let (handle, observation) = world.run("work.yml", json!({})).await;
    let names: Vec<&str> =
        output(&observation).artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["report.zip", "report/deep/t.csv"]);
    let artifacts = world.backend.abilities().artifacts.unwrap();
    world.inject_fault("link", json!({}));
    world.take_requests();
    let read = artifacts.read(&handle, "report/deep/t.csv", 100).await.unwrap().unwrap();
    assert_eq!((read.bytes.as_slice(), read.mime_type.as_deref()), (&b"1,2\n"[..], Some("text/csv")));
    let downloads = world
        .take_requests()
        .iter()
        .filter(|(operation, _)| operation == "actions/download-artifact")
        .count();
    assert_eq!(downloads, 2, "a new link is requested");
    assert!(artifacts.read(&handle, "report.zip", 10_000).await.unwrap().unwrap().bytes.starts_with(b"PK"));
}

/// An artifact that is larger than its stated size is read only up to the limit.
#[tokio::test(flavor = "multi_thread")]
async fn artifact_read_stops_at_limit() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    let handle = simulated(&world, json!({"status": "completed", "conclusion": "success"}));
    let id = handle.as_str().split('/').nth(3).unwrap().to_owned();
    world.control("run", json!({"id": id, "size": 10, "bytes": LARGE}));
    let memory_before = peak_memory();
    for name in ["large.zip", "large/a.txt"] {
        let error =
            world.backend.abilities().artifacts.unwrap().read(&handle, name, 1_000_000).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    }
    // At most 64 MiB are read for a file in an archive.
    assert!(peak_memory() - memory_before < LARGE * 3 / 4, "{} and then {}", memory_before, peak_memory());
}

/// An artifact of two gigabytes is refused because of its stated size.
#[tokio::test(flavor = "multi_thread")]
async fn oversized_artifact_is_refused_without_download() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    let handle = simulated(&world, json!({"status": "completed", "conclusion": "success"}));
    let id = handle.as_str().split('/').nth(3).unwrap().to_owned();
    world.control("run", json!({"id": id, "size": 2_147_483_648_u64}));
    world.take_requests();
    for name in ["large.zip", "large/a.txt"] {
        let error =
            world.backend.abilities().artifacts.unwrap().read(&handle, name, 1_000_000).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("2147483648 bytes"), "{error}");
    }
    assert!(
        world.take_requests().iter().all(|(operation, _)| operation == "actions/list-workflow-run-artifacts")
    );
}

/// Of a log of 200 MB, only the end is fetched. A search reads the whole log without keeping it.
#[tokio::test(flavor = "multi_thread")]
async fn large_log_fetches_only_its_end() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    let handle = simulated(&world, json!({}));
    let id = handle.as_str().split('/').nth(3).unwrap().to_owned();
    let failed = json!({"id": id, "log": LARGE, "status": "completed", "conclusion": "failure"});
    world.control("run", failed);
    let memory_before = peak_memory();
    let observation = world.backend.observe(&handle).await.unwrap();
    assert!(observation.message.as_deref().unwrap().ends_with("the tray is empty"), "{observation:?}");
    let request = LogRequest { max_bytes: 1000, search: None };
    let log = world.backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap();
    assert!(log.cut && log.text.len() <= 1000, "{log:?}");
    assert!(log.text.ends_with("nothing of interest\n##[error]the tray is empty\n"), "{log:?}");
    let parts = world
        .take_requests()
        .iter()
        .filter(|(operation, status)| operation == "link" && *status == 206)
        .count();
    assert_eq!(parts, 2, "each read fetches only a part");

    // A search reads the whole log, but does not keep it.
    let search = Some("The Tray".to_owned());
    let result =
        world.backend.abilities().logs.unwrap().tail(&handle, &LogRequest { max_bytes: 1000, search }).await;
    assert_eq!(result.unwrap().text, "##[error]the tray is empty\n");
    // Other tests of this process use memory as well.
    assert!(peak_memory() - memory_before < LARGE / 5 * 4, "{} and then {}", memory_before, peak_memory());
}

/// A run that ignores a cancellation is force-cancelled after `force_cancel_after`.
#[tokio::test(flavor = "multi_thread")]
async fn stuck_cancel_is_forced() {
    let world = World::with_settings(
        &[("work.yml", workflow(&run("echo")))],
        json!({}),
        json!({"force_cancel_after": "0s"}),
    )
    .await;
    let handle = simulated(&world, json!({"stuck": true}));
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    assert!(
        world.take_requests().iter().any(|(operation, _)| operation == "actions/force-cancel-workflow-run")
    );
}
