//! Tests with the real program: a `kill -9` during a call that asks before it starts, and the trace context
//! that a job receives.

use std::fs;

use serde_json::{Value, json};

use super::bench::{Client, all_capabilities, id_of, text};
use crate::support::{self, TestApp};

const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.mark]
backend = "here"
confirm = "Really?"
target.command = ["sh", "-c", "echo x >> marks; until [ -e go ]; do sleep 0.1; done; wc -l < marks"]
target.working_dir = "."

[tools.trace]
backend = "here"
target.command = ["sh", "-c", "echo \"$TRACEPARENT $TRACESTATE\""]
"#;

fn client(app: &TestApp) -> Client {
    Client::at(app.server.url(), all_capabilities()).with_tasks()
}

/// However often it is sent, one job starts.
#[tokio::test]
async fn request_state_survives_server_kill() {
    let mut app = TestApp::start(TOOLS);
    let question = client(&app).call("mark", json!({})).await;
    assert_eq!(question["resultType"], "input_required");
    let params = json!({
        "name": "mark", "requestState": question["requestState"],
        "inputResponses": {"confirm": {"action": "accept", "content": {}}}
    });
    let mut ids = Vec::new();
    for _ in 0..3 {
        app.server.kill();
        app.server = app.dir.serve();
        ids.push(id_of(&client(&app).get("tools/call", params.clone()).await));
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    fs::write(app.dir.path("go"), "").unwrap();
    let task = client(&app).wait_for_status(&ids[0], "completed").await;
    assert_eq!(text(&task["result"]).trim(), "1", "one job was started: {task}");
    let marks = fs::read_to_string(app.dir.path("marks")).unwrap();
    assert_eq!(marks.lines().count(), 1);
}

/// An invalid trace is not passed on.
#[tokio::test]
async fn job_receives_trace_of_call() {
    let app = TestApp::start(TOOLS);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let meta = json!({"traceparent": parent, "tracestate": "a=1"});
    let modern = client(&app).get("tools/call", json!({"name": "trace", "_meta": meta})).await;
    let output = match modern["resultType"].as_str() {
        Some("task") => {
            let task = client(&app).wait_for_status(&id_of(&modern), "completed").await;
            support::text(&task["result"])
        }
        _ => support::text(&modern),
    };
    assert_eq!(output.trim(), format!("{parent} a=1"));
    let old = app.client().await;
    let answer = old.request("tools/call", json!({"name": "trace", "_meta": meta})).await.unwrap();
    assert_eq!(support::text(&answer).trim(), format!("{parent} a=1"));
    let broken = json!({"name": "trace", "_meta": {"traceparent": "nonsense"}});
    let answer: Value = old.request("tools/call", broken).await.unwrap();
    assert_eq!(support::text(&answer).trim(), "", "what is no trace stops nothing and is not passed on");
}
