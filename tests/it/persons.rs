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
use crate::support::{BASICS, Client, Fault, Modern, PROGRAM, Place, Server};

/// Timeout of a step, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
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
    Client::open_with(url, &format!("key-of-{name}")).await.unwrap()
}

/// Reports whether any file that a server left contains this text. Files named `*.secret` are skipped.
fn is_kept(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_kept(&path, text);
        }
        let is_ours = path.extension().is_none_or(|kind| kind != "secret");
        is_ours && fs::read(path).unwrap_or_default().windows(text.len()).any(|part| part == text.as_bytes())
    })
}

/// Waits until the task has this status. Returns the task.
async fn until(client: &Client, task: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let seen = client.get(task).await.unwrap();
        if seen["status"] == status {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "never {status}: {seen}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A stand-in for AWS with a recorder in front of it, and a state machine that waits.
struct Aws {
    standin: Standin,
    recorder: Recorder,
    place: Place,
}

impl Aws {
    async fn with(names: &[&str]) -> Self {
        let standin = tokio::task::block_in_place(|| Standin::start("ministack"));
        let recorder = Recorder::before(&standin.url).await;
        let waits = json!({"Type": "Wait", "Seconds": 600});
        let machine = standin.one_state("waits", "Waits.", waits).await;
        let config = format!(
            "{}[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nprofile = \"bridge\"\nconfig_file = \"aws.secret\"\n\
             endpoint = \"{url}\"\ncall_timeout = \"4s\"\n[backends.aws.per_caller]\nrole_arn = \"arn:aws:iam::000000000000:role/people\"\n\
             session_tags = {{ user = \"{{{{ name }}}}\", team = \"{{{{ groups }}}}\" }}\n\
             [tools.waits]\ndescription = \"Waits.\"\nbackend = \"aws\"\nparameters = {{}}\ntarget = {{ state_machine = \"{machine}\" }}\n",
            basics(names),
            url = recorder.url,
        );
        let place = Place::new(&config);
        let credentials = format!(
            "[profile bridge]\naws_access_key_id = AKIABRIDGE\naws_secret_access_key = {SECRET}\nservices = here\n\n[services here]\n\
             sts =\n  endpoint_url = {}\n",
            recorder.url
        );
        fs::write(place.path("aws.secret"), credentials).unwrap();
        Self { standin, recorder, place }
    }

    /// Waits until this operation was requested as this person. Returns the requesters so far, without
    /// repetitions.
    async fn seen(&self, operation: &str, person: &str) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let mut who = self.who(operation).await;
            who.dedup();
            if who.iter().any(|who| who == person) {
                return who;
            }
            assert!(begun.elapsed() < PATIENCE, "{operation} was never asked for as {person}: {who:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the session names of all requests of an operation, as the stand-in knows them. The server's
    /// own access key counts as `the bridge`.
    async fn who(&self, operation: &str) -> Vec<String> {
        let mut who = Vec::new();
        for asked in self.recorder.asked().into_iter().filter(|asked| asked.operation == operation) {
            who.push(match asked.key.as_str() {
                "AKIABRIDGE" => "the bridge".to_owned(),
                key => self.session(key).await,
            });
        }
        who
    }

    async fn session(&self, key: &str) -> String {
        let credential = format!(
            "AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=0"
        );
        let post = reqwest::Client::new().post(&self.standin.url).header("authorization", credential);
        let post = post.header("content-type", "application/x-www-form-urlencoded");
        let answer = post.body("Action=GetCallerIdentity&Version=2011-06-15").send().await.unwrap();
        let answer = answer.text().await.unwrap();
        let arn = answer.split_once("<Arn>").unwrap_or_else(|| panic!("{answer}")).1;
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
    aws.recorder.hold(Some("AssumeRole"));
    let mut server = aws.place.serve();
    let (ann, bob) = (client(server.url(), "ann").await, client(server.url(), "bob").await);
    let annas = ann.start("waits", json!({})).await.unwrap();
    aws.recorder.until("AssumeRole", 1).await;
    server.kill();
    aws.recorder.hold(None);
    assert_eq!(aws.who("StartExecution").await, [""; 0]);

    let server = aws.place.serve();
    let (ann, bob) = (ann.at(server.url()), bob.at(server.url()));
    assert_eq!(aws.seen("StartExecution", "ann").await, ["ann"]);
    let bobs = bob.start("waits", json!({})).await.unwrap();
    assert_eq!(aws.seen("StartExecution", "bob").await, ["ann", "bob"]);

    // Bob cancels his own task, and an operator cancels ann's.
    bob.cancel(&bobs).await.unwrap();
    until(&bob, &bobs, "cancelled").await;
    assert_eq!(aws.seen("StopExecution", "bob").await, ["bob"]);
    let mut command = std::process::Command::new(PROGRAM);
    command.args(["tasks", "cancel", &annas]).arg("--config").arg(aws.place.config());
    aws.place.settle(&mut command);
    let said = aws.place.run(command).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(aws.seen("StopExecution", "ann").await, ["bob", "ann"]);
    until(&ann, &annas, "cancelled").await;
    for operation in ["DescribeExecution", "ListExecutions", "DescribeStateMachine", "AssumeRole"] {
        assert!(aws.who(operation).await.iter().all(|who| who == "the bridge"), "{operation}");
    }
    drop(server);
    let folder = aws.place.path("");
    assert!(!is_kept(&folder, SECRET), "the bridge's secret is written down");
    for asked in aws.recorder.asked().iter().filter(|asked| asked.key != "AKIABRIDGE") {
        assert!(!is_kept(&folder, &asked.key), "a session is written down");
    }
}

/// With `per_caller`, the task of a caller without a name fails before it reaches AWS.
#[tokio::test(flavor = "multi_thread")]
async fn anonymous_task_sends_nothing_to_aws() {
    let aws = Aws::with(&[]).await;
    let server = aws.place.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("waits", json!({})).await.unwrap();
    let failed = until(&client, &task, "failed").await;
    assert!(failed["statusMessage"].as_str().unwrap().contains("`per_caller`"), "{failed}");
    for operation in ["StartExecution", "AssumeRole"] {
        assert_eq!(aws.who(operation).await, [""; 0], "{operation}");
    }
}

/// A caller without a token starts no run. The token works once the config has it, and is not stored.
#[tokio::test(flavor = "multi_thread")]
async fn github_runs_use_caller_token() {
    let github = Github::start().await;
    let (ann_token, bob_token) = (github.user("ann").await, github.user("bob").await);
    let config = |more: &str| {
        format!(
            "{}quickest_look = \"1s\"\nslowest_look = \"2s\"\n[backends.github]\nkind = \"github-actions\"\nrepository = \"{}\"\n\
             token = {{ file = \"own.secret\" }}\napi = \"{}\"\n[backends.github.per_caller.tokens]\nann = {{ file = \"ann.secret\" }}\n\
             {more}[tools.work]\nbackend = \"github\"\ndescription = \"Works.\"\ntarget = {{ workflow = \"work.yml\" }}\n\
             parameters.word = {{ type = \"string\" }}\n",
            basics(&["ann", "bob"]),
            github.repo,
            github.url,
        )
    };
    let place = Place::new(&config(""));
    for (name, token) in [("own", &github.token), ("ann", &ann_token), ("bob", &bob_token)] {
        fs::write(place.path(&format!("{name}.secret")), token).unwrap();
    }
    let server = place.serve();
    let (ann, bob) = (client(server.url(), "ann").await, client(server.url(), "bob").await);
    let actors = async || -> Vec<String> {
        let listed = github.control("listed", json!({})).await;
        let mut actors: Vec<String> =
            listed.as_array().unwrap().iter().map(|run| run["actor"].as_str().unwrap().to_owned()).collect();
        actors.sort();
        actors
    };
    let task = ann.start("work", json!({"word": "one"})).await.unwrap();
    until(&ann, &task, "completed").await;
    assert_eq!(actors().await, ["ann"]);

    // GitHub does not know bob here, and he does not act as another user.
    let task = bob.start("work", json!({"word": "two"})).await.unwrap();
    let failed = until(&bob, &task, "failed").await;
    let why = failed["statusMessage"].as_str().unwrap();
    assert_eq!(
        why,
        "there is no GitHub token for `bob` (`per_caller.tokens`), so nothing was done at GitHub"
    );
    assert_eq!(actors().await, ["ann"]);

    // GitHub knows him as soon as the config has his token.
    fs::write(place.config(), config("bob = { file = \"bob.secret\" }\n")).unwrap();
    let begun = Instant::now();
    while actors().await != ["ann", "bob"] {
        assert!(begun.elapsed() < PATIENCE, "bob's token is not used");
        let task = bob.start("work", json!({"word": "three"})).await.unwrap();
        while bob.get(&task).await.unwrap()["status"] == "working" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    drop(server);
    for token in [&github.token, &ann_token, &bob_token] {
        assert!(!is_kept(&place.path(""), token), "a token is written down");
    }
    assert_eq!(github.control("breaches", json!({})).await, json!([]));
}

/// Runs started by bob that wait for a review. Ann may approve them, and eve may not. Users other than the
/// caller may answer and cancel.
struct Gated {
    github: Github,
    ann: Client,
    bob: Client,
    server: Server,
    _place: Place,
}

impl Gated {
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
        let place = Place::new(&config);
        let server = place.serve();
        let (ann, bob) = (client(server.url(), "ann").await, client(server.url(), "bob").await);
        Self { github, ann, bob, server, _place: place }
    }

    /// Starts a run as bob, and returns its task once it has a question.
    async fn deploy(&self) -> String {
        let task = self.bob.start("deploy", json!({})).await.unwrap();
        let begun = Instant::now();
        loop {
            let seen = self.ann.get(&task).await.unwrap();
            if seen.to_string().contains("production") {
                return task;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing is asked: {seen}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Answers a question of a task as this user.
    async fn say_yes(&self, name: &str, task: &str, question: &str) -> Result<Value, Fault> {
        let client = Modern::with_tasks(self.server.url()).with_key(&format!("key-of-{name}"));
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
    let gated = Gated::start().await;
    let task = gated.deploy().await;
    let refused = gated.say_yes("bob", &task, "q1").await.unwrap_err();
    assert!(format!("{refused:?}").contains("by somebody else"), "{refused:?}");
    gated.say_yes("ann", &task, "q1").await.unwrap();
    until(&gated.bob, &task, "completed").await;
    let run = gated.run().await;
    assert_eq!((&run["actor"], &run["reviewed_by"]), (&json!("bob"), &json!(["ann"])), "{run}");

    let task = gated.deploy().await;
    gated.ann.call("task_cancel", json!({"task_id": task})).await.unwrap();
    until(&gated.bob, &task, "cancelled").await;
    let begun = Instant::now();
    while gated.run().await["status"] != "completed" {
        assert!(begun.elapsed() < PATIENCE, "it is not cancelled");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let run = gated.run().await;
    assert_eq!((&run["actor"], &run["cancelled_by"]), (&json!("bob"), &json!("ann")), "{run}");
    assert_eq!(gated.github.control("breaches", json!({})).await, json!([]));
}

/// Another user can then answer the question.
#[tokio::test(flavor = "multi_thread")]
async fn answer_rejected_by_engine_reopens_question() {
    let gated = Gated::start().await;
    let task = gated.deploy().await;
    gated.say_yes("eve", &task, "q1").await.unwrap();
    let modern = Modern::with_tasks(gated.server.url()).with_key("key-of-ann");
    let begun = Instant::now();
    loop {
        let seen = modern.request("tasks/get", json!({"taskId": task})).await.unwrap();
        if seen["inputRequests"].get("q2").is_some() {
            assert_eq!(seen["inputRequests"].get("q1"), None, "{seen}");
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it is not asked again: {seen}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(gated.run().await["reviewed_by"], json!([]));
    gated.say_yes("ann", &task, "q2").await.unwrap();
    until(&gated.bob, &task, "completed").await;
    assert_eq!(gated.run().await["reviewed_by"], json!(["ann"]));
    assert_eq!(gated.github.control("breaches", json!({})).await, json!([]));
}
