//! [`JobDir`]: the folder of a job, with its file names, its claim, and the state of its supervisor. It must
//! not know about commands or backends. README.md describes every file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Error, JobState, Observation, Output, count_values, open_regular};

use crate::files::{self, Draft, MAX_JSON_VALUES, read_json};
use crate::identity::handle::Machine;

/// Names of the paths and values that a job receives: `artifacts` is `$TASKBRIDGE_ARTIFACTS`, and
/// `taskbridge.artifacts` in templates.
pub(crate) const PROVIDED_NAMES: [&str; 6] = ["artifacts", "content", "events", "job", "output", "questions"];

/// Maximum size of a small file that is read completely, in bytes.
const MAX_CLAIM_BYTES: u64 = 64 * 1024;

/// Maximum size of the final record, in bytes. Jobs can write to it, so the limit applies to writes and to
/// reads.
const MAX_END_BYTES: u64 = 64 * 1024 * 1024;

/// Flags for files that are opened for writing. A job may have replaced them with a link or a FIFO.
const NO_LINK: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits().cast_signed();

/// Folder of one job, named by its key.
#[derive(Clone, Debug)]
pub(crate) struct JobDir(PathBuf);

/// Record that a supervisor writes when it claims the job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// Process id of the supervisor, for people. No decision depends on it.
    pub(crate) supervisor: u32,
    /// Machine and boot on which it runs.
    pub(crate) machine: Machine,
}

/// State of a job's supervisor.
#[derive(Debug)]
pub(crate) enum SupervisorState {
    /// No supervisor has claimed the job, or its folder is gone. A supervisor may be starting.
    Unclaimed,
    /// Its supervisor is alive, and claimed the job at this time.
    Supervised { since: SystemTime },
    /// Its supervisor has ended: after it recorded the end of the job, or because it was killed.
    Ended,
}

impl JobDir {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the job's key.
    pub(crate) fn key(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the path or value that the job receives under one of [`PROVIDED_NAMES`].
    pub(crate) fn provided_path(&self, name: &str) -> PathBuf {
        match name {
            "job" => PathBuf::from(self.key()),
            "content" | "output" => self.0.join(format!("{name}.json")),
            _ => self.0.join(name),
        }
    }

    /// Returns the job's own working directory, which is the default.
    pub(crate) fn work_dir(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Returns the folder of the job's log.
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Returns the path of a file that came with the arguments.
    pub(crate) fn input_path(&self, number: usize, name: &str) -> PathBuf {
        self.0.join("in").join(number.to_string()).join(name)
    }

    /// Creates the folders. Creating them again is harmless.
    pub(crate) fn create(&self) -> io::Result<()> {
        for folder in [
            self.0.clone(),
            self.provided_path("artifacts"),
            self.provided_path("questions"),
            self.work_dir(),
            self.log_dir(),
        ] {
            match private_dir_builder().create(&folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        files::sync_parent(&self.0)
    }

    /// Claims the job permanently. Returns `None` if it is already claimed. The job counts as supervised
    /// while the file is open: the file is locked before it becomes visible, and only the kernel unlocks it
    /// when its owner dies.
    pub(crate) fn claim(&self, claim: &Claim) -> io::Result<Option<File>> {
        let draft = Draft::new(&self.0.join("claim.json"), &serde_json::to_vec(claim)?)?;
        flock(draft.file(), FlockOperation::NonBlockingLockExclusive)?;
        draft.publish_first()
    }

    pub(crate) fn supervisor_state(&self) -> io::Result<SupervisorState> {
        let file = match open_regular(&self.0.join("claim.json")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(SupervisorState::Unclaimed),
            // The job replaced the claim, so no process has its lock.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => return Ok(SupervisorState::Ended),
            Err(e) => return Err(e),
        };
        // A shared lock, so that two concurrent readers do not take each other for the supervisor.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(SupervisorState::Ended),
            Err(Errno::WOULDBLOCK) => Ok(SupervisorState::Supervised { since: file.metadata()?.modified()? }),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) fn read_claim(&self) -> io::Result<Option<Claim>> {
        read_json(&self.0.join("claim.json"), MAX_CLAIM_BYTES).map(|found| found.map(|(claim, _)| claim))
    }

    /// Writes the final observation atomically. A result over the limits becomes a failure.
    pub(crate) fn write_end(&self, end: &Observation) -> io::Result<()> {
        let mut json = serde_json::to_vec(end)?;
        let (bytes, values) = (json.len(), count_values(&json));
        if bytes as u64 > MAX_END_BYTES || values > MAX_JSON_VALUES {
            let message = format!(
                "the job's result has {bytes} bytes and {values} values as JSON, the limits are {MAX_END_BYTES} and {MAX_JSON_VALUES}"
            );
            let failed = JobState::Failed(Output::default());
            json = serde_json::to_vec(&Observation::new(failed).with_message(message))?;
        }
        Draft::new(&self.0.join("end.json"), &json)?.replace()
    }

    /// Returns the final observation, and when it was written. Returns `InvalidData` if the content is not
    /// valid, which only the job can cause.
    pub(crate) fn read_end(&self) -> io::Result<Option<(Observation, SystemTime)>> {
        read_json(&self.0.join("end.json"), MAX_END_BYTES)
    }

    /// Returns when the job ended, if that was recorded.
    pub(crate) fn ended_at(&self) -> io::Result<Option<SystemTime>> {
        files::modified(&self.0.join("end.json"))
    }

    /// Asks the supervisor to stop the job. The file is the request; the FIFO only wakes the supervisor.
    pub(crate) fn request_cancel(&self) -> io::Result<()> {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.0.join("cancel"));
        if let Err(e) = created
            && e.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(e);
        }
        // If no process reads the FIFO, the supervisor is dead, or checks for the file before its first wait.
        if let Ok(mut fifo) = OpenOptions::new().write(true).custom_flags(NO_LINK).open(self.wake_fifo()) {
            let _ = fifo.write(b"\n");
        }
        Ok(())
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        // Any kind of file counts, so that a link in its place cannot hide the request.
        fs::symlink_metadata(self.0.join("cancel")).is_ok()
    }

    /// Returns the path of the FIFO that wakes the supervisor.
    pub(crate) fn wake_fifo(&self) -> PathBuf {
        self.0.join("wake")
    }

    /// Returns the error for a folder that cannot be read or written now. It is a fault of the engine, never
    /// of the job.
    pub(crate) fn read_error(&self, error: io::Error) -> Error {
        Error::unavailable(format!("the folder of the job {} cannot be read: {error}", self.key()))
            .caused_by(error)
    }
}

/// Creates a folder and its parents with access for the owner only.
pub(crate) fn create_private_dir(folder: &Path) -> io::Result<()> {
    private_dir_builder().recursive(true).create(folder)
}

fn private_dir_builder() -> DirBuilder {
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
        let round_trip = |structured| {
            let output = Output { structured: Some(structured), ..Output::default() };
            dir.write_end(&Observation::new(JobState::Succeeded(output))).unwrap();
            dir.read_end().unwrap().unwrap().0
        };
        assert!(matches!(round_trip(json!([1, 2])).state, JobState::Succeeded(_)));
        for result in [json!("x".repeat(65 << 20)), json!(vec![0; MAX_JSON_VALUES])] {
            let end = round_trip(result);
            assert!(matches!(end.state, JobState::Failed(_)));
            assert!(end.message.unwrap().ends_with("the limits are 67108864 and 500000"));
        }
    }
}
