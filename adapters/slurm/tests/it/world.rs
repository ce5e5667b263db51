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
pub(crate) use taskbridge_sdk::suite::looks::{PATIENCE, ended, until};
use taskbridge_sdk::{
    Adapter as _, Backend, Connect, Content, JobHandle, JobSpec, JobState, Observation, Output, Result,
};
use taskbridge_slurm::Slurm;
use tokio::task::block_in_place;

use crate::cluster::{Cluster, Commands};

/// Reports what this machine does not let a test try, and what covers it instead. Writes to stderr directly,
/// since `cargo test` hides the output of passing tests. `tests/run` prints it again.
#[expect(clippy::explicit_write, reason = "what `eprintln!` writes is held back")]
pub(crate) fn tried_otherwise(what: &str, otherwise: &str) {
    writeln!(std::io::stderr(), "tried otherwise: {what}: {otherwise}").unwrap();
}

/// A cluster that all tests share, or one of a single test.
pub(crate) enum Held {
    Shared(&'static Cluster),
    Own(Box<Cluster>),
}

impl Deref for Held {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match self {
            Held::Shared(cluster) => cluster,
            Held::Own(cluster) => cluster,
        }
    }
}

impl Held {
    pub(crate) fn shared() -> Self {
        Held::Shared(block_in_place(Cluster::shared))
    }

    pub(crate) fn without_accounting() -> Self {
        Held::Shared(block_in_place(Cluster::without_accounting))
    }

    pub(crate) fn own(options: &[&str]) -> Self {
        Held::Own(Box::new(block_in_place(|| Cluster::start(options))))
    }
}

pub(crate) struct World {
    pub(crate) cluster: Held,
    /// Slurm's commands, as only this backend calls them.
    pub(crate) commands: Commands,
    pub(crate) backend: Arc<dyn Backend>,
    dir: tempfile::TempDir,
}

impl World {
    /// Creates a world on the shared cluster with accounting.
    pub(crate) async fn new() -> Self {
        Self::on(Held::shared(), json!({})).await
    }

    /// Creates a world on this cluster, with additional settings in the backend's config.
    pub(crate) async fn on(cluster: Held, more: Value) -> Self {
        let commands = cluster.commands();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tools")).unwrap();
        let backend = connect(dir.path(), config(&commands, more)).await.unwrap();
        Self { cluster, commands, backend, dir }
    }

    /// Connects another backend to the same jobs, as another process would.
    pub(crate) async fn another(&self, more: Value) -> Result<Arc<dyn Backend>> {
        connect(self.dir.path(), config(&self.commands, more)).await
    }

    /// Connects another backend to the same jobs, through slurmrestd.
    pub(crate) async fn by_rest(&self, more: Value) -> Arc<dyn Backend> {
        let rest = self.cluster.rest();
        let mut config =
            json!({"rest": {"url": rest.address, "user": self.cluster.user, "token": rest.token}});
        merge(&mut config, &more);
        self.another(config).await.unwrap()
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
    pub(crate) fn job_with(&self, name: &str, lines: &str, arguments: Value, more: Value) -> JobSpec {
        let mut target = json!({"script": self.script(name, lines)});
        merge(&mut target, &more);
        job(target, arguments)
    }

    /// Submits a job and waits for its end.
    pub(crate) async fn run(&self, job: &JobSpec) -> (JobHandle, Observation) {
        let handle = self.backend.start(job).await.unwrap().handle;
        let seen = ended(&*self.backend, &handle).await;
        (handle, seen)
    }

    /// Returns the controller's rows of the jobs of this key, one line each: number, state and reason.
    pub(crate) fn queue(&self, job: &JobSpec) -> Vec<String> {
        let text =
            self.cluster.run("squeue", &["-h", "-r", "-t", "all", "-n", job.key.as_str(), "-o", "%i %T %r"]);
        text.lines().map(str::to_owned).collect()
    }
}

/// Returns the number of a job, from its handle.
pub(crate) fn number(handle: &JobHandle) -> String {
    handle.as_str().split('/').nth(1).unwrap().to_owned()
}

pub(crate) fn merge(into: &mut Value, more: &Value) {
    into.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
}

/// Returns the config of a backend. It caches no queue, and has long timeouts, since a machine that runs
/// tests can be busy.
fn config(commands: &Commands, more: Value) -> Value {
    let mut config = json!({
        "jobs_dir": "jobs", "commands_dir": commands.bin(), "command_timeout": "30s", "look_every": "0s", "position_every": "0s",
    });
    merge(&mut config, &more);
    config
}

async fn connect(dir: &Path, settings: Value) -> Result<Arc<dyn Backend>> {
    let context = Connect {
        name: "lab".to_owned(),
        config_dir: dir.to_owned(),
        state_dir: dir.join("state"),
        program: PathBuf::from("/nowhere"),
        call_limit: Duration::from_secs(120),
    };
    Slurm::connect(serde_json::from_value(settings).unwrap(), &context).await
}

pub(crate) async fn runs(backend: &dyn Backend, handle: &JobHandle) -> Observation {
    until(backend, handle, "that it runs", |seen| (seen.state == JobState::Running).then(|| seen.clone()))
        .await
}

/// Waits until a condition that no poll reports is true.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never happened that {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for a future. Fails the test after [`PATIENCE`].
pub(crate) async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(PATIENCE, comes).await;
    came.unwrap_or_else(|_| panic!("it never happened that {what}"))
}

/// Parses for how many seconds something "has not answered".
#[track_caller]
pub(crate) fn silent_for(words: &str) -> u64 {
    let (_, after) = words.split_once("has not answered for ").unwrap_or_else(|| panic!("{words}"));
    after.split(' ').next().unwrap().parse().unwrap()
}

/// Returns the output of an ended job.
pub(crate) fn output(seen: &Observation) -> &Output {
    match &seen.state {
        JobState::Succeeded(output) | JobState::Failed(output) | JobState::Cancelled(output) => output,
        other => panic!("{other:?}: {:?}", seen.message),
    }
}

/// Returns all text of an ended job: its message and its content.
pub(crate) fn says(seen: &Observation) -> String {
    let texts = output(seen).content.iter().map(|content| match content {
        Content::Text { text } => text.as_str(),
        other => panic!("{other:?}"),
    });
    let mut all = seen.message.clone().unwrap_or_default();
    for text in texts {
        all.push('\n');
        all.push_str(text);
    }
    all
}

#[track_caller]
pub(crate) fn assert_says(seen: &Observation, wanted: &[&str]) {
    let said = says(seen);
    for words in wanted {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}
