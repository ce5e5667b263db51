//! Fuzz target of the JSON-RPC envelope and its parameters: random bytes, messages of both generations with
//! mutated values, and such messages with mutated bytes.

use serde_json::{Value, json};

use super::draw::Draw;
use super::endpoint::{Endpoint, modern, repeated_headers, request};

/// Every supported method, and some unsupported ones.
const METHODS: [&str; 26] = [
    "tools/call",
    "tools/list",
    "tasks/get",
    "tasks/result",
    "tasks/cancel",
    "tasks/list",
    "tasks/update",
    "subscriptions/listen",
    "initialize",
    "ping",
    "server/discover",
    "logging/setLevel",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "elicitation/create",
    "",
];

/// The kind of an input that is sent unchanged. A seed can select it as text: the byte is an ASCII digit.
const UNCHANGED: usize = 0;

/// Sends messages.
pub fn target(endpoint: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let kind = draw.below(4);
    if kind == UNCHANGED {
        let text = draw.rest();
        let sent = serde_json::from_slice(text).unwrap_or_default();
        return send(endpoint, &sent, text.to_vec());
    }
    let mut message = match draw.once_in(8) {
        true => response(&mut draw),
        false => {
            let method = draw.one_of(&METHODS);
            let params = params(endpoint, &mut draw, method);
            if draw.once_in(2) { request(method, params) } else { modern(method, params) }
        }
    };
    for _ in 0..draw.below(4) {
        draw.mutate(&mut message);
    }
    let text = message.to_string().into_bytes();
    let text = if kind == 3 { draw.mutate_bytes(&text) } else { text };
    send(endpoint, &message, text);
}

/// Sends a text in a session, and with the headers that repeat its fields.
fn send(endpoint: &Endpoint, message: &Value, text: Vec<u8>) {
    let session = endpoint.session();
    endpoint.post(&[("mcp-session-id", session.as_bytes())], text.clone());
    let headers = repeated_headers(message);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_slice())).collect();
    endpoint.post(&headers, text);
}

/// Returns a response without a request.
fn response(draw: &mut Draw<'_>) -> Value {
    match draw.once_in(2) {
        true => json!({"jsonrpc": "2.0", "id": draw.json(), "result": draw.json()}),
        false => {
            json!({"jsonrpc": "2.0", "id": draw.json(), "error": {"code": draw.json(), "message": draw.word()}})
        }
    }
}

/// Returns valid parameters of a method.
fn params(endpoint: &Endpoint, draw: &mut Draw<'_>, method: &str) -> Value {
    let task_ids =
        [endpoint.known_tasks.running_task.as_str(), endpoint.known_tasks.ended_task.as_str(), "none"];
    let task = draw.one_of(&task_ids);
    let uris = ["runbook://deploy", "service://api/data", "region://x", "taskbridge://tasks/none/log"];
    match method {
        "tools/call" => {
            let tools = ["run", "careful", "deploy", "routed", "taskbridge_task", "taskbridge_wait"];
            let arguments = [
                json!({}),
                json!({"n": 1}),
                json!({"env": "staging"}),
                json!({"region": "eu", "count": 42, "dry": true}),
                json!({"task_id": task}),
            ];
            json!({
                "name": draw.one_of(&tools),
                "arguments": arguments[draw.below(arguments.len())],
                "task": {"ttl": 1000},
                "_meta": {"progressToken": 1, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                "inputResponses": {"confirm": {"action": "accept", "content": {}}},
            })
        }
        "tasks/get" | "tasks/result" | "tasks/cancel" => json!({"taskId": task}),
        "tasks/update" => json!({"taskId": task, "inputResponses": {"q1": {"action": "decline"}}}),
        "subscriptions/listen" => json!({"notifications": {
            "taskIds": [task], "toolsListChanged": true, "resourceSubscriptions": [draw.one_of(&uris)],
        }}),
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}}, "sampling": {}, "tasks": {"list": {}}},
            "clientInfo": {"name": "fuzz", "version": "1"},
        }),
        "logging/setLevel" => json!({"level": "debug"}),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            json!({"uri": draw.one_of(&uris)})
        }
        "prompts/get" => json!({"name": "release", "arguments": {"env": "staging"}}),
        "completion/complete" => json!({
            "ref": {"type": "ref/prompt", "name": "release"},
            "argument": {"name": "env", "value": "s"},
            "context": {"arguments": {"notes": "none"}},
        }),
        "notifications/cancelled" => json!({"requestId": 1, "reason": "none"}),
        "notifications/progress" => json!({"progressToken": 1, "progress": 0.5}),
        _ => json!({}),
    }
}
