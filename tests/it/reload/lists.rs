//! Tests for `list_changed` notifications: on the GET stream of a session, on a 2026-07-28 subscription, and
//! over stdio for both. A session that returns after a restart of the server gets them too.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use super::{ONE, TIMEOUT, next_message, replace_config, start, tools, wait_for_log, wait_for_nth_log};
use crate::support::{BASICS, Generation, ModernClient, TestDir, schema};

/// One more tool, resource and prompt.
const MORE: &str = r#"
[tools.more]
backend = "here"
target.command = ["true"]

[resources.more]
uri = "more:it"
text = "More."

[prompts.more]
messages = [{ text = "More." }]
"#;

const CHANGES: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Every stream is notified of the lists that it subscribed to.
#[tokio::test]
async fn applied_config_announces_changed_lists() {
    let app = start("");
    let session = app.client().await;
    let mut stream = session.listen().await.unwrap();
    let modern = ModernClient::without_tasks(app.server.url());
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let (mut subscription, granted) = modern.subscribe(all.clone()).await.unwrap();
    assert_eq!(granted, all);
    let (mut prompts_alone, _) = modern.subscribe(json!({"promptsListChanged": true})).await.unwrap();
    assert_eq!(tools(&session).await, ["hello"]);

    replace_config(&app.dir, &format!("{ONE}{MORE}"));
    for method in CHANGES {
        assert_eq!(next_message(&mut stream).await["method"], method);
        assert_eq!(next_message(&mut subscription).await["method"], method);
    }
    assert_eq!(tools(&session).await, ["hello", "more"]);
    let line = wait_for_log(&app.dir, "config applied").await;
    assert!(line.ends_with("tools added: more; resources added: more; prompts added: more"), "{line}");

    // A change that no list shows is applied without a notification.
    replace_config(&app.dir, &format!("{ONE}{MORE}").replace("\"true\"", "\"echo\", \"changed\""));
    let line = wait_for_nth_log(&app.dir, "config applied", 2).await;
    assert!(line.ends_with("tools changed: more"), "{line}");
    replace_config(&app.dir, ONE);
    for method in CHANGES {
        assert_eq!(next_message(&mut stream).await["method"], method);
        assert_eq!(next_message(&mut subscription).await["method"], method);
    }
    for _ in 0..2 {
        assert_eq!(next_message(&mut prompts_alone).await["method"], CHANGES[1]);
    }
}

/// A session that resumes after a restart is notified of the lists that changed meanwhile, and only once.
#[tokio::test]
async fn returning_session_gets_list_changes() {
    let app = start("");
    let session = app.client().await;
    let mut stream = session.listen().await.unwrap();
    replace_config(&app.dir, &format!("{ONE}{MORE}"));
    for method in CHANGES {
        assert_eq!(next_message(&mut stream).await["method"], method);
    }
    // A notification after the list changes, so that the client's last event id is behind them.
    let task = session.start("hello", json!({})).await.unwrap();
    session.result(&task).await.unwrap();
    while next_message(&mut stream).await["method"] != "notifications/tasks/status" {}
    let last_id = stream.last_id.clone().unwrap();

    let crate::support::TestApp { mut server, dir: folder } = app;
    assert_eq!(server.stop(), Some(0));
    replace_config(&folder, &format!("{ONE}{MORE}").replace("Says hello.", "Greets."));
    let server = folder.serve();
    let session = session.at(server.url());
    let mut resumed = session.listen_after(&last_id).await.unwrap();
    assert_eq!(next_message(&mut resumed).await["method"], CHANGES[0]);
    replace_config(
        &folder,
        &format!("{ONE}{MORE}").replace("\"More.\" }]", "\"Much more.\" }]\ntitle = \"More\""),
    );
    let methods = [next_message(&mut resumed).await, next_message(&mut resumed).await]
        .map(|message| message["method"].clone());
    assert_eq!(methods, [CHANGES[0], CHANGES[1]], "and nothing was told twice");
}

#[tokio::test]
async fn list_changes_reach_both_stdio_generations() {
    let dir = TestDir::new(&format!("{BASICS}{ONE}"));
    let mut command = dir.command("serve");
    command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(std::fs::File::create(dir.path("server.log")).unwrap());
    let mut child = Command::from(command).kill_on_drop(true).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "taskbridge-tests", "version": "1.0.0"}});
    let listen_params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": "listening", "method": "subscriptions/listen", "params": listen_params}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
    ] {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut next = async || -> Value {
        let line = tokio::time::timeout(TIMEOUT, output.next_line()).await.expect("nothing comes");
        serde_json::from_str(&line.unwrap().expect("the output ended")).unwrap()
    };
    let mut responses = 0;
    while responses < 3 {
        let message = next().await;
        let acknowledged = message["method"] == "notifications/subscriptions/acknowledged";
        responses += usize::from(acknowledged || message["id"] == 1 || message["id"] == 2);
    }
    replace_config(&dir, &format!("{ONE}{MORE}"));
    let (mut in_session, mut subscribed) = (Vec::new(), 0);
    while in_session.len() < 3 || subscribed < 1 {
        let message = next().await;
        let is_subscribed =
            message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "listening";
        let generation = if is_subscribed { Generation::V2026 } else { Generation::V2025 };
        schema::check(generation, &message);
        match is_subscribed {
            true => {
                assert_eq!(message["method"], CHANGES[0]);
                subscribed += 1;
            }
            false => in_session.push(message["method"].clone()),
        }
    }
    assert_eq!(in_session, CHANGES);
    drop(input);
    assert!(child.wait().await.unwrap().success());
}
