//! Tests that kill slurmctld while jobs are in flight. It then forgets some jobs, reuses their numbers, and
//! starts some twice. Each script must still run only once, and no key may have two released jobs.

use std::fs;
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{Backend, JobHandle, JobSpec, JobState};

use crate::harness::world::{POLL_TIMEOUT, TestCluster, World, job_number};

/// Kills per test: 24 in both tests.
const KILLS: usize = 12;

/// Starts a job as the server does: repeats the start with `may_exist` until it is accepted.
async fn start_until_accepted(backend: &dyn Backend, job: &JobSpec) -> JobHandle {
    let started_at = std::time::Instant::now();
    let mut job = job.clone();
    loop {
        match backend.start(&job).await {
            Ok(started) => return started.handle,
            Err(error) => {
                assert!(started_at.elapsed() < POLL_TIMEOUT, "the job never started: {error}");
                job.may_exist = true;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The controller is killed while it accepts the job, twelve times. Each script runs once.
#[tokio::test(flavor = "multi_thread")]
async fn script_survives_controller_kill_during_submission() {
    each_script_runs_once(async |world, job, number| {
        let (handle, ()) = tokio::join!(start_until_accepted(&*world.backend, job), async {
            tokio::time::sleep(Duration::from_millis(u64::try_from(number).unwrap() * 16)).await;
            kill(world);
        });
        handle
    })
    .await;
}

/// The controller is killed after it accepted the job, twelve times. Each script runs once.
#[tokio::test(flavor = "multi_thread")]
async fn script_survives_controller_kill_after_submission() {
    each_script_runs_once(async |world, job, _| {
        let handle = start_until_accepted(&*world.backend, job).await;
        kill(world);
        handle
    })
    .await;
}

/// A killed controller forgets some jobs and is unavailable for others. A job's message changes when
/// something happens to the job, and not with each poll.
#[tokio::test(flavor = "multi_thread")]
async fn messages_stay_steady_after_kill() {
    let config = json!({"command_timeout": "4s", "look_every": "15s", "position_every": "60s"});
    let world = World::on(TestCluster::own(&["--accounting", "--cpus", "4"]), config).await;
    let mut handles = Vec::new();
    for number in 0..6 {
        let job = world.job(&format!("job-{number}"), "exec sleep 600");
        handles.push(start_until_accepted(&*world.backend, &job).await);
        if number % 2 == 1 {
            kill(&world);
        }
    }
    let mut messages: Vec<Vec<String>> = handles.iter().map(|_| Vec::new()).collect();
    let started_at = std::time::Instant::now();
    while started_at.elapsed() < Duration::from_secs(40) {
        for (handle, job_messages) in handles.iter().zip(&mut messages) {
            let message = match world.backend.observe(handle).await {
                Ok(observation) => observation.message.unwrap_or_default(),
                Err(_) => "the poll failed".to_owned(),
            };
            if job_messages.last() != Some(&message) {
                job_messages.push(message);
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(messages.iter().all(|job_messages| job_messages.len() <= 8), "{messages:#?}");
}

/// Kills the controller and starts it again.
fn kill(world: &World) {
    tokio::task::block_in_place(|| {
        world.cluster.order("kill slurmctld");
        world.cluster.order("start slurmctld");
    });
}

async fn each_script_runs_once(start: impl AsyncFn(&World, &JobSpec, usize) -> JobHandle) {
    let world = World::on(TestCluster::own(&[]), json!({"command_timeout": "4s"})).await;
    let count = world.folder().join("count");
    fs::create_dir(&count).unwrap();
    let mut handles = Vec::new();
    for number in 0..KILLS {
        let lines = format!("echo ran >>{}/{number}; sleep 0.{}; echo done", count.display(), number % 4);
        let job = world.job(&format!("job-{number}"), &lines);
        handles.push(start(&world, &job, number).await);
    }
    for handle in &handles {
        assert_one_was_released(&world, handle);
    }
    let mut succeeded = 0;
    for (number, handle) in handles.iter().enumerate() {
        let started_at = std::time::Instant::now();
        let state = loop {
            match world.backend.observe(handle).await {
                Ok(observation) if observation.state.has_ended() => break observation.state,
                other => assert!(started_at.elapsed() < POLL_TIMEOUT, "job {number} never ended: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let run_count =
            fs::read_to_string(count.join(number.to_string())).unwrap_or_default().lines().count();
        match state {
            JobState::Succeeded(_) => {
                assert_eq!(run_count, 1, "job {number} succeeded and ran {run_count} times")
            }
            // A lost job is reported as lost, whether or not it had begun, and never begins twice. None was
            // cancelled.
            JobState::Gone | JobState::Failed(_) => {
                assert!(run_count <= 1, "job {number} ran {run_count} times: {state:?}");
                assert_lost(&world, handle, &state);
                continue;
            }
            other => panic!("job {number}: {other:?}"),
        }
        succeeded += 1;
    }
    assert!(succeeded > 0, "no job survived a kill");
}

/// Jobs of a key that were never released have priority 0, and keep it when they are cancelled.
fn assert_one_was_released(world: &World, handle: &JobHandle) {
    let key = handle.as_str().rsplit('/').next().unwrap();
    let all = world.cluster.run("squeue", &["-h", "-t", "all", "-n", key, "-o", "%i %T %r %Q"]);
    assert!(all.lines().filter(|row| !row.ends_with(" 0")).count() <= 1, "two jobs were released: {all}");
}

/// According to the cluster's own records, the controller forgot a job of this number, and does not show this
/// one as completed.
fn assert_lost(world: &World, handle: &JobHandle, state: &JobState) {
    let (number, key) = (job_number(handle), handle.as_str().rsplit('/').next().unwrap());
    let log = fs::read_to_string(world.cluster.folder.join("log/slurmctld")).unwrap();
    assert!(
        was_forgotten(&log, &number),
        "{handle} is reported as lost, but the controller never forgot it: {state:?}"
    );
    let rows = world.cluster.run("squeue", &["-h", "-t", "all", "-n", key, "-o", "%i %T"]);
    let completed = format!("{number} COMPLETED");
    assert!(
        !rows.lines().any(|line| line == completed),
        "{handle} is reported as lost, but completed: {state:?}"
    );
}

/// Returns true if slurmctld assigned this number to a job, and did not know the job after a restart.
fn was_forgotten(log: &str, number: &str) -> bool {
    let (assigned, recovered) =
        (format!("submit_batch_job: JobId={number} "), format!("Recovered JobId={number} "));
    let mut is_assigned = false;
    for session in log.split("slurmctld version ").skip(1) {
        if is_assigned && !session.contains(&recovered) {
            return true;
        }
        is_assigned |= session.contains(&assigned);
    }
    false
}

/// Log lines of Slurm 22.05. The controller was killed right after it accepted job 5, and again after it
/// reused that number.
#[test]
fn controller_log_shows_forgotten_job() {
    let log = "\
slurmctld version 22.05.8 started on cluster lab
_slurm_rpc_submit_batch_job: JobId=4 InitPrio=0 usec=604
_slurm_rpc_submit_batch_job: JobId=5 InitPrio=0 usec=604
slurmctld version 22.05.8 started on cluster lab
Recovered JobId=4 Assoc=0
Recovered information about 1 jobs
_slurm_rpc_submit_batch_job: JobId=5 InitPrio=0 usec=531
slurmctld version 22.05.8 started on cluster lab
Recovered JobId=4 Assoc=0
Recovered JobId=5 Assoc=0
";
    assert!(was_forgotten(log, "5") && !was_forgotten(log, "4") && !was_forgotten(log, "6"));
}
