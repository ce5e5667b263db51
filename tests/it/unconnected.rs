//! A backend that cannot connect affects only its own tools: the other backends serve, its tasks wait, and
//! it connects later without a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::routing::{any, get};
use serde_json::{Value, json};
use taskbridge_sdk::DiscoveredTool;
use taskbridge_sdk::sim::SimClient;

use crate::support::{
    BASICS, Client, MetricsScrape, ModernClient, ProgramOutput, Server, SimProcess, TestDir, text,
};

/// Timeout of any step here.
const TIMEOUT: Duration = Duration::from_secs(60);

const HERE: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
description = "Says hello."
backend = "here"
target.command = ["echo", "hello"]
"#;

/// How the stand-in for GitHub answers.
#[derive(Clone, Copy)]
enum ForgeMode {
    /// It refuses the token.
    Denied,
    /// It has the repository, but cannot dispatch now.
    Busy,
    /// It has the repository and refuses dispatches.
    Refuses,
}

/// A stand-in for GitHub with one repository. It stops with the test's runtime.
struct Forge {
    url: String,
    mode: Arc<AtomicU8>,
}

impl Forge {
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    async fn start(initial: ForgeMode) -> Self {
        let mode = Arc::new(AtomicU8::new(initial as u8));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (repository_mode, fallback_mode) = (Arc::clone(&mode), Arc::clone(&mode));
        let refused = |status: u16, message: &str| {
            (StatusCode::from_u16(status).unwrap(), Json(json!({"message": message})))
        };
        let repository = move || async move {
            match repository_mode.load(Ordering::SeqCst) == ForgeMode::Denied as u8 {
                true => refused(401, "Bad credentials"),
                false => (StatusCode::OK, Json(json!({"id": 7, "default_branch": "main"}))),
            }
        };
        let others = move || async move {
            match fallback_mode.load(Ordering::SeqCst) {
                mode if mode == ForgeMode::Denied as u8 => refused(401, "Bad credentials"),
                mode if mode == ForgeMode::Busy as u8 => refused(503, "busy"),
                _ => refused(422, "Workflow does not have 'workflow_dispatch' trigger"),
            }
        };
        let router = axum::Router::new().route("/repos/o/r", get(repository)).fallback(any(others));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, mode }
    }

    fn set_mode(&self, mode: ForgeMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    fn backend(&self) -> String {
        format!(
            "[backends.forge]\nkind = \"github-actions\"\nrepository = \"o/r\"\ntoken = \"T0KEN\"\napi = \"{}\"\n\
             [tools.deploy]\ndescription = \"Deploys.\"\nbackend = \"forge\"\ntarget.workflow = \"deploy.yml\"\n",
            self.url
        )
    }
}

async fn readyz(server: &Server) -> Value {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let answer = client.get(server.url().replace("/mcp", "/readyz")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "the other backends serve");
    answer.json().await.unwrap()
}

async fn wait_for<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let result = async {
        loop {
            if let Some(result) = poll().await {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, result).await.unwrap_or_else(|_| panic!("it never happens: {what}"))
}

async fn wait_until_connected(server: &Server) {
    wait_for("the backend connects", async || {
        (readyz(server).await["backends"]["forge"]["status"] != "unconnected").then_some(())
    })
    .await;
}

/// Returns the names of the listed tools, without the companion tools.
async fn names(client: &Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).await.unwrap();
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    names.filter(|name| !name.starts_with("task_")).map(str::to_owned).collect()
}

fn log(dir: &TestDir) -> String {
    std::fs::read_to_string(dir.path("server.log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn unconnected_backend_refuses_calls_until_connected() {
    let forge = Forge::start(ForgeMode::Denied).await;
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let dir = TestDir::new(&format!("{BASICS}{HERE}{}{metrics}", forge.backend()));
    let mut server = dir.serve();
    let page = server.metrics_url();
    let client = Client::open(server.url()).await.unwrap();
    assert_eq!(names(&client).await, ["deploy", "hello"], "its tools are listed");
    assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");

    let refused = client.call("deploy", json!({})).await.unwrap();
    assert_eq!(refused["isError"], true, "{refused}");
    let message = text(&refused);
    for part in ["backend `forge` of tool deploy is not connected", "does not accept the token", "call again"]
    {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    let modern = ModernClient::with_tasks(server.url()).call("deploy", &json!({}), json!({})).await.unwrap();
    assert_eq!(text(&modern), message);
    let as_task = client.start("deploy", json!({})).await.unwrap_err();
    assert!(format!("{as_task:?}").contains("is not connected"), "{as_task:?}");
    assert!(client.list().await.unwrap().iter().all(|task| task["status"] == "completed"));

    let ready = readyz(&server).await;
    assert_eq!(
        (&ready["status"], &ready["backends"]["forge"]["status"]),
        (&json!("degraded"), &json!("unconnected"))
    );
    assert!(!ready.to_string().contains("token"), "why is for the log: {ready}");
    let connected = |backend: &'static str| {
        let page = page.clone();
        async move { MetricsScrape::read(&page).await.sum("taskbridge_engine_connected", &[("backend", backend)]) }
    };
    assert_eq!((connected("here").await, connected("forge").await), (1.0, 0.0));
    let log_text = log(&dir);
    let line = log_text.lines().find(|line| line.contains("backends.forge: ")).unwrap();
    assert!(line.contains("ERROR") && line.contains("taskbridge.toml:"), "{line}");
    let ProgramOutput { code, stdout, .. } = dir.run(dir.command("doctor")).await;
    assert_eq!(code, Some(1));
    assert!(stdout.contains("fault    backend forge: connection: "), "{stdout}");

    forge.set_mode(ForgeMode::Refuses);
    wait_until_connected(&server).await;
    assert_eq!(connected("forge").await, 1.0);
    let answer = text(&client.call("deploy", json!({})).await.unwrap());
    assert!(answer.contains("workflow_dispatch"), "the engine itself refuses it now: {answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_unconnected_backend_wait() {
    let forge = Forge::start(ForgeMode::Busy).await;
    let dir = TestDir::new(&format!("{BASICS}{HERE}{}", forge.backend()));
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start_once("key", "deploy", json!({})).await.unwrap();
    assert_eq!(server.stop(), Some(0));

    forge.set_mode(ForgeMode::Denied);
    let server = dir.serve();
    let client = client.at(server.url());
    let database = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    let row = || -> (i64, Option<String>) {
        let sql = "SELECT version, lease_holder FROM tasks WHERE id = ?1";
        database.query_row(sql, [&task], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let before = row();
    // The loops run several times in the meantime.
    for _ in 0..3 {
        assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
    }
    wait_for("another attempt fails", async || {
        (readyz(&server).await["backends"]["forge"]["seconds"] != 0).then_some(())
    })
    .await;
    assert_eq!(row(), before, "nobody claims it");
    assert_eq!(client.get(&task).await.unwrap()["status"], "working");
    assert_eq!(client.start_once("key", "deploy", json!({})).await.unwrap(), task, "it was made before");
    let refused = client.start_once("another", "deploy", json!({})).await.unwrap_err();
    assert!(format!("{refused:?}").contains("is not connected"), "{refused:?}");

    forge.set_mode(ForgeMode::Refuses);
    let ended = wait_for("the task is taken up", async || {
        let task = client.get(&task).await.unwrap();
        (task["status"] != "working").then_some(task)
    })
    .await;
    assert_eq!(ended["status"], "failed", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_backend_or_strict_exits() {
    let forge = Forge::start(ForgeMode::Denied).await;
    for (config, more, expected) in [
        (forge.backend(), None, "no backend could be connected"),
        (
            format!("{HERE}{}", forge.backend()),
            Some("--strict"),
            "--strict requires every backend to connect",
        ),
        (format!("{HERE}[backends.sim]\nkind = \"sim\"\naddress = \"192.0.2.1:9\"\n"), None, "loopback"),
    ] {
        let dir = TestDir::new(&format!("{BASICS}{config}"));
        let mut command = dir.command("serve");
        command.args(more);
        let ProgramOutput { code, stdout, stderr } = dir.run(command).await;
        assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
        assert!(stderr.contains(expected) && stderr.contains("taskbridge.toml:"), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_with_unconnected_backend_applies_rest() {
    let forge = Forge::start(ForgeMode::Denied).await;
    let dir = TestDir::new(&format!("{BASICS}{HERE}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let more = "[tools.more]\nbackend = \"here\"\ntarget.command = [\"echo\", \"more\"]\n";
    std::fs::write(dir.path("new"), format!("{BASICS}{HERE}{more}{}", forge.backend())).unwrap();
    std::fs::rename(dir.path("new"), dir.config()).unwrap();
    wait_for("the config is applied", async || {
        (names(&client).await == ["deploy", "hello", "more"]).then_some(())
    })
    .await;
    assert_eq!(text(&client.call("more", json!({})).await.unwrap()), "more\n");
    assert!(text(&client.call("deploy", json!({})).await.unwrap()).contains("is not connected"));

    // The old connection stays in use while the changed settings do not connect.
    forge.set_mode(ForgeMode::Refuses);
    wait_until_connected(&server).await;
    forge.set_mode(ForgeMode::Denied);
    let changed = forge.backend().replace("T0KEN", "AN0THER");
    std::fs::write(dir.path("new"), format!("{BASICS}{HERE}{changed}")).unwrap();
    std::fs::rename(dir.path("new"), dir.config()).unwrap();
    wait_for("the config is applied", async || (names(&client).await == ["deploy", "hello"]).then_some(()))
        .await;
    assert_eq!(readyz(&server).await["backends"]["forge"]["status"], "unconnected");
    let answer = format!("{:?}", client.call("deploy", json!({})).await);
    assert!(!answer.contains("is not connected"), "the connection of before is used: {answer}");
    assert!(!log(&dir).contains("AN0THER"), "a secret is logged");
}

/// A machine whose Slurm is not set up yet.
#[tokio::test(flavor = "multi_thread")]
async fn slurm_without_conf_connects_later() {
    let dir = TestDir::new("");
    let bin = dir.path("bin");
    let cluster = format!("[backends.forge]\nkind = \"slurm\"\ncommands_dir = \"{}\"\n", bin.display());
    std::fs::write(dir.config(), format!("{BASICS}{HERE}{cluster}")).unwrap();
    std::fs::create_dir(&bin).unwrap();
    let write_script = |name: &str, script: &str| {
        std::fs::write(bin.join("new"), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(bin.join("new"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        std::fs::rename(bin.join("new"), bin.join(name)).unwrap();
    };
    for name in ["scontrol", "squeue", "sacct", "sinfo"] {
        write_script(name, "echo \"$0: fatal: Could not establish a configuration source\" >&2; exit 1");
    }
    let server = dir.serve();
    assert_eq!(readyz(&server).await["backends"]["forge"]["status"], "unconnected");
    assert!(log(&dir).contains("Could not establish a configuration source"));
    write_script("scontrol", "echo 'ClusterName = one'; echo 'SLURM_VERSION = 24.05.0'");
    wait_until_connected(&server).await;
}

/// The store keeps the tools that a backend offered last.
#[tokio::test(flavor = "multi_thread")]
async fn offered_tools_survive_restart_without_engine() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    let control = SimClient::new(engine.address.parse().unwrap());
    let schema = json!({"type": "object", "properties": {}});
    let night = DiscoveredTool {
        name: "night".to_owned(),
        input_schema: schema.as_object().unwrap().clone(),
        target: json!({"text": "done"}),
        ..DiscoveredTool::default()
    };
    control.offer(vec![night]).await.unwrap();
    let address = &engine.address;
    let sim =
        format!("[backends.sim]\nkind = \"sim\"\naddress = \"{address}\"\ndiscover = {{ every = \"1s\" }}\n");
    std::fs::write(dir.config(), format!("{BASICS}{HERE}{sim}")).unwrap();
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    assert_eq!(names(&client).await, ["hello", "night"]);
    assert_eq!(server.stop(), Some(0));

    control.set_outage(true).await.unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    assert_eq!(names(&client).await, ["hello", "night"], "they are those of the last answer");
    control.set_outage(false).await.unwrap();
    assert_eq!(text(&client.call("night", json!({})).await.unwrap()), "done");
    control.offer(Vec::new()).await.unwrap();
    wait_for("the engine's own answer counts", async || (names(&client).await == ["hello"]).then_some(()))
        .await;
}

/// The log has the words of the engine when polls begin to fail, and says when they succeed again.
#[tokio::test(flavor = "multi_thread")]
async fn failing_polls_are_logged_with_their_reason() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    let control = SimClient::new(engine.address.parse().unwrap());
    let sim = format!(
        "[backends.sim]\nkind = \"sim\"\naddress = \"{}\"\n[tools.job]\nbackend = \"sim\"\ntarget = {{ delay_ms = 60000 }}\n",
        engine.address
    );
    std::fs::write(dir.config(), format!("{BASICS}{sim}")).unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    client.start("job", json!({})).await.unwrap();
    wait_for("the job has started", async || log(&dir).contains("job started").then_some(())).await;
    control.set_outage(true).await.unwrap();
    let find = |part: &str| log(&dir).lines().find(|line| line.contains(part)).map(str::to_owned);
    let line = wait_for("a poll fails", async || find("polls of jobs fail; they are retried")).await;
    assert!(line.contains("reason=\"the simulated engine cannot be reached\""), "{line}");
    control.set_outage(false).await.unwrap();
    wait_for("polls succeed", async || find("polls of jobs succeed again")).await;
}
