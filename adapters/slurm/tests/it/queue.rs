//! Tests of pending jobs: their positions in the queue, their expected start times, and requeued jobs.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use taskbridge_sdk::{Backend, JobHandle, JobSpec, JobState};

use crate::world::{Held, World, assert_says, ended, eventually, number, runs, until};

/// The message has the position and the expected start, over commands and slurmrestd.
#[tokio::test(flavor = "multi_thread")]
async fn pending_job_shows_queue_position() {
    let often = json!({"position_every": "1s"});
    let world = World::on(Held::own(&["--rest", "--cpus", "1"]), often.clone()).await;
    let by_rest = world.by_rest(often).await;
    let job =
        |name: &str| world.job_with(name, "exec sleep 600", json!({}), json!({"resources": {"time": "20"}}));
    let mut handles = vec![world.backend.start(&job("runs")).await.unwrap().handle];
    runs(&*world.backend, &handles[0]).await;
    for name in ["first", "second"] {
        handles.push(world.backend.start(&job(name)).await.unwrap().handle);
    }
    for backend in [&world.backend, &by_rest] {
        for (position, handle) in handles.iter().enumerate().skip(1) {
            let wanted = format!(", position {position}, expected start 20");
            let seen = until(&**backend, handle, &wanted, |seen| {
                let words = seen.message.as_deref().unwrap_or_default();
                words.contains(&wanted).then(|| seen.clone())
            })
            .await;
            assert_eq!(seen.state, JobState::Queued, "{seen:?}");
        }
    }
    for handle in handles.iter().rev() {
        world.backend.cancel(handle).await.unwrap();
    }
}

/// Returns the file in which a job counts its runs.
fn count(world: &World, name: &str) -> PathBuf {
    world.folder().join(format!("{name}.runs"))
}

/// Returns a job that records each run, and ends after a requeue.
fn again(world: &World, name: &str, requeue: bool) -> JobSpec {
    let lines = format!(
        "echo $SLURM_RESTART_COUNT >>'{}'; [ \"${{SLURM_RESTART_COUNT:-0}}\" = 0 ] || exit 0; sleep 600 & wait",
        count(world, name).display()
    );
    world.job_with(name, &lines, json!({}), json!({"requeue": requeue}))
}

/// Returns how often its script ran, and the names of its fences.
fn ran(world: &World, name: &str, handle: &JobHandle) -> (usize, Vec<String>) {
    let key = handle.as_str().rsplit('/').next().unwrap();
    let marks = fs::read_dir(world.folder().join("jobs").join(key).join("ran")).unwrap();
    let mut marks: Vec<_> = marks.map(|mark| mark.unwrap().file_name().into_string().unwrap()).collect();
    marks.sort();
    (fs::read_to_string(count(world, name)).unwrap_or_default().lines().count(), marks)
}

/// Returns the file that a second run leaves when it finds the fence.
fn mark_of_again(world: &World, handle: &JobHandle) -> PathBuf {
    let key = handle.as_str().rsplit('/').next().unwrap();
    world.folder().join("jobs").join(key).join("ran/job.0/again")
}

/// A requeued job runs again only if its target permits it. Otherwise Slurm refuses, or the wrapper stops it.
#[tokio::test(flavor = "multi_thread")]
async fn requeue_runs_only_if_allowed() {
    let world = World::on(Held::own(&["--rest", "--cred-expire", "10"]), json!({})).await;
    let by_rest = world.by_rest(json!({})).await;
    let start = async |backend: &dyn Backend, name: &str, requeue: bool| {
        let handle = backend.start(&again(&world, name, requeue)).await.unwrap().handle;
        eventually("it runs", || count(&world, name).exists()).await;
        handle
    };
    let requeue = |handle: &JobHandle| world.cluster.try_run("scontrol", &["requeue", &number(handle)]);
    let may = start(&*world.backend, "may", true).await;
    let may_by_rest = start(&*by_rest, "may-by-rest", true).await;
    let may_not = start(&*world.backend, "may-not", false).await;
    // slurmrestd of 22.05 ignores that a requeue is not allowed.
    let not_heeded = start(&*by_rest, "not-heeded", false).await;
    for handle in [&may, &may_by_rest, &not_heeded] {
        let done = requeue(handle);
        assert!(done.status.success(), "{done:?}");
        let seen = until(&*world.backend, handle, "that it was put back", |seen| {
            let words = seen.message.as_deref().unwrap_or_default();
            words.contains("put back into the queue once").then(|| seen.clone())
        });
        assert!(!seen.await.state.has_ended());
    }
    let refused = requeue(&may_not);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(runs(&*world.backend, &may_not).await.state, JobState::Running);
    for (backend, name, handle) in [(&world.backend, "may", &may), (&by_rest, "may-by-rest", &may_by_rest)] {
        let seen = ended(&**backend, handle).await;
        assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
        assert_says(&seen, &["this was run 2"]);
        assert_eq!(ran(&world, name, handle), (2, vec!["job.0".to_owned(), "job.1".to_owned()]));
    }
    eventually("its second run came to the fence", || mark_of_again(&world, &not_heeded).exists()).await;
    assert_eq!(ran(&world, "not-heeded", &not_heeded), (1, vec!["job.0".to_owned()]));

    assert!(!mark_of_again(&world, &may_not).exists());
    world.backend.cancel(&may_not).await.unwrap();
    let seen = ended(&*world.backend, &may_not).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
    assert_eq!(ran(&world, "may-not", &may_not), (1, vec!["job.0".to_owned()]));
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
    let world = World::on(Held::own(&options), json!({})).await;
    let handle = world.backend.start(&again(&world, "yields", true)).await.unwrap().handle;
    eventually("it runs", || count(&world, "yields").exists()).await;
    let seen_waiting = world.folder().join("seen");
    let urgent =
        world.script("urgent", &format!("while [ ! -e '{}' ]; do sleep 0.1; done", seen_waiting.display()));
    world.cluster.run("sbatch", &["--partition=urgent", "--output=/dev/null", urgent.to_str().unwrap()]);
    let seen = until(&*world.backend, &handle, "that it was preempted", |seen| {
        let words = seen.message.as_deref().unwrap_or_default();
        let says_so =
            words.contains("put back into the queue once; a job of a higher priority had preempted it");
        // Its first run may still be ending.
        (says_so && seen.state == JobState::Queued).then_some(())
    });
    seen.await;
    fs::write(seen_waiting, "").unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
    assert_says(&seen, &["Slurm preempted it and put it back into the queue; this was run 2."]);
}
