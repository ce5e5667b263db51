//! Rotated files of the audit log: their names and their retention. Each has a higher number than the files
//! before, whatever it contains. This module must not read their content.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of digits in a name, so that names sort in numeric order.
const DIGITS: usize = 20;

/// Returns the rotated files of a log, the oldest first.
///
/// # Errors
/// If its folder cannot be read.
pub fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        if number(path, &file).is_some() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Rotates the file, and returns its new name. The caller must own the log's lock, so that no other process
/// uses the same number.
///
/// # Errors
/// If it cannot be renamed.
pub(super) fn rotate(path: &Path) -> io::Result<String> {
    let last = rotated_files(path)?.last().and_then(|file| number(path, file)).unwrap_or(0);
    let rotated = sibling(path, &format!("{:0DIGITS$}", last.saturating_add(1)));
    std::fs::rename(path, &rotated)?;
    Ok(rotated.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Deletes the oldest files, so that `keep_files` remain. It warns in the server log about a deleted file
/// that was written to within `expected_age`: the log grows unusually fast.
///
/// # Errors
/// If a file cannot be deleted.
pub(super) fn delete_oldest(path: &Path, keep_files: usize, expected_age: Duration) -> io::Result<()> {
    let files = rotated_files(path)?;
    let old = files.len().saturating_sub(keep_files);
    for file in files.iter().take(old) {
        let age = std::fs::metadata(file)?.modified()?.elapsed().unwrap_or_default();
        if age < expected_age {
            tracing::warn!(
                file = %file.display(),
                hours = age.as_secs() / 3600,
                "audit log file deleted early: the log grows faster than `max_age` and `keep_files` in [audit] allow for"
            );
        }
        std::fs::remove_file(file)?;
    }
    Ok(())
}

/// Returns the path of a file next to the log.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the number of a rotated file of this log.
fn number(log: &Path, file: &Path) -> Option<u64> {
    let prefix = format!("{}.", log.file_name()?.to_str()?);
    let digits = file.file_name()?.to_str()?.strip_prefix(&prefix)?;
    (digits.len() == DIGITS).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rotated file is never overwritten, whatever was deleted before, and the newest files are kept.
    #[test]
    fn rotation_numbers_rise_after_deletion() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.jsonl");
        let name = |n: u64| format!("audit.jsonl.{n:020}");
        std::fs::write(folder.path().join(name(700)), "old").unwrap();
        std::fs::write(folder.path().join("audit.jsonl.lock"), "").unwrap();
        for n in 701..=703 {
            std::fs::write(&log, n.to_string()).unwrap();
            assert_eq!(rotate(&log).unwrap(), name(n));
        }
        delete_oldest(&log, 2, Duration::ZERO).unwrap();
        let left: Vec<PathBuf> = rotated_files(&log).unwrap();
        assert_eq!(left, [folder.path().join(name(702)), folder.path().join(name(703))], "the newest stay");
        assert_eq!(std::fs::read_to_string(&left[1]).unwrap(), "703");
    }
}
