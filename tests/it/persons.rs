//! Tests of engines that see the calling user. Two callers have API keys, and the engine sees each action
//! under its caller's name, no matter which process performs it or when. `tests/run` installs the stand-in
//! for AWS and the test GitHub.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::aws::recorder::Recorder;
use crate::aws::standin::Standin;
use crate::github_actions::Github;
use crate::support::{BASICS, Client, Fault, ModernClient, PROGRAM, Server, TestDir};

/// Timeout of a step, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);
const SECRET: &str = "s3cr3t-of-the-bridge";

/// Returns a config with an API key for each of these callers, or with one anonymous user if there are none.
/// The log level is the most verbose one.
fn basics(names: &[&str]) -> String {
    let keys = names.iter().map(|name| {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(format!("key-of-{name}")));
        format!("[[auth.keys]]\nprincipal = \"{name}\"\nsha256 = \"{digest}\"\ngroups = [\"data\"]\n")
    });
    let keys: String = keys.collect();
    let basics = match names {
        [] => BASICS.to_owned(),
        _ => BASICS.replace("single_user = true", "mode = \"api_keys\""),
    };
    format!("{basics}{keys}[log]\nfilter = \"trace\"\n[reconciler]\nlease = \"10s\"\n")
}

async fn client(url: &str, name: &str) -> Client {
    Client::open_with_key(url, &format!("key-of-{name}")).await.unwrap()
}

/// Reports whether any file that a server left contains this text. Files named `*.secret` are skipped.
fn is_stored(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_stored(&path, text);
        }
        let is_ours = path.extension().is_none_or(|kind| kind != "secret");
        is_ours && fs::read(path).unwrap_or_default().windows(text.len()).any(|part| part == text.as_bytes())
    })
}

/// Waits until the task has this status. Returns the task.
async fn wait_for_status(client: &Client, task: &str, status: &str) -> Value {
    let started_at = Instant::now();
    loop {
        let current = client.get(task).await.unwrap();
        if current["status"] == status {
            return current;
        }
        assert!(started_at.elapsed() < TIMEOUT, "never {status}: {current}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A stand-in for AWS with a recorder in front of it, and a state machine that waits.
struct Aws {
    standin: Standin,
    recorder: Recorder,
    dir: TestDir,
}

impl Aws {
    async fn with(names: &[&str]) -> Self {
        let standin = tokio::task::block_in_place(|| Standin::start("ministack"));
        let recorder = Recorder::start(&standin.url).await;
        let wait_state = json!({"Type": "Wait", "Seconds": 600});
        let machine = standin.one_state("waits", "Waits.", wait_state).await;
        let config = format!(
            "{}[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nprofile = \"bridge\"\nconfig_file = \"aws.secret\"\n\
             endpoint = \"{url}\"\ncall_timeout = \"4s\"\n[backends.aws.per_caller]\nrole_arn = \"arn:aws:iam::000000000000:role/people\"\n\
             session_tags = {{ user = \"{{{{ name }}}}\", team = \"{{{{ groups }}}}\" }}\n\
             [tools.waits]\ndescription = \"Waits.\"\nbackend = \"aws\"\nparameters = {{}}\ntarget = {{ state_machine = \"{machine}\" }}\n",
            basics(names),
            url = recorder.url,
        );
        let dir = TestDir::new(&config);
        let credentials = format!(
            "[profile bridge]\naws_access_key_id = AKIABRIDGE\naws_secret_access_key = {SECRET}\nservices = here\n\n[services here]\n\
             sts =\n  endpoint_url = {}\n",
            recorder.url
        );
        fs::write(dir.path("aws.secret"), credentials).unwrap();
        Self { standin, recorder, dir }
    }

    /// Waits until this operation was requested as this person. Returns the requesters so far, without
    /// repetitions.
    async fn wait_for_requesters(&self, operation: &str, person: &str) -> Vec<String> {
        let started_at = Instant::now();
        loop {
            let mut requesters = self.requesters(operation).await;
            requesters.dedup();
            if requesters.iter().any(|requester| requester == person) {
                return requesters;
            }
            assert!(
                started_at.elapsed() < TIMEOUT,
                "{operation} was never asked for as {person}: {requesters:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the session names of all requests of an operation, as the stand-in knows them. The server's
    /// own access key counts as `the bridge`.
    async fn requesters(&self, operation: &str) -> Vec<String> {
        let mut names = Vec::new();
        for request in self.recorder.requests().into_iter().filter(|request| request.operation == operation) {
            names.push(match request.key.as_str() {
                "AKIABRIDGE" => "the bridge".to_owned(),
                key => self.session(key).await,
            });
        }
        names
    }

    async fn session(&self, key: &str) -> String {
        let credential = format!(
            "AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=0"
        );
        let post = reqwest::Client::new().post(&self.standin.url).header("authorization", credential);
        let post = post.header("content-type", "application/x-www-form-urlencoded");
        let response = post.body("Action=GetCallerIdentity&Version=2011-06-15").send().await.unwrap();
        let response = response.text().await.unwrap();
        let arn = response.split_once("<Arn>").unwrap_or_else(|| panic!("{response}")).1;
        let arn = arn.split("</Arn>").next().unwrap();
        arn.split_once(":assumed-role/people/").unwrap_or_else(|| panic!("{arn}")).1.to_owned()
    }
}

/// This is true after a restart and for a cancel by an operator. No credential is stored.
#[tokio::test(flavor = "multi_thread")]
async fn aws_actions_use_caller_identity() {
    let aws = Aws::with(&["ann", "bob"]).await;
    // The first process dies while it requests ann's session. The job's start is recorded in the store but
    // not sent.
    aws.recorder.block(Some("AssumeRole"));
    let mut server = aws.dir.serve();
    let (ann, bob) = (client(server.url(), "ann").await, client(server.url(), "bob").await);
    let ann_task = ann.start("waits", json!({})).await.unwrap();
    aws.recorder.wait_for("AssumeRole", 1).await;
    server.kill();
    aws.recorder.block(None);
    assert_eq!(aws.requesters("StartExecution").await, [""; 0]);

    let server = aws.dir.serve();
    let (ann, bob) = (ann.at(server.url()), bob.at(server.url()));
    assert_eq!(aws.wait_for_requesters("StartExecution", "ann").await, ["ann"]);
    let bob_task = bob.start("waits", json!({})).await.unwrap();
    assert_eq!(aws.wait_for_requesters("StartExecution", "bob").await, ["ann", "bob"]);

    // Bob cancels his own task, and an operator cancels ann's.
    bob.cancel(&bob_task).await.unwrap();
    wait_for_status(&bob, &bob_task, "cancelled").await;
    assert_eq!(aws.wait_for_requesters("StopExecution", "bob").await, ["bob"]);
    let mut command = std::process::Command::new(PROGRAM);
    command.args(["tasks", "cancel", &ann_task]).arg("--config").arg(aws.dir.config());
    aws.dir.prepare(&mut command);
    let output = aws.dir.run(command).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(aws.wait_for_requesters("StopExecution", "ann").await, ["bob", "ann"]);
    wait_for_status(&ann, &ann_task, "cancelled").await;
    for operation in ["DescribeExecution", "ListExecutions", "DescribeStateMachine", "AssumeRole"] {
        assert!(
            aws.requesters(operation).await.iter().all(|requester| requester == "the bridge"),
            "{operation}"
        );
    }
    drop(server);
    let folder = aws.dir.path("");
    assert!(!is_stored(&folder, SECRET), "the bridge's secret is written down");
    for request in aws.recorder.requests().iter().filter(|request| request.key != "AKIABRIDGE") {
        assert!(!is_stored(&folder, &request.key), "a session is written down");
    }
}

/// With `per_caller`, the task of a caller without a name fails before it reaches AWS.
#[tokio::test(flavor = "multi_thread")]
async fn anonymous_task_sends_nothing_to_aws() {
    let aws = Aws::with(&[]).await;
    let server = aws.dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("waits", json!({})).await.unwrap();
    let failed = wait_for_status(&client, &task, "failed").await;
    assert!(failed["statusMessage"].as_str().unwrap().contains("`per_caller`"), "{failed}");
    for operation in ["StartExecution", "AssumeRole"] {
        assert_eq!(aws.requesters(operation).await, [""; 0], "{operation}");
    }
}

/// A caller without a token starts no run. The token works once the config has it, and is not stored.
#[tokio::test(flavor = "multi_thread")]
async fn github_runs_use_caller_token() {
    let github = Github::start().await;
    let (ann_token, bob_token) = (github.user("ann").await, github.user("bob").await);
    let config = |extra: &str| {
        format!(
            "{}quickest_look = \"1s\"\nslowest_look = \"2s\"\n[backends.github]\nkind = \"github-actions\"\nrepository = \"{}\"\n\
             token = {{ file = \"own.secret\" }}\napi = \"{}\"\n[backends.github.per_caller.tokens]\nann = {{ file = \"ann.secret\" }}\n\
             {extra}[tools.work]\nbackend = \"github\"\ndescription = \"Works.\"\ntarget = {{ workflow = \"work.yml\" }}\n\
             parameters.word = {{ type = \"string\" }}\n",
            basics(&["ann", "bob"]),
            github.repo,
            github.url,
        )
    };
    let dir = TestDir::new(&config(""));
    for (name, token) in [("own", &github.token), ("ann", &ann_token), ("bob", &bob_token)] {
        fs::write(dir.path(&format!("{name}.secret")), token).unwrap();
    }
    let server = dir.serve();
    let (ann, bob) = (client(server.url(), "ann").await, client(server.url(), "bob").await);
    let actors = async || -> Vec<String> {
        let listed = github.control("listed", json!({})).await;
        let mut actors: Vec<String> =
            listed.as_array().unwrap().iter().map(|run| run["actor"].as_str().unwrap().to_owned()).collect();
        actors.sort();
        actors
    };
    let task = ann.start("work", json!({"word": "one"})).await.unwrap();
    wait_for_status(&ann, &task, "completed").await;
    assert_eq!(actors().await, ["ann"]);

    // GitHub does not know bob here, and he does not act as another user.
    let task = bob.start("work", json!({"word": "two"})).await.unwrap();
    let failed = wait_for_status(&bob, &task, "failed").await;
    let message = failed["statusMessage"].as_str().unwrap();
    assert_eq!(
        message,
        "there is no GitHub token for `bob`, so no request was sent: add one to `per_caller.tokens`"
    );
    assert_eq!(actors().await, ["ann"]);

    // GitHub knows him as soon as the config has his token.
    fs::write(dir.config(), config("bob = { file = \"bob.secret\" }\n")).unwrap();
    let started_at = Instant::now();
    while actors().await != ["ann", "bob"] {
        assert!(started_at.elapsed() < TIMEOUT, "bob's token is not used");
        let task = bob.start("work", json!({"word": "three"})).await.unwrap();
        while bob.get(&task).await.unwrap()["status"] == "working" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    drop(server);
    for token in [&github.token, &ann_token, &bob_token] {
        assert!(!is_stored(&dir.path(""), token), "a token is written down");
    }
    assert_eq!(github.control("breaches", json!({})).await, json!([]));
}

/// Runs started by bob that wait for a review. Ann may approve them, and eve may not. Users other than the
/// caller may answer and cancel.
struct ReviewFixture {
    github: Github,
    ann: Client,
    bob: Client,
    server: Server,
    _dir: TestDir,
}

impl ReviewFixture {
    async fn start() -> Self {
        let workflow = "name: Deploy\nrun-name: deploy ${{ inputs.taskbridge_job }}\non:\n  workflow_dispatch:\n    inputs:\n      \
            taskbridge_job: {type: string}\njobs:\n  deploy:\n    environment: production\n    runs-on: ubuntu-latest\n    steps:\n      \
            - run: echo deployed\n";
        let environments = json!({"production": {"reviewers": ["ann"]}});
        let files = json!({".github/workflows/deploy.yml": workflow});
        let github = Github::with(json!({"files": files, "environments": environments})).await;
        let config = format!(
            "{}quickest_look = \"1s\"\nslowest_look = \"2s\"\n[backends.github]\nkind = \"github-actions\"\nrepository = \"{}\"\n\
             token = \"{}\"\napi = \"{}\"\nper_caller.tokens = {{ ann = \"{}\", bob = \"{}\", eve = \"{}\" }}\n[tools.deploy]\nbackend = \"github\"\n\
             description = \"Deploys.\"\ntarget = {{ workflow = \"deploy.yml\" }}\nparameters = {{}}\n\
             access.answer = {{ groups = [\"data\"], not_caller = true }}\naccess.cancel = {{ groups = [\"data\"] }}\n",
            basics(&["ann", "bob", "eve"]),
            github.repo,
            github.token,
            github.url,
            github.user("ann").await,
            github.user("bob").await,
            github.user("eve").await,
        );
        let dir = TestDir::new(&config);
        let server = dir.serve();
        let (ann, bob) = (client(server.url(), "ann").await, client(server.url(), "bob").await);
        Self { github, ann, bob, server, _dir: dir }
    }

    /// Starts a run as bob, and returns its task once it has a question.
    async fn deploy(&self) -> String {
        let task = self.bob.start("deploy", json!({})).await.unwrap();
        let started_at = Instant::now();
        loop {
            let current = self.ann.get(&task).await.unwrap();
            if current.to_string().contains("production") {
                return task;
            }
            assert!(started_at.elapsed() < TIMEOUT, "nothing is asked: {current}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Answers a question of a task as this user.
    async fn accept(&self, name: &str, task: &str, question: &str) -> Result<Value, Fault> {
        let client = ModernClient::with_tasks(self.server.url()).with_key(&format!("key-of-{name}"));
        let yes = json!({question: {"action": "accept", "content": {}}});
        client.request("tasks/update", json!({"taskId": task, "inputResponses": yes})).await
    }

    /// Returns the newest run at GitHub.
    async fn run(&self) -> Value {
        self.github.control("listed", json!({})).await[0].clone()
    }
}

/// If another user answers a question or cancels a task, GitHub sees that user and not the task's caller.
#[tokio::test(flavor = "multi_thread")]
async fn answers_and_cancels_use_acting_identity() {
    let fixture = ReviewFixture::start().await;
    let task = fixture.deploy().await;
    let refused = fixture.accept("bob", &task, "q1").await.unwrap_err();
    assert!(format!("{refused:?}").contains("by somebody else"), "{refused:?}");
    fixture.accept("ann", &task, "q1").await.unwrap();
    wait_for_status(&fixture.bob, &task, "completed").await;
    let run = fixture.run().await;
    assert_eq!((&run["actor"], &run["reviewed_by"]), (&json!("bob"), &json!(["ann"])), "{run}");

    let task = fixture.deploy().await;
    fixture.ann.call("task_cancel", json!({"task_id": task})).await.unwrap();
    wait_for_status(&fixture.bob, &task, "cancelled").await;
    let started_at = Instant::now();
    while fixture.run().await["status"] != "completed" {
        assert!(started_at.elapsed() < TIMEOUT, "it is not cancelled");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let run = fixture.run().await;
    assert_eq!((&run["actor"], &run["cancelled_by"]), (&json!("bob"), &json!("ann")), "{run}");
    assert_eq!(fixture.github.control("breaches", json!({})).await, json!([]));
}

/// Another user can then answer the question.
#[tokio::test(flavor = "multi_thread")]
async fn answer_rejected_by_engine_reopens_question() {
    let fixture = ReviewFixture::start().await;
    let task = fixture.deploy().await;
    fixture.accept("eve", &task, "q1").await.unwrap();
    let modern = ModernClient::with_tasks(fixture.server.url()).with_key("key-of-ann");
    let started_at = Instant::now();
    loop {
        let current = modern.request("tasks/get", json!({"taskId": task})).await.unwrap();
        if current["inputRequests"].get("q2").is_some() {
            assert_eq!(current["inputRequests"].get("q1"), None, "{current}");
            break;
        }
        assert!(started_at.elapsed() < TIMEOUT, "it is not asked again: {current}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(fixture.run().await["reviewed_by"], json!([]));
    fixture.accept("ann", &task, "q2").await.unwrap();
    wait_for_status(&fixture.bob, &task, "completed").await;
    assert_eq!(fixture.run().await["reviewed_by"], json!(["ann"]));
    assert_eq!(fixture.github.control("breaches", json!({})).await, json!([]));
}
