//! Makes paths hang or respond slowly, for tests, like a file system with an unreachable server. It must not
//! know who uses the paths.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

static HANGING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static SLOW: Mutex<Vec<(PathBuf, Duration)>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

/// A guard: while it exists, every access to this path or below it blocks.
pub(crate) struct HangGuard(PathBuf);

pub(crate) fn hang(path: &Path) -> HangGuard {
    HANGING.lock().push(path.to_owned());
    HangGuard(path.to_owned())
}

/// A guard: while it exists, each step there takes this long.
pub(crate) struct SlowGuard(PathBuf);

pub(crate) fn slow_down(path: &Path, step: Duration) -> SlowGuard {
    SLOW.lock().push((path.to_owned(), step));
    SlowGuard(path.to_owned())
}

impl Drop for SlowGuard {
    fn drop(&mut self) {
        SLOW.lock().retain(|(path, _)| *path != self.0);
    }
}

pub(crate) fn wait(path: &Path) {
    let step = SLOW.lock().iter().find(|(slow_path, _)| path.starts_with(slow_path)).map(|(_, step)| *step);
    if let Some(step) = step {
        std::thread::sleep(step);
    }
    let mut hanging = HANGING.lock();
    while hanging.iter().any(|hanging_path| path.starts_with(hanging_path)) {
        CHANGED.wait(&mut hanging);
    }
}

impl Drop for HangGuard {
    fn drop(&mut self) {
        HANGING.lock().retain(|path| *path != self.0);
        CHANGED.notify_all();
    }
}
