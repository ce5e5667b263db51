//! Account at an emulator behind a proxy, and the adapter connected to it. It has functions that create state
//! machines and wait for executions.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sfn::types::{StateMachineType, Tag};
use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
pub(crate) use taskbridge_sdk::suite::looks::{ended, until};
use taskbridge_sdk::{
    Adapter as _, Backend, Connect, Content, JobSpec, JobState, Observation, Output, Result,
};
use taskbridge_step_functions::StepFunctions;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::proxy::Proxy;
use crate::standin::{Kind, Standin};

pub(crate) const REGION: &str = "us-east-1";
/// Credentials of the tests. The emulators accept any.
pub(crate) const KEY: &str = "AKIATESTTESTTESTTEST";
pub(crate) const SECRET: &str = "s3cr3t/of+the/tests";

/// How long the server would wait for a call.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The emulators serve one request at a time, and queued requests have timeouts: so few tests run
/// concurrently.
static TURNS: Semaphore = Semaphore::const_new(2);

pub(crate) struct World {
    pub(crate) proxy: Proxy,
    pub(crate) backend: Arc<dyn Backend>,
    /// Client that bypasses the adapter and the proxy.
    pub(crate) aws: Client,
    /// Client of its queues, without the proxy.
    pub(crate) sqs: aws_sdk_sqs::Client,
    /// Client of its logs, without the proxy.
    pub(crate) logs: aws_sdk_cloudwatchlogs::Client,
    /// Folder of the config file.
    dir: tempfile::TempDir,
    /// Waits for hints of the backend, as a server does.
    listening: JoinSet<()>,
    _turn: SemaphorePermit<'static>,
}

impl World {
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with(kind, json!({})).await
    }

    /// Creates a world with these members in its config.
    pub(crate) async fn with(kind: Kind, more: Value) -> Self {
        let turn = TURNS.acquire().await.unwrap();
        let standin = tokio::task::block_in_place(|| Standin::shared(kind));
        assert_eq!(standin.kind, kind);
        let proxy = Proxy::before(standin.port).await;
        let dir = tempfile::tempdir().unwrap();
        let backend = connect(&dir, config(proxy.port, more)).await.unwrap();
        let credentials = Credentials::new(KEY, SECRET, None, None, "tests");
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(credentials.clone())
            .endpoint_url(format!("http://127.0.0.1:{}", standin.port));
        let logs = aws_sdk_cloudwatchlogs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(credentials.clone())
            .endpoint_url(format!("http://127.0.0.1:{}", standin.port));
        let aws = aws_sdk_sfn::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(credentials)
            .endpoint_url(format!("http://127.0.0.1:{}", standin.port))
            .build();
        let mut listening = JoinSet::new();
        listen(&mut listening, backend.clone());
        let sqs = aws_sdk_sqs::Client::from_conf(sqs.build());
        let logs = aws_sdk_cloudwatchlogs::Client::from_conf(logs.build());
        Self { proxy, backend, aws: Client::from_conf(aws), sqs, logs, dir, listening, _turn: turn }
    }

    /// Replaces this server, which stops immediately and loses its memory.
    pub(crate) async fn killed(&mut self, more: Value) {
        self.listening.shutdown().await;
        self.backend = self.another(more).await;
        listen(&mut self.listening, self.backend.clone());
    }

    /// Connects another backend for the same account, such as that of another process, with these members in
    /// its config.
    pub(crate) async fn another(&self, more: Value) -> Arc<dyn Backend> {
        connect(&self.dir, config(self.proxy.port, more)).await.unwrap()
    }

    /// Connects another backend, whose config may be invalid.
    pub(crate) async fn try_another(&self, more: Value) -> Result<Arc<dyn Backend>> {
        connect(&self.dir, config(self.proxy.port, more)).await
    }

    /// Creates a state machine of these states, starting with `First`, and returns its ARN.
    pub(crate) async fn machine(&self, states: Value) -> String {
        self.define(json!({"StartAt": "First", "States": states}), StateMachineType::Standard).await
    }

    /// Creates an Express state machine that ends in time.
    pub(crate) async fn express(&self, states: Value) -> String {
        let definition = json!({"TimeoutSeconds": 60, "StartAt": "First", "States": states});
        self.define(definition, StateMachineType::Express).await
    }

    /// Creates a state machine with this definition, and returns its ARN.
    pub(crate) async fn define(&self, definition: Value, kind: StateMachineType) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("machine-{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.named(&name, definition, kind, &[]).await
    }

    /// Creates a state machine with a name and tags, and returns its ARN.
    pub(crate) async fn named(
        &self,
        name: &str,
        definition: Value,
        kind: StateMachineType,
        tags: &[(&str, &str)],
    ) -> String {
        let mut made =
            self.aws.create_state_machine().name(name).definition(definition.to_string()).r#type(kind);
        for (key, value) in tags {
            made = made.tags(Tag::builder().key(*key).value(*value).build());
        }
        let made = made.role_arn("arn:aws:iam::000000000000:role/tests").send().await.unwrap();
        made.state_machine_arn
    }

    /// Starts an execution of a new machine and waits for its end.
    pub(crate) async fn run(&self, states: Value, arguments: Value) -> Observation {
        let machine = self.machine(states).await;
        let started = self.backend.start(&start(&machine, arguments)).await.unwrap();
        ended(&*self.backend, &started.handle).await
    }
}

/// Waits for hints forever.
fn listen(within: &mut JoinSet<()>, backend: Arc<dyn Backend>) {
    within.spawn(async move {
        while let Some(wakeups) = backend.wakeups() {
            wakeups.next().await;
        }
    });
}

/// Returns the config of a backend behind a proxy. Its timeouts are long, because a machine that runs tests
/// can be busy.
fn config(proxy: u16, more: Value) -> Value {
    let mut config = json!({
        "region": REGION, "profile": "tester", "config_file": "aws", "endpoint": format!("http://127.0.0.1:{proxy}"),
        "logs_endpoint": format!("http://127.0.0.1:{proxy}"), "call_timeout": "60s",
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

/// Connects in a folder that contains the credentials file.
pub(crate) async fn connect(dir: &tempfile::TempDir, config: Value) -> Result<Arc<dyn Backend>> {
    let credentials =
        format!("[profile tester]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
    fs::write(dir.path().join("aws"), credentials).unwrap();
    let context = Connect {
        name: "aws".to_owned(),
        config_dir: dir.path().to_owned(),
        state_dir: dir.path().join("state"),
        program: PathBuf::from("/nowhere"),
        call_limit: LIMIT,
    };
    StepFunctions::connect(serde_json::from_value(config).unwrap(), &context).await
}

/// Returns a job that starts this machine with its arguments.
pub(crate) fn start(machine: &str, arguments: Value) -> JobSpec {
    job(json!({"state_machine": machine}), arguments)
}

/// Returns the output of a job that succeeded.
pub(crate) fn output(seen: &Observation) -> &Output {
    match &seen.state {
        JobState::Succeeded(output) => output,
        other => panic!("{other:?}: {:?}", seen.message),
    }
}

/// Returns the output of a job that failed.
pub(crate) fn failure(seen: &Observation) -> &Output {
    match &seen.state {
        JobState::Failed(output) => output,
        other => panic!("{other:?}: {:?}", seen.message),
    }
}

/// Returns the only block of an output, which is text.
pub(crate) fn text(output: &Output) -> &str {
    match &output.content[..] {
        [Content::Text { text }] => text,
        other => panic!("{other:?}"),
    }
}
