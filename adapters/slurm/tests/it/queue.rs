//! Tests of pending jobs: their positions in the queue, their expected start times, and requeued jobs.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use taskbridge_sdk::{Backend, JobHandle, JobSpec, JobState};

use crate::harness::world::{
    TestCluster, World, assert_contains, eventually, job_number, poll_until, poll_until_ended,
    wait_until_running,
};

/// The message has the position and the expected start, over commands and slurmrestd.
#[tokio::test(flavor = "multi_thread")]
async fn pending_job_shows_queue_position() {
    let config = json!({"position_every": "1s"});
    let world = World::on(TestCluster::own(&["--rest", "--cpus", "1"]), config.clone()).await;
    let by_rest = world.connect_by_rest(config).await;
    let job =
        |name: &str| world.job_with(name, "exec sleep 600", json!({}), json!({"resources": {"time": "20"}}));
    let mut handles = vec![world.backend.start(&job("runs")).await.unwrap().handle];
    wait_until_running(&*world.backend, &handles[0]).await;
    for name in ["first", "second"] {
        handles.push(world.backend.start(&job(name)).await.unwrap().handle);
    }
    for backend in [&world.backend, &by_rest] {
        for (position, handle) in handles.iter().enumerate().skip(1) {
            let expected = format!(", position {position}, expected start 20");
            let observation = poll_until(&**backend, handle, &expected, |observation| {
                let message = observation.message.as_deref().unwrap_or_default();
                message.contains(&expected).then(|| observation.clone())
            })
            .await;
            assert_eq!(observation.state, JobState::Queued, "{observation:?}");
        }
    }
    for handle in handles.iter().rev() {
        world.backend.cancel(handle).await.unwrap();
    }
}

/// Returns the file in which a job counts its runs.
fn run_log(world: &World, name: &str) -> PathBuf {
    world.folder().join(format!("{name}.runs"))
}

/// Returns a job that records each run, and ends after a requeue.
fn requeued_job(world: &World, name: &str, requeue: bool) -> JobSpec {
    let lines = format!(
        "echo $SLURM_RESTART_COUNT >>'{}'; [ \"${{SLURM_RESTART_COUNT:-0}}\" = 0 ] || exit 0; sleep 600 & wait",
        run_log(world, name).display()
    );
    world.job_with(name, &lines, json!({}), json!({"requeue": requeue}))
}

/// Returns how often its script ran, and the names of its fences.
fn run_history(world: &World, name: &str, handle: &JobHandle) -> (usize, Vec<String>) {
    let key = handle.as_str().rsplit('/').next().unwrap();
    let entries = fs::read_dir(world.folder().join("jobs").join(key).join("ran")).unwrap();
    let mut fences: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    fences.sort();
    (fs::read_to_string(run_log(world, name)).unwrap_or_default().lines().count(), fences)
}

/// Returns the file that a second run leaves when it finds the fence.
fn rerun_marker(world: &World, handle: &JobHandle) -> PathBuf {
    let key = handle.as_str().rsplit('/').next().unwrap();
    world.folder().join("jobs").join(key).join("ran/job.0/again")
}

/// A requeued job runs again only if its target permits it. Otherwise Slurm refuses, or the wrapper stops it.
#[tokio::test(flavor = "multi_thread")]
async fn requeue_runs_only_if_allowed() {
    let world = World::on(TestCluster::own(&["--rest", "--cred-expire", "10"]), json!({})).await;
    let by_rest = world.connect_by_rest(json!({})).await;
    let start = async |backend: &dyn Backend, name: &str, requeue: bool| {
        let handle = backend.start(&requeued_job(&world, name, requeue)).await.unwrap().handle;
        eventually("the script runs", || run_log(&world, name).exists()).await;
        handle
    };
    let requeue = |handle: &JobHandle| world.cluster.try_run("scontrol", &["requeue", &job_number(handle)]);
    let requeueable = start(&*world.backend, "may", true).await;
    let requeueable_by_rest = start(&*by_rest, "may-by-rest", true).await;
    let not_requeueable = start(&*world.backend, "may-not", false).await;
    // slurmrestd of 22.05 ignores that a requeue is not allowed.
    let requeued_anyway = start(&*by_rest, "not-heeded", false).await;
    for handle in [&requeueable, &requeueable_by_rest, &requeued_anyway] {
        let output = requeue(handle);
        assert!(output.status.success(), "{output:?}");
        let observation = poll_until(&*world.backend, handle, "that it was put back", |observation| {
            let message = observation.message.as_deref().unwrap_or_default();
            message.contains("put back into the queue once").then(|| observation.clone())
        });
        assert!(!observation.await.state.has_ended());
    }
    let output = requeue(&not_requeueable);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(wait_until_running(&*world.backend, &not_requeueable).await.state, JobState::Running);
    for (backend, name, handle) in
        [(&world.backend, "may", &requeueable), (&by_rest, "may-by-rest", &requeueable_by_rest)]
    {
        let observation = poll_until_ended(&**backend, handle).await;
        assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
        assert_contains(&observation, &["this was run 2"]);
        assert_eq!(run_history(&world, name, handle), (2, vec!["job.0".to_owned(), "job.1".to_owned()]));
    }
    eventually("the second run found the fence", || rerun_marker(&world, &requeued_anyway).exists()).await;
    assert_eq!(run_history(&world, "not-heeded", &requeued_anyway), (1, vec!["job.0".to_owned()]));

    assert!(!rerun_marker(&world, &not_requeueable).exists());
    world.backend.cancel(&not_requeueable).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &not_requeueable).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    assert_eq!(run_history(&world, "may-not", &not_requeueable), (1, vec!["job.0".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn requeue_after_preemption_is_reported() {
    let options = [
        "--cpus",
        "1",
        "--cred-expire",
        "10",
        "--set",
        "PreemptType=preempt/partition_prio",
        "--set",
        "PreemptMode=REQUEUE",
        "--set",
        "PartitionName=urgent Nodes=ALL PriorityTier=10 State=UP",
    ];
    let world = World::on(TestCluster::own(&options), json!({})).await;
    let handle = world.backend.start(&requeued_job(&world, "yields", true)).await.unwrap().handle;
    eventually("the script runs", || run_log(&world, "yields").exists()).await;
    let go_file = world.folder().join("seen");
    let urgent_script =
        world.script("urgent", &format!("while [ ! -e '{}' ]; do sleep 0.1; done", go_file.display()));
    world
        .cluster
        .run("sbatch", &["--partition=urgent", "--output=/dev/null", urgent_script.to_str().unwrap()]);
    let observation = poll_until(&*world.backend, &handle, "that it was preempted", |observation| {
        let message = observation.message.as_deref().unwrap_or_default();
        let is_reported =
            message.contains("put back into the queue once; a job of a higher priority had preempted it");
        // Its first run may still be ending.
        (is_reported && observation.state == JobState::Queued).then_some(())
    });
    observation.await;
    fs::write(go_file, "").unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    assert_contains(&observation, &["Slurm preempted it and put it back into the queue; this was run 2."]);
}
