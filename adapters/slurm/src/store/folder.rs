//! A job's folder on the shared file system. Everything known of a job survives the server only here, and the
//! job's wrapper writes here. It must not know Slurm. Files are published atomically: [`Folder::write`]
//! replaces a file, and [`Folder::write_first`] keeps the file that exists.
//!
//! A *fence* is the folder `ran/RUN`. A wrapper runs the script only if its own `mkdir` created the fence, so
//! a run happens at most once. The server closes the fence of a run that must never begin by creating it
//! first. An *end marker* is the file `ends/RUN`, in which the wrapper writes how the run ended.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use rustix::fs::{Gid, chown};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use taskbridge_sdk::{BoundedFile, Error, Timestamp, count_values};
use tokio::time::Instant;

use crate::identity::unix::UnixUser;
use crate::store::disk::{self, ProgressReader, check_not_abandoned};
use crate::store::end_marker::{EndMarker, Run};

/// Maximum size of one of our files in bytes. Scripts can write to most of them.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of values in a JSON file: a value can take a hundred times the memory of its text. A
/// script's result, limited to 1 MiB, has at most half as many.
const MAX_JSON_VALUES: usize = 1_000_000;

/// Maximum number of fences, and of markers, of one job: scripts can create them.
const MAX_RUNS: usize = 200_000;

/// Number of bytes that are copied before the data is synced.
const COPY_CHUNK: u64 = 16 * 1024 * 1024;

/// The [`crate::store::plan::Plan`] of the job, written before the submission.
pub(crate) const PLAN: &str = "plan.json";
/// The job's number, written once after the submission. A job with this file is a *recorded* job.
pub(crate) const ID: &str = "id";
/// The job may be released. Written before the release.
pub(crate) const MAY_RELEASE: &str = "go";
/// Slurm has accepted a release. The time of the file is the time of the release.
pub(crate) const RELEASED: &str = "released";
/// The job is to be cancelled. Written before the request to Slurm.
pub(crate) const CANCELLED: &str = "cancelled";
/// The first answer to the question of an approval: `yes` or `no`.
pub(crate) const ANSWER: &str = "answer";
/// The stored end of the job: its final observation.
pub(crate) const FINAL_OBSERVATION: &str = "observed.json";
/// The folder of the fences.
const FENCES: &str = "ran";
/// The folder of the end markers.
const END_MARKERS: &str = "ends";
/// A file in a fence that the server created instead of a run.
const CLOSED: &str = "shut";
/// The mode of such a fence. It identifies the fence from its creation on, since the server may stop before
/// it writes the file. A run's `mkdir` never sets the sticky bit.
const CLOSED_MODE: u32 = 0o1700;

/// The folder of one job.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(jobs: &Path, key: &str) -> Self {
        Self(jobs.join(key))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the folder in which the script runs by default.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Returns the log of one array task, or of the whole job.
    pub(crate) fn log(&self, stream: Stream, task: Option<u32>) -> PathBuf {
        let name = stream.name();
        self.0.join("logs").join(task.map_or_else(|| name.to_owned(), |task| format!("{name}.{task}")))
    }

    /// Creates the folder with everything that the wrapper needs. For another user's job, that user can write
    /// where the job writes, and can traverse the folder itself. Files that we write there stay ours.
    /// Everything gets the group that we share with the user.
    pub(crate) fn create(&self, user: Option<&UnixUser>) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for (part, mode) in [
            ("", 0o2710),
            (FENCES, 0o2770),
            (END_MARKERS, 0o2770),
            ("logs", 0o2770),
            ("work", 0o2770),
            ("files", 0o2750),
        ] {
            let path = self.0.join(part);
            disk::enter_path(&path);
            builder.create(&path)?;
            if let Some(user) = user {
                chown(&path, None, Some(Gid::from_raw(user.group)))?;
                fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }

    /// Writes a file, replacing an existing one atomically.
    pub(crate) fn write(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        self.replace(name, mode, |file| file.write_all(content))
    }

    /// Copies an open file, replacing an existing one. A job that reads the existing one keeps its content.
    pub(crate) fn copy(&self, from: BoundedFile, name: &str, mode: u32) -> io::Result<()> {
        self.replace(name, mode, |file| copy(&mut ProgressReader(from), file))
    }

    fn replace(
        &self,
        name: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let target = self.0.join(name);
        let draft = write_draft(&target, mode, fill)?;
        // Abandoned work was reported as not done.
        let result = check_not_abandoned().and_then(|()| fs::rename(&draft, &target));
        result.inspect_err(|_| drop(fs::remove_file(&draft)))?;
        sync_parent(&target)
    }

    /// Writes a file unless it exists, and returns the content of the file.
    pub(crate) fn write_first(&self, name: &str, content: &[u8]) -> io::Result<Vec<u8>> {
        let target = self.0.join(name);
        let draft = write_draft(&target, 0o600, |file| file.write_all(content))?;
        disk::enter_path(&target);
        let result = check_not_abandoned().and_then(|()| fs::hard_link(&draft, &target));
        drop(fs::remove_file(&draft));
        match result {
            Ok(()) => sync_parent(&target)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        self.read(name)?.ok_or_else(|| io::Error::other(format!("{name} was removed while it was written")))
    }

    /// Reads a small file completely. Returns `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        read(&self.0.join(name), MAX_FILE_BYTES)
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, format!("{name} {reason}"));
        let values = count_values(&bytes);
        if values > MAX_JSON_VALUES {
            return Err(invalid(format!("has {values} JSON values, the limit is {MAX_JSON_VALUES}")));
        }
        let read = serde_json::from_slice(&bytes).map(Some);
        read.map_err(|e| invalid(format!("is invalid: {e}")))
    }

    pub(crate) fn write_json<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        self.write(name, &serde_json::to_vec(value).map_err(io::Error::other)?, 0o600)
    }

    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        has(&self.0.join(name))
    }

    /// Returns a file's modification time, by the clock of the file system, or `None` if it cannot be read.
    pub(crate) fn modified_at(&self, name: &str) -> Option<Timestamp> {
        let path = self.0.join(name);
        disk::enter_path(&path);
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok().map(Timestamp::from_millis)
    }

    /// Closes the fence of a run that has not begun, so that it never will. Returns false if it has begun.
    pub(crate) fn close_fence(&self, run: Run) -> io::Result<bool> {
        let fence = self.0.join(FENCES).join(run.to_string());
        disk::enter_path(&fence);
        match DirBuilder::new().mode(CLOSED_MODE).create(&fence) {
            Ok(()) => File::create(fence.join(CLOSED)).map(|_| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => is_closed(&fence),
            Err(e) => Err(e),
        }
    }

    /// Returns the runs that have fences, with the paths of the fences.
    pub(crate) fn fences(&self) -> io::Result<Vec<(Run, PathBuf)>> {
        run_entries(&self.0.join(FENCES))
    }

    /// Returns whether a second run found this fence, or `None` if no run created it.
    pub(crate) fn second_run_found(fence: &Path) -> io::Result<Option<bool>> {
        match is_closed(fence)? {
            true => Ok(None),
            false => has(&fence.join("again")).map(Some),
        }
    }

    /// Returns the runs that have end markers, with the paths of the markers.
    pub(crate) fn markers(&self) -> io::Result<Vec<(Run, PathBuf)>> {
        run_entries(&self.0.join(END_MARKERS))
    }

    /// Returns how a run ended, from its marker.
    pub(crate) fn read_end(marker: &Path) -> io::Result<Option<EndMarker>> {
        let bytes = match read(marker, 4096) {
            // Scripts can write there too. An invalid marker does not come from a wrapper.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
            bytes => bytes?,
        };
        Ok(bytes.and_then(|bytes| EndMarker::parse(&String::from_utf8_lossy(&bytes))))
    }

    /// Returns the number of runs that have end markers.
    pub(crate) fn count_ends(&self) -> io::Result<usize> {
        Ok(self.markers()?.len())
    }

    /// Returns the ends of the wanted runs: at most `max` of them. After the deadline it stops once it has
    /// one.
    pub(crate) fn read_ends(
        &self,
        max: usize,
        deadline: Instant,
        is_wanted: impl Fn(Run) -> bool,
    ) -> io::Result<BTreeMap<Run, EndMarker>> {
        let mut ends = BTreeMap::new();
        for (run, marker) in self.markers()?.into_iter().filter(|(run, _)| is_wanted(*run)) {
            if ends.len() >= max || (!ends.is_empty() && Instant::now() >= deadline) {
                break;
            }
            if let Some(end) = Self::read_end(&marker)? {
                ends.insert(run, end);
            }
        }
        Ok(ends)
    }
}

pub(crate) fn write_error(folder: &Folder, error: std::io::Error) -> Error {
    Error::unavailable(format!("the job's folder {} cannot be written: {error}", folder.path().display()))
        .caused_by(error)
}

pub(crate) fn read_error(folder: &Folder, error: std::io::Error) -> Error {
    Error::unavailable(format!("the job's folder {} cannot be read: {error}", folder.path().display()))
        .caused_by(error)
}

/// An output stream of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

impl Stream {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stream::Out => "out",
            Stream::Err => "err",
        }
    }
}

/// Returns true for a fence that no run created.
fn is_closed(fence: &Path) -> io::Result<bool> {
    disk::enter_path(fence);
    match fs::symlink_metadata(fence) {
        Ok(metadata) if metadata.permissions().mode() & 0o1000 != 0 => Ok(true),
        Ok(_) => has(&fence.join(CLOSED)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Returns whether a file exists. An unclear result is an error, since a missing file has a meaning.
fn has(path: &Path) -> io::Result<bool> {
    disk::enter_path(path);
    path.try_exists().or_else(|e| match Errno::from_io_error(&e) {
        // A script has replaced a part of the path, so the file does not exist.
        Some(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(false),
        _ => Err(e),
    })
}

/// Copies to the end and syncs regularly, so that each step is short.
fn copy(from: &mut impl Read, to: &mut File) -> io::Result<()> {
    while io::copy(&mut from.by_ref().take(COPY_CHUNK), to)? == COPY_CHUNK {
        to.sync_data()?;
    }
    Ok(())
}

fn run_entries(folder: &Path) -> io::Result<Vec<(Run, PathBuf)>> {
    let run = |(name, path): (String, PathBuf)| Run::parse(&name).map(|run| (run, path));
    Ok(entries(folder, MAX_RUNS)?.into_iter().filter_map(run).collect())
}

fn entries(folder: &Path, max: usize) -> io::Result<Vec<(String, PathBuf)>> {
    let mut list = Vec::new();
    disk::enter_path(folder);
    match fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                disk::report_progress();
                if list.len() == max {
                    let message =
                        format!("{} has more than {max} files, which is the limit", folder.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                list.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    Ok(list)
}

/// Opens a regular file. A FIFO, a device, a folder or a symbolic link is an `InvalidData` error, and never
/// blocks.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    disk::enter_path(path);
    taskbridge_sdk::open_regular(path)
}

/// Reads a file of at most `max_bytes` bytes completely. Returns `None` if it does not exist.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    match open_regular(path) {
        Ok(file) => read_open(file, path, max_bytes).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads an open file of at most `max_bytes` bytes completely.
pub(crate) fn read_open(file: File, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ProgressReader(BoundedFile::new(file, path, max_bytes)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes and syncs the whole content to a temporary file next to the target, and returns its path.
pub(crate) fn write_draft(
    target: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let (path, mut file) = loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".{name}.{}.{number}", std::process::id()));
        disk::enter_path(&path);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
            Ok(file) => break (path, file),
            // Another server, or one that crashed, uses this name.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    };
    // The permissions for readers must not depend on the server's umask.
    let opened = file.set_permissions(Permissions::from_mode(mode));
    let result = opened.and_then(|()| fill(&mut file)).and_then(|()| file.sync_all());
    result.map(|()| path.clone()).inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Makes a new name in a folder survive a power failure.
fn sync_parent(path: &Path) -> io::Result<()> {
    disk::enter_path(path);
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_writer_wins() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        folder.create(None).unwrap();
        assert_eq!(folder.write_first(ID, b"1").unwrap(), b"1");
        assert_eq!(folder.write_first(ID, b"2").unwrap(), b"1");
        folder.write("x", b"1", 0o600).unwrap();
        folder.write("x", b"2", 0o600).unwrap();
        assert_eq!(folder.read("x").unwrap().unwrap(), b"2");
        assert_eq!(folder.read("none").unwrap(), None);
        let leftovers: Vec<_> = entries(folder.path(), 99)
            .unwrap()
            .into_iter()
            .filter(|(name, _)| name.starts_with('.'))
            .collect();
        assert!(leftovers.is_empty(), "{leftovers:?}");
    }

    #[test]
    fn file_mode_ignores_umask() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        for mode in [0o666, 0o640, 0o600] {
            folder.write("x", b"1", mode).unwrap();
            let actual_mode = fs::metadata(folder.file("x")).unwrap().permissions().mode();
            assert_eq!(actual_mode & 0o7777, mode, "whatever the umask");
        }
    }

    /// A reader of the first copy still sees its content, and no draft is left.
    #[test]
    fn repeated_copy_keeps_open_file_intact() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        let from = dir.path().join("from");
        let open = || BoundedFile::new(open_regular(&from).unwrap(), &from, 5).unwrap();
        fs::write(&from, "first").unwrap();
        folder.copy(open(), "files/data", 0o640).unwrap();
        let mut job = File::open(folder.file("files/data")).unwrap();
        fs::write(&from, "2").unwrap();
        folder.copy(open(), "files/data", 0o640).unwrap();
        let mut read = String::new();
        job.read_to_string(&mut read).unwrap();
        assert_eq!(read, "first");
        assert_eq!(fs::read_to_string(folder.file("files/data")).unwrap(), "2");
        assert_eq!(fs::metadata(folder.file("files/data")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(entries(&folder.file("files"), 99).unwrap().len(), 1, "no draft is left");
    }

    /// A file with too many bytes or JSON values, and a link, are not read.
    #[test]
    fn oversized_or_linked_file_is_invalid() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        let read_error = || {
            let error = folder.read_json::<serde_json::Value>(FINAL_OBSERVATION).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        File::create(folder.file(FINAL_OBSERVATION)).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(read_error(), "observed.json has 4398046511104 bytes, the limit is 67108864");
        fs::write(folder.file(FINAL_OBSERVATION), "no JSON").unwrap();
        assert!(read_error().starts_with("observed.json is invalid: "));
        fs::write(folder.file(FINAL_OBSERVATION), format!("[{}0]", r#"{"":0},"#.repeat(500_000))).unwrap();
        assert_eq!(read_error(), "observed.json has 1000002 JSON values, the limit is 1000000");
        fs::remove_file(folder.file(FINAL_OBSERVATION)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.file(FINAL_OBSERVATION)).unwrap();
        assert_eq!(read_error(), "observed.json is not a regular file");
    }

    #[test]
    fn folder_with_many_files_is_invalid() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["1.0", "2.0", "3.0"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(entries(dir.path(), 3).unwrap().len(), 3);
        let error = entries(dir.path(), 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().ends_with("has more than 2 files, which is the limit"), "{error}");
    }

    #[test]
    fn started_and_ended_runs_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        assert!(folder.all_runs().started_runs.is_empty() && !folder.path().exists());
        folder.create(None).unwrap();
        fs::create_dir(folder.file("ran/3.1")).unwrap();
        fs::create_dir(folder.file("ran/job.0")).unwrap();
        fs::write(folder.file("ran/job.0/again"), "").unwrap();
        fs::write(folder.file("ends/.job.0.77"), "code=0\n").unwrap();
        fs::write(folder.file("ends/3.1"), "code=4\n").unwrap();
        let fences = folder.all_runs().started_runs;
        assert_eq!(
            fences.into_iter().map(|(run, again)| (run.task, run.restart, again)).collect::<Vec<_>>(),
            [(None, 0, true), (Some(3), 1, false)]
        );
        assert_eq!(folder.all_runs().end_markers.into_values().map(|end| end.code).collect::<Vec<_>>(), [4]);
        let run = |task, restart| Run { task, restart };
        assert!(!folder.close_fence(run(None, 0)).unwrap(), "the run has begun");
        assert!(folder.close_fence(run(None, 1)).unwrap() && folder.close_fence(run(None, 1)).unwrap());
        assert!(folder.file("ran/job.1").is_dir(), "a later run finds the fence");
        assert_eq!(folder.all_runs().started_runs.len(), 2);
        // The server was killed after it had created the fence.
        fs::remove_file(folder.file("ran/job.1").join(CLOSED)).unwrap();
        assert_eq!(folder.all_runs().started_runs.len(), 2, "the run has not begun");
        assert!(folder.close_fence(run(None, 1)).unwrap());
    }
}
