//! Stand-ins for AWS: third-party servers, each in its own process, and calls of their APIs.
//! `tests/run --only standins` installs them. They must not know the server.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

/// A running stand-in. Its keeper process stops it when its stdin closes, which happens at the latest when
/// this process ends.
pub(crate) struct Standin {
    pub(crate) url: String,
    _keeper: Child,
}

impl Standin {
    /// Returns the LocalStack instance that tests share unless they need their own.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Standin> = OnceLock::new();
        tokio::task::block_in_place(|| SHARED.get_or_init(|| Self::start("localstack")))
    }

    /// Starts `localstack` or `ministack`.
    pub(crate) fn start(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let python = target.join("standins").join(name).join("bin/python");
        assert!(python.exists(), "{name} is not installed: run tests/run --only standins");
        let folder = tempfile::Builder::new().prefix("taskbridge-standin-").tempdir().unwrap().keep();
        let mut command = Command::new(python);
        command.arg("-B").arg(root.join("adapters/step-functions/tests/standins/serve.py"));
        command.arg(name).arg(&folder);
        // A separate process group does not receive signals that are sent to the tests.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let port = line.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("it did not start: {log}"));
        Self { url: format!("http://127.0.0.1:{port}"), _keeper: keeper }
    }

    /// Calls an AWS operation. The stand-in does not check signatures.
    pub(crate) async fn call(&self, operation: &str, body: Value) -> Value {
        let (service, scope) = match operation {
            "CreateQueue" => ("AmazonSQS", "sqs"),
            _ => ("AWSStepFunctions", "states"),
        };
        // Each test has its own runtime, and a connection does not outlive its runtime.
        let http = reqwest::Client::new();
        let post = http.post(&self.url).header("x-amz-target", format!("{service}.{operation}"));
        let post = post.header("content-type", "application/x-amz-json-1.0");
        let credential = format!(
            "AWS4-HMAC-SHA256 Credential=AKIATEST/20260101/us-east-1/{scope}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let response = post.header("authorization", credential).body(body.to_string()).send().await.unwrap();
        let text = response.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{operation}: {text}"))
    }

    /// Creates a state machine that asks a question in this state, and returns its ARN.
    pub(crate) async fn question_machine(&self, name: &str, mut state: Value) -> String {
        let retried_errors = json!(["States.HeartbeatTimeout", "States.Timeout"]);
        state["HeartbeatSeconds"] = json!(5);
        state["TimeoutSeconds"] = json!(600);
        state["Retry"] = json!([{"ErrorEquals": retried_errors, "IntervalSeconds": 1, "MaxAttempts": 99, "BackoffRate": 1}]);
        self.one_state(name, "Ships.", state).await
    }

    /// Creates a state machine with this one state and a comment, and returns its ARN.
    pub(crate) async fn one_state(&self, name: &str, comment: &str, mut state: Value) -> String {
        state["End"] = json!(true);
        self.machine(name, json!({"Comment": comment, "StartAt": "Only", "States": {"Only": state}})).await
    }

    /// Creates a state machine and returns its ARN.
    pub(crate) async fn machine(&self, name: &str, definition: Value) -> String {
        let (definition, role) = (definition.to_string(), "arn:aws:iam::000000000000:role/tests");
        let request = json!({"name": name, "definition": definition, "roleArn": role});
        self.call("CreateStateMachine", request).await["stateMachineArn"].as_str().unwrap().to_owned()
    }

    /// Returns the executions of a state machine, as `ListExecutions` does.
    pub(crate) async fn executions(&self, machine: &str) -> Vec<Value> {
        let listed = self.call("ListExecutions", json!({"stateMachineArn": machine})).await;
        listed["executions"].as_array().unwrap().clone()
    }
}
