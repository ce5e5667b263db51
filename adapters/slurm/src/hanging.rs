//! Has paths hang, for tests, as on a file system whose server is away, or be slow. It must not know who goes there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

static HANGING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static SLOW: Mutex<Vec<(PathBuf, Duration)>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

/// As long as this is held, whoever goes to this path or below it waits.
pub(crate) struct Hangs(PathBuf);

pub(crate) fn below(path: &Path) -> Hangs {
    HANGING.lock().push(path.to_owned());
    Hangs(path.to_owned())
}

/// As long as this is held, each step there takes so long.
pub(crate) struct Slow(PathBuf);

pub(crate) fn slow(path: &Path, step: Duration) -> Slow {
    SLOW.lock().push((path.to_owned(), step));
    Slow(path.to_owned())
}

impl Drop for Slow {
    fn drop(&mut self) {
        SLOW.lock().retain(|(path, _)| *path != self.0);
    }
}

pub(crate) fn wait(path: &Path) {
    let step = SLOW.lock().iter().find(|(slow, _)| path.starts_with(slow)).map(|(_, step)| *step);
    if let Some(step) = step {
        std::thread::sleep(step);
    }
    let mut hanging = HANGING.lock();
    while hanging.iter().any(|hangs| path.starts_with(hangs)) {
        CHANGED.wait(&mut hanging);
    }
}

impl Drop for Hangs {
    fn drop(&mut self) {
        HANGING.lock().retain(|path| *path != self.0);
        CHANGED.notify_all();
    }
}
