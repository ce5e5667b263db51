//! Tests of folders whose file system hangs or fails, on a real cluster. A FUSE file system with an
//! unresponsive or dead server covers the folder for a while. It needs root and `/dev/fuse`; other machines
//! rely on the crate's unit tests.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use taskbridge_sdk::{ErrorKind, JobState, LogRequest};

use crate::harness::world::{
    TestCluster, World, assert_contains, eventually, poll_until, poll_until_ended, report_untested,
    unresponsive_seconds, wait_until_running,
};

/// A Python program that mounts the file system, reports that, and unmounts it at the end of its input.
const SERVER: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
place = sys.argv[1].encode()
try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError as error:
    sys.exit(print("no", error))
options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
if libc.mount(b"hangs", place, b"fuse", 0, options.encode()):
    sys.exit(print("no", os.strerror(ctypes.get_errno())))
if sys.argv[2] == "is dead":
    os.close(device)
print("ready", flush=True)
sys.stdin.read()
libc.umount2(place, 2)
"#;

/// A guard: while it exists, the folder's file system is unavailable.
struct UnavailableMount(Child);

impl UnavailableMount {
    /// Every access to the folder blocks.
    fn with_hung_server(folder: &Path) -> Option<Self> {
        Self::mount(folder, "hangs")
    }

    /// Every access to the folder fails.
    fn with_dead_server(folder: &Path) -> Option<Self> {
        Self::mount(folder, "is dead")
    }

    /// Returns `None` if we may not mount anything, or if FUSE is missing.
    fn mount(folder: &Path, mode: &str) -> Option<Self> {
        let mut server = Command::new("python3");
        server.args(["-c", SERVER]).arg(folder).arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Self(server.spawn().unwrap());
        let mut reply = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut reply).unwrap();
        if reply == "ready\n" {
            return Some(server);
        }
        report_untested(
            "a file system with an unreachable server, which needs root and /dev/fuse",
            "the unit tests use single files that hang or cannot be read",
        );
        None
    }
}

impl Drop for UnavailableMount {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// The poll of the job in the hung folder is unavailable, and it ends normally later.
#[tokio::test(flavor = "multi_thread")]
async fn hung_folder_delays_no_other_jobs() {
    let world = World::on(TestCluster::shared(), json!({"command_timeout": "10s"})).await;
    let go = world.folder().join("go");
    let lines = format!("echo begun; while [ ! -e {} ]; do sleep 0.1; done; echo gone", go.display());
    let handle = world.backend.start(&world.job("waits", &lines)).await.unwrap().handle;
    wait_until_running(&*world.backend, &handle).await;
    let jobs = world.folder().join("jobs");
    let Some(mount) = UnavailableMount::with_hung_server(&jobs) else {
        world.backend.cancel(&handle).await.unwrap();
        return drop(poll_until_ended(&*world.backend, &handle).await);
    };

    let started_at = Instant::now();
    let other = world.job("other", "echo other");
    let request = LogRequest { max_bytes: 100, search: None };
    let logs = world.backend.abilities().logs.unwrap();
    let errors = tokio::join!(
        async { world.backend.observe(&handle).await.map(drop).unwrap_err() },
        async { logs.tail(&handle, &request).await.map(drop).unwrap_err() },
        async { world.backend.start(&other).await.map(drop).unwrap_err() },
        async { world.backend.cancel(&handle).await.unwrap_err() },
    );
    for error in <[_; 4]>::from(errors) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(jobs.to_str().unwrap()) && unresponsive_seconds(&message) >= 10,
            "{message}"
        );
    }
    assert!(started_at.elapsed() < Duration::from_secs(60), "{:?}", started_at.elapsed());
    assert!(world.queue(&other).is_empty(), "{:?}", world.queue(&other));
    // The same cluster, with a responsive folder.
    let other_world = World::new().await;
    let (_, observation) = other_world.run(&other_world.job("beside", "echo beside")).await;
    assert_contains(&observation, &["beside"]);

    drop(mount);
    wait_until_running(&*world.backend, &handle).await;
    fs::write(go, "").unwrap();
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
    assert_contains(&observation, &["begun", "gone"]);
}

/// The folder of the results has I/O errors for a while, and the job's end waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_results_are_read_later() {
    let world = World::on(TestCluster::shared(), json!({})).await;
    let (go, scratch) = (world.folder().join("go"), world.folder().join("scratch"));
    fs::create_dir(&scratch).unwrap();
    let lines = format!(
        "echo '[1]' >result.json; echo a >a.csv; while [ ! -e {} ]; do sleep 0.1; done",
        go.display()
    );
    let target = json!({"working_dir": scratch, "result": "result.json", "artifacts": ["*.csv"]});
    let job = world.job_with("leaves", &lines, json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    eventually("the job has written its files", || scratch.join("a.csv").exists()).await;
    let mount = UnavailableMount::with_dead_server(&scratch);
    fs::write(go, "").unwrap();
    if mount.is_some() {
        let message = poll_until(&*world.backend, &handle, "that it waits for its files", |observation| {
            observation.message.clone().filter(|text| text.ends_with("The read is retried"))
        });
        let message = message.await;
        let scratch = scratch.display();
        assert!(message.starts_with(&format!("the job has ended; {scratch}")), "{message}");
    }
    drop(mount);
    let observation = poll_until_ended(&*world.backend, &handle).await;
    let JobState::Succeeded(output) = &observation.state else { panic!("{observation:?}") };
    assert_eq!(output.structured, Some(json!([1])));
    assert_eq!(output.artifacts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["a.csv"]);
}
