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

use crate::world::{Held, World, assert_says, ended, eventually, runs, silent_for, tried_otherwise, until};

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
struct Away(Child);

impl Away {
    /// Every access to the folder blocks.
    fn hangs(folder: &Path) -> Option<Self> {
        Self::over(folder, "hangs")
    }

    /// Every access to the folder fails.
    fn is_dead(folder: &Path) -> Option<Self> {
        Self::over(folder, "is dead")
    }

    /// Returns `None` if we may not mount anything, or if FUSE is missing.
    fn over(folder: &Path, how: &str) -> Option<Self> {
        let mut server = Command::new("python3");
        server.args(["-c", SERVER]).arg(folder).arg(how).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Self(server.spawn().unwrap());
        let mut said = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said == "ready\n" {
            return Some(server);
        }
        tried_otherwise(
            "a file system whose server is away, which takes root and /dev/fuse",
            "single files that hang or cannot be read are read",
        );
        None
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// The poll of the job in the hung folder is unavailable, and it ends normally later.
#[tokio::test(flavor = "multi_thread")]
async fn hung_folder_delays_no_other_jobs() {
    let world = World::on(Held::shared(), json!({"command_timeout": "10s"})).await;
    let go = world.folder().join("go");
    let lines = format!("echo begun; while [ ! -e {} ]; do sleep 0.1; done; echo gone", go.display());
    let handle = world.backend.start(&world.job("waits", &lines)).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    let jobs = world.folder().join("jobs");
    let Some(hangs) = Away::hangs(&jobs) else {
        world.backend.cancel(&handle).await.unwrap();
        return drop(ended(&*world.backend, &handle).await);
    };

    let began = Instant::now();
    let other = world.job("other", "echo other");
    let request = LogRequest { max_bytes: 100, search: None };
    let logs = world.backend.logs().unwrap();
    let errors = tokio::join!(
        async { world.backend.observe(&handle).await.map(drop).unwrap_err() },
        async { logs.tail(&handle, &request).await.map(drop).unwrap_err() },
        async { world.backend.start(&other).await.map(drop).unwrap_err() },
        async { world.backend.cancel(&handle).await.unwrap_err() },
    );
    for error in <[_; 4]>::from(errors) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let says = error.to_string();
        assert!(says.contains(jobs.to_str().unwrap()) && silent_for(&says) >= 10, "{says}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(world.queue(&other).is_empty(), "{:?}", world.queue(&other));
    // The same cluster, with a responsive folder.
    let beside = World::new().await;
    let (_, seen) = beside.run(&beside.job("beside", "echo beside")).await;
    assert_says(&seen, &["beside"]);

    drop(hangs);
    runs(&*world.backend, &handle).await;
    fs::write(go, "").unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Succeeded(_)), "{seen:?}");
    assert_says(&seen, &["begun", "gone"]);
}

/// The folder of the results has I/O errors for a while, and the job's end waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_results_are_read_later() {
    let world = World::on(Held::shared(), json!({})).await;
    let (go, scratch) = (world.folder().join("go"), world.folder().join("scratch"));
    fs::create_dir(&scratch).unwrap();
    let lines = format!(
        "echo '[1]' >result.json; echo a >a.csv; while [ ! -e {} ]; do sleep 0.1; done",
        go.display()
    );
    let target = json!({"working_dir": scratch, "result": "result.json", "artifacts": ["*.csv"]});
    let job = world.job_with("leaves", &lines, json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    eventually("it has written its files", || scratch.join("a.csv").exists()).await;
    let away = Away::is_dead(&scratch);
    fs::write(go, "").unwrap();
    if away.is_some() {
        let words = until(&*world.backend, &handle, "that it waits for its files", |seen| {
            seen.message.clone().filter(|words| words.ends_with("It is tried again"))
        });
        let words = words.await;
        let scratch = scratch.display();
        assert!(words.starts_with(&format!("it has ended; {scratch}")), "{words}");
    }
    drop(away);
    let seen = ended(&*world.backend, &handle).await;
    let JobState::Succeeded(output) = &seen.state else { panic!("{seen:?}") };
    assert_eq!(output.structured, Some(json!([1])));
    assert_eq!(output.artifacts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["a.csv"]);
}
