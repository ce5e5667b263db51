//! Repository at the test GitHub, with the adapter connected to it. It has functions that create runs, wait
//! for them, and inject faults. When it is dropped, it asserts that no exchange violated GitHub's
//! description.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_github_actions::GithubActions;
use taskbridge_sdk::suite::job;
pub(crate) use taskbridge_sdk::suite::polling::{POLL_TIMEOUT, poll_until, poll_until_ended};
use taskbridge_sdk::{
    Adapter as _, Backend, ConnectContext, Content, JobHandle, JobSpec, JobState, Observation, Output, Result,
};

use crate::github::Github;

/// Returns a workflow of one job with these steps, whose runs show the job's key.
pub(crate) fn workflow(steps: &str) -> String {
    format!(
        "name: Test\nrun-name: test ${{{{ inputs.taskbridge_job }}}}\non:\n  workflow_dispatch:\n    inputs:\n      \
         taskbridge_job: {{type: string}}\njobs:\n  work:\n    runs-on: ubuntu-latest\n    steps:\n{steps}"
    )
}

/// Returns a step that runs a command.
pub(crate) fn run(command: &str) -> String {
    format!("      - run: {}\n", json!(command))
}

pub(crate) struct World {
    port: u16,
    pub(crate) repo: String,
    pub(crate) token: String,
    pub(crate) backend: Arc<dyn Backend>,
    dir: tempfile::TempDir,
}

impl World {
    /// Creates a repository with these workflows.
    pub(crate) async fn with_workflows(workflows: &[(&str, String)]) -> Self {
        Self::with_settings(workflows, json!({}), json!({})).await
    }

    /// Creates a repository with these workflows and further settings of the repository and of the backend.
    pub(crate) async fn with_settings(
        workflows: &[(&str, String)],
        repository: Value,
        config: Value,
    ) -> Self {
        let port = tokio::task::block_in_place(|| Github::shared().port);
        let files: HashMap<String, &String> =
            workflows.iter().map(|(name, text)| (format!(".github/workflows/{name}"), text)).collect();
        let mut request = json!({"files": files});
        merge(&mut request, &repository);
        let response = control(port, "repos", &request);
        let (repo, token) =
            (response["repo"].as_str().unwrap().to_owned(), response["token"].as_str().unwrap().to_owned());
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(port, &repo);
        settings["token"] = token.as_str().into();
        merge(&mut settings, &config);
        let backend = connect(&dir, settings).await.unwrap();
        Self { port, repo, token, backend, dir }
    }

    /// Connects another backend for the same repository, with these members in its config instead of the
    /// token.
    pub(crate) async fn connect_another(&self, config: Value) -> Result<Arc<dyn Backend>> {
        let mut settings = settings(self.port, &self.repo);
        merge(&mut settings, &config);
        connect(&self.dir, settings).await
    }

    /// Sends a control request to the test GitHub, which GitHub itself does not have.
    pub(crate) fn control(&self, name: &str, body: Value) -> Value {
        let mut body = body;
        body["repo"] = self.repo.as_str().into();
        control(self.port, name, &body)
    }

    /// Makes the next request of this operation fail.
    pub(crate) fn inject_fault(&self, operation: &str, fault: Value) {
        let mut fault = fault;
        fault["operation"] = operation.into();
        self.control("faults", fault);
    }

    /// Returns the requests since the last call of this function: operations, and the statuses of their
    /// responses.
    pub(crate) fn take_requests(&self) -> Vec<(String, u64)> {
        let requests = self.control("asked", json!({}));
        let parse = |request: &Value| {
            (request["operation"].as_str().unwrap().to_owned(), request["status"].as_u64().unwrap())
        };
        requests.as_array().unwrap().iter().map(parse).collect()
    }

    /// Returns the requests since the last call of this function, and who sent them.
    pub(crate) fn take_requests_by_user(&self) -> Vec<(String, String)> {
        let requests = self.control("asked", json!({}));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        requests
            .as_array()
            .unwrap()
            .iter()
            .map(|request| (text(&request["operation"]), text(&request["login"])))
            .collect()
    }

    /// Returns the number of dispatched runs with this in their title.
    pub(crate) fn count(&self, title: &str) -> usize {
        let count = self.control("count", json!({"title": title}));
        usize::try_from(count.as_u64().unwrap()).unwrap()
    }

    pub(crate) fn handle(&self, workflow: &str, run: u64) -> JobHandle {
        JobHandle::new(format!("{}/{workflow}/{run}/1", self.repo))
    }

    /// Starts a run and waits for its end.
    pub(crate) async fn run(&self, workflow: &str, arguments: Value) -> (JobHandle, Observation) {
        let handle = self.backend.start(&start(workflow, arguments)).await.unwrap().handle;
        let observation = poll_until_ended(&*self.backend, &handle).await;
        (handle, observation)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let violations = control(self.port, "breaches", &json!({"repo": self.repo}));
            assert_eq!(violations, json!([]), "an exchange violates GitHub's API description");
        }
    }
}

/// Sends a control request to the test GitHub. It blocks, but is answered immediately.
fn control(port: u16, name: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("POST /_test/{name} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{name}: {response}");
    serde_json::from_str(body).unwrap_or(Value::Null)
}

pub(crate) fn merge(into: &mut Value, overrides: &Value) {
    into.as_object_mut().unwrap().extend(overrides.as_object().unwrap().clone());
}

/// Returns the config of a backend without its credential. Its timeouts are long, because a machine that runs
/// tests can be busy.
fn settings(port: u16, repo: &str) -> Value {
    json!({"repository": repo, "api": format!("http://127.0.0.1:{port}"), "call_timeout": "60s", "progress_calls_per_minute": 6000})
}

async fn connect(dir: &tempfile::TempDir, settings: Value) -> Result<Arc<dyn Backend>> {
    let context = ConnectContext {
        name: "github".to_owned(),
        config_dir: dir.path().to_owned(),
        state_dir: dir.path().join("state"),
        program: PathBuf::from("/nowhere"),
        call_timeout: Duration::from_secs(60),
    };
    GithubActions::connect(serde_json::from_value(settings).unwrap(), &context).await
}

/// Returns a job that starts this workflow.
pub(crate) fn start(workflow: &str, arguments: Value) -> JobSpec {
    job(json!({"workflow": workflow}), arguments)
}

/// Returns the output of a job that ended.
pub(crate) fn output(observation: &Observation) -> &Output {
    match &observation.state {
        JobState::Succeeded(output) | JobState::Failed(output) | JobState::Cancelled(output) => output,
        other => panic!("{other:?}: {:?}", observation.message),
    }
}

/// Returns the first block of an output, which is text.
pub(crate) fn text(output: &Output) -> &str {
    match &output.content[..] {
        [Content::Text { text }, ..] => text,
        other => panic!("{other:?}"),
    }
}
