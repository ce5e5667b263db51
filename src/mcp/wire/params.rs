//! Parses the parameters that are the same in every generation. An error is -32602 and names the field, the
//! kind of its content and the expected value. It must not do a lookup.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_sdk::{Answer, Ask, Level, Trace};

use super::IDEMPOTENCY_KEY;
use super::jsonrpc::{Error, INVALID_PARAMS};
use crate::catalog::MAX_KEY_BYTES;
use crate::tasks::task::TaskId;

/// Returns an error about a field.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(INVALID_PARAMS, message)
}

/// Parses the `taskId` of the methods `tasks/...`. The related-task metadata is ignored.
pub fn task_id(params: &Value) -> Result<TaskId, Error> {
    Ok(TaskId::from_wire(text(params, "taskId", "the id of a task")?))
}

/// Parses a required string.
pub fn text<'a>(params: &'a Value, field: &str, expected: &str) -> Result<&'a str, Error> {
    match params.get(field) {
        Some(Value::String(text)) => Ok(text),
        other => Err(invalid_field(field, other, expected)),
    }
}

/// Parses the cursor of a list, if there is one.
pub fn cursor(params: &Value) -> Result<Option<&str>, Error> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(cursor)) => Ok(Some(cursor)),
        other => Err(invalid_field("cursor", other, "the nextCursor of the page before")),
    }
}

/// Returns the error for an invalid cursor.
pub fn invalid_cursor() -> Error {
    invalid("`cursor` is not one that this list gave you: leave it out to begin at the first page")
}

/// Parses the progress token, if there is one: a string or an integer.
pub fn progress_token(params: &Value) -> Result<Option<Value>, Error> {
    match meta(params)?.and_then(|meta| meta.get("progressToken")) {
        None | Some(Value::Null) => Ok(None),
        Some(token) if token.is_string() || token.is_i64() || token.is_u64() => Ok(Some(token.clone())),
        other => Err(invalid_field("_meta.progressToken", other, "a string or an integer")),
    }
}

/// Parses a log level: one of the eight names of RFC 5424.
pub fn level(field: &str, value: Option<&Value>) -> Result<Level, Error> {
    match value {
        Some(Value::String(name)) if let Some(level) = Level::parse(name) => Ok(level),
        other => {
            let names = Level::ALL.map(|level| format!("{:?}", level.as_str())).join(", ");
            Err(invalid_field(field, other, &format!("one of {names}")))
        }
    }
}

/// Parses the arguments of a call. Absent arguments are an empty object.
fn arguments(value: Option<Value>) -> Result<Map<String, Value>, Error> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments),
        other => Err(invalid_field("arguments", other.as_ref(), "an object")),
    }
}

/// `CallToolRequestParams`, with what a generation adds.
#[derive(Debug, Default, PartialEq)]
pub struct CallParams {
    /// Name of the tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Set for a task-augmented call (2025-11-25).
    pub task: Option<TaskAugmentation>,
    /// Progress token, if progress is requested.
    pub progress_token: Option<Value>,
    /// The caller's idempotency key.
    pub idempotency_key: Option<String>,
    /// The trace that the request belongs to.
    pub trace: Option<Trace>,
    /// What a repeated request contains (2026-07-28).
    pub retry: Retry,
}

/// `TaskMetadata`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TaskAugmentation {
    /// The requested time to live.
    pub ttl: Option<Duration>,
}

/// What a repeated request contains (multi round-trip requests).
#[derive(Debug, Default, PartialEq)]
pub struct Retry {
    /// `inputResponses`, if any.
    pub responses: Option<Map<String, Value>>,
    /// `requestState` of the previous answer.
    pub state: Option<String>,
}

/// Parses the parameters of `tools/call` that every generation has.
pub fn call(params: Value) -> Result<CallParams, Error> {
    let progress_token = progress_token(&params)?;
    let idempotency_key = idempotency_key(&params)?;
    let trace = trace(&params)?;
    let Value::Object(mut params) = params else {
        return Err(invalid("`params` is missing: tools/call needs `name`"));
    };
    let name = match params.remove("name") {
        Some(Value::String(name)) => name,
        other => return Err(invalid_field("name", other.as_ref(), "the name of a tool")),
    };
    let arguments = arguments(params.remove("arguments"))?;
    Ok(CallParams { name, arguments, progress_token, idempotency_key, trace, ..CallParams::default() })
}

/// Parses the caller's idempotency key, if there is one: 1 to 255 bytes.
pub fn idempotency_key(params: &Value) -> Result<Option<String>, Error> {
    match meta(params)?.and_then(|meta| meta.get(IDEMPOTENCY_KEY)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) if !key.is_empty() && key.len() <= MAX_KEY_BYTES => Ok(Some(key.clone())),
        other => Err(invalid_field(
            "_meta[\"io.taskbridge/idempotency-key\"]",
            other,
            &format!("a string of 1 to {MAX_KEY_BYTES} bytes"),
        )),
    }
}

/// Parses a client's result as an answer to this question: an `ElicitResult` for a form or a URL, and any
/// object for sampling or roots. [`crate::tasks::asking::normalize_answer`] then checks whether it fits.
///
/// # Errors
/// The problem, in words for the client.
pub fn answer(ask: &Ask, result: &Value) -> Result<Answer, String> {
    match ask {
        Ask::Form(_) | Ask::Url(_) => parse_elicit_result(result),
        Ask::Sampling(_) | Ask::Roots => match result {
            Value::Object(content) => Ok(Answer::Accept(content.clone())),
            _ => Err("the answer must be an object".to_owned()),
        },
    }
}

/// Parses an `ElicitResult`.
fn parse_elicit_result(result: &Value) -> Result<Answer, String> {
    match (result.get("action").and_then(Value::as_str), result.get("content")) {
        (Some("accept"), Some(Value::Object(content))) => Ok(Answer::Accept(content.clone())),
        (Some("accept"), None | Some(Value::Null)) => Ok(Answer::Accept(Map::new())),
        (Some("accept"), Some(_)) => Err("`content` must be an object".to_owned()),
        (Some("decline"), _) => Ok(Answer::Decline),
        (Some("cancel"), _) => Ok(Answer::Cancel),
        _ => Err("`action` must be \"accept\", \"decline\" or \"cancel\"".to_owned()),
    }
}

/// Parses the trace that a request belongs to. A trace that is invalid by the W3C's format is ignored: it
/// must not fail a call.
pub fn trace(params: &Value) -> Result<Option<Trace>, Error> {
    let Some(meta) = meta(params)? else { return Ok(None) };
    let text = |name: &str| meta.get(name).and_then(Value::as_str);
    Ok(text("traceparent").and_then(|parent| Trace::new(parent, text("tracestate"))))
}

/// Parses `GetPromptRequestParams`: the prompt's name and its arguments.
pub fn prompt(params: &Value) -> Result<(&str, BTreeMap<String, String>), Error> {
    let name = text(params, "name", "the name of a prompt")?;
    Ok((name, texts("arguments", params.get("arguments"))?))
}

/// The object whose argument is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The prompt of this name.
    Prompt(&'a str),
    /// The resource template with this URI template.
    Resource(&'a str),
}

/// `CompleteRequestParams`.
#[derive(Debug, PartialEq)]
pub struct CompleteParams<'a> {
    /// The object whose argument is completed.
    pub reference: Reference<'a>,
    /// The name of the argument.
    pub argument: &'a str,
    /// The text typed so far.
    pub prefix: &'a str,
    /// The arguments that already have a value.
    pub context_arguments: BTreeMap<String, String>,
}

/// Parses the parameters of `completion/complete`.
pub fn complete_params(params: &Value) -> Result<CompleteParams<'_>, Error> {
    let reference = match params.get("ref") {
        Some(Value::Object(_)) => &params["ref"],
        other => return Err(invalid_field("ref", other, "a reference to a prompt or a resource template")),
    };
    let reference = match reference.get("type").and_then(Value::as_str) {
        Some("ref/prompt") => Reference::Prompt(text(reference, "name", "the name of a prompt")?),
        Some("ref/resource") => {
            Reference::Resource(text(reference, "uri", "the address of a resource template")?)
        }
        _ => {
            return Err(invalid_field(
                "ref.type",
                reference.get("type"),
                "\"ref/prompt\" or \"ref/resource\"",
            ));
        }
    };
    let argument = match params.get("argument") {
        Some(argument @ Value::Object(_)) => argument,
        other => return Err(invalid_field("argument", other, "an object with `name` and `value`")),
    };
    let (name, prefix) = (text(argument, "name", "a string")?, text(argument, "value", "a string")?);
    let context_arguments = params.get("context").and_then(|context| context.get("arguments"));
    Ok(CompleteParams {
        reference,
        argument: name,
        prefix,
        context_arguments: texts("context.arguments", context_arguments)?,
    })
}

/// Parses an object of strings.
fn texts(field: &str, value: Option<&Value>) -> Result<BTreeMap<String, String>, Error> {
    let members = match value {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(members)) => members,
        other => return Err(invalid_field(field, other, "an object")),
    };
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        other => Err(invalid_field(&format!("{field}.{name}"), Some(other), "a string")),
    };
    members.iter().map(text).collect()
}

/// Returns `_meta`, if there is one.
pub fn meta(params: &Value) -> Result<Option<&Map<String, Value>>, Error> {
    match params.get("_meta") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(meta)) => Ok(Some(meta)),
        other => Err(invalid_field("_meta", other, "an object")),
    }
}

/// Returns the error for a field that is missing or invalid. It does not repeat strings, arrays or objects:
/// they could be long, or a secret in the wrong field.
pub fn invalid_field(field: &str, found: Option<&Value>, expected: &str) -> Error {
    match found {
        None => invalid(format!("`{field}` is missing: it must be {expected}")),
        Some(value) => invalid(format!("`{field}` is {}: it must be {expected}", kind(value))),
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_parameters_are_read() {
        let content = json!({"name": "ana"}).as_object().unwrap().clone();
        let form = Ask::Form(json!({}));
        let accepted = answer(&form, &json!({"action": "accept", "content": {"name": "ana"}}));
        assert!(accepted == Ok(Answer::Accept(content)));
        assert!(answer(&form, &json!({"action": "decline"})) == Ok(Answer::Decline));
        assert!(answer(&form, &json!({"action": "cancel"})) == Ok(Answer::Cancel));
        for bad in
            [json!({}), json!(null), json!({"action": "accept", "content": 1}), json!({"action": "ok"})]
        {
            assert!(answer(&form, &bad).is_err(), "{bad}");
        }
    }
}
