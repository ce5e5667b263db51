//! Lists and reads the artifacts that a job left in the folder in which its script ran. No name and no
//! symbolic link leads out of that folder.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use taskbridge_sdk::{
    Artifact, ArtifactData, Artifacts, Error, JobHandle, Result, async_trait, media_type, open_confined,
};

use crate::core::Slurm;
use crate::notation::amount::size_in_words;
use crate::notation::pattern::fits_path;
use crate::store::disk::{self, ProgressReader};
use crate::store::folder::{PLAN, read_error};
use crate::store::plan::Plan;

/// Maximum number of files listed.
const MAX_ARTIFACTS: usize = 1000;

/// Maximum number of directory entries examined.
const MAX_ENTRIES: usize = 100_000;

/// Maximum depth of nested folders that are listed.
const MAX_DEPTH: usize = 16;

/// The result of listing a job's artifacts.
#[derive(Debug, Default)]
pub(crate) struct ArtifactListing {
    pub(crate) artifacts: Vec<Artifact>,
    /// Message about files that are no artifacts because of their size or because of the limit on their
    /// number.
    pub(crate) omission_note: Option<String>,
    /// A folder that could not be listed completely, and the error.
    pub(crate) list_error: Option<(PathBuf, io::Error)>,
    entries_seen: usize,
    too_large: Vec<String>,
    truncated: bool,
}

/// Lists the regular files that match one of the plan's patterns, below the folder in which the job's script
/// ran, sorted by name.
pub(crate) fn list(plan: &Plan) -> ArtifactListing {
    let max_bytes = plan.max_artifact_bytes;
    let mut listing = ArtifactListing::default();
    if !plan.artifacts.is_empty() {
        collect(plan, &plan.root, "", 0, &mut listing);
        listing.artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let mut notes = Vec::new();
    if !listing.too_large.is_empty() {
        notes.push(format!(
            "Not listed as artifacts, because they are larger than {}: {}.",
            size_in_words(max_bytes),
            listing.too_large.join(", ")
        ));
    }
    if listing.truncated {
        notes
            .push(format!("Only {} files are listed as artifacts; there are more.", listing.artifacts.len()));
    }
    listing.omission_note = (!notes.is_empty()).then(|| notes.join("\n"));
    listing
}

impl ArtifactListing {
    /// Records an error. Below the first folder, a folder that was deleted meanwhile or that we may not read
    /// is ignored.
    fn record_error(&mut self, folder: &Path, depth: usize, error: io::Error) {
        if depth == 0 || disk::is_transient(&error) {
            self.list_error.get_or_insert_with(|| (folder.to_owned(), error));
        }
    }
}

/// Returns true for a regular file that the job may own. If the job ran as another user, files of other
/// owners do not count: they could be a way to files that only we may read.
fn may_belong_to(plan: &Plan, metadata: &Metadata) -> bool {
    metadata.is_file() && plan.user.as_ref().is_none_or(|user| user.number == metadata.uid())
}

fn collect(plan: &Plan, folder: &Path, prefix: &str, depth: usize, listing: &mut ArtifactListing) {
    disk::enter_path(folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => return listing.record_error(folder, depth, e),
    };
    for entry in entries {
        disk::enter_path(folder);
        listing.entries_seen += 1;
        if listing.entries_seen > MAX_ENTRIES {
            listing.truncated = true;
            return;
        }
        // Neither call follows a symbolic link. A linked file is not the job's, and a linked folder may form
        // a cycle.
        let (entry, kind, metadata) = match entry.and_then(|it| Ok((it.file_type()?, it.metadata()?, it))) {
            Ok((kind, metadata, entry)) => (entry, kind, metadata),
            Err(e) => {
                listing.record_error(folder, depth, e);
                continue;
            }
        };
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{prefix}{name}");
        if kind.is_dir() && depth < MAX_DEPTH {
            collect(plan, &entry.path(), &format!("{name}/"), depth + 1, listing);
        } else if may_belong_to(plan, &metadata)
            && plan.artifacts.iter().any(|pattern| fits_path(pattern, &name))
        {
            match (metadata.len() > plan.max_artifact_bytes, listing.artifacts.len() < MAX_ARTIFACTS) {
                (true, _) => listing.too_large.push(name),
                (_, false) => listing.truncated = true,
                _ => {
                    let mime_type = media_type(&name).map(str::to_owned);
                    listing.artifacts.push(Artifact { name, mime_type, size: Some(metadata.len()) });
                }
            }
        }
    }
}

/// Opens a regular file below the folder in which a job's script ran. Returns `None` if there is no such
/// file.
pub(crate) fn open_in_root(plan: &Plan, name: &str) -> io::Result<Option<File>> {
    disk::enter_path(&plan.root);
    let Some(file) = open_confined(&plan.root, name)? else { return Ok(None) };
    Ok(may_belong_to(plan, &file.metadata()?).then_some(file))
}

/// Reads one artifact completely. Returns `None` if there is no such artifact.
fn read(plan: &Plan, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
    if !plan.artifacts.iter().any(|pattern| fits_path(pattern, name)) {
        return Ok(None);
    }
    let read_error = |e| Error::unavailable(format!("the artifact `{name}` cannot be read")).caused_by(e);
    let Some(file) = open_in_root(plan, name).map_err(read_error)? else {
        // If the folder itself is missing, as with an unmounted file system, whether the file exists is
        // unknown.
        return fs::metadata(&plan.root).map(|_| None).map_err(read_error);
    };
    let size = file.metadata().map_err(read_error)?.len();
    ArtifactData::read(name, ProgressReader(file), size, max_bytes.min(plan.max_artifact_bytes)).map(Some)
}

#[async_trait]
impl Artifacts for Slurm {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let Some(slurm_handle) = self.parse(handle)? else { return Ok(None) };
        let (folder, name) = (self.folder(&slurm_handle.key), name.to_owned());
        let plan_folder = folder.clone();
        let plan = self.disks.jobs.run(move || plan_folder.read_json::<Plan>(PLAN)).await?;
        match plan.map_err(|e| read_error(&folder, e))? {
            Some(plan) => self.disk_of(&plan, &folder).run(move || read(&plan, &name, max_bytes)).await?,
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::identity::unix::UnixUser;

    #[test]
    fn artifact_path_stays_in_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(root.join("a/b/x.csv"), "inside").unwrap();
        fs::write(root.join("a/large.csv"), "0123456789").unwrap();
        fs::write(root.join("other.txt"), "no artifact").unwrap();
        symlink(dir.path().join("secret"), root.join("link.csv")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo.csv"), 0o600.into()).unwrap();

        let patterns = vec!["**/*.csv".to_owned(), "up/*".to_owned()];
        let plan = Plan { root, artifacts: patterns, max_artifact_bytes: 9, ..Plan::default() };
        let listing = list(&plan);
        assert_eq!(listing.artifacts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["a/b/x.csv"]);
        assert!(listing.omission_note.is_some_and(|note| note.contains("a/large.csv")));
        assert_eq!(read(&plan, "a/b/x.csv", 6).unwrap().unwrap().bytes, b"inside");
        assert!(read(&plan, "a/b/x.csv", 5).is_err_and(|e| e.to_string().contains("6 bytes")));
        assert!(read(&plan, "a/large.csv", 99).is_err_and(|e| e.to_string().contains("10 bytes")));
        for name in ["link.csv", "up/secret", "../secret", "fifo.csv", "other.txt", "no.csv"] {
            assert_eq!(read(&plan, name, 99).unwrap(), None, "{name}");
        }
        let unmounted = Plan { root: dir.path().join("scratch"), ..plan.clone() };
        assert!(read(&unmounted, "a/b/x.csv", 6).is_err(), "the file may exist once the folder is mounted");
        // Files that another user's job points to but that user does not own.
        let other_user = UnixUser { name: "asmith".to_owned(), number: u32::MAX - 1, group: 0 };
        let plan = Plan { user: Some(other_user), ..plan };
        assert!(list(&plan).artifacts.is_empty());
        assert_eq!(read(&plan, "a/b/x.csv", 6).unwrap(), None);
    }
}
