//! slurmctld is killed while jobs are in flight. It then forgets some, gives their numbers to others, and starts some twice; each
//! script must run once all the same, and no key may have two jobs that were released.

use std::fs;
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{Backend, JobHandle, JobSpec, JobState};

use crate::world::{Held, PATIENCE, World, number};

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

/// A controller that was killed forgets some jobs and is away for others. What is said of each changes with what happens to it, and not
/// with each look.
#[tokio::test(flavor = "multi_thread")]
async fn messages_stay_steady_after_kill() {
    let often = json!({"command_timeout": "4s", "look_every": "15s", "position_every": "60s"});
    let world = World::on(Held::own(&["--accounting", "--cpus", "4"]), often).await;
    let mut handles = Vec::new();
    for number in 0..6 {
        let job = world.job(&format!("job-{number}"), "exec sleep 600");
        handles.push(insist(&*world.backend, &job).await);
        if number % 2 == 1 {
            kill(&world);
        }
    }
    let mut said: Vec<Vec<String>> = handles.iter().map(|_| Vec::new()).collect();
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(40) {
        for (handle, said) in handles.iter().zip(&mut said) {
            let words = match world.backend.observe(handle).await {
                Ok(seen) => seen.message.unwrap_or_default(),
                Err(_) => "it could not be looked at".to_owned(),
            };
            if said.last() != Some(&words) {
                said.push(words);
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(said.iter().all(|said| said.len() <= 8), "{said:#?}");
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
    for handle in &handles {
        assert_one_was_released(&world, handle);
    }
    let mut succeeded = 0;
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
                assert!(ran <= 1, "job {number} ran {ran} times: {state:?}");
                assert_lost(&world, handle, &state);
                continue;
            }
            other => panic!("job {number}: {other:?}"),
        }
        succeeded += 1;
    }
    assert!(succeeded > 0, "nothing was seen to go on over a kill");
}

/// Of the jobs of a key, those that were never released have no priority, and keep none as they are cancelled.
fn assert_one_was_released(world: &World, handle: &JobHandle) {
    let key = handle.as_str().rsplit('/').next().unwrap();
    let all = world.cluster.run("squeue", &["-h", "-t", "all", "-n", key, "-o", "%i %T %r %Q"]);
    assert!(all.lines().filter(|row| !row.ends_with(" 0")).count() <= 1, "two were released: {all}");
}

/// By the cluster's own records, the controller forgot a job of this number, and it does not show this one as completed.
fn assert_lost(world: &World, handle: &JobHandle, state: &JobState) {
    let (number, key) = (number(handle), handle.as_str().rsplit('/').next().unwrap());
    let log = fs::read_to_string(world.cluster.folder.join("log/slurmctld")).unwrap();
    assert!(forgot(&log, &number), "{handle} is told as lost, and the controller never forgot it: {state:?}");
    let shown = world.cluster.run("squeue", &["-h", "-t", "all", "-n", key, "-o", "%i %T"]);
    let completed = format!("{number} COMPLETED");
    assert!(
        !shown.lines().any(|line| line == completed),
        "{handle} is told as lost, and completed: {state:?}"
    );
}

/// True if slurmctld gave a job this number, and did not know it when it began anew.
fn forgot(log: &str, number: &str) -> bool {
    let (given, recovered) =
        (format!("submit_batch_job: JobId={number} "), format!("Recovered JobId={number} "));
    let mut is_given = false;
    for life in log.split("slurmctld version ").skip(1) {
        if is_given && !life.contains(&recovered) {
            return true;
        }
        is_given |= life.contains(&given);
    }
    false
}

/// Lines of a 22.05 whose controller was killed right after it took job 5, and once more after it gave that number to another.
#[test]
fn what_the_controller_forgot_is_told_by_its_log() {
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
    assert!(forgot(log, "5") && !forgot(log, "4") && !forgot(log, "6"));
}
