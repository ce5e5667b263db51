//! A job's folder: what lies where, whose it is, and whether its supervisor lives. It must not know what a command
//! or a backend is. README.md describes every file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::{JobState, Observation, Output, count_values, open_regular};

use crate::files::{self, Draft, MOST_VALUES, read_json};
use crate::handle::Machine;

/// What a job is told about itself: `artifacts` is `$TASKBRIDGE_ARTIFACTS`, and `taskbridge.artifacts` in templates.
pub(crate) const NAMES: [&str; 6] = ["artifacts", "content", "events", "job", "output", "questions"];

/// The largest of the small files that are read whole.
const SMALL: u64 = 64 * 1024;

/// The largest record of an end, in bytes. Jobs can write to it, so that it is bounded where it is written and where it is read.
const LARGEST_END: u64 = 64 * 1024 * 1024;

/// For files that are opened to write: a job may have put a link or a FIFO in their place.
const NO_LINK: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits().cast_signed();

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
        let file = match open_regular(&self.0.join("claim.json")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Life::Unclaimed),
            // The job exchanged the claim, so that nobody holds its lock.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => return Ok(Life::Left),
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
        let mut json = serde_json::to_vec(end)?;
        let (bytes, values) = (json.len(), count_values(&json));
        if bytes as u64 > LARGEST_END || values > MOST_VALUES {
            let why = format!(
                "the job's result has {bytes} bytes and {values} values as JSON, the limits are {LARGEST_END} and {MOST_VALUES}"
            );
            let failed = JobState::Failed(Output::default());
            json = serde_json::to_vec(&Observation::new(failed).with_message(why))?;
        }
        Draft::new(&self.0.join("end.json"), &json)?.replace()
    }

    /// How the job ended, and when. `InvalidData` if the job wrote what its supervisor never does.
    pub(crate) fn read_end(&self) -> io::Result<Option<(Observation, SystemTime)>> {
        read_json(&self.0.join("end.json"), LARGEST_END)
    }

    /// When the job ended, if that was written down.
    pub(crate) fn ended(&self) -> io::Result<Option<SystemTime>> {
        files::modified(&self.0.join("end.json"))
    }

    /// Asks the supervisor to stop the job. The file is the request; the FIFO only wakes the supervisor up.
    pub(crate) fn request_cancel(&self) -> io::Result<()> {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.0.join("cancel"));
        if let Err(e) = created
            && e.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(e);
        }
        // Where nobody reads, the supervisor is gone, or looks for the file before it first waits.
        if let Ok(mut fifo) = OpenOptions::new().write(true).custom_flags(NO_LINK).open(self.wake()) {
            let _ = fifo.write(b"\n");
        }
        Ok(())
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        // Whatever a job put there counts as well, so that a link in its place cannot hide the request.
        fs::symlink_metadata(self.0.join("cancel")).is_ok()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn too_large_result_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let written = |structured| {
            let output = Output { structured: Some(structured), ..Output::default() };
            dir.write_end(&Observation::new(JobState::Succeeded(output))).unwrap();
            dir.read_end().unwrap().unwrap().0
        };
        assert!(matches!(written(json!([1, 2])).state, JobState::Succeeded(_)));
        for result in [json!("x".repeat(65 << 20)), json!(vec![0; MOST_VALUES])] {
            let end = written(result);
            assert!(matches!(end.state, JobState::Failed(_)));
            assert!(end.message.unwrap().ends_with("the limits are 67108864 and 500000"));
        }
    }
}
