//! Checks that the database's paths still name the open files. A file that was deleted, moved or replaced
//! still accepts writes, and loses them all when the process ends. It must not open anything: closing a
//! file of SQLite's would release this process's locks on it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::fault::SqliteError;

/// The identities of the database, its log and the log's index when they were opened.
pub(in crate::sqlite) struct Files(Vec<(PathBuf, Identity)>);

/// The device and the inode.
type Identity = (u64, u64);

impl Files {
    /// Records the files of an open database.
    pub(in crate::sqlite) fn of(database: &Path) -> io::Result<Self> {
        let real = fs::canonicalize(database)?;
        let with_suffix = |suffix: &str| {
            let mut path = real.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let files = [database.to_owned(), with_suffix("-wal"), with_suffix("-shm")];
        files
            .into_iter()
            .map(|path| identity(&path).map(|id| (path, id)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Fails if one of them is no longer at its path.
    pub(super) fn check(&self) -> Result<(), SqliteError> {
        for (path, recorded) in &self.0 {
            let how = match identity(path) {
                Ok(current) if current == *recorded => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved".to_owned(),
                Err(error) => format!("cannot be found any more ({error})"),
            };
            return Err(SqliteError::FileMissing(path.clone(), how));
        }
        Ok(())
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
