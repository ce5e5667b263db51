//! The jobs folder. A marker file is written into it at its first use. A folder that has lost its marker
//! counts as one whose file system is not mounted: its content is unknown. Only when a process first uses the
//! folder, jobs in it count like a marker.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use taskbridge_sdk::{Error, Result};

use crate::handle::is_key;
use crate::{disk, folder};

/// The marker file.
pub(crate) const MARK: &str = ".taskbridge";

const WORDS: &[u8] = b"taskbridge keeps the folders of its Slurm jobs here. Without this file it takes the file system for not mounted.\n";

/// The file in the server's state folder with the path of the folder that was marked.
const NOTE: &str = "jobs_dir";

/// Maximum size of that file: the maximum length of a path.
const LARGEST_NOTE: u64 = 4096;

/// Creates the folder and marks it at its first use. Checks that other users can traverse it, if their jobs
/// use it. Leaves an unmounted folder as it is, since that may be temporary.
pub(crate) fn make(jobs: &Path, state: &Path, for_others: bool) -> Result<()> {
    let shown = jobs.display();
    let text = jobs.to_str().unwrap_or_default();
    // Slurm interprets `%` and `\` in the names of output files.
    if text.is_empty() || text.contains(['%', '\\', '\n']) {
        return Err(Error::config(format!(
            "`jobs_dir` is {shown}, and must hold no `%`, no `\\` and no line break"
        )));
    }
    let made = mark(jobs, state).and_then(|is_there| match is_there {
        true => fs::metadata(jobs).map(Some),
        false => Ok(None),
    });
    let metadata = made.map_err(|e| {
        Error::config(format!("`jobs_dir`: the folder {shown} cannot be made: {e}")).caused_by(e)
    })?;
    if for_others && metadata.is_some_and(|metadata| metadata.permissions().mode() & 0o001 == 0) {
        return Err(Error::config(format!(
            "`jobs_dir`: with `run_as`, the jobs of other users go through the folder {shown}, and may not: `chmod o+x` lets them, without \
             showing them what is there"
        )));
    }
    Ok(())
}

/// Marks the folder. Returns false if it was marked before and is not now. A folder with jobs in it is valid
/// without a marker, since earlier versions wrote none.
fn mark(jobs: &Path, state: &Path) -> io::Result<bool> {
    let note = state.join(NOTE);
    let noted = folder::read(&note, LARGEST_NOTE)?;
    let was_marked = noted.is_some_and(|noted| noted == jobs.as_os_str().as_bytes());
    disk::enter_path(jobs);
    if !jobs.join(MARK).try_exists()? {
        if was_marked && !has_jobs(jobs)? {
            return Ok(false);
        }
        fs::create_dir_all(jobs)?;
        fs::write(jobs.join(MARK), WORDS)?;
    }
    if !was_marked {
        fs::create_dir_all(state)?;
        fs::write(note, jobs.as_os_str().as_bytes())?;
    }
    Ok(true)
}

fn has_jobs(jobs: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(jobs) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        if entry?.file_name().to_str().is_some_and(is_key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fails unless the folder and its marker exist. Files that are missing from an unmounted folder are not
/// known to be gone.
pub(crate) fn is_mounted(jobs: &Path) -> Result<()> {
    let shown = jobs.display();
    disk::enter_path(jobs);
    match jobs.join(MARK).try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::unavailable(format!(
            "the jobs' folder {shown} has lost the file `{MARK}` that was in it: is its file system mounted? If it is \
             meant to be empty, make that file again"
        ))),
        Err(e) => {
            Err(Error::unavailable(format!("the jobs' folder {shown} cannot be read: {e}")).caused_by(e))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder is marked at its first use, and a folder without the mark is not used or created.
    #[test]
    fn unmounted_jobs_folder_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let (jobs, state) = (dir.path().join("shared/jobs"), dir.path().join("state"));
        let made = || make(&jobs, &state, false).map(|()| is_mounted(&jobs).is_ok()).unwrap();
        assert!(made() && made());
        // Not mounted: an empty folder, or none.
        fs::remove_dir_all(dir.path().join("shared")).unwrap();
        assert!(!made() && !jobs.exists(), "the path of what is mounted there is not made");
        fs::create_dir_all(&jobs).unwrap();
        assert!(!made());
        // The jobs of an earlier version, which wrote no marker.
        fs::create_dir(jobs.join("tb-a")).unwrap();
        assert!(made());
        // Another folder, after a change of the config.
        let other = dir.path().join("other");
        make(&other, &state, false).unwrap();
        assert!(is_mounted(&other).is_ok());
    }
}
