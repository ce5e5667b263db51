//! Tests of jobs that are cancelled while they are pending, running or ending, jobs that are held for an
//! approval, and jobs that get signals.

use serde_json::{Map, json};
use taskbridge_sdk::suite::job as call;
use taskbridge_sdk::{Answer, ErrorKind, JobState, Taken};

use crate::cluster::Fault;
use crate::world::{Held, World, ended, eventually, number, runs, until};

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_pending_job_never_runs() {
    let world = World::new().await;
    // That partition is never opened.
    let target = json!({"resources": {"partition": "closed"}});
    let job = world.job_with("waits", "touch ran", json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    let seen = until(&*world.backend, &handle, "why it waits", |seen| {
        seen.message
            .clone()
            .filter(|words| words.contains("partition"))
            .map(|words| (words, seen.state.clone()))
    })
    .await;
    assert_eq!(seen.1, JobState::Queued, "{}", seen.0);
    world.backend.cancel(&handle).await.unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
}

/// A running job is cancelled with all the processes that it started.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_processes_of_job() {
    let world = World::new().await;
    let mark = world.folder().join("mark");
    let lines = format!("sleep 600 & echo $! >{}; wait", mark.display());
    let handle = world.backend.start(&world.job("runs", &lines)).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    eventually("it has begun", || std::fs::read_to_string(&mark).is_ok_and(|pid| pid.ends_with('\n'))).await;
    let pid = std::fs::read_to_string(&mark).unwrap().trim().to_owned();
    world.backend.cancel(&handle).await.unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
    eventually("what it started has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    })
    .await;
}

/// A job that is already ending is cancelled, and its end is the same in every poll.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_ending_job_is_reported() {
    // It takes long to end. Slurm kills it after two seconds, and the epilog keeps it in the queue until the
    // test permits its end.
    let dir = tempfile::tempdir().unwrap();
    let (epilog, over) = (dir.path().join("epilog"), dir.path().join("over"));
    let lines = format!("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.1; done\n", over.display());
    std::fs::write(&epilog, lines).unwrap();
    std::fs::set_permissions(&epilog, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let cluster = Held::own(&["--set", &format!("Epilog={}", epilog.display())]);
    let world = World::on(cluster, json!({})).await;
    let begun = world.folder().join("begun");
    let lines = format!("trap 'sleep 600' TERM; touch {}; sleep 600 & wait; wait", begun.display());
    let job = world.job("ends", &lines);
    let handle = world.backend.start(&job).await.unwrap().handle;
    eventually("it has begun", || begun.exists()).await;
    world.backend.cancel(&handle).await.unwrap();
    let is_ending = || world.queue(&job)[0].contains("COMPLETING");
    eventually("it is completing", is_ending).await;
    world.backend.cancel(&handle).await.unwrap();
    assert!(is_ending(), "{:?}", world.queue(&job));
    assert_eq!(runs(&*world.backend, &handle).await.state, JobState::Running);
    std::fs::write(over, "").unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
    assert_eq!(ended(&*world.backend, &handle).await, seen);
}

/// scancel always reports success.
#[tokio::test(flavor = "multi_thread")]
async fn ineffective_cancel_is_reported() {
    let world = World::new().await;
    let job = world.job_with("waits", "true", json!({}), json!({"resources": {"partition": "closed"}}));
    let handle = world.backend.start(&job).await.unwrap().handle;
    world.commands.fault("scancel", Fault::Says(""));
    let error = world.backend.cancel(&handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("scancel was taken, and the job is still PENDING"), "{error}");
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Queued);
    world.backend.cancel(&handle).await.unwrap();
    assert!(matches!(ended(&*world.backend, &handle).await.state, JobState::Cancelled(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn held_job_waits_for_approval() {
    let world = World::new().await;
    for approve in [true, false] {
        let target = json!({"approval": "Use 4 GPUs for {{ hours }} hours?"});
        let job = world.job_with("asks", "echo approved", json!({"hours": 3}), target);
        let handle = world.backend.start(&job).await.unwrap().handle;
        let question =
            until(&*world.backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
        assert_eq!(question.message, "Use 4 GPUs for 3 hours?");
        assert!(world.queue(&job)[0].contains("PENDING JobHeldUser"), "{:?}", world.queue(&job));
        let answer = match approve {
            true => Answer::Accept(Map::from_iter([("approve".to_owned(), json!(true))])),
            false => Answer::Decline,
        };
        let questions = world.backend.questions().unwrap();
        assert_eq!(questions.answer(&handle, &question.id, &answer).await.unwrap(), Taken::Accepted);
        let seen = ended(&*world.backend, &handle).await;
        assert_eq!(matches!(seen.state, JobState::Succeeded(_)), approve, "{seen:?}");
        assert_eq!(world.queue(&job)[0].contains("CANCELLED"), !approve, "{:?}", world.queue(&job));
    }
}

/// A job of another name under the same number is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_ignores_reused_number() {
    let world = World::new().await;
    let job = world.job("waits", "exec sleep 600");
    let handle = world.backend.start(&job).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    // Simulates a controller that crashed, forgot a number and reused it.
    let other =
        taskbridge_sdk::JobHandle::new(format!("lab/{}/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa", number(&handle)));
    world.backend.cancel(&other).await.unwrap();
    assert_eq!(world.backend.observe(&other).await.unwrap().state, JobState::Gone);
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
    world.backend.cancel(&handle).await.unwrap();
    ended(&*world.backend, &handle).await;
}

/// A signal reaches what runs, and nothing that is pending.
#[tokio::test(flavor = "multi_thread")]
async fn signal_reaches_running_elements_once() {
    let world = World::new().await;
    let heard = world.folder().join("heard");
    let count = || std::fs::read_to_string(&heard).map_or(0, |text| text.lines().count());
    let lines = format!(
        "trap 'echo heard >>{}' USR1; touch {}.$TASKBRIDGE_INDEX; while :; do sleep 0.1; done",
        heard.display(),
        world.folder().join("begun").display()
    );
    let has_begun = |index: u32| world.folder().join(format!("begun.{index}")).exists();
    let target = json!({"array": {"parameter": "numbers", "at_once": 1}});
    let array = world.job_with("array", &lines, json!({"numbers": [1, 2]}), target);
    let array = world.backend.start(&array).await.unwrap().handle;
    eventually("its first task listens", || has_begun(0)).await;
    let send = |handle| {
        let target = json!({"signal": {"job": "{{ job }}", "name": "USR1"}});
        call(target, json!({"job": number(handle)}))
    };
    let error = world.backend.start(&send(&array)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    world.cluster.run("scancel", &[&format!("{}_1", number(&array))]);
    let waits = world.job_with("waits", "true", json!({}), json!({"resources": {"partition": "closed"}}));
    let waits = world.backend.start(&waits).await.unwrap().handle;
    let error = world.backend.start(&send(&waits)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert_eq!(count(), 0, "it was refused");
    // No part of the array is pending any more.
    world.backend.start(&send(&array)).await.unwrap();
    eventually("its first task heard it", || count() == 1).await;
    for handle in [array, waits] {
        world.backend.cancel(&handle).await.unwrap();
        ended(&*world.backend, &handle).await;
    }
    assert_eq!(count(), 1);
}

/// slurmrestd signals the steps of a job, and nothing that is pending.
#[tokio::test(flavor = "multi_thread")]
async fn rest_signal_reaches_only_steps() {
    let world = World::new().await;
    let by_rest = world.by_rest(json!({})).await;
    let (heard, begun) = (world.folder().join("heard"), world.folder().join("begun"));
    let step = format!(
        "trap 'echo heard >>{}' USR1; touch {}; while :; do sleep 0.1; done",
        heard.display(),
        begun.display()
    );
    let step = world.script("step", &step);
    let job = world.job("steps", &format!("exec srun --ntasks=1 {}", step.display()));
    let runs = world.backend.start(&job).await.unwrap().handle;
    eventually("its step listens", || begun.exists()).await;
    let waits = world.job_with("waits", "true", json!({}), json!({"resources": {"partition": "closed"}}));
    let waits = world.backend.start(&waits).await.unwrap().handle;
    let send = |handle| {
        let target = json!({"signal": {"job": "{{ job }}", "name": "USR1", "steps": true}});
        call(target, json!({"job": number(handle)}))
    };
    let error = by_rest.start(&send(&waits)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(!heard.exists());
    by_rest.start(&send(&runs)).await.unwrap();
    // The script gets the signal as well, so srun forwards it once more.
    eventually("it heard it", || heard.exists()).await;
    for handle in [runs, waits] {
        world.backend.cancel(&handle).await.unwrap();
        ended(&*world.backend, &handle).await;
    }
}
