//! The audit log as a file. Lines are appended under a lock that all writers of the log share (a server and
//! an operator's command), so that they make one chain. A file that is full or old is rotated, and the chain
//! continues in a new one. This module must not know what lines mean. It blocks: its caller must run it on a
//! blocking thread.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use taskbridge_sdk::Timestamp;

use super::chain::{self, Head, Key};
use super::record::{AuditEntry, Kind};
use super::rotation;
use super::tail::{first_line, tail};
use crate::clock::{self, Clock, Entropy};

/// The location of the log and its rotation limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFileConfig {
    /// The path of the file.
    pub path: PathBuf,
    /// It is rotated before the next write once it has reached this size.
    pub max_bytes: u64,
    /// It is rotated before the next write once its first line has reached this age.
    pub max_age: Duration,
    /// The number of rotated files to keep.
    pub keep_files: usize,
    /// Whether lines are synced to disk before their write is confirmed.
    pub syncs: bool,
}

/// The dependencies for lines of the log itself.
#[derive(Clone)]
pub struct LogContext {
    /// The key of the hashes.
    pub key: Key,
    /// The clock for the time of a line.
    pub clock: Arc<dyn Clock>,
    /// The random source for chain ids.
    pub entropy: Arc<dyn Entropy>,
    /// The id of the writing process.
    pub replica: String,
}

impl LogContext {
    /// Returns a line of the log itself.
    pub(super) fn own(&self, kind: Kind, detail: Value) -> String {
        let mut entry = AuditEntry::new(self.clock.now().to_string(), &self.replica, kind, "ok");
        entry.detail = detail;
        entry.object()
    }

    /// Returns the head that continues after this line. A new chain begins, with a line in `own` about it, if
    /// the hash does not match our key, or if there is no line and this process wrote none. `ours` is the
    /// head that this process wrote last. If the line is missing or has a lower number, the log was
    /// truncated, and the chain continues from `ours` so that this shows.
    pub(super) fn goes_on(&self, last: Option<&str>, ours: Option<&Head>, own: &mut Vec<String>) -> Head {
        let last = last.map(|last| chain::read(&self.key, last));
        let cut = |at: &Head| ours.filter(|ours| ours.chain == at.chain && ours.seq > at.seq);
        match last {
            Some(Some(line)) if line.is_whole => cut(&line.at).cloned().unwrap_or(line.at),
            None if ours.is_some() => ours.cloned().unwrap_or_else(|| self.fresh()),
            last => {
                let after = last
                    .flatten()
                    .map(|line| json!({"chain": line.at.chain, "seq": line.at.seq, "hash": line.at.hash}));
                let detail = match after {
                    Some(after) => json!({"after": after}),
                    None => json!({}),
                };
                own.push(self.own(Kind::LogBegan, detail));
                self.fresh()
            }
        }
    }

    /// Returns the head of a new chain.
    pub(super) fn fresh(&self) -> Head {
        Head::new(data_encoding::HEXLOWER.encode(&clock::random::<8>(&*self.entropy)))
    }
}

/// The state of the file after the last write of this process.
struct FileState {
    file: File,
    /// False for a pipe or a device.
    is_file: bool,
    inode: u64,
    length: u64,
    head: Head,
    /// When its first line was written.
    first: Option<Timestamp>,
}

/// The log as a file.
pub struct FileLog {
    place: LogFileConfig,
    tools: LogContext,
    left: Option<FileState>,
    /// The head that this process wrote last. If the file ends earlier, it was truncated, and that must
    /// show.
    ours: Option<Head>,
}

impl FileLog {
    /// Creates the log without opening the file.
    pub fn new(place: LogFileConfig, tools: LogContext) -> Self {
        Self { place, tools, left: None, ours: None }
    }

    /// Appends lines: all of them or, after a failure, none, as far as the file can be truncated.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, objects: &[String]) -> io::Result<()> {
        // A pipe or a device is written without a lock, and never rotated.
        let is_file = match std::fs::metadata(&self.place.path) {
            Ok(metadata) => metadata.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        let _lock = if is_file { Some(self.lock()?) } else { None };
        let done = self.append_locked(objects, is_file);
        if done.is_err() {
            // The state of the file is unknown now, so the next call reads it again.
            self.left = None;
        }
        done
    }

    fn append_locked(&mut self, objects: &[String], is_file: bool) -> io::Result<()> {
        let (mut left, mut own) = self.open(is_file)?;
        // All lines of a file use one key, so that `verify` can be given that key. The line about a torn end
        // of this file is written into it, and then it is rotated the next time.
        let (is_torn, is_of_another) = (own.len() > 1, left.head.seq == 0 && left.length > 0);
        if is_file && !is_torn && (is_of_another || self.is_over(&left)) {
            let (next, rotated) = self.put_aside(left)?;
            left = next;
            own.extend(rotated);
        }
        let mut head = left.head.clone();
        let mut text = Vec::new();
        for object in own.iter().chain(objects) {
            // An empty object completes a torn line with a line break; a `log.torn` line about it follows.
            if object.is_empty() {
                text.push(b'\n');
                continue;
            }
            text.extend_from_slice(head.link(&self.tools.key, object).as_bytes());
            text.push(b'\n');
        }
        let written = left.file.write_all(&text).and_then(|()| match self.place.syncs && is_file {
            true => left.file.sync_data(),
            false => Ok(()),
        });
        if let Err(error) = written {
            // A partial write would be repeated by the retry. If the truncation fails, the line is later
            // detected as torn.
            let _ = left.file.set_len(left.length);
            return Err(error);
        }
        let first = left.first.or_else(|| Some(self.tools.clock.now()));
        let length = left.length + text.len() as u64;
        self.ours = Some(head.clone());
        self.left = Some(FileState { head, length, first, ..left });
        Ok(())
    }

    /// Acquires the lock that excludes all other writers of this log.
    fn lock(&self) -> io::Result<File> {
        let file = private()
            .create(true)
            .truncate(false)
            .write(true)
            .open(rotation::beside(&self.place.path, "lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn is_over(&self, left: &FileState) -> bool {
        let Some(since) = left.first else { return false };
        left.length >= self.place.max_bytes || self.tools.clock.now().since(since) >= self.place.max_age
    }

    /// Opens the file, and returns its state with the lines that must be written first.
    fn open(&mut self, is_file: bool) -> io::Result<(FileState, Vec<String>)> {
        if let Some(left) = self.left.take()
            && left.is_file == is_file
            && (!is_file || is_as_left(&self.place.path, &left))
        {
            return Ok((left, Vec::new()));
        }
        let mut file = private().read(is_file).append(true).create(is_file).open(&self.place.path)?;
        let metadata = file.metadata()?;
        let (inode, length) = (metadata.ino(), metadata.len());
        let left = |file, head, first| FileState { file, is_file, inode, length, head, first };
        if !is_file {
            let head = self.tools.fresh();
            return Ok((left(file, head, None), vec![self.tools.own(Kind::LogBegan, json!({}))]));
        }
        let mut own = Vec::new();
        let tail = tail(&mut file, length)?;
        if let Some(torn) = &tail.torn {
            let detail = json!({"sha256": chain::digest(torn), "bytes": torn.len()});
            own.extend([String::new(), self.tools.own(Kind::LogTorn, detail)]);
        }
        let before = match tail.last {
            Some(last) => Some(last),
            None => self.newest_aside()?,
        };
        let head = self.tools.goes_on(before.as_deref(), self.ours.as_ref(), &mut own);
        let first = match first_line(&mut file, length)? {
            Some(line) => chain::read(&self.tools.key, &line)
                .map(|line| moment(&line.time).unwrap_or_else(|| self.tools.clock.now())),
            None => None,
        };
        Ok((left(file, head, first), own))
    }

    /// Rotates the file and creates a new one.
    fn put_aside(&self, left: FileState) -> io::Result<(FileState, Vec<String>)> {
        let name = rotation::put(&self.place.path)?;
        let file = private().read(true).append(true).create(true).open(&self.place.path)?;
        let inode = file.metadata()?.ino();
        let own = vec![self.tools.own(Kind::LogRotated, json!({"before": name}))];
        let meant = self.place.max_age * u32::try_from(self.place.keep_files).unwrap_or(u32::MAX);
        rotation::keep(&self.place.path, self.place.keep_files, meant / 2)?;
        Ok((FileState { file, is_file: true, inode, length: 0, head: left.head, first: None }, own))
    }

    /// Returns the last line of the newest rotated file.
    fn newest_aside(&self) -> io::Result<Option<String>> {
        let Some(newest) = rotation::all(&self.place.path)?.pop() else { return Ok(None) };
        let mut file = File::open(newest)?;
        let length = file.metadata()?.len();
        Ok(tail(&mut file, length)?.last)
    }
}

/// Returns options that create files with access for their owner only.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn is_as_left(path: &Path, left: &FileState) -> bool {
    std::fs::metadata(path).is_ok_and(|now| now.ino() == left.inode && now.len() == left.length)
}

/// Parses the time of a line.
fn moment(time: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::verify::{FindingKind, Report, Verifier};
    use super::*;
    use crate::clock::System;

    fn tools() -> LogContext {
        LogContext {
            key: Key::default(),
            clock: System::clock(),
            entropy: System::entropy(),
            replica: "r".to_owned(),
        }
    }

    fn place(folder: &Path) -> LogFileConfig {
        LogFileConfig {
            path: folder.join("audit.jsonl"),
            max_bytes: 1 << 20,
            max_age: Duration::from_secs(3600),
            keep_files: 3,
            syncs: false,
        }
    }

    fn objects(n: usize) -> Vec<String> {
        (0..n).map(|_| tools().own(Kind::TaskCreated, Value::Null)).collect()
    }

    fn verify(place: &LogFileConfig) -> Report {
        let mut files = rotation::all(&place.path).unwrap();
        files.push(place.path.clone());
        let mut verifier = Verifier::new(Key::default(), []);
        for file in files {
            for (n, line) in std::fs::read(&file).unwrap().split_inclusive(|byte| *byte == b'\n').enumerate()
            {
                verifier.line(format!("{}:{n}", file.display()), line.trim_ascii_end());
            }
        }
        verifier.finish(false)
    }

    /// Several writers and processes continue one chain over rotated files.
    #[test]
    fn audit_chain_spans_files_and_writers() {
        let folder = tempfile::tempdir().unwrap();
        let place = LogFileConfig { max_bytes: 1_000, ..place(folder.path()) };
        let (mut one, mut two) = (FileLog::new(place.clone(), tools()), FileLog::new(place.clone(), tools()));
        for _ in 0..10 {
            one.append(&objects(1)).unwrap();
            two.append(&objects(2)).unwrap();
            FileLog::new(place.clone(), tools()).append(&objects(1)).unwrap();
        }
        let report = verify(&place);
        assert_eq!((report.broken.as_slice(), report.heads.len()), ([].as_slice(), 1), "{report:?}");
        assert_eq!(rotation::all(&place.path).unwrap().len(), 3, "older files are deleted");
        assert!(matches!(report.notes[0].what, FindingKind::BeginsAt(n) if n > 1));
        let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// A file that is cut or deleted while the server writes to it shows a gap in the chain.
    #[test]
    fn audit_tampering_during_writes_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let mut log = FileLog::new(place.clone(), tools());
        log.append(&objects(4)).unwrap();
        let text = std::fs::read_to_string(&place.path).unwrap();
        let cut: String = text.split_inclusive('\n').take(3).collect();
        std::fs::write(&place.path, cut).unwrap();
        log.append(&objects(1)).unwrap();
        assert_eq!(verify(&place).broken[0].what, FindingKind::Removed { from: 4, to: 5 });
        std::fs::remove_file(&place.path).unwrap();
        log.append(&objects(1)).unwrap();
        assert_eq!(verify(&place).notes[0].what, FindingKind::BeginsAt(7));
    }

    /// A line that a crash cut off is reported as torn, and not as a change.
    #[test]
    fn torn_audit_line_is_gap() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        FileLog::new(place.clone(), tools()).append(&objects(3)).unwrap();
        let whole = std::fs::read(&place.path).unwrap();
        std::fs::write(&place.path, &whole[..whole.len() - 40]).unwrap();
        FileLog::new(place.clone(), tools()).append(&objects(2)).unwrap();
        let report = verify(&place);
        assert_eq!(report.broken, []);
        assert_eq!(report.notes.iter().map(|note| &note.what).collect::<Vec<_>>(), [&FindingKind::Torn]);
        assert_eq!(report.heads.values().next().unwrap().seq, 6, "began, two, torn, two");
    }

    /// A log that was written with another key is rotated, and a new chain names its last line.
    #[test]
    fn audit_log_of_another_key_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        FileLog::new(place.clone(), tools()).append(&objects(1)).unwrap();
        let keyed = LogContext { key: Key::of("secret"), ..tools() };
        FileLog::new(place.clone(), keyed).append(&objects(1)).unwrap();
        let text = std::fs::read_to_string(&place.path).unwrap();
        let began = text.lines().next().unwrap();
        assert!(began.contains("log.began") && began.contains("\"after\":{"), "{began}");
        // The earlier lines are a valid log by themselves, and stay. Their file is not taken for the oldest,
        // although their numbers are higher.
        let [before] = &rotation::all(&place.path).unwrap()[..] else { panic!("one file of each key") };
        let mut verifier = Verifier::new(Key::default(), []);
        for line in std::fs::read_to_string(before).unwrap().lines() {
            verifier.line(line.to_owned(), line.as_bytes());
        }
        assert_eq!(verifier.finish(false).broken, []);
    }

    /// A failed first write leaves no lock file behind.
    #[test]
    fn append_to_full_disk_is_error() {
        let place = LogFileConfig { path: "/dev/full".into(), ..place(Path::new("/dev")) };
        let mut log = FileLog::new(place, tools());
        assert!(log.append(&objects(1)).is_err());
        assert!(!Path::new("/dev/full.lock").exists());
    }
}
