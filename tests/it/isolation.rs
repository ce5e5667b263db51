//! Tests of adapters that panic, block their thread or hang. The server stays up, other tasks continue, and
//! a job that repeatedly crashes its adapter ends. The server runs in this process, so that it can use a
//! test adapter.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use taskbridge::app::{self, App};
use taskbridge::{adapters, config};
use taskbridge_sdk::{
    Abilities, Adapter, Backend, ConnectContext, GroupKey, JobHandle, JobSpec, JobState, Observation, Output,
    Problem, Result, Started, Wakeups,
};
use tokio_util::sync::CancellationToken;

use crate::support::{BASICS, Client};

const CONFIG: &str = r#"
[reconciler]
lease = "6s"
quickest_look = "50ms"
slowest_look = "200ms"

[backends.faulty]
kind = "faulty"

[backends.sim]
kind = "sim"

[tools.other]
backend = "sim"
target = { delay_ms = 100 }
"#;

/// The faults of the adapter; each tool is named after its fault. A `nothing` job ends at its third poll.
const TOOLS: [&str; 7] =
    ["nothing", "panic_start", "panic_look", "panic_group", "panic_cancel", "block_look", "hang_look"];

struct FaultyAdapter;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoSettings {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Target {
    fault: String,
}

/// The number of polls of each job.
#[derive(Default)]
struct FaultyBackend(Mutex<std::collections::BTreeMap<JobHandle, u32>>);

#[async_trait]
impl Adapter for FaultyAdapter {
    const KIND: &'static str = "faulty";
    type Config = NoSettings;
    type Target = Target;

    fn check(_: &NoSettings, _: &Target, _: &[&str]) -> Vec<Problem> {
        Vec::new()
    }

    async fn connect(_: NoSettings, _: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(FaultyBackend::default()))
    }
}

#[async_trait]
impl Backend for FaultyBackend {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let Target { fault } = Target::deserialize(&job.target).unwrap();
        assert_ne!(fault, "panic_start");
        Ok(Started { handle: JobHandle::new(format!("{fault} {}", job.key)), first: None })
    }

    async fn find(&self, _: &JobSpec) -> Result<Option<Started>> {
        Ok(None)
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        match handle.as_str().split(' ').next().unwrap() {
            "panic_look" => panic!("the engine's reply has no field `status`"),
            "block_look" => std::thread::sleep(Duration::from_secs(60)),
            "hang_look" => std::future::pending().await,
            "panic_cancel" => return Ok(Observation::new(JobState::Running)),
            _ => {}
        }
        let mut polls = self.0.lock();
        let polls = polls.entry(handle.clone()).or_default();
        *polls += 1;
        Ok(Observation::new(if *polls < 3 {
            JobState::Running
        } else {
            JobState::Succeeded(Output::text("done"))
        }))
    }

    async fn cancel(&self, _: &JobHandle) -> Result<()> {
        panic!("cancel")
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        assert!(!handle.as_str().starts_with("panic_group"));
        GroupKey::new("")
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { wakeups: Some(self), ..Abilities::default() }
    }
}

#[async_trait]
impl Wakeups for FaultyBackend {
    async fn next(&self) -> JobHandle {
        panic!("wakeups")
    }
}

/// All kinds of faults at once, through the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "a test serves beside its own requests")]
async fn faulty_adapter_harms_only_its_jobs() {
    let registry = adapters::all().with::<FaultyAdapter>();
    let dir = tempfile::tempdir().unwrap();
    let tools =
        TOOLS.map(|name| format!("[tools.{name}]\nbackend = \"faulty\"\ntarget.fault = \"{name}\"\n"));
    let text = format!("{BASICS}{CONFIG}{}", tools.concat());
    let parsed =
        config::parse(&dir.path().join("taskbridge.toml"), dir.path(), &text, &registry, Some(dir.path()));
    let parsed = parsed.unwrap();
    let listener = app::listen(&parsed).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = App::build(parsed, &registry, PathBuf::new(), false).await.unwrap();
    let stop = CancellationToken::new();
    let server_task = tokio::spawn(app.serve_http(listener, stop.clone()));

    let client = Client::open(&url).await.unwrap();
    let mut faulty = Vec::new();
    for tool in &TOOLS[1..] {
        faulty.push(client.start(tool, json!({})).await.unwrap());
    }
    let [_, panic_look, panic_group, panic_cancel, ..] = &faulty[..] else { unreachable!() };
    client.cancel(panic_cancel).await.unwrap();
    // Longer than any lease.
    for round in 0..8 {
        for tool in ["other", "nothing"] {
            let task = client.start(tool, json!({})).await.unwrap();
            let result = tokio::time::timeout(Duration::from_secs(120), client.result(&task)).await;
            let Ok(result) = result else {
                panic!("round {round}: {tool} is held up: {:?}", client.get(&task).await);
            };
            assert!(result.is_ok(), "round {round}: {tool}: {result:?}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(client.result(panic_group).await.is_ok());
    let broken = tokio::time::timeout(Duration::from_secs(90), client.result(panic_look)).await.unwrap();
    let broken = format!("{broken:?}");
    assert!(broken.contains("adapter of backend `faulty` crashed 5 times in a row"), "{broken}");
    for task in &faulty[4..] {
        assert_eq!(client.get(task).await.unwrap()["status"], "working");
    }
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), server_task).await.unwrap().unwrap().unwrap();
}
