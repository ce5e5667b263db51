//! A taskbridge with an additional adapter, `kind = "file_watch"`. Its jobs wait until a file exists: an
//! upload, the output of another program, a signal from an operator. README.md explains it step by step.
//!
//! The engine is a folder of symbolic links. Creating a link is atomic, fails if the name exists, and can
//! store text: `KEY` points to the awaited file, and `KEY.end` contains how the job ended. A waiting job
//! needs no process. The backend must not keep state in memory: a restarted server finds all jobs in the
//! folder.

use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::{
    Adapter, Backend, ConnectContext, Error, JobHandle, JobSpec, JobState, Observation, Output, Problem,
    Result, Started, async_trait,
};

fn main() -> ExitCode {
    taskbridge::main_with(taskbridge::adapters::all().with::<FileWatch>())
}

/// Adapter: a kind of engine that a config can name.
struct FileWatch;

/// Contents of `[backends.NAME]` except `kind`: nothing. This comment becomes part of the config's JSON
/// Schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

/// Target of a tool, which waits for the file in its parameter `path`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Target {
    /// Time to wait before the job fails, in seconds.
    within_seconds: u64,
}

#[async_trait]
impl Adapter for FileWatch {
    const KIND: &'static str = "file_watch";
    type Config = Config;
    type Target = Target;

    fn check(_: &Config, _: &Target, parameters: &[&str]) -> Vec<Problem> {
        let message = "the tool needs a parameter `path`: the file to wait for".to_owned();
        if parameters.contains(&"path") { vec![] } else { vec![Problem { field: String::new(), message }] }
    }

    async fn connect(_: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        std::fs::create_dir_all(&context.state_dir)
            .map_err(|e| Error::config(format!("{}: {e}", context.state_dir.display())))?;
        Ok(Arc::new(Folder(context.state_dir.clone())))
    }
}

/// Backend: one connected engine.
struct Folder(PathBuf);

#[async_trait]
impl Backend for Folder {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let target: Target = job.parse_target()?;
        let path = Path::new(job.arguments["path"].as_str().unwrap_or_default());
        if !path.is_absolute() {
            return Err(Error::rejected(format!("path = \"{}\": give an absolute path", path.display())));
        }
        // An existing name belongs to the job of an earlier start. This makes starts safe to repeat.
        create_link(path, &self.0.join(job.key.as_str()))?;
        // An accepted job must survive a power failure.
        std::fs::File::open(&self.0).and_then(|folder| folder.sync_all()).map_err(unavailable)?;
        Ok(Started { handle: handle(job, &target), first: None })
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        let target: Target = job.parse_target()?;
        let exists = self.0.join(job.key.as_str()).is_symlink();
        Ok(exists.then(|| Started { handle: handle(job, &target), first: None }))
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let (job, timeout) = self.job(handle);
        let Ok(target_file) = job.read_link() else { return Ok(Observation::new(JobState::Gone)) };
        let end = job.with_extension("end");
        if !end.is_symlink() {
            let since = job.symlink_metadata().and_then(|m| m.modified()).map_err(unavailable)?;
            let elapsed = since.elapsed().unwrap_or_default();
            if target_file.exists() {
                create_link(Path::new("succeeded"), &end)?;
            } else if elapsed >= timeout {
                create_link(Path::new("failed"), &end)?;
            } else {
                let message = format!("waiting for {}", target_file.display());
                let observation = Observation::new(JobState::Running).with_message(message);
                return Ok(observation.with_progress(elapsed.as_secs() as f64, Some(timeout.as_secs_f64())));
            }
        }
        // The first recorded end is final, whatever happens to the file later.
        let (path, seconds) = (target_file.display(), timeout.as_secs());
        Ok(match end.read_link().map_err(unavailable)?.to_str() {
            Some("succeeded") => {
                Observation::new(JobState::Succeeded(Output::text(format!("{path} exists"))))
            }
            Some("failed") => Observation::new(JobState::Failed(Output::default()))
                .with_message(format!("{path} does not exist after {seconds} seconds")),
            _ => Observation::new(JobState::Cancelled(Output::default())),
        })
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        let (job, _) = self.job(handle);
        if job.is_symlink() {
            create_link(Path::new("cancelled"), &job.with_extension("end"))
        } else {
            Ok(())
        }
    }
}

impl Folder {
    /// Returns the path of the job's link and its timeout.
    fn job(&self, handle: &JobHandle) -> (PathBuf, Duration) {
        let (key, seconds) = handle.as_str().rsplit_once('/').unwrap_or((handle.as_str(), "0"));
        (self.0.join(key), Duration::from_secs(seconds.parse().unwrap_or(0)))
    }
}

/// Returns the engine's name for a job. It contains everything that a poll needs.
fn handle(job: &JobSpec, target: &Target) -> JobHandle {
    JobHandle::new(format!("{}/{}", job.key, target.within_seconds))
}

/// Creates a link, unless the name exists.
fn create_link(target: &Path, link: &Path) -> Result<()> {
    match symlink(target, link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(unavailable(error)),
        _ => Ok(()),
    }
}

fn unavailable(error: io::Error) -> Error {
    Error::unavailable(format!("the job folder cannot be used: {error}"))
}

#[cfg(test)]
mod tests;
