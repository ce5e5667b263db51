//! Has paths hang, for tests, as on a file system whose server is away. It must not know who goes there.

use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

static HANGING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

/// As long as this is held, whoever goes to this path or below it waits.
pub(crate) struct Hangs(PathBuf);

pub(crate) fn below(path: &Path) -> Hangs {
    HANGING.lock().push(path.to_owned());
    Hangs(path.to_owned())
}

pub(crate) fn wait(path: &Path) {
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
