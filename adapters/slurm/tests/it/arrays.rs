//! Tests of arrays on a real cluster: one task per element of a list, failed tasks, and progress.

use serde_json::json;
use taskbridge_sdk::{ErrorKind, JobState};

use crate::cluster::Fault;
use crate::harness::world::{
    TestCluster, World, assert_contains, eventually, job_number, output, poll_until, poll_until_ended,
};

/// The result of an array has a table with the end of each element.
#[tokio::test(flavor = "multi_thread")]
async fn array_result_lists_failed_elements() {
    let world = World::new().await;
    let lines = r#"echo "element $TASKBRIDGE_ELEMENT"; [ "$TASKBRIDGE_ELEMENT" != bad ] || exit 7"#;
    let arguments = json!({"molecules": ["h2o", "bad", "it's $(touch /tmp/never) \"quoted\"\nline", "co2"]});
    let target = json!({"array": {"parameter": "molecules"}});
    let job = world.job_with("each", lines, arguments, target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_contains(&observation, &["\n1 | failed | exit code 7 | ", "\n3 | succeeded |  | ", "element bad"]);
    let tasks = &output(&observation).structured.as_ref().unwrap()["tasks"];
    assert_eq!((&tasks[1]["task"], &tasks[1]["exit_code"]), (&json!(1), &json!(7)), "{tasks}");
    assert_eq!((&tasks[3]["end"], &tasks[3]["exit_code"]), (&json!("succeeded"), &json!(0)), "{tasks}");
    assert_eq!(world.queue(&job).len(), 4);
    assert!(!std::path::Path::new("/tmp/never").exists(), "an element was executed");
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_array_elements_are_counted() {
    let world = World::new().await;
    let lines = r#"[ "$TASKBRIDGE_ELEMENT" -lt 3 ] || exec sleep 600"#;
    let target = json!({"array": {"parameter": "numbers"}});
    let job = world.job_with("some", lines, json!({"numbers": [1, 2, 3, 4, 5]}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    let observation = poll_until(&*world.backend, &handle, "two that are done", |observation| {
        observation.progress.is_some_and(|progress| progress.done == 2.0).then(|| observation.clone())
    })
    .await;
    assert_eq!(observation.progress.and_then(|progress| progress.total), Some(5.0));
    assert!(
        observation.message.is_some_and(|message| message.contains("2 of 5")),
        "the message has the counts"
    );
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
}

/// One of them left a marker, and the other only an accounting record.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_failed_elements_are_counted() {
    let world = World::on(TestCluster::own(&["--accounting", "--min-job-age", "2"]), json!({})).await;
    let lines = "case $TASKBRIDGE_ELEMENT in 1) exit 3 ;; 2) kill -KILL $PPID ;; esac; exec sleep 600";
    let target = json!({"array": {"parameter": "numbers"}});
    let job = world.job_with("some", lines, json!({"numbers": [1, 2, 3]}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    eventually("the controller forgets two tasks", || {
        let rows = world.queue(&job);
        rows.len() == 1 && rows[0].contains("RUNNING")
    })
    .await;
    // Neither has polled before.
    let other = world.connect_another(json!({})).await.unwrap();
    for backend in [&world.backend, &other] {
        poll_until(&**backend, &handle, "two that failed", |observation| {
            let message = observation.message.as_deref().unwrap_or_default();
            message.contains("2 of 3 done, 2 of them failed, 1 running").then_some(())
        })
        .await;
    }
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert_contains(&observation, &["exit code 3", "2 failed"]);
}

/// An array of 200,000 elements is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn oversized_array_submits_nothing() {
    let world = World::new().await;
    let numbers: Vec<u32> = (0..200_000).collect();
    let target = json!({"array": {"parameter": "numbers", "max": 1_000_000}});
    let job = world.job_with("many", "true", json!({"numbers": numbers}), target);
    let error = world.backend.start(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("200000 elements"), "{error}");
    assert!(world.queue(&job).is_empty(), "{:?}", world.queue(&job));
}

/// Uses only the accounting database, which has one record for all tasks that never began.
#[tokio::test(flavor = "multi_thread")]
async fn array_cancelled_early_is_cancelled() {
    let world = World::new().await;
    let target = json!({"array": {"parameter": "numbers"}, "resources": {"partition": "closed"}});
    let job = world.job_with("waits", "true", json!({"numbers": [1, 2, 3, 4]}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    world.cluster.run("scancel", &[&job_number(&handle)]);
    // Simulates a controller that has forgotten it.
    world.commands.always("squeue", Fault::Says(""));
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
}
