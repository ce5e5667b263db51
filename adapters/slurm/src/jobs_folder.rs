//! The folder of all jobs, which is marked by a file when it is first used: one that was marked and has lost its mark is not mounted,
//! and says nothing of what was in it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use taskbridge_sdk::{Error, Result};

use crate::handle::is_key;
use crate::{disk, folder};

/// The mark.
pub(crate) const MARK: &str = ".taskbridge";

const WORDS: &[u8] = b"taskbridge keeps the folders of its Slurm jobs here. Without this file it takes the file system for not mounted.\n";

/// Where the server notes, in a folder of its own, which folder it has seen marked.
const NOTE: &str = "jobs_dir";

/// The longest note: a path has no more bytes.
const LARGEST_NOTE: u64 = 4096;

/// Makes the folder and marks it at its first use, and sees to it that other users can go through it if their jobs are to. One that
/// is not mounted is left as it is, since that may pass.
pub(crate) fn make(jobs: &Path, state: &Path, for_others: bool) -> Result<()> {
    let shown = jobs.display();
    let text = jobs.to_str().unwrap_or_default();
    // Slurm reads `%` and `\` in the names of output files as its own.
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

/// False if it was marked once and is not now. One with jobs in it needs no mark to be believed: it had none in earlier versions.
fn mark(jobs: &Path, state: &Path) -> io::Result<bool> {
    let note = state.join(NOTE);
    let noted = folder::read(&note, LARGEST_NOTE)?;
    let was_marked = noted.is_some_and(|noted| noted == jobs.as_os_str().as_bytes());
    disk::at(jobs);
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

/// An error unless the folder is there with its mark: what is missing from another one is not known to be gone.
pub(crate) fn is_mounted(jobs: &Path) -> Result<()> {
    let shown = jobs.display();
    disk::at(jobs);
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

    #[test]
    fn a_folder_is_marked_at_its_first_use_and_not_where_it_is_no_longer_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let (jobs, state) = (dir.path().join("shared/jobs"), dir.path().join("state"));
        let made = || make(&jobs, &state, false).map(|()| is_mounted(&jobs).is_ok()).unwrap();
        assert!(made() && made());
        // Not mounted: an empty folder, or none.
        fs::remove_dir_all(dir.path().join("shared")).unwrap();
        assert!(!made() && !jobs.exists(), "the path of what is mounted there is not made");
        fs::create_dir_all(&jobs).unwrap();
        assert!(!made());
        // The jobs of an earlier version, which marked nothing.
        fs::create_dir(jobs.join("tb-a")).unwrap();
        assert!(made());
        // Another folder, by a change of the config.
        let other = dir.path().join("other");
        make(&other, &state, false).unwrap();
        assert!(is_mounted(&other).is_ok());
    }
}
