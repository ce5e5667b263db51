//! Tests of how jobs end on a real cluster, and of the reports: exit codes, signals, limits, results, logs,
//! and jobs that Slurm no longer knows.

mod recorded;

use std::fs;

use serde_json::json;
use taskbridge_sdk::{JobState, LogRequest};

use crate::harness::world::{
    TestCluster, World, all_text, assert_contains, eventually, in_time, job_number, output, poll_until_ended,
    report_untested, wait_until_running,
};

#[tokio::test(flavor = "multi_thread")]
async fn success_reports_runtime_and_structured_result() {
    let world = World::new().await;
    let lines = r#"echo working; printf '{"energy": -7.5, "atoms": [1, 2]}' >out.json"#;
    let job = world.job_with("succeeds", lines, json!({}), json!({"result": "out.json"}));
    let (_, observation) = world.run(&job).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    assert_eq!(output(&observation).structured, Some(json!({"energy": -7.5, "atoms": [1, 2]})));
    assert_contains(&observation, &["The job succeeded.\nran for ", "working"]);
}

/// The result has the exit code and the last lines of the log.
#[tokio::test(flavor = "multi_thread")]
async fn failure_reports_exit_code_and_log() {
    let world = World::new().await;
    let (_, observation) =
        world.run(&world.job("fails", "echo one; echo the tray is empty >&2; exit 3")).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_contains(&observation, &["exit code 3", "the tray is empty"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_is_reported_by_name() {
    let world = World::new().await;
    let (_, observation) = world.run(&world.job("dies", "echo last words >&2; kill -SEGV $$")).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_contains(&observation, &["SIGSEGV", "The standard error:\nlast words"]);
    assert!(
        !all_text(&observation).contains("slurm_script"),
        "the wrapper prints nothing: {}",
        all_text(&observation)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn time_limit_names_option_to_raise() {
    let world = World::new().await;
    let target = json!({"resources": {"time": "1"}});
    let (_, observation) = world.run(&world.job_with("slow", "sleep 600", json!({}), target)).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_contains(
        &observation,
        &["time limit", "It requested 00:01:00 and ran for 00:01:", "Raise `--time`."],
    );
}

/// Slurm reports this if the kernel enforces the limit. The machine must permit such limits: as root, with
/// control groups version 1. `recorded.rs` has the recorded output for other machines.
#[tokio::test(flavor = "multi_thread")]
async fn real_oom_names_option_to_raise() {
    if fs::OpenOptions::new().append(true).open("/sys/fs/cgroup/memory/tasks").is_err() {
        return report_untested(
            "OUT_OF_MEMORY by the cluster itself, which needs root and control groups of version 1",
            "recorded.rs uses recorded output",
        );
    }
    let world =
        World::on(TestCluster::own(&["--accounting", "--cgroups"]), json!({"accounting_wait": "60s"})).await;
    let target = json!({"resources": {"memory": "30M"}});
    let lines = "exec python3 -c 'x = bytearray(300 << 20)'";
    let (_, observation) = world.run(&world.job_with("greedy", lines, json!({}), target)).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert_contains(
        &observation,
        &["more memory than requested", "requested 30M of memory", "Raise `--mem`"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_by_others_names_them() {
    let world = World::new().await;
    let handle = world.backend.start(&world.job("waits", "exec sleep 600")).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    world.cluster.run("scancel", &[&job_number(&handle)]);
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    let expected = format!("cancelled by {}", world.cluster.user);
    assert_eq!(observation.message.as_deref(), Some(expected.as_str()));
}

/// Without control groups, Slurm reports FAILED by signal 9.
#[tokio::test(flavor = "multi_thread")]
async fn oom_without_cgroups_shows_slurm_line() {
    let world = World::new().await;
    let lines = "exec python3 -c 'import time; held = bytearray(300_000_000); time.sleep(600)'";
    let target = json!({"resources": {"memory": "20M"}});
    let (_, observation) = world.run(&world.job_with("greedy", lines, json!({}), target)).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    let expected = [
        "used more memory than requested (ended by SIGKILL)",
        "It requested 20M of memory and used at least ",
    ];
    assert_contains(&observation, &expected);
    assert_contains(&observation, &["Raise `--mem`.", "exceeded memory limit"]);
    assert!(observation.message.unwrap().contains("used more memory"));
}

/// The tail and the search return at most `max_bytes`.
#[tokio::test(flavor = "multi_thread")]
async fn large_log_is_read_from_end() {
    let world = World::new().await;
    let lines = "seq -f 'line %.0f of a long log that nobody wants to read whole' 1 400000; echo the end";
    let (handle, observation) = world.run(&world.job("talks", lines)).await;
    assert_contains(&observation, &["the end"]);
    assert!(all_text(&observation).len() < 64 * 1024, "{} bytes", all_text(&observation).len());
    let logs = world.backend.abilities().logs.unwrap();
    let request =
        |max_bytes, search: Option<&str>| LogRequest { max_bytes, search: search.map(str::to_owned) };
    let tail = logs.tail(&handle, &request(1000, None)).await.unwrap();
    assert!(tail.cut && tail.text.trim_end().ends_with("the end") && tail.text.len() <= 1000, "{tail:?}");
    let matches = logs.tail(&handle, &request(1000, Some("LINE 7 OF"))).await.unwrap();
    assert!(matches.text.contains("line 7 of") && !matches.text.contains("line 8 of"), "{matches:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_grows_while_job_runs() {
    let world = World::new().await;
    let lines = format!("echo begun; {}; echo gone; {}", world.wait_for("go"), world.wait_for("end"));
    let handle = world.backend.start(&world.job("waits", &lines)).await.unwrap().handle;
    let logs = world.backend.abilities().logs.unwrap();
    let request = LogRequest { max_bytes: 1000, search: None };
    for (expected, next) in [("begun\n", "go"), ("begun\ngone\n", "end")] {
        in_time(&format!("its log is {expected:?}"), async {
            while logs.tail(&handle, &request).await.unwrap().text != expected {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        })
        .await;
        assert_eq!(
            wait_until_running(&*world.backend, &handle).await.state,
            JobState::Running,
            "the job still runs"
        );
        fs::write(world.folder().join(next), "").unwrap();
    }
    poll_until_ended(&*world.backend, &handle).await;
}

/// The controller forgets the jobs, and the accounting still has their usage and end.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_job_is_in_accounting() {
    let cluster = TestCluster::own(&["--accounting", "--min-job-age", "2"]);
    let world = World::on(cluster, json!({"accounting_wait": "60s"})).await;
    // The first job leaves a marker, and only the accounting database knows its usage. The wrapper of the
    // second job is killed, and only the accounting database knows how it ended.
    let rows = [
        ("sleep 1.2; echo gone soon; exit 4", "exit code 4", "gone soon"),
        ("echo no marker; sleep 1.2; kill -KILL $PPID", "SIGKILL", "no marker"),
    ];
    let mut handles = Vec::new();
    for (lines, ..) in rows {
        handles.push(world.backend.start(&world.job("fails", lines)).await.unwrap().handle);
    }
    for (handle, (_, reason, printed)) in handles.iter().zip(rows) {
        eventually("the controller forgets the job", || {
            let output =
                world.cluster.try_run("squeue", &["-h", "-t", "all", "-j", &job_number(handle), "-o", "%T"]);
            !output.status.success() || output.stdout.is_empty()
        })
        .await;
        let observation = poll_until_ended(&*world.backend, handle).await;
        assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
        assert_contains(&observation, &[reason, printed, "CPU efficiency"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn end_marker_suffices_without_accounting() {
    let world = World::on(TestCluster::own(&["--min-job-age", "2"]), json!({})).await;
    for (code, lines) in [(0, "echo well"), (5, "echo badly; exit 5")] {
        let handle = world.backend.start(&world.job("ends", lines)).await.unwrap().handle;
        eventually("the controller forgets the job", || {
            let output =
                world.cluster.try_run("squeue", &["-h", "-t", "all", "-j", &job_number(&handle), "-o", "%T"]);
            !output.status.success() || output.stdout.is_empty()
        })
        .await;
        let observation = poll_until_ended(&*world.backend, &handle).await;
        assert_eq!(matches!(observation.state, JobState::Succeeded(_)), code == 0, "{observation:?}");
        assert_contains(&observation, &[if code == 0 { "well" } else { "exit code 5" }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_comes_by_the_comment() {
    let world = World::new().await;
    let job = world.job("waits", "exec sleep 600");
    let handle = world.backend.start(&job).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    // A job can set the comment itself in this way.
    world
        .cluster
        .run("scontrol", &["update", &format!("jobid={}", job_number(&handle)), "comment=progress=2/3"]);
    let progress = crate::harness::world::poll_until(&*world.backend, &handle, "progress", |observation| {
        observation.progress
    })
    .await;
    assert_eq!((progress.done, progress.total), (2.0, Some(3.0)));
    world.backend.cancel(&handle).await.unwrap();
    poll_until_ended(&*world.backend, &handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_do_not_leave_their_folder() {
    let world = World::new().await;
    let lines = "echo mine >a.txt; ln -s /etc/passwd b.txt; mkdir c.txt; mkfifo d.txt; ln -s /etc e";
    let job = world.job_with("leaves", lines, json!({}), json!({"artifacts": ["*.txt", "e/*", "../../*"]}));
    let (handle, observation) = world.run(&job).await;
    let names: Vec<_> = output(&observation).artifacts.iter().map(|artifact| artifact.name.clone()).collect();
    assert_eq!(names, ["a.txt"]);
    let artifacts = world.backend.abilities().artifacts.unwrap();
    let read = async |name: &str| artifacts.read(&handle, name, 1 << 20).await.unwrap();
    assert_eq!(read("a.txt").await.unwrap().bytes, b"mine\n");
    for name in ["b.txt", "c.txt", "d.txt", "e/passwd", "../../script"] {
        assert!(read(name).await.is_none(), "{name} was read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_log_is_clear_error() {
    let world = World::new().await;
    let (handle, _) = world.run(&world.job("talks", "echo hidden")).await;
    let key = handle.as_str().rsplit('/').next().unwrap().to_owned();
    let log = world.folder().join("jobs").join(key).join("logs/out");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let result = world
        .backend
        .abilities()
        .logs
        .unwrap()
        .tail(&handle, &LogRequest { max_bytes: 100, search: None })
        .await;
    let error = result.unwrap_err().to_string();
    assert_eq!(error, "the job's log cannot be read: out is not a regular file");
}
