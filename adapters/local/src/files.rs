//! Atomic writes of small files, and bounded reads that refuse a FIFO or a link in place of the file. It must
//! not know what the files mean.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use taskbridge_sdk::{BoundedFile, count_values, open_regular};

/// Maximum number of files and folders that [`disk_usage`] counts.
const MAX_COUNTED: usize = 200_000;

/// Returns the disk usage of a folder and what is below it, in bytes: at most the first [`MAX_COUNTED`]
/// entries. It does not follow links, and skips what cannot be read.
pub(crate) fn disk_usage(folder: &Path) -> u64 {
    let (mut folders, mut bytes, mut count) = (vec![folder.to_owned()], 0_u64, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
            count += 1;
            if count >= MAX_COUNTED {
                return bytes;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    bytes
}

/// Complete content of a file under a temporary name. It is published under its real name in one step.
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Draft {
    /// Writes the content next to its target and syncs it to disk.
    pub(crate) fn new(target: &Path, content: &[u8]) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}.{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    let mut draft = Self { file, path, target: target.to_owned() };
                    draft.file.write_all(content)?;
                    draft.file.sync_all()?;
                    return Ok(draft);
                }
                // A process that died left this name behind.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns the open file, so that it can be locked before it becomes visible.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Publishes the file and replaces an existing one.
    pub(crate) fn replace(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)?;
        sync_parent(&self.target)
    }

    /// Publishes the file and returns it open. Returns `None` if the target already exists.
    pub(crate) fn publish_first(self) -> io::Result<Option<File>> {
        match fs::hard_link(&self.path, &self.target) {
            Ok(()) => {
                sync_parent(&self.target)?;
                self.file.try_clone().map(Some)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename the name no longer exists. A remaining file is never read.
        let _ = fs::remove_file(&self.path);
    }
}

/// Syncs the folder of a path, so that a new name survives a power failure.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Complete content of a small file.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) modified: SystemTime,
}

/// Returns the modification time of a path, without following a link; `None` if it does not exist.
pub(crate) fn modified(path: &Path) -> io::Result<Option<SystemTime>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.modified().map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads a regular file of at most `max` bytes. Returns `None` if it does not exist. `InvalidData` is an
/// error of the file's writer. Its message contains the file name and, if the file is too long, its size and
/// the limit.
pub(crate) fn read(path: &Path, max: u64) -> io::Result<Option<Content>> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let modified = file.metadata()?.modified()?;
    let bytes = BoundedFile::new(file, path, max)?.read_all()?;
    Ok(Some(Content { bytes, modified }))
}

/// Maximum number of values in a JSON file. A parsed value can take a hundred times the memory of its text.
pub(crate) const MAX_JSON_VALUES: usize = 500_000;

/// Reads JSON of at most `max` bytes and [`MAX_JSON_VALUES`] values. Returns `None` if the file does not
/// exist, and `InvalidData` if its content is not valid.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, max: u64) -> io::Result<Option<(T, SystemTime)>> {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    let Some(content) = read(path, max)? else { return Ok(None) };
    let values = count_values(&content.bytes);
    if values > MAX_JSON_VALUES {
        let name = path.file_name().unwrap_or_default().display();
        return Err(invalid(format!("{name} has {values} JSON values, the limit is {MAX_JSON_VALUES}")));
    }
    let value = taskbridge_sdk::from_json(&content.bytes).map_err(|e| invalid(e.to_string()))?;
    Ok(Some((value, content.modified)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_published_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        assert!(Draft::new(&path, b"one").unwrap().publish_first().unwrap().is_some());
        assert!(Draft::new(&path, b"two").unwrap().publish_first().unwrap().is_none());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        Draft::new(&path, b"three").unwrap().replace().unwrap();
        assert_eq!(read(&path, 5).unwrap().unwrap().bytes, b"three");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn reads_are_bounded_and_regular() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        assert!(read(&path, 9).unwrap().is_none());
        fs::write(&path, b"0123456789").unwrap();
        assert!(read(&path, 9).is_err_and(|e| e.to_string().contains("x has 10 bytes, the limit is 9")));
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(read(&dir.path().join("link"), 99).is_err());
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
        assert!(read(&fifo, 99).is_err_and(|e| e.to_string().contains("not a regular file")));
        assert!(read(dir.path(), 99).is_err());
    }
}
