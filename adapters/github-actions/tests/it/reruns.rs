//! Tests of reruns: one more attempt for each call, and never a second, even if a response is lost.

use serde_json::{Value, json};
use taskbridge_github_actions::GithubActions;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Adapter as _, ErrorKind, JobHandle, JobSpec, JobState};

use crate::world::{World, output, poll_until_ended, run, text, workflow};

const RERUN: &str = "actions/re-run-workflow";

/// Creates a repository with a failed run. Returns the addresses of the run and of its first attempt.
async fn failed_run() -> (World, String, String) {
    let world = World::with_workflows(&[("work.yml", workflow(&run("exit 3")))]).await;
    let (_, observation) = world.run("work.yml", json!({})).await;
    let data = output(&observation).structured.clone().unwrap();
    assert_eq!(data["attempt_before"], Value::Null);
    let attempt = data["url"].as_str().unwrap().to_owned();
    let address = attempt.strip_suffix("/attempts/1").unwrap().to_owned();
    world.take_requests();
    (world, address, attempt)
}

fn rerun_job(reference: &str, only_failed: bool) -> JobSpec {
    let target = json!({"workflow": "work.yml", "rerun": "{{ run }}", "only_failed": only_failed});
    job(target, json!({"run": reference}))
}

fn rerun_count(world: &World) -> usize {
    world.take_requests().iter().filter(|(operation, _)| operation.starts_with(RERUN)).count()
}

/// A rerun is a new job whose result names the attempt before. Only the newest attempt can be rerun.
#[tokio::test(flavor = "multi_thread")]
async fn rerun_is_separate_job_naming_predecessor() {
    let (world, address, attempt) = failed_run().await;
    let mut job = rerun_job(&attempt, true);
    let handle = world.backend.start(&job).await.unwrap().handle;
    assert!(handle.as_str().ends_with("/2"), "{handle:?}");
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert!(
        text(output(&observation)).contains(&format!("Attempt 2 of the run, after {attempt}\n")),
        "{observation:?}"
    );
    assert_eq!(output(&observation).structured.as_ref().unwrap()["attempt_before"], attempt);
    assert_eq!(rerun_count(&world), 1);

    job.may_exist = true;
    assert_eq!(world.backend.start(&job).await.unwrap().handle, handle, "the same call again");
    let error = world.backend.start(&rerun_job(&attempt, false)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("name its newest attempt, 2"), "{error}");
    assert_eq!(rerun_count(&world), 0);
    let third = world.backend.start(&rerun_job(&address, false)).await.unwrap().handle;
    assert!(third.as_str().ends_with("/3"), "{third:?}");
    poll_until_ended(&*world.backend, &third).await;
}

/// GitHub lists the artifacts of all attempts together.
#[tokio::test(flavor = "multi_thread")]
async fn rerun_returns_its_own_output() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    // The third attempt returns no data.
    let attempt = format!(
        "n=$(($(cat {count} 2>/dev/null || echo 0) + 1)); echo $n > {count}; test $n = 3 && exit 3; \
         cd $TEST_GITHUB_ARTIFACTS; mkdir taskbridge-output report; echo \"{{\\\"attempt\\\": $n}}\" > taskbridge-output/out.json; \
         echo $n > report/attempt.txt",
        count = count.display()
    );
    let world = World::with_workflows(&[("work.yml", workflow(&run(&attempt)))]).await;
    let (first, observation) = world.run("work.yml", json!({})).await;
    assert_eq!(output(&observation).structured, Some(json!({"attempt": 1})));
    let rerun = async |previous: &JobHandle| {
        // GitHub's times have a resolution of one second.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let handle = world.backend.start(&rerun_job(previous.as_str(), false)).await.unwrap().handle;
        let observation = poll_until_ended(&*world.backend, &handle).await;
        (handle, observation)
    };
    let (second, observation) = rerun(&first).await;
    assert_eq!(output(&observation).structured, Some(json!({"attempt": 2})), "{observation:?}");
    let names: Vec<&str> =
        output(&observation).artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["report.zip", "report/attempt.txt"]);
    let artifacts = world.backend.abilities().artifacts.unwrap();
    for (handle, attempt) in [(&first, &b"1\n"[..]), (&second, b"2\n")] {
        let read = artifacts.read(handle, "report/attempt.txt", 100).await.unwrap().unwrap();
        assert_eq!(read.bytes, attempt, "{handle}");
    }
    let (_, observation) = rerun(&second).await;
    let data = output(&observation).structured.clone().unwrap();
    assert_eq!((data["conclusion"].as_str(), data["attempt"].as_u64()), (Some("failure"), Some(3)), "{data}");
    assert_eq!(output(&observation).artifacts, []);
}

/// The handle of a job names its attempt, so it cannot be rerun after a newer attempt.
#[tokio::test(flavor = "multi_thread")]
async fn rerun_handle_names_its_own_attempt() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("exit 3")))]).await;
    let (first, _) = world.run("work.yml", json!({})).await;
    // A task that a caller names arrives as the handle of its job.
    let second = world.backend.start(&rerun_job(first.as_str(), false)).await.unwrap().handle;
    assert!(second.as_str().ends_with("/2"), "{second:?}");
    poll_until_ended(&*world.backend, &second).await;
    let error = world.backend.start(&rerun_job(first.as_str(), false)).await.unwrap_err();
    assert!(error.to_string().contains("name its newest attempt, 2"), "{error}");
    assert_eq!(rerun_count(&world), 1);
}

/// A rerun whose reply was lost is found if its attempt was named, and is uncertain otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn lost_rerun_is_found_by_attempt() {
    let (world, address, attempt) = failed_run().await;
    for (reference, is_found) in [(&attempt, true), (&address, false)] {
        world.inject_fault(RERUN, json!({"kind": "reply_lost"}));
        let mut job = rerun_job(reference, false);
        assert_eq!(world.backend.start(&job).await.unwrap_err().kind(), ErrorKind::Uncertain);
        job.may_exist = true;
        let retried = world.backend.start(&job).await;
        match (&retried, is_found) {
            (Ok(started), true) => {
                assert!(started.handle.as_str().ends_with("/2"), "{retried:?}");
                poll_until_ended(&*world.backend, &started.handle).await;
            }
            (Err(error), false) => {
                assert_eq!((error.kind(), error.is_final()), (ErrorKind::Uncertain, true), "{error}");
                assert!(error.to_string().ends_with(&format!("see {address}")), "{error}");
            }
            _ => panic!("{reference}: {retried:?}"),
        }
        assert_eq!(rerun_count(&world), 1, "{reference}");
    }
}

/// A run that is active, has no failed job or does not exist is not rerun.
#[tokio::test(flavor = "multi_thread")]
async fn impossible_rerun_is_refused() {
    let world = World::with_workflows(&[("work.yml", workflow(&run("echo")))]).await;
    let runs = |fields: Value| world.control("runs", fields)[0].as_u64().unwrap().to_string();
    let running = runs(json!({"workflow": "work.yml"}));
    let succeeded = runs(json!({"workflow": "work.yml", "status": "completed", "conclusion": "success"}));
    for (reference, only_failed, expected) in [
        (running.as_str(), false, "still runs"),
        (succeeded.as_str(), true, "no job of the run"),
        ("7", false, "has no run 7"),
        ("the last", false, "is neither the number"),
    ] {
        let error = world.backend.start(&rerun_job(reference, only_failed)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(rerun_count(&world), 0);
}

/// `attach`, `inputs` or `ref` next to `rerun` is rejected without a request.
#[test]
fn conflicting_target_is_refused_offline() {
    let config = serde_json::from_value(json!({"repository": "octo-org/app"})).unwrap();
    for (overrides, field, expected) in [
        (json!({"rerun": "{{ run }}", "only_failed": true}), "", ""),
        (json!({"rerun": "{{ rum }}"}), "rerun", "`rum` is unknown"),
        (json!({"rerun": "{{ run }}", "attach": "{{ run }}"}), "rerun", "remove `attach` or `rerun`"),
        (json!({"rerun": "{{ run }}", "inputs": {}}), "inputs", "remove `inputs` or `rerun`"),
        (json!({"rerun": "{{ run }}", "ref": "main"}), "ref", "remove `ref` or `rerun`"),
        (json!({"only_failed": true}), "only_failed", "requires `rerun`"),
    ] {
        let mut target = json!({"workflow": "work.yml"});
        crate::world::merge(&mut target, &overrides);
        let problems = GithubActions::check(&config, &serde_json::from_value(target).unwrap(), &["run"]);
        match problems.as_slice() {
            [] => assert_eq!(field, "", "{overrides}"),
            [problem] => assert!(problem.field == field && problem.message.contains(expected), "{problem:?}"),
            _ => panic!("{problems:?}"),
        }
    }
}
