//! Whether the database's paths still name the files that are open. A file that was deleted, moved or replaced takes
//! writes as before, and loses them all when the process ends. It must not open anything: to close a file of SQLite's
//! would end the locks that this process has on it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::fault::Fault;

/// The database, its log and the index of that, as they were when they were opened.
pub(super) struct Files(Vec<(PathBuf, Identity)>);

/// The device and the inode.
type Identity = (u64, u64);

impl Files {
    /// Those of a database that is open.
    pub(super) fn of(database: &Path) -> io::Result<Self> {
        let real = fs::canonicalize(database)?;
        let beside = |suffix: &str| {
            let mut path = real.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let files = [database.to_owned(), beside("-wal"), beside("-shm")];
        files
            .into_iter()
            .map(|path| identity(&path).map(|is| (path, is)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Fails if one of them is not where it was.
    pub(super) fn check(&self) -> Result<(), Fault> {
        for (path, was) in &self.0 {
            let how = match identity(path) {
                Ok(is) if is == *was => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved".to_owned(),
                Err(error) => format!("cannot be found any more ({error})"),
            };
            return Err(Fault::Gone(path.clone(), how));
        }
        Ok(())
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
