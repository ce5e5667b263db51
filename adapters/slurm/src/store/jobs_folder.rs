//! The jobs folder. A marker file is written into it at its first use. A folder that has lost its marker
//! counts as one whose file system is not mounted: its content is unknown. Only when a process first uses the
//! folder, jobs in it count like a marker.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use taskbridge_sdk::{Error, Result};

use crate::identity::handle::is_key;
use crate::store::{disk, folder};

/// The marker file.
pub(crate) const MARKER_FILE: &str = ".taskbridge";

const MARKER_TEXT: &[u8] = b"taskbridge keeps the folders of its Slurm jobs here. Without this file, taskbridge assumes that the file system is not mounted.\n";

/// The file in the server's state folder with the path of the folder that was marked.
const RECORD_FILE: &str = "jobs_dir";

/// Maximum size of that file: the maximum length of a path.
const MAX_PATH_BYTES: u64 = 4096;

/// Creates the folder and marks it at its first use. Checks that other users can traverse it, if their jobs
/// use it. Leaves an unmounted folder as it is, since that may be temporary.
pub(crate) fn create(jobs_dir: &Path, state_dir: &Path, for_other_users: bool) -> Result<()> {
    let path = jobs_dir.display();
    let text = jobs_dir.to_str().unwrap_or_default();
    // Slurm interprets `%` and `\` in the names of output files.
    if text.is_empty() || text.contains(['%', '\\', '\n']) {
        return Err(Error::config(format!(
            "`jobs_dir` is {path}, but must not contain `%`, `\\` or a line break"
        )));
    }
    let result = ensure_marked(jobs_dir, state_dir).and_then(|is_there| match is_there {
        true => fs::metadata(jobs_dir).map(Some),
        false => Ok(None),
    });
    let metadata = result.map_err(|e| {
        Error::config(format!("`jobs_dir`: the folder {path} cannot be created: {e}")).caused_by(e)
    })?;
    if for_other_users && metadata.is_some_and(|metadata| metadata.permissions().mode() & 0o001 == 0) {
        return Err(Error::config(format!(
            "`jobs_dir`: with `run_as`, jobs of other users must traverse the folder {path}, but have no permission; `chmod o+x` \
             grants it without letting them list the folder"
        )));
    }
    Ok(())
}

/// Marks the folder. Returns false if it was marked before and is not now. A folder with jobs in it is valid
/// without a marker, since earlier versions wrote none.
fn ensure_marked(jobs_dir: &Path, state_dir: &Path) -> io::Result<bool> {
    let record_file = state_dir.join(RECORD_FILE);
    let recorded_path = folder::read(&record_file, MAX_PATH_BYTES)?;
    let was_marked =
        recorded_path.is_some_and(|recorded_path| recorded_path == jobs_dir.as_os_str().as_bytes());
    disk::enter_path(jobs_dir);
    if !jobs_dir.join(MARKER_FILE).try_exists()? {
        if was_marked && !has_jobs(jobs_dir)? {
            return Ok(false);
        }
        fs::create_dir_all(jobs_dir)?;
        fs::write(jobs_dir.join(MARKER_FILE), MARKER_TEXT)?;
    }
    if !was_marked {
        fs::create_dir_all(state_dir)?;
        fs::write(record_file, jobs_dir.as_os_str().as_bytes())?;
    }
    Ok(true)
}

fn has_jobs(jobs_dir: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(jobs_dir) {
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
pub(crate) fn check_mounted(jobs_dir: &Path) -> Result<()> {
    let path = jobs_dir.display();
    disk::enter_path(jobs_dir);
    match jobs_dir.join(MARKER_FILE).try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::unavailable(format!(
            "the jobs folder {path} has no file `{MARKER_FILE}`; check that its file system is mounted. If the folder is \
             meant to be empty, create that file"
        ))),
        Err(e) => Err(Error::unavailable(format!("the jobs folder {path} cannot be read: {e}")).caused_by(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder is marked at its first use, and a folder without the mark is not used or created.
    #[test]
    fn unmounted_jobs_folder_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let (jobs_dir, state_dir) = (dir.path().join("shared/jobs"), dir.path().join("state"));
        let is_usable =
            || create(&jobs_dir, &state_dir, false).map(|()| check_mounted(&jobs_dir).is_ok()).unwrap();
        assert!(is_usable() && is_usable());
        // Not mounted: an empty folder, or none.
        fs::remove_dir_all(dir.path().join("shared")).unwrap();
        assert!(!is_usable() && !jobs_dir.exists(), "the mount point is not created");
        fs::create_dir_all(&jobs_dir).unwrap();
        assert!(!is_usable());
        // The jobs of an earlier version, which wrote no marker.
        fs::create_dir(jobs_dir.join("tb-a")).unwrap();
        assert!(is_usable());
        // Another folder, after a change of the config.
        let other = dir.path().join("other");
        create(&other, &state_dir, false).unwrap();
        assert!(check_mounted(&other).is_ok());
    }
}
