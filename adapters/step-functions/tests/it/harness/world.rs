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
pub(crate) use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::{
    Adapter as _, Backend, ConnectContext, Content, JobSpec, JobState, Observation, Output, Result,
};
use taskbridge_step_functions::StepFunctions;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::harness::proxy::Proxy;
use crate::harness::standin::{Kind, Standin};

pub(crate) const REGION: &str = "us-east-1";
/// Credentials of the tests. The emulators accept any.
pub(crate) const KEY: &str = "AKIATESTTESTTESTTEST";
pub(crate) const SECRET: &str = "s3cr3t/of+the/tests";

/// How long the server would wait for a call.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(120);

/// The emulators serve one request at a time, and queued requests have timeouts: so few tests run
/// concurrently.
static CONCURRENCY: Semaphore = Semaphore::const_new(2);

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
    listeners: JoinSet<()>,
    _permit: SemaphorePermit<'static>,
}

impl World {
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with(kind, json!({})).await
    }

    /// Creates a world with these members in its config.
    pub(crate) async fn with(kind: Kind, extra_config: Value) -> Self {
        let permit = CONCURRENCY.acquire().await.unwrap();
        let standin = tokio::task::block_in_place(|| Standin::shared(kind));
        assert_eq!(standin.kind, kind);
        let proxy = Proxy::start(standin.port).await;
        let dir = tempfile::tempdir().unwrap();
        let backend = connect(&dir, config(proxy.port, extra_config)).await.unwrap();
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
        let mut listeners = JoinSet::new();
        listen(&mut listeners, backend.clone());
        let sqs = aws_sdk_sqs::Client::from_conf(sqs.build());
        let logs = aws_sdk_cloudwatchlogs::Client::from_conf(logs.build());
        Self { proxy, backend, aws: Client::from_conf(aws), sqs, logs, dir, listeners, _permit: permit }
    }

    /// Replaces this server, which stops immediately and loses its memory.
    pub(crate) async fn kill_and_restart(&mut self, extra_config: Value) {
        self.listeners.shutdown().await;
        self.backend = self.connect_another(extra_config).await;
        listen(&mut self.listeners, self.backend.clone());
    }

    /// Connects another backend for the same account, such as that of another process, with these members in
    /// its config.
    pub(crate) async fn connect_another(&self, extra_config: Value) -> Arc<dyn Backend> {
        connect(&self.dir, config(self.proxy.port, extra_config)).await.unwrap()
    }

    /// Connects another backend, whose config may be invalid.
    pub(crate) async fn try_connect_another(&self, extra_config: Value) -> Result<Arc<dyn Backend>> {
        connect(&self.dir, config(self.proxy.port, extra_config)).await
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
        static MACHINE_COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("machine-{}", MACHINE_COUNT.fetch_add(1, Ordering::Relaxed));
        self.create_named(&name, definition, kind, &[]).await
    }

    /// Creates a state machine with a name and tags, and returns its ARN.
    pub(crate) async fn create_named(
        &self,
        name: &str,
        definition: Value,
        kind: StateMachineType,
        tags: &[(&str, &str)],
    ) -> String {
        let mut request =
            self.aws.create_state_machine().name(name).definition(definition.to_string()).r#type(kind);
        for (key, value) in tags {
            request = request.tags(Tag::builder().key(*key).value(*value).build());
        }
        let machine = request.role_arn("arn:aws:iam::000000000000:role/tests").send().await.unwrap();
        machine.state_machine_arn
    }

    /// Starts an execution of a new machine and waits for its end.
    pub(crate) async fn run(&self, states: Value, arguments: Value) -> Observation {
        let machine = self.machine(states).await;
        let started = self.backend.start(&start(&machine, arguments)).await.unwrap();
        poll_until_ended(&*self.backend, &started.handle).await
    }
}

/// Waits for hints forever.
fn listen(tasks: &mut JoinSet<()>, backend: Arc<dyn Backend>) {
    tasks.spawn(async move {
        while let Some(wakeups) = backend.abilities().wakeups {
            wakeups.next().await;
        }
    });
}

/// Returns the config of a backend behind a proxy. Its timeouts are long, because a machine that runs tests
/// can be busy.
fn config(proxy: u16, extra_config: Value) -> Value {
    let mut config = json!({
        "region": REGION, "profile": "tester", "config_file": "aws", "endpoint": format!("http://127.0.0.1:{proxy}"),
        "logs_endpoint": format!("http://127.0.0.1:{proxy}"), "call_timeout": "60s",
    });
    config.as_object_mut().unwrap().extend(extra_config.as_object().unwrap().clone());
    config
}

/// Connects in a folder that contains the credentials file.
pub(crate) async fn connect(dir: &tempfile::TempDir, config: Value) -> Result<Arc<dyn Backend>> {
    let credentials =
        format!("[profile tester]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
    fs::write(dir.path().join("aws"), credentials).unwrap();
    let context = ConnectContext {
        name: "aws".to_owned(),
        config_dir: dir.path().to_owned(),
        state_dir: dir.path().join("state"),
        program: PathBuf::from("/nowhere"),
        call_timeout: CALL_LIMIT,
    };
    StepFunctions::connect(serde_json::from_value(config).unwrap(), &context).await
}

/// Returns a job that starts this machine with its arguments.
pub(crate) fn start(machine: &str, arguments: Value) -> JobSpec {
    job(json!({"state_machine": machine}), arguments)
}

/// Returns the output of a job that succeeded.
pub(crate) fn output(observation: &Observation) -> &Output {
    match &observation.state {
        JobState::Succeeded(output) => output,
        other => panic!("{other:?}: {:?}", observation.message),
    }
}

/// Returns the output of a job that failed.
pub(crate) fn failure(observation: &Observation) -> &Output {
    match &observation.state {
        JobState::Failed(output) => output,
        other => panic!("{other:?}: {:?}", observation.message),
    }
}

/// Returns the only block of an output, which is text.
pub(crate) fn text(output: &Output) -> &str {
    match &output.content[..] {
        [Content::Text { text }] => text,
        other => panic!("{other:?}"),
    }
}
