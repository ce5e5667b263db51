//! Checks against the official schemas: every message of a server under test is validated against the schema
//! of its generation. The tests themselves check more than the shape.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The generation of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Generation {
    /// 2025-11-25, and its predecessors, which have the same shapes.
    V2025,
    /// 2026-07-28, with the tasks extension.
    V2026,
}

use Generation::{V2025, V2026};

/// A file of tests/schema.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Schema {
    V2025,
    V2026,
    Tasks,
}

static SCHEMAS: LazyLock<[Value; 3]> = LazyLock::new(|| {
    [
        include_str!("../../schema/mcp-2025-11-25.json"),
        include_str!("../../schema/mcp-2026-07-28.json"),
        include_str!("../../schema/mcp-tasks-extension.json"),
    ]
    .map(|text| serde_json::from_str(text).unwrap())
});
static VALIDATORS: LazyLock<Mutex<HashMap<(Schema, String), &'static Validator>>> =
    LazyLock::new(Mutex::default);

/// Panics unless a server of this generation may send the message: a notification, a request of its own, or
/// an answer to a request that is not known here.
pub(crate) fn check(generation: Generation, message: &Value) {
    match (message["method"].as_str(), generation) {
        (Some(method), V2025) => validate(Schema::V2025, message_schema_2025(method), message),
        (Some(method), V2026) => {
            assert!(message.get("id").is_none(), "a server of this generation makes no requests: {message}");
            let (schema, name) = message_schema_2026(method);
            validate(schema, name, message);
        }
        (None, _) => check_envelope(generation, message),
    }
}

/// Panics unless this is an answer to that request.
pub(crate) fn check_answer(generation: Generation, request: &Value, answer: &Value) {
    check_envelope(generation, answer);
    let Some(result) = answer.get("result") else { return };
    let method = request["method"].as_str().unwrap();
    match generation {
        V2025 => validate(Schema::V2025, result_2025(method, result), result),
        V2026 => check_result_2026(method, result),
    }
}

/// Panics unless the value matches `name` in the schema of 2025-11-25. It checks messages of test clients, so
/// that no server is tested with messages that no client may send.
pub(crate) fn check_client_message(name: &str, value: &Value) {
    validate(Schema::V2025, name, value);
}

fn check_envelope(generation: Generation, answer: &Value) {
    let schema = match generation {
        V2025 => Schema::V2025,
        V2026 => Schema::V2026,
    };
    let Some(error) = answer.get("error") else { return validate(schema, "JSONRPCResultResponse", answer) };
    validate(schema, "JSONRPCErrorResponse", answer);
    if generation == V2026 {
        let code = error["code"].as_i64().unwrap();
        assert_ne!(code, -32002, "this generation has -32602 for what is not there: {answer}");
        match code {
            -32020 => validate(schema, "HeaderMismatchError", answer),
            -32021 => validate(schema, "MissingRequiredClientCapabilityError", answer),
            -32022 => validate(schema, "UnsupportedProtocolVersionError", answer),
            _ => {}
        }
    }
}

/// Returns the schema name of a message that a 2025-11-25 server sends unasked.
fn message_schema_2025(method: &str) -> &'static str {
    match method {
        "notifications/cancelled" => "CancelledNotification",
        "notifications/elicitation/complete" => "ElicitationCompleteNotification",
        "notifications/message" => "LoggingMessageNotification",
        "notifications/progress" => "ProgressNotification",
        "notifications/prompts/list_changed" => "PromptListChangedNotification",
        "notifications/resources/list_changed" => "ResourceListChangedNotification",
        "notifications/resources/updated" => "ResourceUpdatedNotification",
        "notifications/tasks/status" => "TaskStatusNotification",
        "notifications/tools/list_changed" => "ToolListChangedNotification",
        "elicitation/create" => "ElicitRequest",
        "roots/list" => "ListRootsRequest",
        "sampling/createMessage" => "CreateMessageRequest",
        "tasks/cancel" => "CancelTaskRequest",
        "tasks/get" => "GetTaskRequest",
        "tasks/result" => "GetTaskPayloadRequest",
        other => panic!("the server never sends {other}"),
    }
}

fn result_2025(method: &str, result: &Value) -> &'static str {
    match method {
        "completion/complete" => "CompleteResult",
        "initialize" => "InitializeResult",
        "logging/setLevel" | "ping" | "resources/subscribe" | "resources/unsubscribe" => "EmptyResult",
        "prompts/get" => "GetPromptResult",
        "prompts/list" => "ListPromptsResult",
        "resources/list" => "ListResourcesResult",
        "resources/read" => "ReadResourceResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "tasks/cancel" => "CancelTaskResult",
        "tasks/get" => "GetTaskResult",
        "tasks/list" => "ListTasksResult",
        "tools/call" if result.get("task").is_some() => "CreateTaskResult",
        "tools/call" | "tasks/result" => "CallToolResult",
        "tools/list" => "ListToolsResult",
        other => panic!("no result of {other} is known"),
    }
}

/// Returns the schema of a message that a 2026-07-28 server sends on the stream of a request.
fn message_schema_2026(method: &str) -> (Schema, &'static str) {
    let name = match method {
        "notifications/cancelled" => "CancelledNotification",
        "notifications/message" => "LoggingMessageNotification",
        "notifications/progress" => "ProgressNotification",
        "notifications/prompts/list_changed" => "PromptListChangedNotification",
        "notifications/resources/list_changed" => "ResourceListChangedNotification",
        "notifications/resources/updated" => "ResourceUpdatedNotification",
        "notifications/subscriptions/acknowledged" => "SubscriptionsAcknowledgedNotification",
        "notifications/tasks" => return (Schema::Tasks, "TaskStatusNotification"),
        "notifications/tools/list_changed" => "ToolListChangedNotification",
        other => panic!("the server never sends {other}"),
    };
    (Schema::V2026, name)
}

fn check_result_2026(method: &str, result: &Value) {
    let kind = result["resultType"].as_str();
    let core = |name| (Schema::V2026, name);
    let (schema, name) = match (method, kind) {
        ("prompts/get" | "resources/read" | "tools/call", Some("input_required")) => {
            let asks = result.get("inputRequests").is_some() || result.get("requestState").is_some();
            assert!(asks, "nothing is asked, and there is nothing to come back with: {result}");
            return validate(Schema::V2026, "InputRequiredResult", result);
        }
        ("tools/call", Some("task")) => return validate(Schema::Tasks, "CreateTaskResult", result),
        ("completion/complete", _) => core("CompleteResult"),
        ("prompts/get", _) => core("GetPromptResult"),
        ("prompts/list", _) => core("ListPromptsResult"),
        ("resources/list", _) => core("ListResourcesResult"),
        ("resources/read", _) => core("ReadResourceResult"),
        ("resources/templates/list", _) => core("ListResourceTemplatesResult"),
        ("server/discover", _) => core("DiscoverResult"),
        ("subscriptions/listen", _) => core("SubscriptionsListenResult"),
        ("tasks/cancel", _) => (Schema::Tasks, "CancelTaskResult"),
        ("tasks/get", _) => (Schema::Tasks, "GetTaskResult"),
        ("tasks/update", _) => (Schema::Tasks, "UpdateTaskResult"),
        ("tools/call", _) => core("CallToolResult"),
        ("tools/list", _) => core("ListToolsResult"),
        (other, _) => panic!("no result of {other} is known"),
    };
    assert_eq!(kind, Some("complete"), "{method} has no such result: {result}");
    validate(schema, name, result);
    if method == "tasks/get" && result["status"] == "completed" {
        // The extension's schema does not define this content.
        check_result_2026("tools/call", &result["result"]);
    }
}

/// Panics unless the value matches `name` in the schema.
fn validate(schema: Schema, name: &str, value: &Value) {
    let validator = *VALIDATORS.lock().unwrap().entry((schema, name.to_owned())).or_insert_with(|| {
        let document = &SCHEMAS[schema as usize];
        assert!(document["$defs"].get(name).is_some(), "the schema has no {name}");
        let part = json!({"$ref": format!("#/$defs/{name}"), "$defs": document["$defs"]});
        Box::leak(Box::new(jsonschema::options().should_validate_formats(true).build(&part).unwrap()))
    });
    if let Err(error) = validator.validate(value) {
        panic!("not a {name}: {error} at {}: {value}", error.instance_path());
    }
}

#[test]
fn each_generation_has_its_own_shapes() {
    let progress = json!({"progressToken": "t", "progress": 1});
    for generation in [V2025, V2026] {
        check(generation, &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"});
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let task = json!({
        "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttl": 1, "ttlMs": 1, "resultType": "task"
    });
    check_answer(V2025, &call, &answer(json!({ "task": task })));
    check_answer(V2026, &call, &answer(task));
    check_answer(V2026, &call, &answer(json!({"resultType": "complete", "content": []})));
}

#[test]
#[should_panic(expected = "\"resultType\" is a required property")]
fn result_without_type_violates_2026_schema() {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"});
    check_answer(V2026, &call, &json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}));
}

#[test]
#[should_panic(expected = "not a ProgressNotification")]
fn what_does_not_fit_is_found() {
    check(V2025, &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}));
}
