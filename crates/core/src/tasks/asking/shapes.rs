//! JSON schemas of MCP objects that pass through: a sampling request and its result, and roots. They require
//! only what every protocol revision requires. A request may have no other fields; a result may.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// `CreateMessageRequestParams`, without the fields that belong to the server.
static SAMPLING: LazyLock<Validator> = LazyLock::new(|| {
    compile(json!({
        "type": "object",
        "properties": {
            "messages": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {"role": role(), "content": content()},
                    "required": ["role", "content"]
                }
            },
            "maxTokens": {"type": "integer", "minimum": 1},
            "systemPrompt": {"type": "string"},
            "temperature": {"type": "number"},
            "stopSequences": {"type": "array", "items": {"type": "string"}},
            "includeContext": {"enum": ["none", "thisServer", "allServers"]},
            "modelPreferences": {"type": "object"},
            "metadata": {"type": "object"},
            "tools": {"type": "array", "items": {"type": "object", "required": ["name", "inputSchema"]}},
            "toolChoice": {"type": "object"}
        },
        "required": ["messages", "maxTokens"],
        "additionalProperties": false
    }))
});

/// `CreateMessageResult`.
static SAMPLING_RESULT: LazyLock<Validator> = LazyLock::new(|| {
    compile(json!({
        "type": "object",
        "properties": {
            "role": role(),
            "content": content(),
            "model": {"type": "string"},
            "stopReason": {"type": "string"}
        },
        "required": ["role", "content", "model"]
    }))
});

/// `ListRootsResult`.
static ROOTS: LazyLock<Validator> = LazyLock::new(|| {
    compile(json!({
        "type": "object",
        "properties": {
            "roots": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"uri": {"type": "string", "pattern": "^file://"}, "name": {"type": "string"}},
                    "required": ["uri"]
                }
            }
        },
        "required": ["roots"]
    }))
});

static URI: LazyLock<Validator> = LazyLock::new(|| compile(json!({"type": "string", "format": "uri"})));

fn role() -> Value {
    json!({"enum": ["user", "assistant"]})
}

fn content() -> Value {
    let has = |kind: &str, fields: &[&str]| {
        let required = [&["type"], fields].concat();
        json!({"properties": {"type": {"const": kind}}, "required": required})
    };
    let block = json!({
        "type": "object",
        "anyOf": [
            has("text", &["text"]),
            has("image", &["data", "mimeType"]),
            has("audio", &["data", "mimeType"]),
            has("tool_use", &["id", "name", "input"]),
            has("tool_result", &["toolUseId", "content"])
        ]
    });
    json!({"anyOf": [block, {"type": "array", "items": block}]})
}

fn compile(schema: Value) -> Validator {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&schema).expect("the schemas in this file are valid")
}

/// Validates a sampling request.
pub(super) fn check_sampling(request: &Map<String, Value>) -> Result<(), String> {
    validate(&SAMPLING, request).map_err(|fault| format!("its sampling request is not valid in MCP: {fault}"))
}

/// Validates a model's answer, and removes `_meta`.
pub(super) fn validate_sampling_result(mut result: Map<String, Value>) -> Result<Map<String, Value>, String> {
    result.remove("_meta");
    validate(&SAMPLING_RESULT, &result)
        .map_err(|fault| format!("it is not a valid CreateMessageResult: {fault}"))?;
    Ok(result)
}

/// Validates a client's roots, and removes `_meta`.
pub(super) fn validate_roots(mut result: Map<String, Value>) -> Result<Map<String, Value>, String> {
    result.remove("_meta");
    validate(&ROOTS, &result).map_err(|fault| format!("it is not a valid ListRootsResult: {fault}"))?;
    Ok(result)
}

/// Checks that the text is a URI.
pub(super) fn check_uri(text: &str) -> Result<(), ()> {
    if URI.is_valid(&Value::from(text)) { Ok(()) } else { Err(()) }
}

fn validate(validator: &Validator, value: &Map<String, Value>) -> Result<(), String> {
    let value = Value::Object(value.clone());
    validator.validate(&value).map_err(|fault| match fault.instance_path().to_string() {
        path if path.is_empty() => fault.masked().to_string(),
        path => format!("`{path}`: {}", fault.masked()),
    })
}
