//! A job's folder on the shared file system: the one place where all that is known of a job survives the server, and to which its
//! wrapper writes. It must not know Slurm. What must have one author is published in one step: the first stands.

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
use taskbridge_sdk::{BoundedFile, Timestamp, count_values};
use tokio::time::Instant;

use crate::disk::{self, Steps, still_wanted};
use crate::end::{End, Run};
use crate::unix::UnixUser;

/// The most bytes that a file of ours has. Scripts can write to most of them.
const MOST: u64 = 64 * 1024 * 1024;

/// The most values of a JSON file: a value can take a hundred times the memory of its text. The result of a script, of 1 MiB, has half
/// as many at most.
const MOST_VALUES: usize = 1_000_000;

/// The most fences, and markers, of one job: scripts can put them up.
const MOST_RUNS: usize = 200_000;

/// The most bytes that are copied before the file system must have taken them over.
const COPIED_AT_ONCE: u64 = 16 * 1024 * 1024;

/// The names within the folder.
pub(crate) const PLAN: &str = "plan.json";
pub(crate) const ID: &str = "id";
pub(crate) const GO: &str = "go";
pub(crate) const RELEASED: &str = "released";
pub(crate) const CANCELLED: &str = "cancelled";
pub(crate) const ANSWER: &str = "answer";
pub(crate) const OBSERVED: &str = "observed.json";
const RAN: &str = "ran";
const ENDS: &str = "ends";
/// Within a fence that no run has put up.
const SHUT: &str = "shut";
/// The mode of such a fence, by which it is told from its first moment on: whoever puts it up may not come to write the file. No
/// run's `mkdir` gives the sticky bit.
const SHUT_MODE: u32 = 0o1700;

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

    /// The folder in which the script runs if nobody says where.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// What a task of an array prints, or the whole job.
    pub(crate) fn log(&self, stream: Stream, task: Option<u32>) -> PathBuf {
        let name = stream.name();
        self.0.join("logs").join(task.map_or_else(|| name.to_owned(), |task| format!("{name}.{task}")))
    }

    /// Makes the folder with all that the wrapper needs to be there. If the job is another user's, they may write where their job does, and go
    /// through the folder itself; what we write there stays ours. The group of all of it is the one that we share with them.
    pub(crate) fn make(&self, user: Option<&UnixUser>) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for (part, mode) in [
            ("", 0o2710),
            (RAN, 0o2770),
            (ENDS, 0o2770),
            ("logs", 0o2770),
            ("work", 0o2770),
            ("files", 0o2750),
        ] {
            let path = self.0.join(part);
            disk::at(&path);
            builder.create(&path)?;
            if let Some(user) = user {
                chown(&path, None, Some(Gid::from_raw(user.group)))?;
                fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
        }
        Ok(())
    }

    /// Writes a file in place of what was there; nobody ever sees half of it.
    pub(crate) fn write(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        self.replace(name, mode, |file| file.write_all(content))
    }

    /// Copies an open file in place of what was there; a job that reads that goes on with what it had.
    pub(crate) fn copy(&self, from: BoundedFile, name: &str, mode: u32) -> io::Result<()> {
        self.replace(name, mode, |file| copy(&mut Steps(from), file))
    }

    fn replace(
        &self,
        name: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let target = self.0.join(name);
        let draft = draft(&target, mode, fill)?;
        // What was given up was told as not done.
        let put = still_wanted().and_then(|()| fs::rename(&draft, &target));
        put.inspect_err(|_| drop(fs::remove_file(&draft)))?;
        sync_parent(&target)
    }

    /// Writes a file unless there is one, and gives what stands there.
    pub(crate) fn write_first(&self, name: &str, content: &[u8]) -> io::Result<Vec<u8>> {
        let target = self.0.join(name);
        let draft = draft(&target, 0o600, |file| file.write_all(content))?;
        disk::at(&target);
        let linked = still_wanted().and_then(|()| fs::hard_link(&draft, &target));
        drop(fs::remove_file(&draft));
        match linked {
            Ok(()) => sync_parent(&target)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        self.read(name)?.ok_or_else(|| io::Error::other(format!("{name} was removed as it was written")))
    }

    /// A small file, read whole; `None` if it is not there.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        read(&self.0.join(name), MOST)
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, format!("{name} {why}"));
        let values = count_values(&bytes);
        if values > MOST_VALUES {
            return Err(invalid(format!("has {values} JSON values, the limit is {MOST_VALUES}")));
        }
        let read = serde_json::from_slice(&bytes).map(Some);
        read.map_err(|e| invalid(format!("is not what was written there: {e}")))
    }

    pub(crate) fn write_json<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        self.write(name, &serde_json::to_vec(value).map_err(io::Error::other)?, 0o600)
    }

    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        has(&self.0.join(name))
    }

    /// When a file was written last, by the clock of the file system; `None` if it is not there.
    pub(crate) fn written(&self, name: &str) -> Option<Timestamp> {
        let path = self.0.join(name);
        disk::at(&path);
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok().map(Timestamp::from_millis)
    }

    /// Puts up the fence of a run that has not begun, so that it never will. False if it has begun after all.
    pub(crate) fn shut(&self, run: Run) -> io::Result<bool> {
        let fence = self.0.join(RAN).join(run.to_string());
        disk::at(&fence);
        match DirBuilder::new().mode(SHUT_MODE).create(&fence) {
            Ok(()) => File::create(fence.join(SHUT)).map(|_| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => is_shut(&fence),
            Err(e) => Err(e),
        }
    }

    /// The runs whose fences stand, with those.
    pub(crate) fn fences(&self) -> io::Result<Vec<(Run, PathBuf)>> {
        runs(&self.0.join(RAN))
    }

    /// Whether a run put up its fence itself, and if so, whether a second one came to it.
    pub(crate) fn began(fence: &Path) -> io::Result<Option<bool>> {
        match is_shut(fence)? {
            true => Ok(None),
            false => has(&fence.join("again")).map(Some),
        }
    }

    /// The runs that have written down how they ended, with what they wrote.
    pub(crate) fn markers(&self) -> io::Result<Vec<(Run, PathBuf)>> {
        runs(&self.0.join(ENDS))
    }

    /// How a run ended, by its marker.
    pub(crate) fn end(marker: &Path) -> io::Result<Option<End>> {
        let bytes = match read(marker, 4096) {
            // Scripts can write there, and put up what no wrapper does.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
            bytes => bytes?,
        };
        Ok(bytes.and_then(|bytes| End::parse(&String::from_utf8_lossy(&bytes))))
    }

    /// How many runs have written down how they ended.
    pub(crate) fn count_ends(&self) -> io::Result<usize> {
        Ok(self.markers()?.len())
    }

    /// How those runs ended that are wanted: of so many at most, and as far as there is time.
    pub(crate) fn ends_of(
        &self,
        most: usize,
        until: Instant,
        wanted: impl Fn(Run) -> bool,
    ) -> io::Result<BTreeMap<Run, End>> {
        let mut found = BTreeMap::new();
        for (run, marker) in self.markers()?.into_iter().filter(|(run, _)| wanted(*run)) {
            if found.len() >= most || (!found.is_empty() && Instant::now() >= until) {
                break;
            }
            if let Some(end) = Self::end(&marker)? {
                found.insert(run, end);
            }
        }
        Ok(found)
    }

    /// All runs that began, and how those ended that did.
    #[cfg(test)]
    pub(crate) fn all_runs(&self) -> crate::runs::AllRuns {
        crate::runs::Runs::default().read(self, None).unwrap().unwrap()
    }
}

/// What a job prints to.
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

/// True of a fence that no run has put up.
fn is_shut(fence: &Path) -> io::Result<bool> {
    disk::at(fence);
    match fs::symlink_metadata(fence) {
        Ok(metadata) if metadata.permissions().mode() & 0o1000 != 0 => Ok(true),
        Ok(_) => has(&fence.join(SHUT)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether it is there. What cannot be known is an error: that a mark is missing means something.
fn has(path: &Path) -> io::Result<bool> {
    disk::at(path);
    path.try_exists().or_else(|e| match Errno::from_io_error(&e) {
        // What a script has put in the way is none.
        Some(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(false),
        _ => Err(e),
    })
}

/// Copies to the end, and has the file system take over what was copied from time to time, so that each step of it is short.
fn copy(from: &mut impl Read, to: &mut File) -> io::Result<()> {
    while io::copy(&mut from.by_ref().take(COPIED_AT_ONCE), to)? == COPIED_AT_ONCE {
        to.sync_data()?;
    }
    Ok(())
}

fn runs(folder: &Path) -> io::Result<Vec<(Run, PathBuf)>> {
    let run = |(name, path): (String, PathBuf)| Run::parse(&name).map(|run| (run, path));
    Ok(entries(folder, MOST_RUNS)?.into_iter().filter_map(run).collect())
}

fn entries(folder: &Path, most: usize) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    disk::at(folder);
    match fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                disk::goes_on();
                if found.len() == most {
                    let why = format!("{} has more than {most} files, which is the limit", folder.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    Ok(found)
}

/// Opens a regular file. A FIFO, a device, a folder or a symbolic link in its place is invalid data, and never blocks.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    disk::at(path);
    taskbridge_sdk::open_regular(path)
}

/// Reads a file whole, of at most so many bytes; `None` if it is not there.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    match open_regular(path) {
        Ok(file) => read_open(file, path, most).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The same of an open file.
pub(crate) fn read_open(file: File, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Steps(BoundedFile::new(file, path, most)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file's whole content under a name of its own beside its target, safely on disk.
pub(crate) fn draft(
    target: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let (path, mut file) = loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".{name}.{}.{number}", std::process::id()));
        disk::at(&path);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
            Ok(file) => break (path, file),
            // Another server, or one that died, has this name.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    };
    // Whoever is to read it must not depend on the umask that the server happens to have.
    let opened = file.set_permissions(Permissions::from_mode(mode));
    let written = opened.and_then(|()| fill(&mut file)).and_then(|()| file.sync_all());
    written.map(|()| path.clone()).inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Makes a new name in a folder survive a power cut.
fn sync_parent(path: &Path) -> io::Result<()> {
    disk::at(path);
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_write_stands() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.make(None).unwrap();
        folder.make(None).unwrap();
        assert_eq!(folder.write_first(ID, b"1").unwrap(), b"1");
        assert_eq!(folder.write_first(ID, b"2").unwrap(), b"1");
        folder.write("x", b"1", 0o600).unwrap();
        folder.write("x", b"2", 0o600).unwrap();
        assert_eq!(folder.read("x").unwrap().unwrap(), b"2");
        assert_eq!(folder.read("none").unwrap(), None);
        let left: Vec<_> = entries(folder.path(), 99)
            .unwrap()
            .into_iter()
            .filter(|(name, _)| name.starts_with('.'))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn a_file_has_the_permissions_that_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.make(None).unwrap();
        for mode in [0o666, 0o640, 0o600] {
            folder.write("x", b"1", mode).unwrap();
            let found = fs::metadata(folder.file("x")).unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode, "whatever the umask");
        }
    }

    #[test]
    fn a_file_that_is_copied_again_is_not_cut_while_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.make(None).unwrap();
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

    #[test]
    fn file_too_long_or_linked_is_invalid() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.make(None).unwrap();
        let refused = || {
            let error = folder.read_json::<serde_json::Value>(OBSERVED).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        File::create(folder.file(OBSERVED)).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(refused(), "observed.json has 4398046511104 bytes, the limit is 67108864");
        fs::write(folder.file(OBSERVED), "no JSON").unwrap();
        assert!(refused().starts_with("observed.json is not what was written there: "));
        fs::write(folder.file(OBSERVED), format!("[{}0]", r#"{"":0},"#.repeat(500_000))).unwrap();
        assert_eq!(refused(), "observed.json has 1000002 JSON values, the limit is 1000000");
        fs::remove_file(folder.file(OBSERVED)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.file(OBSERVED)).unwrap();
        assert_eq!(refused(), "observed.json is not a regular file");
    }

    #[test]
    fn folder_of_too_many_files_is_invalid() {
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
    fn what_began_and_ended_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        assert!(folder.all_runs().ran.is_empty() && !folder.path().exists());
        folder.make(None).unwrap();
        fs::create_dir(folder.file("ran/3.1")).unwrap();
        fs::create_dir(folder.file("ran/job.0")).unwrap();
        fs::write(folder.file("ran/job.0/again"), "").unwrap();
        fs::write(folder.file("ends/.job.0.77"), "code=0\n").unwrap();
        fs::write(folder.file("ends/3.1"), "code=4\n").unwrap();
        let ran = folder.all_runs().ran;
        assert_eq!(
            ran.into_iter().map(|(run, again)| (run.task, run.restart, again)).collect::<Vec<_>>(),
            [(None, 0, true), (Some(3), 1, false)]
        );
        assert_eq!(folder.all_runs().ends.into_values().map(|end| end.code).collect::<Vec<_>>(), [4]);
        let runs = |task, restart| Run { task, restart };
        assert!(!folder.shut(runs(None, 0)).unwrap(), "it has begun");
        assert!(folder.shut(runs(None, 1)).unwrap() && folder.shut(runs(None, 1)).unwrap());
        assert!(folder.file("ran/job.1").is_dir(), "whoever comes later finds the fence");
        assert_eq!(folder.all_runs().ran.len(), 2);
        // Whoever put it up was killed before more was done.
        fs::remove_file(folder.file("ran/job.1").join(SHUT)).unwrap();
        assert_eq!(folder.all_runs().ran.len(), 2, "it has not begun");
        assert!(folder.shut(runs(None, 1)).unwrap());
    }
}
