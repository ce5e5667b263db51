//! Tests of jobs that depend on existing jobs, with both drivers: dependencies, and tasks that follow a job
//! that was submitted elsewhere.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Backend, ErrorKind, JobHandle, JobSpec, JobState};

use crate::harness::world::{
    World, assert_contains, job_number, merge, poll_until, poll_until_ended, wait_until_running,
};

/// Returns one backend per driver.
async fn both_drivers(world: &World) -> [Arc<dyn Backend>; 2] {
    [world.backend.clone(), world.connect_by_rest(json!({})).await]
}

/// Returns a job of these lines that begins after another.
fn after(world: &World, lines: &str, first_job: Value, extra: Value) -> JobSpec {
    let mut after = json!({"job": "{{ before }}"});
    merge(&mut after, &extra);
    world.job_with("second", lines, json!({"before": first_job}), json!({"after": after}))
}

/// Returns the job as a parameter with `type = "task"`, and as a number.
fn job_references(handle: &JobHandle) -> [Value; 2] {
    [json!(handle.as_str()), json!(job_number(handle).parse::<u32>().unwrap())]
}

async fn assert_waits_for_dependency(backend: &dyn Backend, handle: &JobHandle) {
    let observation = poll_until(backend, handle, "that it waits for the other", |observation| {
        let message = observation.message.as_deref().unwrap_or_default();
        message.contains("waiting for another job").then(|| observation.state.clone())
    });
    assert_eq!(observation.await, JobState::Queued);
}

/// A job with `after` waits for the other one, and runs only if it ended as required.
#[tokio::test(flavor = "multi_thread")]
async fn dependent_job_waits_for_outcome() {
    let world = World::new().await;
    for (index, backend) in both_drivers(&world).await.iter().enumerate() {
        let (order, go) = (world.folder().join(format!("order-{index}")), format!("go-{index}"));
        let first = format!("{}; echo first >>'{}'", world.wait_for(&go), order.display());
        let fails = format!("{}; exit 1", world.wait_for(&go));
        let first = backend.start(&world.job("first", &first)).await.unwrap().handle;
        let fails = backend.start(&world.job("fails", &fails)).await.unwrap().handle;
        let second = format!("echo second >>'{}'", order.display());
        let (mut dependents, mut failed_dependents) = (Vec::new(), Vec::new());
        for name in job_references(&first) {
            let second = after(&world, &second, name, json!({}));
            dependents.push(backend.start(&second).await.unwrap().handle);
        }
        for name in job_references(&fails) {
            let dependent = after(&world, &second, name, json!({"when": "succeeded"}));
            failed_dependents.push(backend.start(&dependent).await.unwrap().handle);
        }
        let on_failure =
            after(&world, "echo cleared up", job_references(&fails)[0].clone(), json!({"when": "failed"}));
        let on_failure = backend.start(&on_failure).await.unwrap().handle;
        for handle in dependents.iter().chain(&failed_dependents).chain([&on_failure]) {
            assert_waits_for_dependency(&**backend, handle).await;
        }
        assert!(!order.exists(), "none has begun");
        fs::write(world.folder().join(go), "").unwrap();
        for handle in &dependents {
            let observation = poll_until_ended(&**backend, handle).await;
            assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
        }
        for handle in &failed_dependents {
            let observation = poll_until_ended(&**backend, handle).await;
            assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
            assert_contains(&observation, &["the job that it depends on did not end as required"]);
        }
        assert_contains(&poll_until_ended(&**backend, &on_failure).await, &["cleared up"]);
        assert_eq!(fs::read_to_string(&order).unwrap(), "first\nsecond\nsecond\n");
    }
}

/// The job starts at once or is refused, depending on how the other one ended.
#[tokio::test(flavor = "multi_thread")]
async fn dependency_on_ended_job_is_immediate() {
    let world = World::new().await;
    let (good, _) = world.run(&world.job("good", "true")).await;
    let (bad, _) = world.run(&world.job("bad", "exit 3")).await;
    for backend in both_drivers(&world).await {
        let mut started_handles = Vec::new();
        for (first_job, when, expected_start) in [
            (&good, "succeeded", true),
            (&good, "failed", false),
            (&bad, "succeeded", false),
            (&bad, "failed", true),
        ] {
            for name in job_references(first_job) {
                let second = after(&world, "echo second", name, json!({"when": when}));
                match (backend.start(&second).await, expected_start) {
                    (Ok(started), true) => started_handles.push(started.handle),
                    (Err(error), false) => {
                        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                        assert!(error.to_string().contains("did not end as required"), "{error}");
                        assert!(world.queue(&second).is_empty(), "{:?}", world.queue(&second));
                    }
                    (other, _) => panic!("{when}: {other:?}"),
                }
            }
        }
        for handle in &started_handles {
            assert_contains(&poll_until_ended(&*backend, handle).await, &["second"]);
        }
        let error = backend.start(&after(&world, "true", json!(999_999), json!({}))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    }
}

/// Submits a script as a user at a terminal does, and returns its number.
fn submit_by_hand(world: &World, lines: &str, options: &[&str]) -> u32 {
    let script = world.script("by-hand", lines);
    let mut arguments = vec!["--parsable", "--output=/dev/null"];
    arguments.extend(options);
    arguments.push(script.to_str().unwrap());
    world.cluster.run("sbatch", &arguments).trim().parse().unwrap()
}

fn attach(number: u32) -> JobSpec {
    job(json!({"attach": "{{ job }}"}), json!({"job": number}))
}

/// A job that was submitted by hand is followed, and a cancel of the task leaves it alone.
#[tokio::test(flavor = "multi_thread")]
async fn hand_submitted_job_is_followed() {
    let world = World::new().await;
    for (index, backend) in both_drivers(&world).await.iter().enumerate() {
        let go = format!("go-{index}");
        let wait_script = world.wait_for(&go);
        let single = submit_by_hand(&world, &wait_script, &[]);
        let lines = format!("{wait_script}; [ $SLURM_ARRAY_TASK_ID = 1 ] || exit 5");
        let array = submit_by_hand(&world, &lines, &["--array=1-2"]);
        let mut handles = Vec::new();
        for (job, expected) in [(single, "running on "), (array, "0 of 2 done, 2 running")] {
            let handle = backend.start(&attach(job)).await.unwrap().handle;
            assert_eq!(job_number(&handle), job.to_string());
            poll_until(&**backend, &handle, expected, |observation| {
                observation.message.as_deref().is_some_and(|message| message.contains(expected)).then_some(())
            })
            .await;
            backend.cancel(&handle).await.unwrap();
            let states = world.cluster.run("squeue", &["-h", "-r", "-j", &job.to_string(), "-o", "%T"]);
            assert!(states.lines().all(|state| state == "RUNNING"), "the job was cancelled: {states}");
            assert_eq!(wait_until_running(&**backend, &handle).await.state, JobState::Running);
            handles.push(handle);
        }
        fs::write(world.folder().join(go), "").unwrap();
        let observation = poll_until_ended(&**backend, &handles[0]).await;
        assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
        let observation = poll_until_ended(&**backend, &handles[1]).await;
        assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
        assert_contains(&observation, &["\n2 | failed | exit code 5 | ", "\n1 | succeeded | "]);

        let error = backend.start(&attach(999_999)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains("has no job 999999"), "{error}");
    }
}
