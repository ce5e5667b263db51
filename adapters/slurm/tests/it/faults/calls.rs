//! Tests of faults between the backend and its cluster: lost responses, commands that hang, an unreachable
//! controller, and requests that must be refused before anything is submitted.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobHandle, JobSpec, JobState};

use crate::cluster::Fault;
use crate::harness::world::{
    POLL_TIMEOUT, TestCluster, World, job_number, poll_until, poll_until_ended, wait_until_running,
};

/// A command that hangs costs its time limit and no more.
#[tokio::test(flavor = "multi_thread")]
async fn hung_command_is_limited() {
    let world = World::on(TestCluster::shared(), json!({"command_timeout": "2s"})).await;
    let handle = world.backend.start(&world.job("waits", "exec sleep 600")).await.unwrap().handle;
    world.commands.fault("squeue", Fault::Hangs);
    let started_at = Instant::now();
    let error = world.backend.observe(&handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(started_at.elapsed() < Duration::from_secs(60), "the limit is 2 s");
    world.backend.cancel(&handle).await.unwrap();
    poll_until_ended(&*world.backend, &handle).await;
}

/// The submission hangs after Slurm accepted it, and the next start finds its job.
#[tokio::test(flavor = "multi_thread")]
async fn hung_submission_is_found_again() {
    let world = World::on(TestCluster::shared(), json!({"command_timeout": "2s"})).await;
    let job = world.job("waits", "exec sleep 600");
    world.commands.fault("sbatch", Fault::HangsAfter);
    assert_eq!(world.backend.start(&job).await.unwrap_err().kind(), ErrorKind::Uncertain);
    let mut retry = job.clone();
    retry.may_exist = true;
    let handle = world.backend.start(&retry).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    assert_eq!(world.queue(&job).len(), 1, "{:?}", world.queue(&job));
    world.backend.cancel(&handle).await.unwrap();
    poll_until_ended(&*world.backend, &handle).await;
}

/// Another server submitted a second held job under the key.
#[tokio::test(flavor = "multi_thread")]
async fn duplicate_job_under_key_is_removed() {
    let world = World::on(TestCluster::shared(), json!({"command_timeout": "2s"})).await;
    let job = world.job("waits", "exec sleep 600");
    world.commands.fault("sbatch", Fault::HangsAfter);
    assert_eq!(world.backend.start(&job).await.unwrap_err().kind(), ErrorKind::Uncertain);
    // Another process had the same request, and crashed before it recorded the outcome.
    submit_held(&world, &job);
    let mut retry = job.clone();
    retry.may_exist = true;
    let handle = world.backend.start(&retry).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    let all = world.queue(&job);
    assert_eq!(all.len(), 2, "{all:?}");
    let active: Vec<_> = all.iter().filter(|row| !row.contains("CANCELLED")).collect();
    assert!(active.len() == 1 && active[0].starts_with(&job_number(&handle)), "{all:?}");
    // A submission that arrives after the job was recorded, such as that of an abandoned command.
    submit_held(&world, &job);
    poll_until(&*world.backend, &handle, "that it is removed", |_| {
        let all = world.queue(&job);
        let active: Vec<_> = all.iter().filter(|row| !row.contains("CANCELLED")).collect();
        (all.len() == 3 && active.len() == 1 && active[0].starts_with(&job_number(&handle))).then_some(())
    })
    .await;
    world.backend.cancel(&handle).await.unwrap();
}

/// Submits a job of the same key as a start does, without recording it.
fn submit_held(world: &World, job: &JobSpec) {
    let script = world.script("held", "exec sleep 600");
    let name = format!("--job-name={}", job.key);
    let script = script.to_str().unwrap();
    world.cluster.run("sbatch", &["--hold", "--no-requeue", &name, "--output=/dev/null", script]);
}

/// Polls and starts are unavailable, and the job still runs when the controller is back.
#[tokio::test(flavor = "multi_thread")]
async fn controller_outage_proves_nothing() {
    let world = World::on(TestCluster::own(&["--accounting"]), json!({"command_timeout": "3s"})).await;
    let job = world.job("waits", "while [ ! -e go ]; do sleep 0.1; done; echo done");
    let handle = world.backend.start(&job).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    world.cluster.order("stop slurmctld");
    let started_at = Instant::now();
    // A slow controller is polled less often, and the last response is used for longer.
    let error = loop {
        match world.backend.observe(&handle).await {
            Ok(observation) => assert_eq!(observation.state, JobState::Running),
            Err(error) => break error,
        }
        assert!(started_at.elapsed() < POLL_TIMEOUT, "the outage was not detected");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let mut other = world.job("other", "echo it runs");
    let error = world.backend.start(&other).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Uncertain), "{error}");
    world.cluster.order("start slurmctld");
    other.may_exist = true;
    let started = world.backend.start(&other).await.unwrap().handle;
    assert!(matches!(poll_until_ended(&*world.backend, &started).await.state, JobState::Succeeded(_)));
    assert_eq!(world.queue(&other).len(), 1, "{:?}", world.queue(&other));
    let observation = world.backend.observe(&handle).await.unwrap();
    assert_eq!(observation.state, JobState::Running);
    world.backend.cancel(&handle).await.unwrap();
    poll_until_ended(&*world.backend, &handle).await;
}

/// An empty folder, as if a shared file system were not mounted.
#[tokio::test(flavor = "multi_thread")]
async fn unmounted_jobs_folder_submits_nothing() {
    let world = World::new().await;
    let (handle, observation) = world.run(&world.job("ends", "echo well")).await;
    let (jobs, moved_folder) = (world.folder().join("jobs"), world.folder().join("away"));
    fs::rename(&jobs, &moved_folder).unwrap();
    fs::create_dir(&jobs).unwrap();
    let unknown = JobHandle::new("lab/999999/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa");
    let other = world.job("other", "echo it runs");
    // The backend from before, and a server that starts now.
    let new_backend = world.connect_another(json!({})).await.unwrap();
    for backend in [&world.backend, &new_backend] {
        let error = backend.start(&other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(backend.find(&other).await.is_err());
        let error = backend.observe(&unknown).await.unwrap_err();
        assert!(error.to_string().contains("mounted"), "{error}");
        assert!(world.queue(&other).is_empty(), "{:?}", world.queue(&other));
    }
    let error = new_backend.observe(&handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    fs::rename(&jobs, world.folder().join("empty")).unwrap();
    fs::rename(&moved_folder, &jobs).unwrap();
    for backend in [&world.backend, &new_backend] {
        assert_eq!(backend.observe(&handle).await.unwrap(), observation);
        assert_eq!(backend.observe(&unknown).await.unwrap().state, JobState::Gone);
    }
}

/// Each row must be refused with a message that names the problem, and nothing may be submitted.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_call_submits_nothing() {
    let world = World::new().await;
    let bounded = json!({"resources": {"time": {"value": "{{ hours }}:00:00", "max": "10:00:00"}}});
    let chosen =
        json!({"resources": {"partition": {"value": "{{ partition }}", "allowed": ["main*", "short"]}}});
    let subfolder = json!({"working_dir": format!("{}/{{{{ project }}}}", world.folder().display())});
    let memory = json!({"resources": {"memory": {"value": "{{ memory }}", "max": "1G"}}});
    let rows: [(&str, Value, Value, &str); 16] = [
        (
            "more GPUs than a node has",
            json!({}),
            json!({"options": {"gres": "gpu:8"}}),
            "requested node configuration is not available",
        ),
        ("unknown partition", json!({}), json!({"resources": {"partition": "nowhere"}}), "partition"),
        ("bad account", json!({}), json!({"resources": {"account": "nobody"}}), "account"),
        ("unknown quality of service", json!({}), json!({"resources": {"qos": "gold"}}), "qos"),
        ("unknown reservation", json!({}), json!({"resources": {"reservation": "nowhere"}}), "reservation"),
        ("unknown feature", json!({}), json!({"resources": {"constraint": "amd"}}), "feature"),
        ("over the limit of the cluster", json!({}), json!({"resources": {"cpus": 100_000}}), "processors"),
        ("over a bound", json!({"hours": 11}), bounded.clone(), "10:00:00"),
        ("no limit of time", json!({"hours": "0"}), bounded.clone(), "means unlimited"),
        ("all memory", json!({"memory": "0"}), memory, "means unlimited"),
        ("no time", json!({"hours": "soon"}), bounded, "time"),
        ("not among those allowed", json!({"partition": "closed"}), chosen.clone(), "partition"),
        (
            "behind one that is allowed",
            json!({"partition": "main,closed"}),
            chosen,
            "`main,closed`, but must match",
        ),
        ("a folder elsewhere", json!({"project": "../../etc"}), subfolder, "`..`"),
        (
            "an absolute folder",
            json!({"project": "/etc"}),
            json!({"working_dir": "{{ project }}"}),
            "absolute",
        ),
        ("a dash", json!({"name": "-rf"}), json!({"args": ["{{ name }}"]}), "dash"),
    ];
    for (description, arguments, target, expected) in rows {
        let job = world.job_with("refused", "true", arguments, target);
        let started = world.backend.start(&job).await;
        let error = started.expect_err(description);
        assert_eq!(error.kind(), ErrorKind::Rejected, "{description}: {error}");
        assert!(error.to_string().to_lowercase().contains(expected), "{description}: {error}");
        assert!(world.queue(&job).is_empty(), "{description}: {:?}", world.queue(&job));
    }
    let job = job(json!({"script": "nowhere.sh"}), json!({}));
    let error = world.backend.start(&job).await.unwrap_err();
    assert!(error.to_string().contains("nowhere.sh"), "{error}");
    assert!(world.queue(&job).is_empty());
}

/// An argument stays one word whatever characters it has, and none of it is run.
#[tokio::test(flavor = "multi_thread")]
async fn argument_stays_one_word() {
    let world = World::new().await;
    let words = [
        "two words",
        "it's",
        "\"quoted\"",
        "$(touch ran) `touch ran`",
        "line\nbreak",
        "*",
        "",
        "\\",
        "-",
        "é\u{1f9ea}",
    ];
    let lines = "printf '%s\\0' \"$@\" >words; printf '%s' \"$NAME\" >name";
    let target = json!({
        "args": ["--", "{{ a }}", "{{ b }}", "{{ c }}", "{{ d }}", "{{ e }}", "{{ f }}", "{{ g }}", "{{ h }}", "{{ i }}", "{{ j }}"],
        "env": {"NAME": "{{ e }}"}, "artifacts": ["words", "name", "ran"],
    });
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let arguments: serde_json::Map<String, Value> =
        names.iter().zip(words).map(|(name, word)| ((*name).to_owned(), json!(word))).collect();
    let (handle, observation) =
        world.run(&world.job_with("words", lines, Value::Object(arguments), target)).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    let artifacts = world.backend.abilities().artifacts.unwrap();
    let read = async |name: &str| {
        artifacts
            .read(&handle, name, 10_000)
            .await
            .unwrap()
            .map(|data| String::from_utf8(data.bytes).unwrap())
    };
    let printed = read("words").await.unwrap();
    let expected: String = ["--"].iter().chain(&words).map(|word| format!("{word}\0")).collect();
    assert_eq!(printed, expected);
    assert_eq!(read("name").await.as_deref(), Some("line\nbreak"));
    assert_eq!(read("ran").await, None, "an argument was executed");
}
