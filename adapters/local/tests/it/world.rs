//! [`World`]: a temporary folder with a backend, and helpers that start jobs there and wait for results.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskbridge_local::Local;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::suite::polling::POLL_TIMEOUT;
pub(crate) use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::{
    Adapter, Backend, ConnectContext, Content, JobKey, JobSpec, JobState, Observation, Output,
};

/// The files of a server on disk, without the server.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Returns the folder of the config file.
    pub(crate) fn config_dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.dir.path().join("state/jobs")
    }

    pub(crate) fn job(&self, key: &JobKey) -> PathBuf {
        self.jobs().join(key.as_str())
    }

    pub(crate) async fn connect(&self, config: Value) -> Arc<dyn Backend> {
        self.connect_with(config, PathBuf::from(env!("CARGO_BIN_EXE_taskbridge-local-supervisor"))).await
    }

    pub(crate) async fn connect_with(&self, config: Value, program: PathBuf) -> Arc<dyn Backend> {
        let context = ConnectContext {
            name: "here".to_owned(),
            config_dir: self.dir.path().to_owned(),
            state_dir: self.dir.path().join("state"),
            program,
            call_timeout: Duration::from_secs(60),
        };
        Local::connect(serde_json::from_value(config).unwrap(), &context).await.unwrap()
    }

    /// Runs a shell script until it ends.
    pub(crate) async fn run(&self, script: &str) -> Observation {
        self.run_spec(&job(json!({"command": ["sh", "-c", script]}), json!({}))).await
    }

    pub(crate) async fn run_spec(&self, job: &JobSpec) -> Observation {
        let backend = self.connect(json!({})).await;
        let handle = backend.start(job).await.unwrap().handle;
        poll_until_ended(&*backend, &handle).await
    }

    pub(crate) fn supervisor_pid(&self, key: &JobKey) -> i32 {
        let claim: Value =
            serde_json::from_slice(&fs::read(self.job(key).join("claim.json")).unwrap()).unwrap();
        claim["supervisor"].as_i64().unwrap().try_into().unwrap()
    }
}

/// Stops running jobs and waits for them, so that no test leaves a process behind.
impl Drop for World {
    fn drop(&mut self) {
        for job in fs::read_dir(self.jobs()).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let start = Instant::now();
            while is_supervised(&job) && start.elapsed() < POLL_TIMEOUT {
                fs::write(job.join("cancel"), "").unwrap();
                let fifo = fs::OpenOptions::new().write(true).custom_flags(0o4000).open(job.join("wake"));
                // If no process reads the FIFO yet, or any more, the next iteration shows which.
                let _ = fifo.and_then(|mut fifo| fifo.write_all(b"\n"));
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Returns true if a job's supervisor is alive.
fn is_supervised(job: &Path) -> bool {
    let Ok(claim) = fs::read_to_string(job.join("claim.json")) else { return false };
    let claim: Value = serde_json::from_str(&claim).unwrap();
    let command = fs::read_to_string(format!("/proc/{}/cmdline", claim["supervisor"])).unwrap_or_default();
    command.contains(job.to_str().unwrap())
}

/// Returns a job that runs a shell script.
pub(crate) fn script(script: &str) -> JobSpec {
    job(json!({"command": ["sh", "-c", script]}), json!({}))
}

/// Waits until the file exists.
pub(crate) async fn wait_for_file(path: &Path) -> String {
    let start = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        assert!(start.elapsed() < POLL_TIMEOUT, "{} never appeared", path.display());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the path does not exist.
pub(crate) async fn wait_until_removed(path: &Path) {
    let start = Instant::now();
    while path.exists() {
        assert!(start.elapsed() < POLL_TIMEOUT, "{} is still there", path.display());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a process has ended. A zombie counts as ended.
pub(crate) async fn wait_until_exited(pid: &str) {
    let start = Instant::now();
    loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        assert!(start.elapsed() < POLL_TIMEOUT, "the process {pid} still runs: {stat}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the output of a job that succeeded.
pub(crate) fn output(observation: &Observation) -> &Output {
    match &observation.state {
        JobState::Succeeded(output) => output,
        other => panic!("{other:?}: {:?}", observation.message),
    }
}

/// Returns the text blocks of an output.
pub(crate) fn texts(output: &Output) -> Vec<&str> {
    let mut texts = Vec::new();
    for content in &output.content {
        if let Content::Text { text } = content {
            texts.push(text.as_str());
        }
    }
    texts
}

/// Returns the message and the output of a job that failed.
pub(crate) fn failure(observation: &Observation) -> (&str, &Output) {
    match &observation.state {
        JobState::Failed(output) => (observation.message.as_deref().unwrap(), output),
        other => panic!("{other:?}"),
    }
}
