//! Bounded reads of files that a job can write. [`BoundedFile`] never returns more than its limit, even if
//! the file grows. [`open_regular`] refuses a FIFO, and a symbolic link in the last part of the path. This
//! module must not know what the files mean.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a regular file. It does not wait for the writer of a FIFO.
///
/// # Errors
/// Returns `InvalidData` for a FIFO, a device, a folder or a symbolic link, and any error of the file system.
/// Symbolic links in the folders of the path are followed.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let not_regular = || invalid(format!("{} is not a regular file", file_name(path)));
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let result = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = result.map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::LOOP | Errno::NXIO) => not_regular(),
        _ => e,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Returns the last part of a path, for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A file that is read up to a limit. Reading further fails with `InvalidData`, because its writer may append
/// during the read.
#[derive(Debug)]
pub struct BoundedFile {
    file: File,
    name: String,
    size: u64,
    limit: u64,
    remaining: u64,
}

impl BoundedFile {
    /// Checks the size of an open file.
    ///
    /// # Errors
    /// Returns `InvalidData` with the file's name, its size and the limit if the file is longer, and any
    /// error of the file system.
    pub fn new(file: File, path: &Path, limit: u64) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let bounded = Self { file, name: file_name(path), size, limit, remaining: limit };
        if size > limit { Err(bounded.too_long(size)) } else { Ok(bounded) }
    }

    /// Returns the size in bytes at the time of [`BoundedFile::new`].
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads the file completely.
    ///
    /// # Errors
    /// Returns `InvalidData` if the file grew beyond the limit, and any error of the file system.
    pub fn read_all(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn too_long(&self, size: u64) -> io::Error {
        invalid(format!("{} has {size} bytes, the limit is {}", self.name, self.limit))
    }
}

impl Read for BoundedFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // One byte beyond the limit shows that the file is longer.
        let max_bytes = usize::try_from(self.remaining.saturating_add(1)).unwrap_or(usize::MAX);
        let buf_len = buf.len().min(max_bytes);
        let bytes_read = self.file.read(&mut buf[..buf_len])?;
        self.remaining = match self.remaining.checked_sub(bytes_read as u64) {
            Some(remaining) => remaining,
            None => return Err(self.too_long(self.file.metadata()?.len().max(self.limit.saturating_add(1)))),
        };
        Ok(bytes_read)
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink(path("file"), path("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), 0o600.into()).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        assert!(open_regular(&path("file")).is_ok());
        assert_eq!(open_regular(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        for name in ["link", "fifo", "socket", "folder"] {
            let error = open_regular(&path(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}");
            assert_eq!(error.to_string(), format!("{name} is not a regular file"));
        }
    }

    #[test]
    fn no_more_than_limit_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let open = |limit| BoundedFile::new(open_regular(&path).unwrap(), &path, limit);
        fs::write(&path, "0123456789").unwrap();
        for limit in [10, 11, u64::MAX] {
            assert_eq!(open(limit).unwrap().read_all().unwrap(), b"0123456789");
        }
        assert_eq!(open(9).unwrap_err().to_string(), "x has 10 bytes, the limit is 9");

        // The file grows after its size was checked.
        let small = open(10).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"ab").unwrap();
        let error = small.read_all().unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::InvalidData, "x has 12 bytes, the limit is 10".to_owned())
        );
        assert_eq!(open(0).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn sparse_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        let error = BoundedFile::new(open_regular(&path).unwrap(), &path, 64).unwrap_err();
        assert_eq!(error.to_string(), "x has 4398046511104 bytes, the limit is 64");
    }
}
