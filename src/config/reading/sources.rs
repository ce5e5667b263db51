//! [`Sources`]: the files that a config was read from, and their state for change detection. The state is the
//! file's metadata after symlinks are resolved. So it changes when the file is written, when a new file
//! replaces it, and when a symlink on its path changes its target. A pattern of `include` changes when it matches
//! other files. This module must not read file contents.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use glob::MatchOptions;

/// Maximum number of files of a config that are read by `include`.
pub(super) const MAX_FILES: usize = 256;

/// A hidden file, such as the backup of an editor, matches no wildcard.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Files with their state at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: Vec<(PathBuf, Option<FileStamp>)>,
    /// Patterns of `include`, with a digest of the paths that they match.
    patterns: Vec<(String, u64)>,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Modification time: seconds and nanoseconds.
    modified: (i64, i64),
    /// Status change time, which includes owner and mode: an unreadable file may have become readable.
    status_changed: (i64, i64),
}

impl Sources {
    /// Adds a file with its current state. Call it before the file is read, so that a concurrent change is
    /// detected later.
    pub(in crate::config) fn add(&mut self, file: &Path) {
        if !self.files.iter().any(|(existing, _)| existing == file) {
            self.files.push((file.to_owned(), FileStamp::of(file)));
        }
    }

    /// Adds a pattern, so that a new file that matches it is a change.
    pub(super) fn add_pattern(&mut self, pattern: &str) {
        if !self.patterns.iter().any(|(existing, _)| existing == pattern) {
            self.patterns.push((pattern.to_owned(), digest(pattern)));
        }
    }

    /// Adds other files with their recorded state.
    pub(in crate::config) fn extend(&mut self, others: &Self) {
        let new = others.files.iter().filter(|(file, _)| !self.files().any(|existing| existing == file));
        let new: Vec<_> = new.cloned().collect();
        self.files.extend(new);
        others.patterns.iter().for_each(|(pattern, _)| self.add_pattern(pattern));
    }

    /// Returns the same files with their current state.
    #[must_use]
    pub fn now(&self) -> Self {
        let files = self.files.iter().map(|(file, _)| (file.clone(), FileStamp::of(file)));
        let patterns = self.patterns.iter().map(|(pattern, _)| (pattern.clone(), digest(pattern)));
        Self { files: files.collect(), patterns: patterns.collect() }
    }

    /// Returns the paths of the files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(file, _)| file.as_path())
    }
}

/// Returns the files that an absolute pattern matches, sorted; one more than the maximum if there are too many.
///
/// # Errors
/// If the pattern is not valid, or a folder cannot be read.
pub(super) fn matching_files(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let paths = glob::glob_with(pattern, OPTIONS).map_err(|error| format!("not a valid pattern: {error}"))?;
    let mut files = Vec::new();
    for path in paths {
        let path =
            path.map_err(|error| format!("{} cannot be read: {}", error.path().display(), error.error()))?;
        if path.is_file() {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            break;
        }
    }
    Ok(files)
}

fn digest(pattern: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    matching_files(pattern).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

impl FileStamp {
    /// Returns the state of a file. `None` if the file does not exist or is not accessible.
    fn of(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            status_changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A write, a replacement or a link to another file counts as a change.
    #[test]
    fn file_change_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["one", "two"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("a.toml"), "same").unwrap();
        }
        symlink("one", at("data")).unwrap();
        symlink("data/a.toml", at("linked.toml")).unwrap();
        fs::write(at("plain.toml"), "1").unwrap();
        let mut sources = Sources::default();
        for file in ["linked.toml", "plain.toml", "none.toml", "plain.toml"] {
            sources.add(&at(file));
        }
        assert_eq!(sources.files().count(), 3, "each once");
        assert_eq!(sources.now(), sources);

        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(at("plain.toml"), "22").unwrap(),
            &|| {
                fs::write(at("new"), "22").unwrap();
                fs::rename(at("new"), at("plain.toml")).unwrap();
            },
            &|| {
                symlink("two", at("data.new")).unwrap();
                fs::rename(at("data.new"), at("data")).unwrap();
            },
            &|| fs::write(at("none.toml"), "").unwrap(),
            &|| fs::remove_file(at("plain.toml")).unwrap(),
        ];
        for (n, change) in changes.iter().enumerate() {
            let before = sources.now();
            change();
            assert_ne!(before.now(), before, "change {n}");
        }
    }
}
