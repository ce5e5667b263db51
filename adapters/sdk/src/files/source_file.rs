//! [`SourceFile`]: a file on the server that a caller named. Other processes may replace the file at any
//! time. All checks are therefore made on the open file, and the job gets a copy of it. It must not know
//! which folders a config allows.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bounded::{BoundedFile, file_name};
use crate::{Error, Result, open_confined};

/// A file on the server, below a root that the config allows. A job never receives its path: see
/// [`SourceFile::open`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    path: PathBuf,
    max_bytes: u64,
}

impl SourceFile {
    /// Creates a reference to the file at this path, with a size limit. The path must be absolute, and no
    /// component of it may be a link.
    pub fn new(path: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self { path: path.into(), max_bytes }
    }

    /// Returns the path that was checked with the call, for messages. Another file may be there by now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file, to be copied for the job. It fails if a component of the path has become a link. No
    /// read goes beyond the limit.
    ///
    /// # Errors
    /// Returns `Rejected` if the file is missing, is not a regular file, may not be read, or has become too
    /// long. Returns `Unavailable` if the disk cannot be read now.
    pub fn open(&self) -> Result<BoundedFile> {
        let name = file_name(&self.path);
        let missing_error = || Error::rejected(format!("the file `{name}` no longer exists"));
        let relative_path =
            self.path.strip_prefix("/").ok().and_then(Path::to_str).ok_or_else(missing_error)?;
        let file = open_confined(Path::new("/"), relative_path).map_err(|e| self.convert_io_error(e))?;
        BoundedFile::new(file.ok_or_else(missing_error)?, &self.path, self.max_bytes)
            .map_err(|e| self.convert_io_error(e))
    }

    /// Converts an I/O error of opening or reading the file: `Rejected` if it concerns this file,
    /// `Unavailable` otherwise.
    pub fn convert_io_error(&self, error: io::Error) -> Error {
        let message = format!("the file `{}` cannot be used: {error}", file_name(&self.path));
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied => Error::rejected(message),
            _ => Error::unavailable(message),
        }
        .caused_by(error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn exchanged_or_grown_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (folder, moved) = (root.join("a"), root.join("b"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x"), "12345").unwrap();
        let file = SourceFile::new(folder.join("x"), 5);
        assert_eq!(file.open().unwrap().read_all().unwrap(), b"12345");

        let open_error = |file: &SourceFile| {
            let error = file.open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            error.to_string()
        };
        fs::write(folder.join("x"), "123456").unwrap();
        assert_eq!(open_error(&file), "the file `x` cannot be used: x has 6 bytes, the limit is 5");
        // A parent folder becomes a link to the same folder at its new path.
        let large = SourceFile::new(folder.join("x"), u64::MAX);
        fs::rename(&folder, &moved).unwrap();
        symlink(&moved, &folder).unwrap();
        assert_eq!(open_error(&large), "the file `x` no longer exists");
        fs::remove_file(&folder).unwrap();
        assert_eq!(open_error(&large), "the file `x` no longer exists");
        assert_eq!(open_error(&SourceFile::new("relative", 5)), "the file `relative` no longer exists");
    }
}
