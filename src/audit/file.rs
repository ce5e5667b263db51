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
    pub sync_writes: bool,
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
    pub(super) fn own_line(&self, kind: Kind, detail: Value) -> String {
        let mut entry = AuditEntry::new(self.clock.now().to_string(), &self.replica, kind, "ok");
        entry.detail = detail;
        entry.object()
    }

    /// Returns the head that continues after this line. A new chain begins, with a line in `own_lines` about
    /// it, if the hash does not match our key, or if there is no line and this process wrote none.
    /// `last_head` is the head that this process wrote last. If the line is missing or has a lower number,
    /// the log was truncated, and the chain continues from `last_head` so that this shows.
    pub(super) fn continue_chain(
        &self,
        last: Option<&str>,
        last_head: Option<&Head>,
        own_lines: &mut Vec<String>,
    ) -> Head {
        let last = last.map(|last| chain::parse(&self.key, last));
        let newer_head = |at: &Head| last_head.filter(|head| head.chain == at.chain && head.seq > at.seq);
        match last {
            Some(Some(line)) if line.is_intact => newer_head(&line.head).cloned().unwrap_or(line.head),
            None if last_head.is_some() => last_head.cloned().unwrap_or_else(|| self.new_chain()),
            last => {
                let after = last.flatten().map(
                    |line| json!({"chain": line.head.chain, "seq": line.head.seq, "hash": line.head.hash}),
                );
                let detail = match after {
                    Some(after) => json!({"after": after}),
                    None => json!({}),
                };
                own_lines.push(self.own_line(Kind::LogBegan, detail));
                self.new_chain()
            }
        }
    }

    /// Returns the head of a new chain.
    pub(super) fn new_chain(&self) -> Head {
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
    first_line_at: Option<Timestamp>,
}

/// The log as a file.
pub struct FileLog {
    config: LogFileConfig,
    context: LogContext,
    state: Option<FileState>,
    /// The head that this process wrote last. If the file ends earlier, it was truncated, and that must
    /// show.
    last_head: Option<Head>,
}

impl FileLog {
    /// Creates the log without opening the file.
    pub fn new(config: LogFileConfig, context: LogContext) -> Self {
        Self { config, context, state: None, last_head: None }
    }

    /// Appends lines: all of them or, after a failure, none, as far as the file can be truncated.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, objects: &[String]) -> io::Result<()> {
        // A pipe or a device is written without a lock, and never rotated.
        let is_file = match std::fs::metadata(&self.config.path) {
            Ok(metadata) => metadata.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        let _lock = if is_file { Some(self.lock()?) } else { None };
        let result = self.append_locked(objects, is_file);
        if result.is_err() {
            // The state of the file is unknown now, so the next call reads it again.
            self.state = None;
        }
        result
    }

    fn append_locked(&mut self, objects: &[String], is_file: bool) -> io::Result<()> {
        let (mut state, mut own_lines) = self.open(is_file)?;
        // All lines of a file use one key, so that `verify` can be given that key. The line about a torn end
        // of this file is written into it, and then it is rotated the next time.
        let (is_torn, is_of_another) = (own_lines.len() > 1, state.head.seq == 0 && state.length > 0);
        if is_file && !is_torn && (is_of_another || self.needs_rotation(&state)) {
            let (next, rotated) = self.rotate(state)?;
            state = next;
            own_lines.extend(rotated);
        }
        let mut head = state.head.clone();
        let mut text = Vec::new();
        for object in own_lines.iter().chain(objects) {
            // An empty object completes a torn line with a line break; a `log.torn` line about it follows.
            if object.is_empty() {
                text.push(b'\n');
                continue;
            }
            text.extend_from_slice(head.link(&self.context.key, object).as_bytes());
            text.push(b'\n');
        }
        let written = state.file.write_all(&text).and_then(|()| match self.config.sync_writes && is_file {
            true => state.file.sync_data(),
            false => Ok(()),
        });
        if let Err(error) = written {
            // A partial write would be repeated by the retry. If the truncation fails, the line is later
            // detected as torn.
            let _ = state.file.set_len(state.length);
            return Err(error);
        }
        let first_line_at = state.first_line_at.or_else(|| Some(self.context.clock.now()));
        let length = state.length + text.len() as u64;
        self.last_head = Some(head.clone());
        self.state = Some(FileState { head, length, first_line_at, ..state });
        Ok(())
    }

    /// Acquires the lock that excludes all other writers of this log.
    fn lock(&self) -> io::Result<File> {
        let file = private_options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(rotation::sibling(&self.config.path, "lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn needs_rotation(&self, state: &FileState) -> bool {
        let Some(since) = state.first_line_at else { return false };
        state.length >= self.config.max_bytes || self.context.clock.now().since(since) >= self.config.max_age
    }

    /// Opens the file, and returns its state with the lines that must be written first.
    fn open(&mut self, is_file: bool) -> io::Result<(FileState, Vec<String>)> {
        if let Some(state) = self.state.take()
            && state.is_file == is_file
            && (!is_file || is_unchanged(&self.config.path, &state))
        {
            return Ok((state, Vec::new()));
        }
        let mut file =
            private_options().read(is_file).append(true).create(is_file).open(&self.config.path)?;
        let metadata = file.metadata()?;
        let (inode, length) = (metadata.ino(), metadata.len());
        let new_state =
            |file, head, first_line_at| FileState { file, is_file, inode, length, head, first_line_at };
        if !is_file {
            let head = self.context.new_chain();
            return Ok((new_state(file, head, None), vec![self.context.own_line(Kind::LogBegan, json!({}))]));
        }
        let mut own_lines = Vec::new();
        let tail = tail(&mut file, length)?;
        if let Some(torn) = &tail.torn {
            let detail = json!({"sha256": chain::digest(torn), "bytes": torn.len()});
            own_lines.extend([String::new(), self.context.own_line(Kind::LogTorn, detail)]);
        }
        let last_line = match tail.last {
            Some(last) => Some(last),
            None => self.last_rotated_line()?,
        };
        let head = self.context.continue_chain(last_line.as_deref(), self.last_head.as_ref(), &mut own_lines);
        let first_line_at = match first_line(&mut file, length)? {
            Some(line) => chain::parse(&self.context.key, &line)
                .map(|line| parse_time(&line.time).unwrap_or_else(|| self.context.clock.now())),
            None => None,
        };
        Ok((new_state(file, head, first_line_at), own_lines))
    }

    /// Rotates the file and creates a new one.
    fn rotate(&self, state: FileState) -> io::Result<(FileState, Vec<String>)> {
        let name = rotation::rotate(&self.config.path)?;
        let file = private_options().read(true).append(true).create(true).open(&self.config.path)?;
        let inode = file.metadata()?.ino();
        let own_lines = vec![self.context.own_line(Kind::LogRotated, json!({"before": name}))];
        let expected_age = self.config.max_age * u32::try_from(self.config.keep_files).unwrap_or(u32::MAX);
        rotation::delete_oldest(&self.config.path, self.config.keep_files, expected_age / 2)?;
        Ok((
            FileState { file, is_file: true, inode, length: 0, head: state.head, first_line_at: None },
            own_lines,
        ))
    }

    /// Returns the last line of the newest rotated file.
    fn last_rotated_line(&self) -> io::Result<Option<String>> {
        let Some(newest) = rotation::rotated_files(&self.config.path)?.pop() else { return Ok(None) };
        let mut file = File::open(newest)?;
        let length = file.metadata()?.len();
        Ok(tail(&mut file, length)?.last)
    }
}

/// Returns options that create files with access for their owner only.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn is_unchanged(path: &Path, state: &FileState) -> bool {
    std::fs::metadata(path).is_ok_and(|now| now.ino() == state.inode && now.len() == state.length)
}

/// Parses the time of a line.
fn parse_time(time: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::verify::{FindingKind, Report, Verifier};
    use super::*;
    use crate::clock::System;

    fn context() -> LogContext {
        LogContext {
            key: Key::default(),
            clock: System::clock(),
            entropy: System::entropy(),
            replica: "r".to_owned(),
        }
    }

    fn config(folder: &Path) -> LogFileConfig {
        LogFileConfig {
            path: folder.join("audit.jsonl"),
            max_bytes: 1 << 20,
            max_age: Duration::from_secs(3600),
            keep_files: 3,
            sync_writes: false,
        }
    }

    fn objects(n: usize) -> Vec<String> {
        (0..n).map(|_| context().own_line(Kind::TaskCreated, Value::Null)).collect()
    }

    fn verify(config: &LogFileConfig) -> Report {
        let mut files = rotation::rotated_files(&config.path).unwrap();
        files.push(config.path.clone());
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
        let log_config = LogFileConfig { max_bytes: 1_000, ..config(folder.path()) };
        let (mut one, mut two) =
            (FileLog::new(log_config.clone(), context()), FileLog::new(log_config.clone(), context()));
        for _ in 0..10 {
            one.append(&objects(1)).unwrap();
            two.append(&objects(2)).unwrap();
            FileLog::new(log_config.clone(), context()).append(&objects(1)).unwrap();
        }
        let report = verify(&log_config);
        assert_eq!((report.broken.as_slice(), report.heads.len()), ([].as_slice(), 1), "{report:?}");
        assert_eq!(rotation::rotated_files(&log_config.path).unwrap().len(), 3, "older files are deleted");
        assert!(matches!(report.notes[0].what, FindingKind::BeginsAt(n) if n > 1));
        let mode = std::fs::metadata(&log_config.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// A file that is cut or deleted while the server writes to it shows a gap in the chain.
    #[test]
    fn audit_tampering_during_writes_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let log_config = config(folder.path());
        let mut log = FileLog::new(log_config.clone(), context());
        log.append(&objects(4)).unwrap();
        let text = std::fs::read_to_string(&log_config.path).unwrap();
        let cut: String = text.split_inclusive('\n').take(3).collect();
        std::fs::write(&log_config.path, cut).unwrap();
        log.append(&objects(1)).unwrap();
        assert_eq!(verify(&log_config).broken[0].what, FindingKind::Removed { from: 4, to: 5 });
        std::fs::remove_file(&log_config.path).unwrap();
        log.append(&objects(1)).unwrap();
        assert_eq!(verify(&log_config).notes[0].what, FindingKind::BeginsAt(7));
    }

    /// A line that a crash cut off is reported as torn, and not as a change.
    #[test]
    fn torn_audit_line_is_gap() {
        let folder = tempfile::tempdir().unwrap();
        let log_config = config(folder.path());
        FileLog::new(log_config.clone(), context()).append(&objects(3)).unwrap();
        let whole = std::fs::read(&log_config.path).unwrap();
        std::fs::write(&log_config.path, &whole[..whole.len() - 40]).unwrap();
        FileLog::new(log_config.clone(), context()).append(&objects(2)).unwrap();
        let report = verify(&log_config);
        assert_eq!(report.broken, []);
        assert_eq!(report.notes.iter().map(|note| &note.what).collect::<Vec<_>>(), [&FindingKind::Torn]);
        assert_eq!(report.heads.values().next().unwrap().seq, 6, "began, two, torn, two");
    }

    /// A log that was written with another key is rotated, and a new chain names its last line.
    #[test]
    fn audit_log_of_another_key_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let log_config = config(folder.path());
        FileLog::new(log_config.clone(), context()).append(&objects(1)).unwrap();
        let keyed = LogContext { key: Key::of("secret"), ..context() };
        FileLog::new(log_config.clone(), keyed).append(&objects(1)).unwrap();
        let text = std::fs::read_to_string(&log_config.path).unwrap();
        let began = text.lines().next().unwrap();
        assert!(began.contains("log.began") && began.contains("\"after\":{"), "{began}");
        // The earlier lines are a valid log by themselves, and stay. Their file is not taken for the oldest,
        // although their numbers are higher.
        let [before] = &rotation::rotated_files(&log_config.path).unwrap()[..] else {
            panic!("one file of each key")
        };
        let mut verifier = Verifier::new(Key::default(), []);
        for line in std::fs::read_to_string(before).unwrap().lines() {
            verifier.line(line.to_owned(), line.as_bytes());
        }
        assert_eq!(verifier.finish(false).broken, []);
    }

    /// A failed first write leaves no lock file behind.
    #[test]
    fn append_to_full_disk_is_error() {
        let log_config = LogFileConfig { path: "/dev/full".into(), ..config(Path::new("/dev")) };
        let mut log = FileLog::new(log_config, context());
        assert!(log.append(&objects(1)).is_err());
        assert!(!Path::new("/dev/full.lock").exists());
    }
}
