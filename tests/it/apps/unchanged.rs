//! Compares what clients without the extension get, byte for byte, with `unchanged.txt`, which was recorded
//! before the server had the extension. `TASKBRIDGE_REVIEW=1` rewrites that file: do that only for a change
//! that all clients are meant to see. Ids, times and sealed cursors are replaced, because they differ from
//! run to run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};

use crate::support::{BASICS, TestDir, knob};

const CONFIG: &str = r#"
[reconciler]
quickest_look = "20ms"
slowest_look = "50ms"

[backends.engine]
kind = "sim"

[tools.deploy]
title = "Deploy"
description = "Rolls a revision out."
backend = "engine"
parameters.revision = { type = "string" }
parameters.delay_ms = { type = "integer", default = 0 }
[tools.deploy.target]
text = "rolled out"
link = "https://engine.example/runs/1"

[tools.ask]
description = "Asks first."
backend = "engine"
answer_by_model = true
output_schema = { type = "object", properties = { ok = { type = "boolean" } } }
[tools.ask.target.question]
message = "Go?"
at_once = true
schema = { type = "object", properties = { n = { type = "integer" } } }

[resources.notes]
uri = "notes://all"
text = "Read the notes."
"#;

/// Clients without the extension: a name, the revision, and the capabilities.
fn clients() -> [(&'static str, &'static str, Value); 6] {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    [
        ("2025-03-26", "2025-03-26", json!({})),
        ("2025-06-18", "2025-06-18", json!({})),
        ("2025-11-25", "2025-11-25", json!({"elicitation": {"form": {}}})),
        ("2025-11-25 with another extension", "2025-11-25", json!({"extensions": {"com.example/ui": {}}})),
        ("2026-07-28", "2026-07-28", json!({})),
        ("2026-07-28 with tasks", "2026-07-28", tasks),
    ]
}

/// One client, and what it gets.
struct Recorder {
    http: reqwest::Client,
    url: String,
    revision: &'static str,
    capabilities: Value,
    session: Option<String>,
    text: String,
}

impl Recorder {
    /// Sends a request and records the body of its answer.
    async fn record(&mut self, method: &str, mut params: Value) -> Value {
        let label = format!("{method} {params}");
        let mut post = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        if self.revision == "2026-07-28" {
            let name = params["name"].as_str().or(params["uri"].as_str()).or(params["taskId"].as_str());
            post = post.header("mcp-method", method).header("mcp-protocol-version", self.revision);
            if let Some(name) = name {
                post = post.header("mcp-name", name);
            }
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(self.revision);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        } else if let Some(session) = &self.session {
            post = post.header("mcp-session-id", session).header("mcp-protocol-version", self.revision);
        }
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = post.json(&request).send().await.unwrap();
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        let status = response.status().as_u16();
        let body = response.text().await.unwrap();
        // Messages before the answer report progress, which depends on the time.
        let answer = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let answer = answer.unwrap_or(&body).to_owned();
        writeln!(self.text, "> {label}\n{status} {answer}").unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.record("tools/call", json!({"name": name, "arguments": arguments})).await["result"].take()
    }
}

/// Replaces what differs from run to run.
fn normalize(text: &str) -> String {
    [
        (r"\b[a-z2-7]{32}\b", "TASK"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r#""nextCursor":"[^"]+""#, r#""nextCursor":"CURSOR""#),
        (r#""(ttl|ttlMs|pollInterval|pollIntervalMs|poll_after_seconds)":\d+"#, r#""$1":N"#),
        (r#""version":"[0-9][^"]*""#, r#""version":"VERSION""#),
    ]
    .iter()
    .fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}

#[tokio::test]
async fn client_without_extension_sees_no_difference() {
    let basics = BASICS.replace("[auth]", "call_budget = \"2s\"\n\n[auth]");
    let dir = TestDir::new(&format!("{basics}{CONFIG}"));
    let server = dir.serve();
    let mut recorded = String::new();
    for (name, revision, capabilities) in clients() {
        let http = reqwest::Client::new();
        let url = server.url().to_owned();
        let (session, text) = (None, String::new());
        let mut client = Recorder { http, url, revision, capabilities, session, text };
        if revision == "2026-07-28" {
            client.record("server/discover", json!({})).await;
        } else {
            let hello = json!({
                "protocolVersion": revision,
                "capabilities": client.capabilities,
                "clientInfo": {"name": "recorder", "version": "1"},
            });
            client.record("initialize", hello).await;
        }
        for method in ["tools/list", "resources/list", "resources/templates/list"] {
            client.record(method, json!({})).await;
        }
        client.record("resources/read", json!({"uri": "ui://taskbridge/task"})).await;
        client.call("task_view", json!({"task_id": "x"})).await;
        client.call("deploy", json!({"revision": "a"})).await;
        client.call("deploy", json!({"revision": "a", "delay_ms": "soon"})).await;
        let asks = client.call("ask", json!({})).await;
        let id = asks["structuredContent"]["task_id"].as_str().or(asks["taskId"].as_str()).map(str::to_owned);
        if let Some(id) = id {
            client.call("task_answer", json!({"task_id": id, "content": {"n": 7}})).await;
            if revision == "2025-11-25" {
                client.record("tasks/result", json!({"taskId": id})).await;
            }
        }
        writeln!(recorded, "# {name}\n{}", client.text).unwrap();
    }
    let recorded = normalize(&recorded);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/apps/unchanged.txt");
    if knob("TASKBRIDGE_REVIEW", 0) == 1 {
        fs::write(&path, &recorded).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (n, (now, before)) in recorded.lines().zip(expected.lines()).enumerate() {
        assert_eq!(now, before, "line {}", n + 1);
    }
    assert_eq!(recorded.len(), expected.len());
}
