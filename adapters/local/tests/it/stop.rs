//! Tests of jobs that are cancelled, exceed their timeout, or lose their supervisor.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobHandle, JobKey, JobState, Observation};

use crate::world::{
    World, failure, output, poll_until_ended, script, texts, wait_for_file, wait_until_exited,
};

/// Prints a line, writes its process id to a file for the test, and continues to run.
const ENDLESS: &str = "echo working; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.05; done";

async fn pid_of(world: &World, key: &JobKey) -> String {
    wait_for_file(&world.job(key).join("work/pid")).await
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn assert_cancelled(observation: &Observation) {
    assert!(
        matches!(&observation.state, JobState::Cancelled(output) if texts(output) == ["working\n"]),
        "{observation:?}"
    );
    assert_eq!(observation.message.as_deref(), Some("stopped on request"));
}

/// A repeated cancel, and one of an unknown job, have no effect.
#[tokio::test]
async fn cancelled_job_ends() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(ENDLESS);
    let handle = backend.start(&job).await.unwrap().handle;
    let pid = pid_of(&world, &job.key).await;
    backend.cancel(&handle).await.unwrap();
    backend.cancel(&handle).await.unwrap();
    assert_cancelled(&poll_until_ended(&*backend, &handle).await);
    wait_until_exited(&pid).await;
    backend.cancel(&handle).await.unwrap();
    for unknown in ["local:h:b:tb-unknown", "nonsense"] {
        backend.cancel(&JobHandle::new(unknown)).await.unwrap();
    }
}

/// A job that ignores SIGTERM is killed when its grace period ends.
#[tokio::test]
async fn cancel_kills_job_after_grace() {
    let world = World::new();
    let backend = world.connect(json!({"kill_grace": "200ms"})).await;
    let job = script(&format!("trap 'echo no >> told' TERM; {ENDLESS}"));
    let handle = backend.start(&job).await.unwrap().handle;
    let pid = pid_of(&world, &job.key).await;
    backend.cancel(&handle).await.unwrap();
    assert_cancelled(&poll_until_ended(&*backend, &handle).await);
    wait_until_exited(&pid).await;
    assert_eq!(fs::read_to_string(world.job(&job.key).join("work/told")).unwrap(), "no\n");
}

/// The failure states the timeout and keeps what the job printed.
#[tokio::test]
async fn job_timeout_fails_with_output() {
    let world = World::new();
    let target =
        json!({"command": ["sh", "-c", "echo some; echo busy >&2; exec sleep 600"], "timeout": "300ms"});
    let end = world.run_spec(&job(target, json!({}))).await;
    let (message, output) = failure(&end);
    assert_eq!(message, "stopped after its timeout of 300ms: busy");
    assert_eq!(texts(output), ["some\n"]);
}

#[tokio::test]
async fn background_processes_end_with_job() {
    let world = World::new();
    let end = world.run("sleep 600 & echo $!").await;
    wait_until_exited(texts(output(&end))[0]).await;
}

/// The job is reported as gone, and a repeated start does not run it again.
#[tokio::test]
async fn killed_supervisor_ends_its_command() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let mut job = script(&format!("echo ran >> ../count; {ENDLESS}"));
    let handle = backend.start(&job).await.unwrap().handle;
    let pid = pid_of(&world, &job.key).await;
    kill(world.supervisor_pid(&job.key));
    wait_until_exited(&world.supervisor_pid(&job.key).to_string()).await;
    for _ in 0..2 {
        let observation = backend.observe(&handle).await.unwrap();
        assert_eq!(observation.state, JobState::Gone);
        assert!(observation.message.unwrap().contains("supervisor was killed"));
    }
    wait_until_exited(&pid).await;

    job.may_exist = true;
    let repeated = backend.start(&job).await.unwrap();
    assert_eq!((repeated.handle, repeated.first.unwrap().state), (handle.clone(), JobState::Gone));
    assert_eq!(fs::read_to_string(world.job(&job.key).join("count")).unwrap(), "ran\n");
    backend.cancel(&handle).await.unwrap();
}

/// Creates a folder as a dead supervisor leaves it. Its process id now belongs to another process: this test.
fn create_stale_job(world: &World, key: &JobKey, host: &str, boot: &str) {
    let job = world.job(key);
    fs::create_dir_all(job.join("questions")).unwrap();
    let machine = json!({"host": host, "boot": boot});
    let claim = json!({"supervisor": std::process::id(), "machine": machine});
    fs::write(job.join("claim.json"), claim.to_string()).unwrap();
}

/// Another process with the id, a reboot and another machine are distinguished from a running job.
#[tokio::test]
async fn reused_pid_is_no_job() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let first_handle = backend.start(&script("true")).await.unwrap().handle;
    let [_, host, boot, _] = first_handle.as_str().split(':').collect::<Vec<_>>()[..] else {
        panic!("{first_handle}")
    };

    let observe = |host: &str, boot: &str| {
        let job = script("true");
        create_stale_job(&world, &job.key, host, boot);
        let (backend, handle) = (backend.clone(), JobHandle::new(format!("local:{host}:{boot}:{}", job.key)));
        async move { backend.observe(&handle).await }
    };
    let reused = observe(host, boot).await.unwrap();
    assert_eq!(reused.state, JobState::Gone);
    assert!(reused.message.unwrap().contains("supervisor was killed"));
    let rebooted = observe(host, "another-boot").await.unwrap();
    assert_eq!(rebooted.state, JobState::Gone);
    assert!(rebooted.message.unwrap().contains("machine was restarted"));
    let renamed = observe("another-host", boot).await.unwrap();
    assert_eq!(renamed.state, JobState::Gone);
    let error = observe("another-host", "another-boot").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("runs on the machine `another-host`"), "{error}");
}

#[tokio::test]
async fn unknown_local_job_is_gone() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let handle = backend.start(&script("true")).await.unwrap().handle;
    let (machine, _) = handle.as_str().rsplit_once(':').unwrap();
    for unknown in [format!("{machine}:tb-unknown"), "nonsense".to_owned()] {
        let observation = backend.observe(&JobHandle::new(unknown)).await.unwrap();
        assert_eq!(observation.state, JobState::Gone);
    }
}

/// A cancel that comes before the command can receive signals ends the job.
#[tokio::test]
async fn early_cancel_is_not_lost() {
    let world = World::new();
    let backend = world.connect(json!({"kill_grace": "200ms"})).await;
    for _ in 0..20 {
        let handle = backend.start(&script("exec sleep 600")).await.unwrap().handle;
        backend.cancel(&handle).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(60), poll_until_ended(&*backend, &handle))
            .await
            .unwrap();
        assert!(matches!(end.state, JobState::Cancelled(_)), "{end:?}");
    }
}

/// The poll fails, and the job's state is the same when the folder is back.
#[tokio::test]
async fn unreadable_folder_is_unavailable() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script("echo fine");
    let handle = backend.start(&job).await.unwrap().handle;
    let observation = poll_until_ended(&*backend, &handle).await;
    let (folder, moved_folder) = (world.job(&job.key), world.config_dir().join("aside"));
    fs::rename(&folder, &moved_folder).unwrap();
    fs::write(&folder, "").unwrap();
    let error = backend.observe(&handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("Not a directory"), "{error}");
    fs::remove_file(&folder).unwrap();
    fs::rename(&moved_folder, &folder).unwrap();
    assert_eq!(backend.observe(&handle).await.unwrap(), observation);
}
