//! The official schema of 2025-11-25: every message that a test receives is held against it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../schema/mcp-2025-11-25.json")).unwrap());
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> = LazyLock::new(Mutex::default);

/// Panics unless the value is what the schema calls `name`.
pub(super) fn check(name: &str, value: &Value) {
    let validator = *VALIDATORS.lock().unwrap().entry(name.to_owned()).or_insert_with(|| {
        assert!(SCHEMA["$defs"].get(name).is_some(), "the schema has no {name}");
        let schema = json!({"$ref": format!("#/$defs/{name}"), "$defs": SCHEMA["$defs"]});
        Box::leak(Box::new(jsonschema::options().should_validate_formats(true).build(&schema).unwrap()))
    });
    if let Err(error) = validator.validate(value) {
        panic!("not a {name}: {error} at {}: {value}", error.instance_path());
    }
}

/// Checks a message that the server sent on its own account.
pub(super) fn check_message(message: &Value) {
    let name = match message["method"].as_str().unwrap_or_else(|| panic!("not a message of ours: {message}"))
    {
        "notifications/progress" => "ProgressNotification",
        "notifications/tasks/status" => "TaskStatusNotification",
        "notifications/cancelled" => "CancelledNotification",
        "elicitation/create" => "ElicitRequest",
        other => panic!("the server never sends {other}"),
    };
    check(name, message);
}

/// Checks the answer to a request.
pub(super) fn check_answer(request: &Value, answer: &Value) {
    if answer.get("error").is_some() {
        return check("JSONRPCErrorResponse", answer);
    }
    check("JSONRPCResultResponse", answer);
    let name = match request["method"].as_str().unwrap() {
        "initialize" => "InitializeResult",
        "ping" => "EmptyResult",
        "tools/list" => "ListToolsResult",
        "tools/call" if answer["result"].get("task").is_some() => "CreateTaskResult",
        "tools/call" | "tasks/result" => "CallToolResult",
        "tasks/get" => "GetTaskResult",
        "tasks/list" => "ListTasksResult",
        "tasks/cancel" => "CancelTaskResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        other => panic!("no result of {other} is known"),
    };
    check(name, &answer["result"]);
}
