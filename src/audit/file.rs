//! The log as a file: lines are put at its end, under a lock that whoever writes into the same log takes, too (a server and an
//! operator's command), so that they make one chain. When it is full or old it is put aside, and the chain goes on in a new one.
//! It must not know what lines tell, and it blocks: its caller sees to that.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use taskbridge_sdk::Timestamp;

use super::aside;
use super::chain::{self, Head, Key};
use super::record::{Entry, Kind};
use super::tail::{first_line, tail};
use crate::clock::{self, Clock, Entropy};

/// Where the log is, and when another file is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// It is put aside once it is as large as this.
    pub max_bytes: u64,
    /// It is put aside once its first line is as old as this.
    pub max_age: Duration,
    /// So many files that were put aside are kept.
    pub keep_files: usize,
    /// Whether lines are on the disk before anybody hears that they are written.
    pub syncs: bool,
}

/// What lines of the log's own are made with.
#[derive(Clone)]
pub struct Tools {
    /// Makes the hashes.
    pub key: Key,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Names of chains.
    pub entropy: Arc<dyn Entropy>,
    /// Who writes.
    pub replica: String,
}

impl Tools {
    /// A line of the log's own.
    pub(super) fn own(&self, kind: Kind, detail: Value) -> String {
        let mut entry = Entry::new(self.clock.now().to_string(), &self.replica, kind, "ok");
        entry.detail = detail;
        entry.object()
    }

    /// The chain goes on from this line; where it does not bear a hash of our key, another one begins.
    /// `ours` is where this process left it: if the line says less, somebody has cut it, and that shall show.
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

    /// A chain that nobody began yet.
    pub(super) fn fresh(&self) -> Head {
        Head::new(data_encoding::HEXLOWER.encode(&clock::random::<8>(&*self.entropy)))
    }
}

/// The file as this process left it.
struct Left {
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
    place: Place,
    tools: Tools,
    left: Option<Left>,
    /// Where this process left the chain. If the file says less, somebody has cut it, and that shall show.
    ours: Option<Head>,
}

impl FileLog {
    /// Nothing is opened yet.
    pub fn new(place: Place, tools: Tools) -> Self {
        Self { place, tools, left: None, ours: None }
    }

    /// Puts lines at the end: all of them or, when that fails, none, as far as the file can be cut back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, objects: &[String]) -> io::Result<()> {
        // What is no file (a pipe, a device) is written without a lock, and never put aside.
        let is_file = match std::fs::metadata(&self.place.path) {
            Ok(metadata) => metadata.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        let _lock = if is_file { Some(self.lock()?) } else { None };
        let done = self.append_locked(objects, is_file);
        if done.is_err() {
            // What it is now has to be looked at again.
            self.left = None;
        }
        done
    }

    fn append_locked(&mut self, objects: &[String], is_file: bool) -> io::Result<()> {
        let (mut left, mut own) = self.open(is_file)?;
        // Of each file all lines are of one key, so that `verify` can be given it. What has to be said of the end of this one
        // is said in it, and it is put aside the next time.
        let (is_torn, is_of_another) = (own.len() > 1, left.head.seq == 0 && left.length > 0);
        if is_file && !is_torn && (is_of_another || self.is_over(&left)) {
            let (next, rotated) = self.put_aside(left)?;
            left = next;
            own.extend(rotated);
        }
        let mut head = left.head.clone();
        let mut text = Vec::new();
        for object in own.iter().chain(objects) {
            // A torn line has no end: it is given one, and told of.
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
            // Half of it would be told twice when it is written again. Where that fails, it is seen as torn.
            let _ = left.file.set_len(left.length);
            return Err(error);
        }
        let first = left.first.or_else(|| Some(self.tools.clock.now()));
        let length = left.length + text.len() as u64;
        self.ours = Some(head.clone());
        self.left = Some(Left { head, length, first, ..left });
        Ok(())
    }

    /// Nobody else writes into this log as long as this is held.
    fn lock(&self) -> io::Result<File> {
        let file = private()
            .create(true)
            .truncate(false)
            .write(true)
            .open(aside::beside(&self.place.path, "lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn is_over(&self, left: &Left) -> bool {
        let Some(since) = left.first else { return false };
        left.length >= self.place.max_bytes || self.tools.clock.now().since(since) >= self.place.max_age
    }

    /// The file as it is now, with the lines that have to be written first.
    fn open(&mut self, is_file: bool) -> io::Result<(Left, Vec<String>)> {
        if let Some(left) = self.left.take()
            && left.is_file == is_file
            && (!is_file || is_as_left(&self.place.path, &left))
        {
            return Ok((left, Vec::new()));
        }
        let mut file = private().read(is_file).append(true).create(is_file).open(&self.place.path)?;
        let metadata = file.metadata()?;
        let (inode, length) = (metadata.ino(), metadata.len());
        let left = |file, head, first| Left { file, is_file, inode, length, head, first };
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

    /// Puts the file aside and begins another.
    fn put_aside(&self, left: Left) -> io::Result<(Left, Vec<String>)> {
        let name = aside::put(&self.place.path)?;
        let file = private().read(true).append(true).create(true).open(&self.place.path)?;
        let inode = file.metadata()?.ino();
        let own = vec![self.tools.own(Kind::LogRotated, json!({"before": name}))];
        let meant = self.place.max_age * u32::try_from(self.place.keep_files).unwrap_or(u32::MAX);
        aside::keep(&self.place.path, self.place.keep_files, meant / 2)?;
        Ok((Left { file, is_file: true, inode, length: 0, head: left.head, first: None }, own))
    }

    /// The last line of the newest file that was put aside.
    fn newest_aside(&self) -> io::Result<Option<String>> {
        let Some(newest) = aside::all(&self.place.path)?.pop() else { return Ok(None) };
        let mut file = File::open(newest)?;
        let length = file.metadata()?.len();
        Ok(tail(&mut file, length)?.last)
    }
}

/// For its user alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn is_as_left(path: &Path, left: &Left) -> bool {
    std::fs::metadata(path).is_ok_and(|now| now.ino() == left.inode && now.len() == left.length)
}

/// The moment that a line names.
fn moment(time: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::verify::{Report, Verifier, What};
    use super::*;
    use crate::clock::System;

    fn tools() -> Tools {
        Tools {
            key: Key::default(),
            clock: System::clock(),
            entropy: System::entropy(),
            replica: "r".to_owned(),
        }
    }

    fn place(folder: &Path) -> Place {
        Place {
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

    fn verify(place: &Place) -> Report {
        let mut files = aside::all(&place.path).unwrap();
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

    #[test]
    fn the_chain_goes_on_over_files_and_processes_and_several_writers() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { max_bytes: 1_000, ..place(folder.path()) };
        let (mut one, mut two) = (FileLog::new(place.clone(), tools()), FileLog::new(place.clone(), tools()));
        for _ in 0..10 {
            one.append(&objects(1)).unwrap();
            two.append(&objects(2)).unwrap();
            FileLog::new(place.clone(), tools()).append(&objects(1)).unwrap();
        }
        let report = verify(&place);
        assert_eq!((report.broken.as_slice(), report.heads.len()), ([].as_slice(), 1), "{report:?}");
        assert_eq!(aside::all(&place.path).unwrap().len(), 3, "older files are deleted");
        assert!(matches!(report.notes[0].what, What::BeginsAt(n) if n > 1));
        let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_somebody_cut_or_deleted_while_it_was_written_is_not_covered_up() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let mut log = FileLog::new(place.clone(), tools());
        log.append(&objects(4)).unwrap();
        let text = std::fs::read_to_string(&place.path).unwrap();
        let cut: String = text.split_inclusive('\n').take(3).collect();
        std::fs::write(&place.path, cut).unwrap();
        log.append(&objects(1)).unwrap();
        assert_eq!(verify(&place).broken[0].what, What::Removed { from: 4, to: 5 });
        std::fs::remove_file(&place.path).unwrap();
        log.append(&objects(1)).unwrap();
        assert_eq!(verify(&place).notes[0].what, What::BeginsAt(7));
    }

    #[test]
    fn a_line_that_was_cut_off_is_told_as_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        FileLog::new(place.clone(), tools()).append(&objects(3)).unwrap();
        let whole = std::fs::read(&place.path).unwrap();
        std::fs::write(&place.path, &whole[..whole.len() - 40]).unwrap();
        FileLog::new(place.clone(), tools()).append(&objects(2)).unwrap();
        let report = verify(&place);
        assert_eq!(report.broken, []);
        assert_eq!(report.notes.iter().map(|note| &note.what).collect::<Vec<_>>(), [&What::Torn]);
        assert_eq!(report.heads.values().next().unwrap().seq, 6, "began, two, torn, two");
    }

    #[test]
    fn a_log_of_another_key_is_not_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        FileLog::new(place.clone(), tools()).append(&objects(1)).unwrap();
        let keyed = Tools { key: Key::of("secret"), ..tools() };
        FileLog::new(place.clone(), keyed).append(&objects(1)).unwrap();
        let text = std::fs::read_to_string(&place.path).unwrap();
        let began = text.lines().next().unwrap();
        assert!(began.contains("log.began") && began.contains("\"after\":{"), "{began}");
        // What was before is whole by itself, and stays: it is not taken for the oldest because its numbers are higher.
        let [before] = &aside::all(&place.path).unwrap()[..] else { panic!("one file of each key") };
        let mut verifier = Verifier::new(Key::default(), []);
        for line in std::fs::read_to_string(before).unwrap().lines() {
            verifier.line(line.to_owned(), line.as_bytes());
        }
        assert_eq!(verifier.finish(false).broken, []);
    }

    #[test]
    fn what_is_full_says_so_and_takes_nothing() {
        let place = Place { path: "/dev/full".into(), ..place(Path::new("/dev")) };
        let mut log = FileLog::new(place, tools());
        assert!(log.append(&objects(1)).is_err());
        assert!(!Path::new("/dev/full.lock").exists());
    }
}
