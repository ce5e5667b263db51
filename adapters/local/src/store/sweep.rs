//! Removes the folders of jobs that ended long ago. It must not touch a job that may still run.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::files::Draft;
use crate::store::job_dir::{JobDir, SupervisorState};

/// Removes every folder whose job ended at least `keep` ago. Without a recorded end, the last change of the
/// folder counts.
pub(crate) fn sweep(jobs: &Path, keep: Duration) -> io::Result<()> {
    // Uses the clock that stamped the folders, which may not be this machine's clock.
    let stamp = Draft::new(&jobs.join(".swept"), b"\n")?;
    let now = stamp.file().metadata()?.modified()?;
    stamp.replace()?;
    for entry in fs::read_dir(jobs)? {
        let entry = entry?;
        let is_job = entry.file_type()?.is_dir();
        let dir = JobDir::new(entry.path());
        // A folder that cannot be read or removed is retried at the next sweep.
        if is_job
            && let Ok(Some(ended_at)) = find_end_time(&dir)
            && now.duration_since(ended_at).is_ok_and(|age| age >= keep)
        {
            let _ = fs::remove_dir_all(dir.path());
        }
    }
    Ok(())
}

/// Returns when a job ended, or when its folder last changed if no end was recorded. Returns `None` while a
/// supervisor is alive.
fn find_end_time(dir: &JobDir) -> io::Result<Option<SystemTime>> {
    let modified_at = |path: &Path| fs::metadata(path)?.modified();
    Ok(match dir.supervisor_state()? {
        SupervisorState::Supervised { .. } => None,
        SupervisorState::Ended | SupervisorState::Unclaimed => Some(match dir.ended_at()? {
            Some(ended_at) => ended_at,
            None => modified_at(dir.path())?,
        }),
    })
}
