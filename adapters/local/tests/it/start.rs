//! Tests that a job starts exactly once, whatever happens around the start.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{JobState, Started};

use crate::world::{World, output, poll_until_ended, script, texts, wait_for_file, wait_until_removed};

/// Starts of one key from two servers all return the same handle.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_starts_run_one_job() {
    let world = World::new();
    let servers = [world.connect(json!({})).await, world.connect(json!({})).await];
    let count = world.config_dir().join("count");
    for _ in 0..5 {
        let job = script(&format!("echo ran >> {}; echo done", count.display()));
        let starts: Vec<_> = (0..8)
            .map(|n| {
                let (server, job) = (servers[n % 2].clone(), job.clone());
                tokio::task::spawn_blocking(move || {
                    tokio::runtime::Handle::current().block_on(server.start(&job))
                })
            })
            .collect();
        let mut handles = Vec::new();
        for start in starts {
            handles.push(start.await.unwrap().unwrap().handle);
        }
        assert!(handles.iter().all(|handle| *handle == handles[0]), "{handles:?}");
        poll_until_ended(&*servers[0], &handles[0]).await;
        assert_eq!(fs::read_to_string(&count).unwrap(), "ran\n");
        fs::remove_file(&count).unwrap();
    }
}

/// A start that is repeated after the end returns the ended job and does not run it again.
#[tokio::test]
async fn repeated_start_finds_ended_job() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let mut job = script("echo once >> ../count; cat ../count");
    let first = backend.start(&job).await.unwrap();
    let end = poll_until_ended(&*backend, &first.handle).await;
    job.may_exist = true;
    let repeated = backend.start(&job).await.unwrap();
    assert_eq!(repeated, Started { handle: first.handle, first: Some(end.clone()) });
    assert_eq!(texts(output(&end)), ["once\n"]);
}

/// `find` reports a job in each of its states.
#[tokio::test]
async fn find_starts_nothing() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script("while [ ! -e go ]; do sleep 0.02; done");
    assert_eq!(backend.find(&job).await.unwrap(), None);
    let started = backend.start(&job).await.unwrap();
    let found = backend.find(&job).await.unwrap().unwrap();
    assert_eq!((&found.handle, found.first.unwrap().state), (&started.handle, JobState::Running));
    fs::write(world.job(&job.key).join("work/go"), "").unwrap();
    let end = poll_until_ended(&*backend, &started.handle).await;
    assert_eq!(backend.find(&job).await.unwrap(), Some(Started { handle: started.handle, first: Some(end) }));
}

/// The server died after it had made the folder. The repeated start runs the job.
#[tokio::test]
async fn start_completes_after_server_crash() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let mut job = script("echo ran");
    fs::create_dir(world.job(&job.key)).unwrap();
    assert_eq!(backend.find(&job).await.unwrap(), None);
    job.may_exist = true;
    let handle = backend.start(&job).await.unwrap().handle;
    assert_eq!(texts(output(&poll_until_ended(&*backend, &handle).await)), ["ran\n"]);
}

#[tokio::test]
async fn partial_order_starts_no_job() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script("echo ran");
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_taskbridge-local-supervisor"))
        .args(["adapter-helper", "local"])
        .arg(world.job(&job.key))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The server dies in the middle of a line.
    supervisor.stdin.take().unwrap().write_all(br#"{"command": ["touch", "#).unwrap();
    assert!(!supervisor.wait().unwrap().success());
    assert!(!world.job(&job.key).exists());
    assert_eq!(backend.find(&job).await.unwrap(), None);
}

#[test]
fn a_restarted_server_finds_its_jobs() {
    let world = World::new();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let job = script("echo before; while [ ! -e go ]; do sleep 0.02; done; echo after");
    let first = runtime();
    let handle = first.block_on(async { world.connect(json!({})).await.start(&job).await.unwrap().handle });
    first.shutdown_background();

    runtime().block_on(async {
        let backend = world.connect(json!({})).await;
        assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Running);
        fs::write(world.job(&job.key).join("work/go"), "").unwrap();
        assert_eq!(texts(output(&poll_until_ended(&*backend, &handle).await)), ["before\nafter\n"]);
    });
}

/// Ended jobs are removed after `keep`, and running ones are never removed.
#[tokio::test]
async fn sweep_removes_only_old_jobs() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let (short, long) = (script("echo short"), script("touch up; while [ ! -e go ]; do sleep 0.02; done"));
    let (ended_handle, running_handle) =
        (backend.start(&short).await.unwrap().handle, backend.start(&long).await.unwrap().handle);
    poll_until_ended(&*backend, &ended_handle).await;
    wait_for_file(&world.job(&long.key).join("work/up")).await;

    let keeping_backend = world.connect(json!({"keep": "1h"})).await;
    assert!(keeping_backend.observe(&ended_handle).await.unwrap().state.has_ended());
    assert!(world.job(&short.key).exists());
    // A supervisor may need a moment to exit after it wrote the final record. Nothing is swept before that.
    crate::world::wait_until_exited(&world.supervisor_pid(&short.key).to_string()).await;
    let sweeping_backend = world.connect(json!({"keep": "0s"})).await;
    assert!(!world.job(&short.key).exists());
    assert_eq!(sweeping_backend.observe(&ended_handle).await.unwrap().state, JobState::Gone);
    assert_eq!(sweeping_backend.observe(&running_handle).await.unwrap().state, JobState::Running);
}

#[tokio::test]
async fn forgotten_job_loses_its_folder() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let (short, long) = (script("echo short"), script("touch up; while [ ! -e go ]; do sleep 0.02; done"));
    let (ended_handle, running_handle) =
        (backend.start(&short).await.unwrap().handle, backend.start(&long).await.unwrap().handle);
    poll_until_ended(&*backend, &ended_handle).await;
    wait_for_file(&world.job(&long.key).join("work/up")).await;
    crate::world::wait_until_exited(&world.supervisor_pid(&short.key).to_string()).await;
    for _ in 0..2 {
        backend.forget(&ended_handle).await.unwrap();
    }
    assert!(!world.job(&short.key).exists());
    backend.forget(&running_handle).await.unwrap();
    assert_eq!(backend.observe(&running_handle).await.unwrap().state, JobState::Running);
}

#[tokio::test]
async fn end_of_job_is_hinted() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let handle = backend.start(&job(json!({"command": ["true"]}), json!({}))).await.unwrap().handle;
    let hint =
        tokio::time::timeout(std::time::Duration::from_secs(60), backend.abilities().wakeups.unwrap().next());
    assert_eq!(hint.await.unwrap(), handle);
    assert!(backend.observe(&handle).await.unwrap().state.has_ended());
}

/// No supervisor stays behind as a zombie.
#[tokio::test]
async fn ended_supervisor_is_reaped() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script("true");
    let handle = backend.start(&job).await.unwrap().handle;
    poll_until_ended(&*backend, &handle).await;
    let process = std::path::PathBuf::from(format!("/proc/{}", world.supervisor_pid(&job.key)));
    wait_until_removed(&process).await;
}

#[tokio::test]
async fn identity_is_of_job_folder() {
    let (world, other) = (World::new(), World::new());
    let identity = world.connect(json!({})).await.identity().unwrap();
    assert!(identity.starts_with("local "), "{identity}");
    let reconnected = world.connect(json!({"env": {"TOKEN": "S3CRET"}})).await;
    assert_eq!(reconnected.identity().unwrap(), identity);
    assert_ne!(other.connect(json!({})).await.identity().unwrap(), identity);
}
