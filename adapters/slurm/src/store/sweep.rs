//! Removes the folders of jobs that ended long ago, and of jobs that never existed. Never touches a recorded
//! job without a stored end.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::identity::handle::is_key;
use crate::store::disk;
use crate::store::folder::{FINAL_OBSERVATION, Folder, ID, PLAN, write_draft};

/// The time within which a start is repeated, if at all.
const START_RETRY_WINDOW: Duration = Duration::from_hours(24);

/// A file that a sweep writes to get the current time. It uses the clock of the file system, which may differ
/// from this machine's.
const STAMP: &str = ".swept";

/// Removes every folder whose job's end was stored at least `keep` ago, or whose job has stayed unrecorded
/// for the longer of `keep` and [`START_RETRY_WINDOW`].
pub(crate) fn sweep(jobs: &Path, keep: Duration) -> io::Result<()> {
    disk::enter_path(jobs);
    // A job may have replaced the stamp by a symbolic link or a FIFO.
    let stamp = write_draft(&jobs.join(STAMP), 0o600, |file| file.write_all(b"\n"))?;
    let now = fs::metadata(&stamp)?.modified()?;
    fs::rename(&stamp, jobs.join(STAMP))?;
    for entry in fs::read_dir(jobs)? {
        let entry = entry?;
        disk::enter_path(&entry.path());
        if entry.file_name().to_str().is_some_and(is_key) && is_old(&entry.path(), now, keep) {
            // If the removal fails, the next sweep tries again.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
    Ok(())
}

fn is_old(folder: &Path, now: SystemTime, keep: Duration) -> bool {
    let is_older = |path: &Path, age: Duration| is_older_than(path, now, age);
    let is_missing = |name: &str| folder.join(name).try_exists().is_ok_and(|exists| !exists);
    match is_missing(FINAL_OBSERVATION) {
        // An unrecorded job was never released. A repeated start changes the folder.
        true => is_missing(ID) && is_older(folder, keep.max(START_RETRY_WINDOW)),
        false => is_older(&folder.join(FINAL_OBSERVATION), keep),
    }
}

fn is_older_than(path: &Path, now: SystemTime, age: Duration) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|elapsed| elapsed >= age))
}

/// Returns true for an unrecorded job whose last submission was so long before the latest sweep that its
/// start is not repeated any more.
pub(crate) fn is_start_abandoned(jobs: &Path, folder: &Folder) -> bool {
    let swept = fs::metadata(jobs.join(STAMP)).and_then(|metadata| metadata.modified());
    let is_old = |now| is_older_than(&folder.file(PLAN), now, START_RETRY_WINDOW);
    swept.is_ok_and(is_old) && matches!(folder.has(ID), Ok(false))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Folders of running jobs and of starts in progress stay, and so do those of others.
    #[test]
    fn sweep_removes_only_ended_jobs() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tb-ended", "tb-runs", "tb-begins", "tb-never-was", "theirs"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("tb-runs").join(ID), "7").unwrap();
        for name in ["tb-runs", "tb-never-was"] {
            let folder = File::open(dir.path().join(name)).unwrap();
            folder.set_modified(folder.metadata().unwrap().modified().unwrap() - START_RETRY_WINDOW).unwrap();
        }
        for name in ["tb-ended", "theirs"] {
            fs::write(dir.path().join(name).join(FINAL_OBSERVATION), "{}").unwrap();
        }
        // A job of the server's own user can create it.
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join(STAMP), 0o600.into()).unwrap();
        sweep(dir.path(), Duration::from_secs(3600)).unwrap();
        assert!(dir.path().join("tb-ended").exists(), "the job ended just now");
        assert!(!dir.path().join("tb-never-was").exists());
        sweep(dir.path(), Duration::ZERO).unwrap();
        let mut remaining: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        remaining.sort();
        assert_eq!(remaining, [".swept", "tb-begins", "tb-runs", "theirs"]);
    }
}
