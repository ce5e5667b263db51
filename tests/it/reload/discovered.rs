//! Tests for discovered tools that appear, change and disappear while the real program serves. The tasks of
//! removed tools stay.

use serde_json::{Map, Value, json};
use taskbridge_sdk::DiscoveredTool;
use taskbridge_sdk::sim::SimClient;

use super::{ONE, TIMEOUT, next_message, replace_config, tools, wait_for_log, wait_for_nth_log};
use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, Fault, ModernClient, Server, SimProcess, TestDir, text};

const CHANGED: &str = "notifications/tools/list_changed";

/// An engine whose offered tools a test sets, and a [`TestDir`] for servers that use it.
struct Forge {
    engine: SimProcess,
    dir: TestDir,
    control: SimClient,
}

impl Forge {
    fn new() -> Self {
        let dir = TestDir::new("");
        let engine = SimProcess::start(&dir, "keyed");
        let control = SimClient::new(engine.address.parse().unwrap());
        Self { dir, engine, control }
    }

    async fn offer_tools(&self, tools: &[DiscoveredTool]) {
        self.control.offer(tools.to_vec()).await.unwrap();
    }

    /// Returns the config of a backend on the engine, with this `discover` table.
    fn backend(&self, name: &str, discover: &str) -> String {
        let address = &self.engine.address;
        format!(
            "[backends.{name}]\nkind = \"sim\"\naddress = \"{address}\"\n[backends.{name}.discover]\n{discover}\n"
        )
    }

    fn serve(&self, config: &str) -> Server {
        std::fs::write(self.dir.config(), format!("{BASICS}{ONE}{config}")).unwrap();
        self.dir.serve()
    }
}

const SHORT_INTERVAL: &str = "every = \"50ms\"";

/// Returns a tool whose job behaves as `target` specifies, with these parameters.
fn tool(name: &str, target: Value, parameters: Value) -> DiscoveredTool {
    let schema = json!({"type": "object", "properties": parameters, "additionalProperties": false});
    DiscoveredTool {
        name: name.to_owned(),
        description: Some(format!("Runs {name}.")),
        input_schema: schema.as_object().unwrap().clone(),
        target,
        ..DiscoveredTool::default()
    }
}

fn night_tool() -> DiscoveredTool {
    tool("night", json!({"text": "a night's work"}), json!({"text": {"type": "string"}}))
}

/// Returns a tool whose job asks a question and returns the answer.
fn asking_tool() -> DiscoveredTool {
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    tool("asking", json!({"question": {"message": "Who?", "schema": form, "at_once": true}}), json!({}))
}

/// Returns a tool whose job runs for an hour.
fn endless_tool() -> DiscoveredTool {
    tool("endless", json!({"delay_ms": 3_600_000}), json!({}))
}

async fn wait_until_listed(client: &Client, expected: &[&str]) {
    let listed = async { while tools(client).await != expected {} };
    tokio::time::timeout(TIMEOUT, listed).await.unwrap_or_else(|_| panic!("never listed: {expected:?}"));
}

/// A running task keeps the tool that it was started with.
#[tokio::test]
async fn discovered_tool_changes_are_announced() {
    let forge = Forge::new();
    forge.offer_tools(&[night_tool()]).await;
    let server = forge.serve(&forge.backend("forge", SHORT_INTERVAL));
    let session = Client::open(server.url()).await.unwrap();
    assert_eq!(tools(&session).await, ["hello", "night"], "they are there from the first");
    let mut stream = session.listen().await.unwrap();
    let modern = ModernClient::without_tasks(server.url());
    let (mut subscription, _) = modern.subscribe(json!({"toolsListChanged": true})).await.unwrap();
    assert_eq!(text(&session.call("night", json!({})).await.unwrap()), "a night's work");

    let day = tool("day", json!({"text": "by day"}), json!({}));
    forge.offer_tools(&[night_tool(), day]).await;
    // On a slow machine a status notification of the call can come first.
    while next_message(&mut stream).await["method"] != CHANGED {}
    assert_eq!(next_message(&mut subscription).await["method"], CHANGED);
    assert_eq!(tools(&session).await, ["day", "hello", "night"]);
    assert_eq!(text(&modern.call("day", &json!({}), json!({})).await.unwrap()), "by day");
    let line = wait_for_log(&forge.dir, "tools of backend `forge` changed (2)").await;
    assert!(line.ends_with("added: day"), "{line}");

    // A task that began under the old schema continues; a new call is validated against the current one.
    let task = session.start("night", json!({"text": "as it was"})).await.unwrap();
    forge
        .offer_tools(&[tool("night", json!({"text": "another"}), json!({"hours": {"type": "integer"}}))])
        .await;
    while next_message(&mut stream).await["method"] != CHANGED {}
    assert_eq!(next_message(&mut subscription).await["method"], CHANGED);
    assert_eq!(text(&session.result(&task).await.unwrap()), "as it was");
    let old = session.call("night", json!({"text": "as it was"})).await;
    let reply = old.map_or_else(|fault| format!("{fault:?}"), |result| result.to_string());
    assert!(reply.contains("'text' was unexpected"), "{reply}");
    assert_eq!(text(&session.call("night", json!({"hours": 3})).await.unwrap()), "another");
}

/// Its tasks are still polled, answered and cancelled. New calls are refused.
#[tokio::test]
async fn removed_discovered_tool_serves_its_tasks() {
    let forge = Forge::new();
    forge.offer_tools(&[asking_tool(), endless_tool()]).await;
    let server = forge.serve(&forge.backend("forge", SHORT_INTERVAL));
    let session = Client::open(server.url()).await.unwrap();
    let question_task = session.start("asking", json!({})).await.unwrap();
    let running = session.start("endless", json!({})).await.unwrap();
    forge.offer_tools(&[]).await;
    wait_until_listed(&session, &["hello"]).await;
    let Err(Fault::Refused { code: -32602, message }) = session.start("endless", json!({})).await else {
        panic!("a tool that is gone is called");
    };
    assert!(message.contains("endless"), "{message}");
    assert_eq!(session.get(&running).await.unwrap()["status"], "working");
    let reply = json!({"action": "accept", "content": {"name": "Ann"}});
    let result =
        session.request_with_reply("tasks/result", json!({"taskId": question_task}), &reply).await.unwrap();
    assert!(text(&result).contains("Ann"), "{result}");
    session.cancel(&running).await.unwrap();
    assert_eq!(session.get(&running).await.unwrap()["status"], "cancelled");
    let stopped = async { while forge.control.counts(None).await.unwrap().running > 0 {} };
    tokio::time::timeout(TIMEOUT, stopped).await.expect("the job is stopped in the engine");
}

/// The server starts without the engine, and a later outage removes no tool and is logged once.
#[tokio::test]
async fn engine_outage_keeps_discovered_tools() {
    let forge = Forge::new();
    forge.offer_tools(&[night_tool()]).await;
    forge.control.set_outage(true).await.unwrap();
    let server = forge.serve(&forge.backend("forge", SHORT_INTERVAL));
    let session = Client::open(server.url()).await.unwrap();
    assert_eq!(tools(&session).await, ["hello"]);
    let mut stream = session.listen().await.unwrap();
    wait_for_log(&forge.dir, "discovery of backend `forge` failed").await;
    forge.control.set_outage(false).await.unwrap();
    assert_eq!(next_message(&mut stream).await["method"], CHANGED);
    assert_eq!(tools(&session).await, ["hello", "night"]);

    forge.control.set_outage(true).await.unwrap();
    let line = wait_for_nth_log(&forge.dir, "discovery of backend `forge` failed", 2).await;
    assert!(line.contains("the previous tools stay (1)"), "{line}");
    assert_eq!(tools(&session).await, ["hello", "night"]);
    forge.control.set_outage(false).await.unwrap();
    wait_for_nth_log(&forge.dir, "discovery of backend `forge` succeeds again", 2).await;
    let log = std::fs::read_to_string(forge.dir.path("server.log")).unwrap();
    assert_eq!(log.matches("discovery of backend `forge` failed").count(), 2, "an outage is told once");
}

/// Discovered tools with an invalid schema or a reserved name are logged and left out.
#[tokio::test]
async fn configured_tool_overrides_discovered_tool() {
    let forge = Forge::new();
    let mine = tool("hello", json!({"text": "not this one"}), json!({}));
    let bad =
        DiscoveredTool { input_schema: Map::from_iter([("type".into(), json!("strin"))]), ..night_tool() };
    let bad = DiscoveredTool { name: "bad".to_owned(), ..bad };
    let companion = DiscoveredTool { name: "task_wait".to_owned(), ..night_tool() };
    forge.offer_tools(&[mine, bad, companion, night_tool()]).await;
    let both =
        |more: &str| format!("{}{}", forge.backend("forge", SHORT_INTERVAL), forge.backend("second", more));
    let server = forge.serve(&both(SHORT_INTERVAL));
    let session = Client::open(server.url()).await.unwrap();
    assert_eq!(tools(&session).await, ["hello", "night"]);
    assert_eq!(text(&session.call("hello", json!({})).await.unwrap()), "hello\n");
    let line = wait_for_log(&forge.dir, "tool `bad` of backend `forge` is omitted").await;
    assert!(line.contains("tools.bad.input_schema"), "{line}");
    wait_for_log(&forge.dir, "tool `task_wait` of backend `forge` is omitted").await;
    let line = wait_for_log(&forge.dir, "tool `night` of backend `second` is omitted").await;
    assert!(line.contains("backend `forge` offers a tool of this name; set `prefix`"), "{line}");

    // A reload of the config takes effect at once: which tools are discovered, and under which names.
    replace_config(&forge.dir, &format!("{ONE}{}", both("prefix = \"second-\"\nstarting_with = \"n\"")));
    wait_until_listed(&session, &["hello", "night", "second-night"]).await;
    let task = session.start("second-night", json!({"text": "by the second"})).await.unwrap();
    replace_config(&forge.dir, ONE);
    wait_until_listed(&session, &["hello"]).await;
    assert_eq!(text(&session.result(&task).await.unwrap()), "by the second");
}

/// A replica that has not discovered the tool yet answers and cancels its tasks.
#[tokio::test]
async fn replica_without_tool_serves_tasks() {
    let forge = Forge::new();
    let store = format!(
        "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{}\"\nbackends_dir = \"state\"\n\
         [reconciler]\nlease = \"2s\"\nquickest_look = \"20ms\"\n",
        shared().url(),
        schema()
    );
    let basics = BASICS.split("[store]").next().unwrap();
    let config = |every: &str| {
        format!("{basics}{store}{ONE}{}", forge.backend("forge", every))
            .replace("kind = \"local\"", "kind = \"sim\"")
            .replace("target.command = [\"echo\", \"hello\"]", "target = {}")
    };
    std::fs::write(forge.dir.config(), config(SHORT_INTERVAL)).unwrap();
    let later = TestDir::new(&config("every = \"1h\""));
    let (mut first_server, second_server) = (forge.dir.serve(), later.serve());
    let (first, second) =
        (Client::open(first_server.url()).await.unwrap(), Client::open(second_server.url()).await.unwrap());
    forge.offer_tools(&[asking_tool(), endless_tool()]).await;
    wait_until_listed(&first, &["asking", "endless", "hello"]).await;
    assert_eq!(tools(&second).await, ["hello"]);
    let question_task = first.start("asking", json!({})).await.unwrap();
    let running = first.start("endless", json!({})).await.unwrap();
    first_server.kill();
    let reply = json!({"action": "accept", "content": {"name": "Bob"}});
    let result =
        second.request_with_reply("tasks/result", json!({"taskId": question_task}), &reply).await.unwrap();
    assert!(text(&result).contains("Bob"), "{result}");
    second.cancel(&running).await.unwrap();
    let stopped = async { while forge.control.counts(None).await.unwrap().running > 0 {} };
    tokio::time::timeout(TIMEOUT, stopped).await.expect("the job is stopped in the engine");
}
