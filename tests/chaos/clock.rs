//! Settable clocks: libfaketime makes a process read another time of day, from a file. Monotonic time is not
//! affected. It must not decide when a clock is set.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Debian's library folder, with a folder per architecture, and libfaketime's path in the latter.
const LIBRARIES: &str = "/usr/lib";
const FAKETIME: &str = "faketime/libfaketime.so.1";

/// The time of day of some processes.
pub(super) struct Clock {
    /// Readable for every user, because the database runs as a different user than the test.
    folder: tempfile::TempDir,
    /// Offset from the machine's clock, in seconds.
    offset_seconds: parking_lot::Mutex<i64>,
}

impl Clock {
    /// Creates a clock that shows the right time.
    pub(super) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("taskbridge-chaos-clock-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let clock = Self { folder, offset_seconds: parking_lot::Mutex::new(0) };
        clock.set(0);
        clock
    }

    /// Sets the offset from the machine's clock. All processes see it at once.
    pub(super) fn set(&self, offset: i64) {
        *self.offset_seconds.lock() = offset;
        let (file, new) = (self.folder.path().join("clock"), self.folder.path().join("new"));
        fs::write(&new, format!("{offset:+}")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// Steps the clock by this number of seconds.
    pub(super) fn step(&self, seconds: i64) {
        let offset = *self.offset_seconds.lock() + seconds;
        self.set(offset);
    }

    pub(super) fn offset(&self) -> i64 {
        *self.offset_seconds.lock()
    }

    /// Returns the environment of processes that use this clock and see a step at once. It must be set after
    /// a process has switched to its user, because the library creates a semaphore when it is loaded.
    pub(super) fn environment_for_many(&self) -> Vec<(&'static str, String)> {
        // Reads the file at every request for the time.
        self.environment("FAKETIME_NO_CACHE")
    }

    /// Returns the environment of one process that uses this clock and sees a step within a second.
    pub(super) fn environment_for_one(&self) -> Vec<(&'static str, String)> {
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
    let arch_dirs = fs::read_dir(LIBRARIES).unwrap().flatten();
    let mut files = arch_dirs.map(|arch_dir| arch_dir.path().join(FAKETIME));
    files.find(|file| file.exists()).expect("libfaketime is there: apt-get install libfaketime")
}
