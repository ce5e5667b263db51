//! slurmctld is killed while jobs are in flight. It then forgets some, gives their numbers to others, and starts some twice; each
//! script must run once all the same, and no key may have two jobs that were released.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{Backend, JobHandle, JobSpec, JobState};

use crate::world::{Held, PATIENCE, World};

/// Of each of the two kinds: 24 in all.
const KILLS: usize = 12;

/// Starts a job as the server does: again with `may_exist`, until it is accepted.
async fn insist(backend: &dyn Backend, job: &JobSpec) -> JobHandle {
    let began = std::time::Instant::now();
    let mut job = job.clone();
    loop {
        match backend.start(&job).await {
            Ok(started) => return started.handle,
            Err(error) => {
                assert!(began.elapsed() < PATIENCE, "it never started: {error}");
                job.may_exist = true;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_12_kills_of_the_controller_as_it_takes_a_job_each_script_runs_once() {
    each_script_runs_once(async |world, job, number| {
        let (handle, ()) = tokio::join!(insist(&*world.backend, job), async {
            tokio::time::sleep(Duration::from_millis(u64::try_from(number).unwrap() * 16)).await;
            kill(world);
        });
        handle
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_12_kills_of_the_controller_after_it_took_a_job_each_script_runs_once() {
    each_script_runs_once(async |world, job, _| {
        let handle = insist(&*world.backend, job).await;
        kill(world);
        handle
    })
    .await;
}

/// The controller is killed, and begins again.
fn kill(world: &World) {
    tokio::task::block_in_place(|| {
        world.cluster.order("kill slurmctld");
        world.cluster.order("start slurmctld");
    });
}

async fn each_script_runs_once(start: impl AsyncFn(&World, &JobSpec, usize) -> JobHandle) {
    let world = World::on(Held::own(&[]), json!({"command_timeout": "4s"})).await;
    let count = world.folder().join("count");
    fs::create_dir(&count).unwrap();
    let mut handles = Vec::new();
    for number in 0..KILLS {
        let lines = format!("echo ran >>{}/{number}; sleep 0.{}; echo done", count.display(), number % 4);
        let job = world.job(&format!("job-{number}"), &lines);
        handles.push(start(&world, &job, number).await);
    }
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, handle) in handles.iter().enumerate() {
        let began = std::time::Instant::now();
        let state = loop {
            match world.backend.observe(handle).await {
                Ok(seen) if seen.state.has_ended() => break seen.state,
                other => assert!(began.elapsed() < PATIENCE, "job {number} never ended: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let ran = fs::read_to_string(count.join(number.to_string())).unwrap_or_default().lines().count();
        match state {
            JobState::Succeeded(_) => assert_eq!(ran, 1, "job {number} succeeded and ran {ran} times"),
            // A lost job is told as lost, whether or not it had begun; it never begins twice. Nobody cancelled any.
            JobState::Gone | JobState::Failed(_) => {
                assert!(ran <= 1, "job {number} ran {ran} times: {state:?}")
            }
            other => panic!("job {number}: {other:?}"),
        }
        *ends
            .entry(if matches!(state, JobState::Succeeded(_)) { "succeeded" } else { "lost" })
            .or_default() += 1;
    }
    assert!(ends["succeeded"] >= KILLS / 2, "{ends:?}");
}
