//! Tests the real server with the test GitHub, which really runs workflows. Workflows are offered as tools.
//! Webhooks make updates faster and have no other effect, even if they are lost or wrong. `tests/run --only
//! github` installs the test GitHub.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{BASICS, Client, Fault, Server, TestDir};

/// Timeout of a step: enough for a busy machine, and far shorter than the regular poll interval.
const TIMEOUT: Duration = Duration::from_secs(180);
const SECRET: &str = "only GitHub knows";
const WORKFLOW: &str = "name: Work\nrun-name: work ${{ inputs.taskbridge_job }}\non:\n  workflow_dispatch:\n    inputs:\n      \
    word: {type: string, required: true}\n      taskbridge_job: {type: string}\njobs:\n  work:\n    runs-on: ubuntu-latest\n    \
    steps:\n      - run: sleep 2; echo working on ${{ inputs.word }}\n";

/// A running test GitHub with one repository. The process stops when the input that this value owns is
/// closed.
pub(crate) struct Github {
    http: reqwest::Client,
    pub(crate) url: String,
    pub(crate) repo: String,
    pub(crate) token: String,
    _process: Child,
}

impl Github {
    pub(crate) async fn start() -> Self {
        Self::with(json!({"files": {".github/workflows/work.yml": WORKFLOW}})).await
    }

    /// Starts the test GitHub with another repository.
    pub(crate) async fn with(repository: Value) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let installed = target.join("github");
        assert!(installed.join("node_modules").exists(), "it is not installed: run tests/run --only github");
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/github/serve.mjs")).arg(installed);
        // Shields the process from signals that are sent to the tests' process group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("it did not start: {line}"));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let mut github = Self { http, url, repo: String::new(), token: String::new(), _process: process };
        let response = github.control("repos", repository).await;
        github.repo = response["repo"].as_str().unwrap().to_owned();
        github.token = response["token"].as_str().unwrap().to_owned();
        github
    }

    /// Calls a control endpoint of the test GitHub, which the real GitHub does not have.
    pub(crate) async fn control(&self, name: &str, mut body: Value) -> Value {
        body["repo"] = self.repo.as_str().into();
        let response =
            self.http.post(format!("{}/_test/{name}", self.url)).body(body.to_string()).send().await;
        serde_json::from_str(&response.unwrap().text().await.unwrap()).unwrap_or_default()
    }

    /// Creates another user and returns the user's token.
    pub(crate) async fn user(&self, login: &str) -> String {
        let created = self.control("users", json!({"login": login})).await;
        created["token"].as_str().unwrap().to_owned()
    }

    /// Makes GitHub deliver webhooks in these ways, one after another.
    async fn post_webhooks_to(&self, server: &Server, modes: &[&str]) {
        let url = server.url().replace("/mcp", "/hooks/github");
        self.control("webhook", json!({"url": url, "secret": SECRET, "ways": modes})).await;
    }

    fn config(&self, quickest: &str, slowest: &str) -> String {
        let Self { url, repo, token, .. } = self;
        format!(
            "{BASICS}[reconciler]\nquickest_look = \"{quickest}\"\nslowest_look = \"{slowest}\"\n\
             [backends.github]\nkind = \"github-actions\"\nrepository = \"{repo}\"\ntoken = \"{token}\"\napi = \"{url}\"\n\
             webhook_secret = {{ file = \"hook\" }}\n[backends.github.discover]\nevery = \"1s\"\n\
             [tools.again]\nbackend = \"github\"\ndescription = \"Runs it again.\"\nparameters.run = {{ type = \"task\" }}\n\
             target = {{ workflow = \"work.yml\", rerun = \"{{{{ run }}}}\" }}\n"
        )
    }

    /// Starts a server that is connected to this GitHub.
    fn serve(&self, quickest: &str, slowest: &str) -> (TestDir, Server) {
        let dir = TestDir::new(&self.config(quickest, slowest));
        std::fs::write(dir.path("hook"), SECRET).unwrap();
        let server = dir.serve();
        (dir, server)
    }
}

/// Starts the discovered tool, once the server has read the workflows.
async fn start_discovered(client: &Client, arguments: Value) -> String {
    let starting = async {
        loop {
            match client.start("work", arguments.clone()).await {
                Err(Fault::Refused { message, .. }) if message.starts_with("Unknown tool") => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                started => return started.unwrap(),
            }
        }
    };
    with_timeout("a discovered tool", starting).await
}

async fn with_timeout<T>(label: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("not in time: {label}"))
}

/// A webhook delivery makes the server poll the run long before its regular interval.
#[tokio::test(flavor = "multi_thread")]
async fn github_delivery_triggers_early_poll() {
    let github = Github::start().await;
    let (_dir, server) = github.serve("1h", "1h");
    github.post_webhooks_to(&server, &["sent"]).await;
    let client = Client::open(server.url()).await.unwrap();
    let task = start_discovered(&client, json!({"word": "hints"})).await;
    let result = with_timeout("the end that was posted", client.result(&task)).await.unwrap();
    assert_eq!(result["structuredContent"]["conclusion"], "success", "{result}");
    let statuses = github.control("deliveries", json!({})).await;
    assert!(statuses.as_array().unwrap().iter().all(|status| *status == 202), "{statuses}");
    assert_eq!(github.control("breaches", json!({})).await, json!([]));
}

/// A tool that takes a task reruns the run of that task instead of starting a new one.
#[tokio::test(flavor = "multi_thread")]
async fn rerun_result_refers_to_first_task() {
    let github = Github::start().await;
    let (_dir, server) = github.serve("1s", "2s");
    let client = Client::open(server.url()).await.unwrap();
    let first = start_discovered(&client, json!({"word": "once"})).await;
    with_timeout("an end", client.result(&first)).await.unwrap();
    let second = client.start("again", json!({"run": first})).await.unwrap();
    let result = with_timeout("another end", client.result(&second)).await.unwrap();
    assert_eq!(result["structuredContent"]["attempt"], 2, "{result}");
    assert_eq!(result["_meta"]["io.taskbridge/refers-to"], json!([first]), "{result}");
    assert!(result["content"].to_string().contains(first.as_str()), "{result}");
    assert_eq!(github.control("count", json!({"title": "work"})).await, json!(1), "it is the same run");
    assert_eq!(github.control("breaches", json!({})).await, json!([]));
}

/// Deliveries may be lost, doubled or late. Discovered tools appear and disappear with their workflows.
#[tokio::test(flavor = "multi_thread")]
async fn unreliable_deliveries_change_no_result() {
    let github = Github::start().await;
    let (_dir, server) = github.serve("1s", "2s");
    github.post_webhooks_to(&server, &["lost", "doubled", "late", "sent", "lost"]).await;
    let client = Client::open(server.url()).await.unwrap();
    let mut tasks = Vec::new();
    for word in ["one", "two", "three", "four"] {
        tasks.push(client.start("work", json!({"word": word})).await.unwrap());
    }
    for task in &tasks {
        let result = with_timeout("an end", client.result(task)).await.unwrap();
        assert_eq!(result["structuredContent"]["conclusion"], "success", "{result}");
    }
    assert_eq!(github.control("count", json!({"title": "work"})).await, json!(4), "one run for each call");
    assert_eq!(github.control("breaches", json!({})).await, json!([]));

    // A new workflow becomes a tool, and the tool of a deleted workflow disappears.
    let files = json!({".github/workflows/work.yml": null, ".github/workflows/rest.yml": WORKFLOW});
    github.control("change", json!({"files": files})).await;
    let offered = async {
        loop {
            let listed = client.request("tools/list", json!({})).await.unwrap();
            let tools = listed["tools"].as_array().unwrap();
            let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
            if has("rest") && !has("work") {
                let tool = tools.iter().find(|tool| tool["name"] == "rest").unwrap();
                return tool["inputSchema"]["required"].clone();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    assert_eq!(with_timeout("another list of tools", offered).await, json!(["word"]));
}
