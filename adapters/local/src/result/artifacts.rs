//! Lists and reads the files that a job leaves in `$TASKBRIDGE_ARTIFACTS`. No name and no symbolic link may
//! lead outside that folder.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use taskbridge_sdk::{Artifact, ArtifactData, Error, Result, media_type, one_line, open_confined};

/// Maximum number of files that are listed.
const MAX_LISTED: usize = 1000;

/// Maximum depth of nested folders that are searched.
const MAX_DEPTH: usize = 16;

/// Maximum number of kinds of files with their own count.
const MAX_KINDS: usize = 20;

/// Longest file name extension that is its own kind, in bytes.
const MAX_EXTENSION_BYTES: usize = 12;

/// Regular files below a folder.
#[derive(Debug, Default)]
pub(crate) struct ArtifactListing {
    /// The largest files, at most 1,000, ordered by name.
    pub(crate) artifacts: Vec<Artifact>,
    /// Description of what is not listed.
    pub(crate) omission_note: Option<String>,
}

/// Collector of files during the walk through the folders.
#[derive(Default)]
struct Collector {
    /// The largest files so far, as a heap with the smallest on top. Among files of equal size, the first
    /// names are kept.
    largest: BinaryHeap<Reverse<(u64, Reverse<String>)>>,
    /// Number of files that were not kept, by kind.
    kinds: BTreeMap<String, usize>,
    omitted: usize,
    /// Size of the largest file that was not kept, in bytes.
    largest_omitted: u64,
    /// Number of files and folders whose names are not UTF-8.
    non_utf8_names: usize,
    /// Number of folders that are nested too deeply.
    too_deep: usize,
}

/// Lists the regular files below a folder: the largest 1,000, ordered by name, and a description of the rest.
/// Skips what cannot be read.
pub(crate) fn list(root: &Path) -> ArtifactListing {
    let mut collector = Collector::default();
    collector.walk(root, "", 0);
    let omission_note = collector.describe_omitted();
    let mut artifacts: Vec<Artifact> = collector
        .largest
        .into_iter()
        .map(|Reverse((size, Reverse(name)))| {
            let mime_type = media_type(&name).map(str::to_owned);
            Artifact { name, mime_type, size: Some(size) }
        })
        .collect();
    artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    ArtifactListing { artifacts, omission_note }
}

impl Collector {
    fn walk(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            // Neither of these follows links: a linked file does not belong to the job, and a linked folder
            // may create a cycle.
            let (Ok(kind), Ok(metadata)) = (entry.file_type(), entry.metadata()) else { continue };
            if !kind.is_dir() && !kind.is_file() {
                continue;
            }
            let Ok(name) = entry.file_name().into_string() else {
                self.non_utf8_names += 1;
                continue;
            };
            let name = format!("{prefix}{name}");
            match kind.is_dir() {
                true if depth < MAX_DEPTH => self.walk(&entry.path(), &format!("{name}/"), depth + 1),
                true => self.too_deep += 1,
                false => self.add(name, metadata.len()),
            }
        }
    }

    fn add(&mut self, name: String, size: u64) {
        self.largest.push(Reverse((size, Reverse(name))));
        if self.largest.len() <= MAX_LISTED {
            return;
        }
        if let Some(Reverse((size, Reverse(name)))) = self.largest.pop() {
            self.omitted += 1;
            self.largest_omitted = self.largest_omitted.max(size);
            let kind = kind(&name);
            let is_counted = self.kinds.contains_key(&kind) || self.kinds.len() < MAX_KINDS;
            *self.kinds.entry(if is_counted { kind } else { "of other kinds".to_owned() }).or_default() += 1;
        }
    }

    fn describe_omitted(&self) -> Option<String> {
        let mut lines = Vec::new();
        if self.omitted > 0 {
            let mut kinds: Vec<(&String, &usize)> = self.kinds.iter().collect();
            kinds.sort_by_key(|(_, count)| Reverse(**count));
            let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            lines.push(format!(
                "{} of {} files are not listed as artifacts: only the {MAX_LISTED} largest are. Left out: {}; none has more than {} bytes.",
                self.omitted,
                self.omitted + self.largest.len(),
                kinds.join(", "),
                self.largest_omitted
            ));
        }
        if self.non_utf8_names > 0 {
            lines.push(format!("Names that are not UTF-8 are left out: {}.", self.non_utf8_names));
        }
        if self.too_deep > 0 {
            lines.push(format!(
                "Folders more than {MAX_DEPTH} levels deep are not searched: {}.",
                self.too_deep
            ));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Returns the kind of a file by the extension of its name: `.csv`.
fn kind(name: &str) -> String {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    match extension.filter(|extension| extension.len() <= MAX_EXTENSION_BYTES) {
        Some(extension) => one_line(&format!(".{extension}")),
        None => "without an extension".to_owned(),
    }
}

/// Reads one artifact completely. Returns `None` if there is no such file.
pub(crate) fn read(root: &Path, name: &str, max: u64) -> Result<Option<ArtifactData>> {
    // The job can also replace this folder, so it must not be a link either.
    let (Some(folder), Some(folder_name)) = (root.parent(), root.file_name().and_then(OsStr::to_str)) else {
        return Ok(None);
    };
    let opened = open_confined(folder, &format!("{folder_name}/{name}"));
    let unreadable = |e| Error::unavailable(format!("the artifact `{name}` cannot be read")).caused_by(e);
    let Some(file) = opened.map_err(unreadable)? else { return Ok(None) };
    let size = file.metadata().map_err(unreadable)?.len();
    ArtifactData::read(name, file, size, max).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn artifact_name_stays_in_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("artifacts");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(root.join("a/b/x.txt"), "inside").unwrap();
        symlink(dir.path().join("secret"), root.join("link")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), 0o600.into()).unwrap();

        let names: Vec<String> = list(&root).artifacts.into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["a/b/x.txt"]);
        let inside = read(&root, "a/b/x.txt", 6).unwrap().unwrap();
        assert_eq!(
            (inside.bytes.as_slice(), inside.mime_type.as_deref()),
            (&b"inside"[..], Some("text/plain"))
        );
        symlink(&root, dir.path().join("swapped")).unwrap();
        assert_eq!(read(&dir.path().join("swapped"), "a/b/x.txt", 6).unwrap(), None);
        for name in ["link", "up/secret", "../secret", "fifo", "", "no"] {
            assert_eq!(read(&root, name, 99).unwrap(), None, "{name}");
        }
    }
    /// The limit applies to the list: the description mentions every file that is not listed.
    #[test]
    fn list_names_what_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("artifacts");
        fs::create_dir_all(root.join("parts")).unwrap();
        for number in 0..MAX_LISTED + 4 {
            fs::write(root.join(format!("parts/{number:04}.csv")), "x").unwrap();
        }
        fs::write(root.join("notes"), "").unwrap();
        fs::write(root.join("parts/model.bin"), "large").unwrap();
        let listing = list(&root);
        assert_eq!(listing.artifacts.len(), MAX_LISTED);
        let model = listing.artifacts.iter().find(|artifact| artifact.name == "parts/model.bin").unwrap();
        assert_eq!(model.size, Some(5), "the largest is listed");
        assert_eq!(listing.artifacts[0].name, "parts/0000.csv");
        assert_eq!(
            listing.omission_note.as_deref(),
            Some(
                "6 of 1006 files are not listed as artifacts: only the 1000 largest are. Left out: 5 .csv, 1 without an \
                 extension; none has more than 1 bytes."
            )
        );
        fs::remove_dir_all(root.join("parts")).unwrap();
        assert_eq!(list(&root).omission_note, None);
    }

    #[test]
    fn unlistable_names_and_folders_are_counted() {
        use std::os::unix::ffi::OsStrExt as _;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(OsStr::from_bytes(b"\xff.txt")), "x").unwrap();
        fs::create_dir_all(dir.path().join(vec!["d"; MAX_DEPTH + 1].join("/"))).unwrap();
        let description = list(dir.path()).omission_note.unwrap();
        assert_eq!(
            description,
            "Names that are not UTF-8 are left out: 1.\nFolders more than 16 levels deep are not searched: 1."
        );
    }
}
