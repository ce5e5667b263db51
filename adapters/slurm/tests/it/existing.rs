//! Tests of jobs that depend on existing jobs, with both drivers: dependencies, and tasks that follow a job
//! that was submitted elsewhere.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Backend, ErrorKind, JobHandle, JobSpec, JobState};

use crate::world::{World, assert_says, ended, merge, number, runs, until};

/// Returns one backend per driver.
async fn both(world: &World) -> [Arc<dyn Backend>; 2] {
    [world.backend.clone(), world.by_rest(json!({})).await]
}

/// Returns a job of these lines that begins after another.
fn after(world: &World, lines: &str, before: Value, more: Value) -> JobSpec {
    let mut after = json!({"job": "{{ before }}"});
    merge(&mut after, &more);
    world.job_with("second", lines, json!({"before": before}), json!({"after": after}))
}

/// Returns the job as a parameter with `type = "task"`, and as a number.
fn names(handle: &JobHandle) -> [Value; 2] {
    [json!(handle.as_str()), json!(number(handle).parse::<u32>().unwrap())]
}

async fn waits_for_the_other(backend: &dyn Backend, handle: &JobHandle) {
    let seen = until(backend, handle, "that it waits for the other", |seen| {
        let words = seen.message.as_deref().unwrap_or_default();
        words.contains("waiting for another job").then(|| seen.state.clone())
    });
    assert_eq!(seen.await, JobState::Queued);
}

/// A job with `after` waits for the other one, and runs only if it ended as required.
#[tokio::test(flavor = "multi_thread")]
async fn dependent_job_waits_for_outcome() {
    let world = World::new().await;
    for (turn, backend) in both(&world).await.iter().enumerate() {
        let (order, go) = (world.folder().join(format!("order-{turn}")), format!("go-{turn}"));
        let first = format!("{}; echo first >>'{}'", world.wait_for(&go), order.display());
        let fails = format!("{}; exit 1", world.wait_for(&go));
        let first = backend.start(&world.job("first", &first)).await.unwrap().handle;
        let fails = backend.start(&world.job("fails", &fails)).await.unwrap().handle;
        let second = format!("echo second >>'{}'", order.display());
        let (mut seconds, mut never) = (Vec::new(), Vec::new());
        for name in names(&first) {
            let second = after(&world, &second, name, json!({}));
            seconds.push(backend.start(&second).await.unwrap().handle);
        }
        for name in names(&fails) {
            let after = after(&world, &second, name, json!({"when": "succeeded"}));
            never.push(backend.start(&after).await.unwrap().handle);
        }
        let on_failure =
            after(&world, "echo cleared up", names(&fails)[0].clone(), json!({"when": "failed"}));
        let on_failure = backend.start(&on_failure).await.unwrap().handle;
        for handle in seconds.iter().chain(&never).chain([&on_failure]) {
            waits_for_the_other(&**backend, handle).await;
        }
        assert!(!order.exists(), "none has begun");
        fs::write(world.folder().join(go), "").unwrap();
        for handle in &seconds {
            let seen = ended(&**backend, handle).await;
            assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
        }
        for handle in &never {
            let seen = ended(&**backend, handle).await;
            assert!(matches!(seen.state, JobState::Failed(_)), "{seen:?}");
            assert_says(&seen, &["the job that was to come first did not end as required"]);
        }
        assert_says(&ended(&**backend, &on_failure).await, &["cleared up"]);
        assert_eq!(fs::read_to_string(&order).unwrap(), "first\nsecond\nsecond\n");
    }
}

/// The job starts at once or is refused, depending on how the other one ended.
#[tokio::test(flavor = "multi_thread")]
async fn dependency_on_ended_job_is_immediate() {
    let world = World::new().await;
    let (good, _) = world.run(&world.job("good", "true")).await;
    let (bad, _) = world.run(&world.job("bad", "exit 3")).await;
    for backend in both(&world).await {
        let mut begun = Vec::new();
        for (before, when, begins) in [
            (&good, "succeeded", true),
            (&good, "failed", false),
            (&bad, "succeeded", false),
            (&bad, "failed", true),
        ] {
            for name in names(before) {
                let second = after(&world, "echo second", name, json!({"when": when}));
                match (backend.start(&second).await, begins) {
                    (Ok(started), true) => begun.push(started.handle),
                    (Err(error), false) => {
                        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                        assert!(error.to_string().contains("did not end as required"), "{error}");
                        assert!(world.queue(&second).is_empty(), "{:?}", world.queue(&second));
                    }
                    (other, _) => panic!("{when}: {other:?}"),
                }
            }
        }
        for handle in &begun {
            assert_says(&ended(&*backend, handle).await, &["second"]);
        }
        let error = backend.start(&after(&world, "true", json!(999_999), json!({}))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    }
}

/// Submits a script as a user at a terminal does, and returns its number.
fn by_hand(world: &World, lines: &str, options: &[&str]) -> u32 {
    let script = world.script("by-hand", lines);
    let mut words = vec!["--parsable", "--output=/dev/null"];
    words.extend(options);
    words.push(script.to_str().unwrap());
    world.cluster.run("sbatch", &words).trim().parse().unwrap()
}

fn attach(number: u32) -> JobSpec {
    job(json!({"attach": "{{ job }}"}), json!({"job": number}))
}

/// A job that was submitted by hand is followed, and a cancel of the task leaves it alone.
#[tokio::test(flavor = "multi_thread")]
async fn hand_submitted_job_is_followed() {
    let world = World::new().await;
    for (turn, backend) in both(&world).await.iter().enumerate() {
        let go = format!("go-{turn}");
        let waits = world.wait_for(&go);
        let one = by_hand(&world, &waits, &[]);
        let lines = format!("{waits}; [ $SLURM_ARRAY_TASK_ID = 1 ] || exit 5");
        let array = by_hand(&world, &lines, &["--array=1-2"]);
        let mut handles = Vec::new();
        for (job, words) in [(one, "running on "), (array, "0 of 2 done, 2 running")] {
            let handle = backend.start(&attach(job)).await.unwrap().handle;
            assert_eq!(number(&handle), job.to_string());
            until(&**backend, &handle, words, |seen| {
                seen.message.as_deref().is_some_and(|said| said.contains(words)).then_some(())
            })
            .await;
            backend.cancel(&handle).await.unwrap();
            let states = world.cluster.run("squeue", &["-h", "-r", "-j", &job.to_string(), "-o", "%T"]);
            assert!(states.lines().all(|state| state == "RUNNING"), "it was cancelled: {states}");
            assert_eq!(runs(&**backend, &handle).await.state, JobState::Running);
            handles.push(handle);
        }
        fs::write(world.folder().join(go), "").unwrap();
        let seen = ended(&**backend, &handles[0]).await;
        assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
        let seen = ended(&**backend, &handles[1]).await;
        assert!(matches!(seen.state, JobState::Failed(_)), "{seen:?}");
        assert_says(&seen, &["\n2 | failed | exit code 5 | ", "\n1 | succeeded | "]);

        let error = backend.start(&attach(999_999)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains("has no job 999999"), "{error}");
    }
}
