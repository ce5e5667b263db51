//! A disk that fills up in the middle of a batch. The test runs itself as a child on a small file system.
//! Without the right to mount one, it limits the file size instead, which SQLite reports with other
//! messages.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::faults::WriteLock;
use super::run_scenes;
use super::scene::{Kinds, Scene};

/// The test's own name in the test program.
const TEST_NAME: &str = "batches::full::full_disk_fails_batches_in_part";

/// The environment variable with the folder for the child.
const FOLDER: &str = "TASKBRIDGE_TEST_SMALL_DISK";

/// Mounts a small file system at $1 and runs the remaining arguments there.
const MOUNT: &str = r#"mount -t tmpfs -o size=192m taskbridge-test "$1" && shift && exec "$@""#;

/// The environment variable that is set if the folder is not a file system of its own.
const LIMITED: &str = "TASKBRIDGE_TEST_LIMITED_FILES";

/// Runs the remaining arguments with SIGXFSZ ignored, which would end a process at the file size limit.
const LIMIT: &str = r#"trap '' XFSZ; shift; exec "$@""#;

/// Messages of the expected errors. Where the limit cuts a write short, SQLite reports an I/O error. A slow
/// machine may need so long to submit the large calls that the lock of the first one times out.
const REASONS: [&str; 3] = ["is full", "reading or writing", "locked for more than"];

/// Calls that together exceed the writer's page cache, so that SQLite writes to the disk before the commit.
const LARGE: Kinds = Kinds { bytes: 90_000, keys: false };

/// The location of a scene's file, and the way its disk is filled.
struct Disk {
    folder: PathBuf,
    is_limited: bool,
}

impl Disk {
    /// Leaves this number of bytes free.
    fn fill(&self, database: &Path, free_bytes: u64) {
        let wal = database.with_file_name("tasks.db-wal");
        let length = |file: &Path| fs::metadata(file).unwrap().len();
        if self.is_limited {
            return limit_files(Some(length(database).max(length(&wal)) + free_bytes));
        }
        let file = File::create(self.folder.join("filling")).unwrap();
        let (mut end, mut piece) = (0, 1 << 30);
        while piece >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), end, piece) {
                Ok(()) => end += piece,
                Err(_) => piece /= 2,
            }
        }
        file.set_len(end - free_bytes).unwrap();
    }

    /// Frees the disk again.
    fn free(&self) {
        match self.is_limited {
            true => limit_files(getrlimit(Resource::Fsize).maximum),
            false => fs::remove_file(self.folder.join("filling")).unwrap(),
        }
    }
}

fn limit_files(current: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

/// A batch fills the disk, either at its commit or during its work if its writes exceed the cache. The
/// writer then makes each write alone, and as many succeed as fit.
#[tokio::test]
async fn full_disk_fails_batches_in_part() {
    #[expect(clippy::disallowed_methods, reason = "the parent test passes the folder")]
    let (folder, is_limited) = (std::env::var(FOLDER), std::env::var(LIMITED).is_ok());
    match folder {
        Ok(folder) => run_scenes_on(&Disk { folder: folder.into(), is_limited }).await,
        Err(_) => run_child(),
    }
}

async fn run_scenes_on(disk: &Disk) {
    // One at a time, because they share the disk.
    run_scenes("a full disk", 1, async |seed| {
        let dir = tempfile::tempdir_in(&disk.folder).unwrap();
        let file = dir.path().join("tasks.db");
        let scene = Scene::open(seed, &file).await;
        let is_large = seed % 2 == 1;
        let earlier = scene.wave(40);
        let later = async {
            tokio::time::sleep(Duration::from_millis(scene.rng.below(300))).await;
            let lock = WriteLock::take(&file).await;
            let (clients, kinds, free_bytes) = match is_large {
                true => (320, LARGE, (2 << 20) + scene.rng.below(6 << 20)),
                false => (120, Kinds { bytes: 0, keys: true }, scene.rng.below(128 << 10)),
            };
            let mut wave = Box::pin(scene.wave_of(clients, kinds));
            // All calls are queued at the writer, which waits for the lock.
            assert!(futures_util::poll!(&mut wave).is_pending());
            disk.fill(&file, free_bytes);
            drop(lock);
            let wait_and_free = async {
                scene.until_answered().await;
                disk.free();
            };
            tokio::join!(wait_and_free, wave);
        };
        tokio::join!(earlier, later);
        scene.assert_reason(&REASONS);
        let figures = scene.finish(&file).await;
        assert!(figures.refused > 1, "the disk was never full");
        figures
    })
    .await;
}

fn run_child() {
    let dir = tempfile::tempdir().unwrap();
    let command_in = |wrapper: &[&str]| {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(dir.path());
        command
    };
    let unshare_args = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"];
    let probe = command_in(&unshare_args).arg("true").output();
    let mut child = if probe.is_ok_and(|mounted| mounted.status.success()) {
        command_in(&unshare_args)
    } else {
        let message =
            "tried otherwise: a full disk: this user cannot mount one, so the length of files is limited";
        writeln!(std::io::stderr(), "{message}").unwrap();
        let mut limited_command = command_in(&["sh", "-c", LIMIT, "sh"]);
        limited_command.env(LIMITED, "1");
        limited_command
    };
    child.arg(std::env::current_exe().unwrap()).args(["--exact", TEST_NAME, "--nocapture"]);
    let output = child.env(FOLDER, dir.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{}\n{out}\n{err}", output.status);
    print(&out);
}

#[allow(clippy::print_stdout, reason = "the figures of long runs")]
fn print(out: &str) {
    out.lines().filter(|line| line.contains("a full disk")).for_each(|line| println!("{line}"));
}
