//! A job's folder: what lies where, whose it is, and whether its supervisor lives. It must not know what a command
//! or a backend is. README.md describes every file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Observation;

use crate::files::{self, Draft};
use crate::handle::Machine;

/// What a job is told about itself: `artifacts` is `$TASKBRIDGE_ARTIFACTS`, and `taskbridge.artifacts` in templates.
pub(crate) const NAMES: [&str; 6] = ["artifacts", "content", "events", "job", "output", "questions"];

/// The largest of the small files that are read whole.
const SMALL: u64 = 64 * 1024;

/// The folder of one job, named by its key.
#[derive(Clone, Debug)]
pub(crate) struct JobDir(PathBuf);

/// What a supervisor wrote when it took the job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The supervisor's process id, for people: nothing is ever decided by it.
    pub(crate) supervisor: u32,
    /// Where, and since which boot, it runs.
    pub(crate) machine: Machine,
}

/// Whether somebody looks after the job.
#[derive(Debug)]
pub(crate) enum Life {
    /// No supervisor has taken it; one may be on its way.
    Unclaimed,
    /// Its supervisor lives, and took it then.
    Supervised { since: SystemTime },
    /// Its supervisor is gone.
    Left,
}

impl JobDir {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The job's key.
    pub(crate) fn key(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// What the job is told under one of [`NAMES`].
    pub(crate) fn told(&self, name: &str) -> PathBuf {
        match name {
            "job" => PathBuf::from(self.key()),
            "content" | "output" => self.0.join(format!("{name}.json")),
            _ => self.0.join(name),
        }
    }

    /// The folder of its own that a job runs in if nothing else is said.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Where what the job prints is kept.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Where a file that came with the arguments lies.
    pub(crate) fn input(&self, number: usize, name: &str) -> PathBuf {
        self.0.join("in").join(number.to_string()).join(name)
    }

    /// Makes the folders, among those of the other jobs. Making them again is harmless.
    pub(crate) fn create(&self) -> io::Result<()> {
        for folder in
            [self.0.clone(), self.told("artifacts"), self.told("questions"), self.work(), self.log()]
        {
            match private().create(&folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        files::sync_parent(&self.0)
    }

    /// Takes the job, once for all time: `None` if somebody has it. The job is supervised for as long as the file is
    /// open, because it is locked before anybody can see it, and the kernel alone unlocks it when its owner dies.
    pub(crate) fn claim(&self, claim: &Claim) -> io::Result<Option<File>> {
        let draft = Draft::new(&self.0.join("claim.json"), &serde_json::to_vec(claim)?)?;
        flock(draft.file(), FlockOperation::NonBlockingLockExclusive)?;
        draft.publish_first()
    }

    pub(crate) fn life(&self) -> io::Result<Life> {
        let file = match files::open_regular(&self.0.join("claim.json")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Life::Unclaimed),
            Err(e) => return Err(e),
        };
        // A shared lock: two who look at the same time do not take each other for the supervisor.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Life::Left),
            Err(Errno::WOULDBLOCK) => Ok(Life::Supervised { since: file.metadata()?.modified()? }),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) fn read_claim(&self) -> io::Result<Option<Claim>> {
        read_json(&self.0.join("claim.json"), SMALL).map(|found| found.map(|(claim, _)| claim))
    }

    /// Says how the job ended. It is said once; whoever reads it sees all of it.
    pub(crate) fn write_end(&self, end: &Observation) -> io::Result<()> {
        Draft::new(&self.0.join("end.json"), &serde_json::to_vec(end)?)?.replace()
    }

    /// How the job ended, and when.
    pub(crate) fn read_end(&self) -> io::Result<Option<(Observation, SystemTime)>> {
        // Its size was bounded when it was written.
        read_json(&self.0.join("end.json"), u64::MAX)
    }

    /// When the job ended, if that was written down.
    pub(crate) fn ended(&self) -> io::Result<Option<SystemTime>> {
        files::modified(&self.0.join("end.json"))
    }

    /// Asks the supervisor to stop the job. The file is the request; the FIFO only wakes the supervisor up.
    pub(crate) fn request_cancel(&self) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.0.join("cancel"))?;
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        // Where nobody reads, the supervisor is gone, or looks for the file before it first waits.
        if let Ok(mut fifo) = OpenOptions::new().write(true).custom_flags(flags).open(self.wake()) {
            let _ = fifo.write(b"\n");
        }
        Ok(())
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        self.0.join("cancel").exists()
    }

    /// The FIFO that wakes the supervisor up.
    pub(crate) fn wake(&self) -> PathBuf {
        self.0.join("wake")
    }
}

/// Makes a folder, and those above it, that only their owner can enter.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    private().recursive(true).create(folder)
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Reads a JSON file, with the time it was written; `None` if it does not exist.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    max: u64,
) -> io::Result<Option<(T, SystemTime)>> {
    let Some(content) = files::read(path, max)? else { return Ok(None) };
    Ok(Some((taskbridge_sdk::from_json(&content.bytes)?, content.modified)))
}
