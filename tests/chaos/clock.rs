//! Clocks that can be set: libfaketime shows a process another time of day, by a file that it reads. Monotonic time goes on.
//! It must not decide when a clock is set.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Where Debian has its libraries, in a folder for each kind of machine, and in that the one that shows another time.
const LIBRARIES: &str = "/usr/lib";
const FAKETIME: &str = "faketime/libfaketime.so.1";

/// The time of day of some processes.
pub(super) struct Clock {
    /// Readable for everybody: the database does not run as the user of the test.
    folder: tempfile::TempDir,
    /// How far it is ahead of the machine's, in seconds.
    ahead: parking_lot::Mutex<i64>,
}

impl Clock {
    /// A clock that is right.
    pub(super) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("taskbridge-chaos-clock-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let clock = Self { folder, ahead: parking_lot::Mutex::new(0) };
        clock.set(0);
        clock
    }

    /// Sets it so far ahead of the machine's. All processes see that at once.
    pub(super) fn set(&self, ahead: i64) {
        *self.ahead.lock() = ahead;
        let (file, new) = (self.folder.path().join("clock"), self.folder.path().join("new"));
        fs::write(&new, format!("{ahead:+}")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// Steps it by so many seconds.
    pub(super) fn step(&self, seconds: i64) {
        let ahead = *self.ahead.lock() + seconds;
        self.set(ahead);
    }

    pub(super) fn ahead(&self) -> i64 {
        *self.ahead.lock()
    }

    /// The environment of processes that go by it, which all see a step at once. It must be set after a process has its
    /// user: the library makes a semaphore when it is loaded.
    pub(super) fn of_many(&self) -> Vec<(&'static str, String)> {
        // The file is read whenever a process asks for the time.
        self.environment("FAKETIME_NO_CACHE")
    }

    /// The environment of one process that goes by it, and sees a step within a second.
    pub(super) fn of_one(&self) -> Vec<(&'static str, String)> {
        self.environment("FAKETIME_CACHE_DURATION")
    }

    fn environment(&self, caching: &'static str) -> Vec<(&'static str, String)> {
        let file = self.folder.path().join("clock");
        vec![
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            (caching, "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}

fn library() -> PathBuf {
    let machines = fs::read_dir(LIBRARIES).unwrap().flatten();
    let mut files = machines.map(|machine| machine.path().join(FAKETIME));
    files.find(|file| file.exists()).expect("libfaketime is there: apt-get install libfaketime")
}
