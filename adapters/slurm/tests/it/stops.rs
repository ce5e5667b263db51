//! Tests of jobs that are cancelled while they are pending, running or ending, jobs that are held for an
//! approval, and jobs that get signals.

use serde_json::{Map, json};
use taskbridge_sdk::suite::job as call;
use taskbridge_sdk::{Answer, AnswerOutcome, ErrorKind, JobState};

use crate::cluster::Fault;
use crate::harness::world::{
    TestCluster, World, eventually, job_number, poll_until, poll_until_ended, wait_for_script,
    wait_until_running,
};

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_pending_job_never_runs() {
    let world = World::new().await;
    // That partition is never opened.
    let target = json!({"resources": {"partition": "closed"}});
    let job = world.job_with("waits", "touch ran", json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    let observation = poll_until(&*world.backend, &handle, "why it waits", |observation| {
        observation
            .message
            .clone()
            .filter(|message| message.contains("partition"))
            .map(|message| (message, observation.state.clone()))
    })
    .await;
    assert_eq!(observation.1, JobState::Queued, "{}", observation.0);
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
}

/// A running job is cancelled with all the processes that it started.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_processes_of_job() {
    let world = World::new().await;
    let pid_file = world.folder().join("mark");
    let lines = format!("sleep 600 & echo $! >{}; wait", pid_file.display());
    let handle = world.backend.start(&world.job("runs", &lines)).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    eventually("the script has begun", || {
        std::fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n'))
    })
    .await;
    let pid = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    eventually("the child process has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    })
    .await;
}

/// Slurm signals one process after the other, children first, and SIGCONT before SIGTERM. A script that ends
/// with 0 before SIGTERM reaches it or its wrapper has not succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn script_that_ends_before_its_signal_is_cancelled() {
    let world = World::new().await;
    let begun_file = world.folder().join("begun");
    // Its children delay SIGTERM.
    let lines = format!(
        "exec bash -c 'for child in {{1..100}}; do sleep 600 & done; trap \"exit 0\" CONT; touch {}; wait'",
        begun_file.display()
    );
    // Slurm would kill a job whose processes need more memory than it asked for.
    let job = world.job_with("runs", &lines, json!({}), json!({"resources": {"memory": "1G"}}));
    let handle = world.backend.start(&job).await.unwrap().handle;
    wait_for_script(&*world.backend, &handle, &begun_file).await;
    world.backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
}

/// A job that is already ending is cancelled, and its end is the same in every poll.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_of_ending_job_is_reported() {
    // It takes long to end. Slurm kills it after two seconds, and the epilog keeps it in the queue until the
    // test permits its end.
    let dir = tempfile::tempdir().unwrap();
    let (epilog, end_file) = (dir.path().join("epilog"), dir.path().join("over"));
    let lines = format!("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.1; done\n", end_file.display());
    std::fs::write(&epilog, lines).unwrap();
    std::fs::set_permissions(&epilog, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let cluster = TestCluster::own(&["--set", &format!("Epilog={}", epilog.display())]);
    let world = World::on(cluster, json!({})).await;
    let begun_file = world.folder().join("begun");
    // Slurm's signal may reach the sleep of the trap as well, which must not end the script.
    let lines = format!(
        "trap 'while :; do sleep 600; done' TERM; touch {}; sleep 600 & wait; wait",
        begun_file.display()
    );
    let job = world.job("ends", &lines);
    let handle = world.backend.start(&job).await.unwrap().handle;
    wait_for_script(&*world.backend, &handle, &begun_file).await;
    world.backend.cancel(&handle).await.unwrap();
    let is_ending = || world.queue(&job)[0].contains("COMPLETING");
    eventually("the job is completing", is_ending).await;
    world.backend.cancel(&handle).await.unwrap();
    assert!(is_ending(), "{:?}", world.queue(&job));
    assert_eq!(wait_until_running(&*world.backend, &handle).await.state, JobState::Running);
    std::fs::write(end_file, "").unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    assert_eq!(poll_until_ended(&*world.backend, &handle).await, observation);
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
    assert!(error.to_string().contains("scancel reported success, but the job is still PENDING"), "{error}");
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Queued);
    world.backend.cancel(&handle).await.unwrap();
    assert!(matches!(poll_until_ended(&*world.backend, &handle).await.state, JobState::Cancelled(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn held_job_waits_for_approval() {
    let world = World::new().await;
    for approve in [true, false] {
        let target = json!({"approval": "Use 4 GPUs for {{ hours }} hours?"});
        let job = world.job_with("asks", "echo approved", json!({"hours": 3}), target);
        let handle = world.backend.start(&job).await.unwrap().handle;
        let question = poll_until(&*world.backend, &handle, "a question", |observation| {
            observation.questions.first().cloned()
        })
        .await;
        assert_eq!(question.message, "Use 4 GPUs for 3 hours?");
        assert!(world.queue(&job)[0].contains("PENDING JobHeldUser"), "{:?}", world.queue(&job));
        let answer = match approve {
            true => Answer::Accept(Map::from_iter([("approve".to_owned(), json!(true))])),
            false => Answer::Decline,
        };
        let questions = world.backend.abilities().questions.unwrap();
        assert_eq!(questions.answer(&handle, &question.id, &answer).await.unwrap(), AnswerOutcome::Accepted);
        let observation = poll_until_ended(&*world.backend, &handle).await;
        assert_eq!(matches!(observation.state, JobState::Succeeded(_)), approve, "{observation:?}");
        assert_eq!(world.queue(&job)[0].contains("CANCELLED"), !approve, "{:?}", world.queue(&job));
    }
}

/// A job of another name under the same number is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_ignores_reused_number() {
    let world = World::new().await;
    let job = world.job("waits", "exec sleep 600");
    let handle = world.backend.start(&job).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    // Simulates a controller that crashed, forgot a number and reused it.
    let other =
        taskbridge_sdk::JobHandle::new(format!("lab/{}/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa", job_number(&handle)));
    world.backend.cancel(&other).await.unwrap();
    assert_eq!(world.backend.observe(&other).await.unwrap().state, JobState::Gone);
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
    world.backend.cancel(&handle).await.unwrap();
    poll_until_ended(&*world.backend, &handle).await;
}

/// A signal reaches what runs, and nothing that is pending.
#[tokio::test(flavor = "multi_thread")]
async fn signal_reaches_running_elements_once() {
    let world = World::new().await;
    let signal_log = world.folder().join("heard");
    let count = || std::fs::read_to_string(&signal_log).map_or(0, |text| text.lines().count());
    let lines = format!(
        "trap 'echo heard >>{}' USR1; touch {}.$TASKBRIDGE_INDEX; while :; do sleep 0.1; done",
        signal_log.display(),
        world.folder().join("begun").display()
    );
    let begun_file = world.folder().join("begun.0");
    let target = json!({"array": {"parameter": "numbers", "at_once": 1}});
    let array = world.job_with("array", &lines, json!({"numbers": [1, 2]}), target);
    let array = world.backend.start(&array).await.unwrap().handle;
    wait_for_script(&*world.backend, &array, &begun_file).await;
    let signal_job = |handle| {
        let target = json!({"signal": {"job": "{{ job }}", "name": "USR1"}});
        call(target, json!({"job": job_number(handle)}))
    };
    let error = world.backend.start(&signal_job(&array)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    world.cluster.run("scancel", &[&format!("{}_1", job_number(&array))]);
    let pending_job =
        world.job_with("waits", "true", json!({}), json!({"resources": {"partition": "closed"}}));
    let pending_handle = world.backend.start(&pending_job).await.unwrap().handle;
    let error = world.backend.start(&signal_job(&pending_handle)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert_eq!(count(), 0, "the signal was refused");
    // No part of the array is pending any more.
    world.backend.start(&signal_job(&array)).await.unwrap();
    eventually("the first task has received the signal", || count() == 1).await;
    for handle in [array, pending_handle] {
        world.backend.cancel(&handle).await.unwrap();
        poll_until_ended(&*world.backend, &handle).await;
    }
    assert_eq!(count(), 1);
}

/// slurmrestd signals the steps of a job, and nothing that is pending.
#[tokio::test(flavor = "multi_thread")]
async fn rest_signal_reaches_only_steps() {
    let world = World::new().await;
    let by_rest = world.connect_by_rest(json!({})).await;
    let (signal_log, begun_file) = (world.folder().join("heard"), world.folder().join("begun"));
    let step = format!(
        "trap 'echo heard >>{}' USR1; touch {}; while :; do sleep 0.1; done",
        signal_log.display(),
        begun_file.display()
    );
    let step = world.script("step", &step);
    let job = world.job("steps", &format!("exec srun --ntasks=1 {}", step.display()));
    let running_handle = world.backend.start(&job).await.unwrap().handle;
    wait_for_script(&*world.backend, &running_handle, &begun_file).await;
    let pending_job =
        world.job_with("waits", "true", json!({}), json!({"resources": {"partition": "closed"}}));
    let pending_handle = world.backend.start(&pending_job).await.unwrap().handle;
    let signal_job = |handle| {
        let target = json!({"signal": {"job": "{{ job }}", "name": "USR1", "steps": true}});
        call(target, json!({"job": job_number(handle)}))
    };
    let error = by_rest.start(&signal_job(&pending_handle)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(!signal_log.exists());
    by_rest.start(&signal_job(&running_handle)).await.unwrap();
    // The script gets the signal as well, so srun forwards it once more.
    eventually("the step has received the signal", || signal_log.exists()).await;
    for handle in [running_handle, pending_handle] {
        world.backend.cancel(&handle).await.unwrap();
        poll_until_ended(&*world.backend, &handle).await;
    }
}
