//! Test environment: a cluster, the adapter connected to it with one of its drivers, scripts to submit, and
//! functions that wait for jobs.

use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
pub(crate) use taskbridge_sdk::suite::polling::{POLL_TIMEOUT, poll_until, poll_until_ended};
use taskbridge_sdk::{
    Adapter as _, Backend, ConnectContext, Content, JobHandle, JobSpec, JobState, Observation, Output, Result,
};
use taskbridge_slurm::Slurm;
use tokio::task::block_in_place;

use crate::cluster::{Cluster, Commands};

/// Reports what this machine does not let a test try, and what covers it instead. Writes to stderr directly,
/// since `cargo test` hides the output of passing tests. `tests/run` prints it again.
#[expect(clippy::explicit_write, reason = "`cargo test` captures the output of `eprintln!`")]
pub(crate) fn report_untested(description: &str, substitute: &str) {
    writeln!(std::io::stderr(), "tried otherwise: {description}: {substitute}").unwrap();
}

/// A cluster that all tests share, or one of a single test.
pub(crate) enum TestCluster {
    Shared(&'static Cluster),
    Own(Box<Cluster>),
}

impl Deref for TestCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match self {
            TestCluster::Shared(cluster) => cluster,
            TestCluster::Own(cluster) => cluster,
        }
    }
}

impl TestCluster {
    pub(crate) fn shared() -> Self {
        TestCluster::Shared(block_in_place(Cluster::shared))
    }

    pub(crate) fn without_accounting() -> Self {
        TestCluster::Shared(block_in_place(Cluster::without_accounting))
    }

    pub(crate) fn own(options: &[&str]) -> Self {
        TestCluster::Own(Box::new(block_in_place(|| Cluster::start(options))))
    }
}

pub(crate) struct World {
    pub(crate) cluster: TestCluster,
    /// Slurm's commands, as only this backend calls them.
    pub(crate) commands: Commands,
    pub(crate) backend: Arc<dyn Backend>,
    dir: tempfile::TempDir,
}

impl World {
    /// Creates a world on the shared cluster with accounting.
    pub(crate) async fn new() -> Self {
        Self::on(TestCluster::shared(), json!({})).await
    }

    /// Creates a world on this cluster, with additional settings in the backend's config.
    pub(crate) async fn on(cluster: TestCluster, extra: Value) -> Self {
        let commands = cluster.commands();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tools")).unwrap();
        let backend = connect(dir.path(), config(&commands, extra)).await.unwrap();
        Self { cluster, commands, backend, dir }
    }

    /// Connects another backend to the same jobs, as another process would.
    pub(crate) async fn connect_another(&self, extra: Value) -> Result<Arc<dyn Backend>> {
        connect(self.dir.path(), config(&self.commands, extra)).await
    }

    /// Connects another backend to the same jobs, through slurmrestd.
    pub(crate) async fn connect_by_rest(&self, extra: Value) -> Arc<dyn Backend> {
        let rest = self.cluster.rest();
        let mut config =
            json!({"rest": {"url": rest.address, "user": self.cluster.user, "token": rest.token}});
        merge(&mut config, &extra);
        self.connect_another(config).await.unwrap()
    }

    /// Returns script lines that wait until a test has created this file in its folder.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        format!("until [ -e '{}' ]; do sleep 0.1; done", self.folder().join(name).display())
    }

    /// Returns the test's own folder, the folder of its config.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a batch script of these lines, and returns its path.
    pub(crate) fn script(&self, name: &str, lines: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Returns a job that runs a script of these lines.
    pub(crate) fn job(&self, name: &str, lines: &str) -> JobSpec {
        self.job_with(name, lines, json!({}), json!({}))
    }

    /// Returns such a job with arguments and additional settings in its target.
    pub(crate) fn job_with(&self, name: &str, lines: &str, arguments: Value, extra: Value) -> JobSpec {
        let mut target = json!({"script": self.script(name, lines)});
        merge(&mut target, &extra);
        job(target, arguments)
    }

    /// Submits a job and waits for its end.
    pub(crate) async fn run(&self, job: &JobSpec) -> (JobHandle, Observation) {
        let handle = self.backend.start(job).await.unwrap().handle;
        let observation = poll_until_ended(&*self.backend, &handle).await;
        (handle, observation)
    }

    /// Returns the controller's rows of the jobs of this key, one line each: number, state and reason.
    pub(crate) fn queue(&self, job: &JobSpec) -> Vec<String> {
        let text =
            self.cluster.run("squeue", &["-h", "-r", "-t", "all", "-n", job.key.as_str(), "-o", "%i %T %r"]);
        text.lines().map(str::to_owned).collect()
    }
}

/// Returns the number of a job, from its handle.
pub(crate) fn job_number(handle: &JobHandle) -> String {
    handle.as_str().split('/').nth(1).unwrap().to_owned()
}

pub(crate) fn merge(into: &mut Value, extra: &Value) {
    into.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
}

/// Returns the config of a backend. It caches no queue, and has long timeouts, since a machine that runs
/// tests can be busy.
fn config(commands: &Commands, extra: Value) -> Value {
    let mut config = json!({
        "jobs_dir": "jobs", "commands_dir": commands.bin(), "command_timeout": "30s", "look_every": "0s", "position_every": "0s",
    });
    merge(&mut config, &extra);
    config
}

async fn connect(dir: &Path, settings: Value) -> Result<Arc<dyn Backend>> {
    let context = ConnectContext {
        name: "lab".to_owned(),
        config_dir: dir.to_owned(),
        state_dir: dir.join("state"),
        program: PathBuf::from("/nowhere"),
        call_timeout: Duration::from_secs(120),
    };
    Slurm::connect(serde_json::from_value(settings).unwrap(), &context).await
}

pub(crate) async fn wait_until_running(backend: &dyn Backend, handle: &JobHandle) -> Observation {
    poll_until(backend, handle, "that it runs", |observation| {
        (observation.state == JobState::Running).then(|| observation.clone())
    })
    .await
}

/// Waits until a script has created this file. If the job ends before, fails the test with what ended it.
pub(crate) async fn wait_for_script(backend: &dyn Backend, handle: &JobHandle, file: &Path) {
    poll_until(backend, handle, "the script's file", |_| file.exists().then_some(())).await;
}

/// Waits until a condition that no poll reports is true.
pub(crate) async fn eventually(description: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < POLL_TIMEOUT, "condition not reached in time: {description}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for a future. Fails the test after [`POLL_TIMEOUT`].
pub(crate) async fn in_time<T>(description: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(POLL_TIMEOUT, future).await;
    result.unwrap_or_else(|_| panic!("condition not reached in time: {description}"))
}

/// Parses for how many seconds something "has not answered".
#[track_caller]
pub(crate) fn unresponsive_seconds(message: &str) -> u64 {
    let (_, rest) = message.split_once("has not answered for ").unwrap_or_else(|| panic!("{message}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Returns the output of an ended job.
pub(crate) fn output(observation: &Observation) -> &Output {
    match &observation.state {
        JobState::Succeeded(output) | JobState::Failed(output) | JobState::Cancelled(output) => output,
        other => panic!("{other:?}: {:?}", observation.message),
    }
}

/// Returns all text of an ended job: its message and its content.
pub(crate) fn all_text(observation: &Observation) -> String {
    let texts = output(observation).content.iter().map(|content| match content {
        Content::Text { text } => text.as_str(),
        other => panic!("{other:?}"),
    });
    let mut all = observation.message.clone().unwrap_or_default();
    for text in texts {
        all.push('\n');
        all.push_str(text);
    }
    all
}

#[track_caller]
pub(crate) fn assert_contains(observation: &Observation, expected: &[&str]) {
    let text = all_text(observation);
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}
