//! Tests for stdio with the real program: one request per line, and both generations over one pipe.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::bench::{SUBSCRIPTION, TASKS, VERSION};
use crate::support::{BASICS, Generation, TestDir, schema};

const CONFIG: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
backend = "here"
target.command = ["echo", "hello"]

[tools.slow]
backend = "here"
target.command = ["sleep", "30"]

[tools.careful]
backend = "here"
confirm = "Really?"
target.command = ["echo", "done with care"]
"#;

/// Timeout for anything in these tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The program and the two ends of its pipes.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    dir: TestDir,
}

impl Program {
    fn start() -> Self {
        let dir = TestDir::new(&format!("{BASICS}{CONFIG}"));
        let mut command = dir.command("serve");
        command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Command::from(command).kill_on_drop(true).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child, dir }
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    /// Returns the next message, checked against the schema of its generation.
    async fn receive(&mut self, generation: Generation) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.output.next_line()).await.expect("nothing comes");
        let message = serde_json::from_str(&line.unwrap().expect("the output ended")).unwrap();
        schema::check(generation, &message);
        message
    }

    /// Sends a 2026-07-28 request and returns its answer. No other message may come before it.
    async fn request(&mut self, request: &Value) -> Value {
        self.send(request).await;
        let answer = self.receive(Generation::V2026).await;
        schema::check_answer(Generation::V2026, request, &answer);
        assert_eq!(answer["id"], request["id"], "{answer}");
        answer
    }

    /// Cancels a task, and waits until it has ended.
    async fn stop(&mut self, task: &Value) {
        let params = json!({ "taskId": task });
        self.request(&modern_request("stop", "tasks/cancel", params.clone())).await;
        loop {
            let got = self.request(&modern_request("stop", "tasks/get", params.clone())).await;
            if got["result"]["status"] != "working" {
                return;
            }
        }
    }

    /// Closes the input, waits for the end, and returns the remaining messages.
    async fn end(mut self) -> Vec<Value> {
        self.input = None;
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        assert!(self.child.wait().await.unwrap().success());
        drop(self.dir);
        rest
    }
}

/// Returns a 2026-07-28 request of a client that supports tasks.
fn modern_request(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {TASKS: {}}}
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn initialize(id: i64, version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
}

fn cancel_notification(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// Notifications and responses get no answer.
#[tokio::test]
async fn stateless_requests_need_no_initialize() {
    let mut program = Program::start();
    let discovery = program.request(&modern_request(1, "server/discover", json!({}))).await;
    assert_eq!(discovery["result"]["supportedVersions"][0], VERSION);
    // Over stdio there are no headers that must match the body.
    let hello = program.request(&modern_request("two", "tools/call", json!({"name": "hello"}))).await;
    let task = match hello["result"]["taskId"].as_str() {
        Some(id) => id.to_owned(),
        None => {
            assert_eq!(hello["result"]["content"][0]["text"].as_str().unwrap().trim(), "hello");
            let slow = program.request(&modern_request(3, "tools/call", json!({"name": "slow"}))).await;
            slow["result"]["taskId"].as_str().unwrap().to_owned()
        }
    };
    let got = program.request(&modern_request(4, "tasks/get", json!({ "taskId": task }))).await;
    assert_eq!(got["result"]["taskId"], task);
    // A message that is no request never gets an answer.
    program.send(&json!({"jsonrpc": "2.0", "method": "notifications/whatever"})).await;
    program.send(&json!({"jsonrpc": "2.0", "id": 7, "result": {}})).await;
    assert!(program.request(&modern_request(5, "tools/list", json!({}))).await["result"].is_object());
    program.stop(&json!(task)).await;
    assert_eq!(program.end().await, Vec::<Value>::new());
}

#[tokio::test]
async fn stdio_errors_match_http() {
    let mut program = Program::start();
    let mut bare = modern_request(1, "server/discover", json!({}));
    bare["params"] = json!({});
    assert_eq!(program.request(&bare).await["error"]["code"], -32602);
    let mut unknown = modern_request(2, "server/discover", json!({}));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1900-01-01");
    let refused = program.request(&unknown).await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["requested"], "1900-01-01");
    assert_eq!(refused["error"]["data"]["supported"][0], VERSION);
    for method in ["initialize", "ping", "tasks/list", "no/such"] {
        assert_eq!(
            program.request(&modern_request(3, method, json!({}))).await["error"]["code"],
            -32601,
            "{method}"
        );
    }
    assert_eq!(program.end().await, Vec::<Value>::new());
}

#[tokio::test]
async fn consent_takes_two_rounds() {
    let mut program = Program::start();
    let question =
        program.request(&modern_request(1, "tools/call", json!({"name": "careful"}))).await["result"].clone();
    assert_eq!(question["resultType"], "input_required");
    let params = json!({
        "name": "careful", "requestState": question["requestState"],
        "inputResponses": {"confirm": {"action": "accept", "content": {}}}
    });
    let mut answer = program.request(&modern_request(2, "tools/call", params)).await["result"].clone();
    while answer["taskId"].is_string() && answer["status"] == "working" || answer["resultType"] == "task" {
        let get = modern_request(3, "tasks/get", json!({"taskId": answer["taskId"]}));
        answer = program.request(&get).await["result"].clone();
    }
    let result = if answer["result"].is_object() { &answer["result"] } else { &answer };
    assert_eq!(result["content"][0]["text"].as_str().unwrap().trim(), "done with care");
    assert_eq!(program.end().await, Vec::<Value>::new());
}

/// Each message is handled by its own metadata.
#[tokio::test]
async fn generations_share_one_pipe() {
    for probe_first in [true, false] {
        let mut program = Program::start();
        if probe_first {
            assert!(
                program.request(&modern_request(1, "server/discover", json!({}))).await["result"].is_object()
            );
        }
        // Before and after `initialize`, a request of the other generation is treated by its own metadata.
        program.send(&initialize(2, VERSION)).await;
        let initialized = program.receive(Generation::V2025).await;
        assert_eq!(initialized["result"]["protocolVersion"], "2025-11-25");
        program.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        let slow = program.request(&modern_request(3, "tools/call", json!({"name": "slow"}))).await;
        let task = slow["result"]["taskId"].clone();
        let get = json!({"jsonrpc": "2.0", "id": 4, "method": "tasks/get", "params": {"taskId": task}});
        program.send(&get).await;
        let task_answer = program.receive(Generation::V2025).await;
        schema::check_answer(Generation::V2025, &get, &task_answer);
        assert_eq!(task_answer["result"]["status"], "working");
        // Both generations may use the same ids at the same time.
        program.send(&modern_request(5, "tools/list", json!({}))).await;
        program.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": {}})).await;
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let line = program.output.next_line().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(answer["id"], 5);
            kinds.push(answer["result"].get("resultType").is_some());
        }
        kinds.sort_unstable();
        assert_eq!(kinds, [false, true]);
        assert!(
            program.request(&modern_request(6, "server/discover", json!({}))).await["result"].is_object()
        );
        program.stop(&task).await;
        program.end().await;
    }
}

#[tokio::test]
async fn a_cancelled_request_is_not_answered() {
    let mut program = Program::start();
    let mut waiting_call = modern_request("w", "tools/call", json!({"name": "slow"}));
    waiting_call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    program.send(&waiting_call).await;
    // The request is cancelled only once its row exists: this test is about the request, not the time of the
    // insert.
    loop {
        let list = program.request(&modern_request(3, "tools/call", json!({"name": "task_list"}))).await;
        if list["result"]["structuredContent"]["tasks"][0]["task_id"].is_string() {
            break;
        }
    }
    for odd in [
        cancel_notification(&json!("never")),
        cancel_notification(&json!(null)),
        cancel_notification(&json!({})),
    ] {
        program.send(&odd).await;
    }
    program.send(&cancel_notification(&json!("w"))).await;
    assert!(program.request(&modern_request(1, "tools/list", json!({}))).await["result"].is_object());
    let list = program.request(&modern_request(2, "tools/call", json!({"name": "task_list"}))).await;
    let task = list["result"]["structuredContent"]["tasks"][0]["task_id"].clone();
    assert!(task.is_string(), "the job of the call goes on: {list}");
    program.stop(&task).await;
    let rest = program.end().await;
    assert!(rest.iter().all(|message| message["id"] != "w"), "{rest:?}");
}

/// Each message names its subscription.
#[tokio::test]
async fn subscriptions_share_one_pipe() {
    let mut program = Program::start();
    let slow = program.request(&modern_request(1, "tools/call", json!({"name": "slow"}))).await;
    let task = slow["result"]["taskId"].clone();
    let listen = |id: &str, filter: Value| {
        modern_request(id, "subscriptions/listen", json!({ "notifications": filter }))
    };
    let mut first = std::collections::HashMap::new();
    program.send(&listen("a", json!({"taskIds": [task]}))).await;
    program.send(&listen("b", json!({"taskIds": [task], "toolsListChanged": true}))).await;
    for _ in 0..4 {
        let message = program.receive(Generation::V2026).await;
        let id = message["params"]["_meta"][SUBSCRIPTION].as_str().unwrap().to_owned();
        let method = message["method"].as_str().unwrap().to_owned();
        let methods: &mut Vec<String> = first.entry(id).or_default();
        methods.push(method);
    }
    for id in ["a", "b"] {
        assert_eq!(first[id], ["notifications/subscriptions/acknowledged", "notifications/tasks"]);
    }
    // The client ends one subscription, and receives nothing more of it.
    program.send(&cancel_notification(&json!("a"))).await;
    program.request(&modern_request(2, "tools/list", json!({}))).await;
    program.send(&modern_request(3, "tasks/cancel", json!({ "taskId": task }))).await;
    loop {
        let message = program.receive(Generation::V2026).await;
        if message["id"] == 3 {
            continue;
        }
        assert_eq!(message["params"]["_meta"][SUBSCRIPTION], "b", "{message}");
        if message["params"]["status"] == "cancelled" {
            break;
        }
    }
    // The server ends the other one: it sends a notification, and answers the request.
    let rest = program.end().await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    for message in &rest {
        schema::check(Generation::V2026, message);
    }
    assert_eq!(rest[0]["method"], "notifications/cancelled");
    assert_eq!(rest[0]["params"]["requestId"], "b");
    assert_eq!(rest[0]["params"]["_meta"][SUBSCRIPTION], "b");
    assert_eq!((&rest[1]["id"], &rest[1]["result"]["_meta"][SUBSCRIPTION]), (&json!("b"), &json!("b")));
}
