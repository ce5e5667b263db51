//! From parameters as they came to what they mean. A refusal is -32602, and names the field, what it holds and what
//! it must hold. Nothing here looks anything up.

use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_sdk::Answer;

use super::wire;
use crate::catalog::MAX_KEY;
use crate::mcp::jsonrpc::{Error, INVALID_PARAMS};
use crate::tasks::task::TaskId;

/// `CallToolRequestParams`.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Value,
    /// Set for a task-augmented call.
    pub(super) task: Option<AsTask>,
    pub(super) progress_token: Option<Value>,
    pub(super) idempotency_key: Option<String>,
}

/// `TaskMetadata`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AsTask {
    pub(super) ttl: Option<Duration>,
}

/// An error about a field.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(INVALID_PARAMS, message)
}

/// Reads the parameters of `tools/call`. Where the session has no tasks, `task` is not looked at.
pub(super) fn call(params: Value, has_tasks: bool) -> Result<Call, Error> {
    let task = if has_tasks { as_task(&params)? } else { None };
    let progress_token = progress_token(&params)?;
    let idempotency_key = idempotency_key(&params)?;
    let Value::Object(mut params) = params else {
        return Err(invalid("`params` is missing: tools/call needs `name`"));
    };
    let name = match params.remove("name") {
        Some(Value::String(name)) => name,
        other => return Err(wrong("name", other.as_ref(), "the name of a tool")),
    };
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments,
        other => return Err(wrong("arguments", other.as_ref(), "an object")),
    };
    Ok(Call { name, arguments, task, progress_token, idempotency_key })
}

/// The task that `tasks/get`, `tasks/result` and `tasks/cancel` are about: the parameter, and nothing else.
pub(super) fn task_id(params: &Value) -> Result<TaskId, Error> {
    Ok(TaskId::from_wire(text(params, "taskId", "the id of a task")?))
}

/// A text that must be there.
pub(super) fn text<'a>(params: &'a Value, field: &str, what: &str) -> Result<&'a str, Error> {
    match params.get(field) {
        Some(Value::String(text)) => Ok(text),
        other => Err(wrong(field, other, what)),
    }
}

/// The cursor of a list, if there is one.
pub(super) fn cursor(params: &Value) -> Result<Option<&str>, Error> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(cursor)) => Ok(Some(cursor)),
        other => Err(wrong("cursor", other, "the nextCursor of the page before")),
    }
}

/// What a cursor that is not one of ours is answered with.
pub(super) fn bad_cursor() -> Error {
    invalid("`cursor` is not one that this list gave you: leave it out to begin at the first page")
}

/// The token that progress is to be reported under: a string or an integer.
pub(super) fn progress_token(params: &Value) -> Result<Option<Value>, Error> {
    match meta(params)?.and_then(|meta| meta.get("progressToken")) {
        None | Some(Value::Null) => Ok(None),
        Some(token) if token.is_string() || token.is_i64() || token.is_u64() => Ok(Some(token.clone())),
        other => Err(wrong("_meta.progressToken", other, "a string or an integer")),
    }
}

/// Reads an `ElicitResult`. The text says what is wrong with it.
pub(super) fn answer(result: &Value) -> Result<Answer, String> {
    match (result.get("action").and_then(Value::as_str), result.get("content")) {
        (Some("accept"), Some(Value::Object(content))) => Ok(Answer::Accept(content.clone())),
        (Some("accept"), None | Some(Value::Null)) => Ok(Answer::Accept(Map::new())),
        (Some("accept"), Some(_)) => Err("`content` must be an object".to_owned()),
        (Some("decline"), _) => Ok(Answer::Decline),
        (Some("cancel"), _) => Ok(Answer::Cancel),
        _ => Err("`action` must be \"accept\", \"decline\" or \"cancel\"".to_owned()),
    }
}

fn as_task(params: &Value) -> Result<Option<AsTask>, Error> {
    let task = match params.get("task") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(task)) => task,
        other => return Err(wrong("task", other, "an object")),
    };
    let ttl = match task.get("ttl") {
        None | Some(Value::Null) => None,
        Some(ttl) => match whole(ttl) {
            Some(millis) => Some(Duration::from_millis(millis)),
            None => return Err(wrong("task.ttl", Some(ttl), "a whole number of milliseconds")),
        },
    };
    Ok(Some(AsTask { ttl }))
}

/// A whole number from zero on; `60000.0` is one too.
fn whole(number: &Value) -> Option<u64> {
    number.as_u64().or_else(|| {
        let number = number.as_f64()?;
        // Beyond 2^53 a double says nothing about single milliseconds any more.
        let fits = number >= 0.0 && number.fract() == 0.0 && number <= 9_007_199_254_740_992.0;
        fits.then_some(number as u64)
    })
}

fn idempotency_key(params: &Value) -> Result<Option<String>, Error> {
    match meta(params)?.and_then(|meta| meta.get(wire::IDEMPOTENCY_KEY)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) if !key.is_empty() && key.len() <= MAX_KEY => Ok(Some(key.clone())),
        other => Err(wrong(
            "_meta[\"io.taskbridge/idempotency-key\"]",
            other,
            &format!("a string of 1 to {MAX_KEY} bytes"),
        )),
    }
}

fn meta(params: &Value) -> Result<Option<&Map<String, Value>>, Error> {
    match params.get("_meta") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(meta)) => Ok(Some(meta)),
        other => Err(wrong("_meta", other, "an object")),
    }
}

/// A field is missing, or holds something else than it must. What it holds is named by its kind: a value could be
/// long, or a secret in the wrong place.
fn wrong(field: &str, found: Option<&Value>, must: &str) -> Error {
    match found {
        None => invalid(format!("`{field}` is missing: it must be {must}")),
        Some(value) => invalid(format!("`{field}` is {}: it must be {must}", kind(value))),
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
    fn reads_a_call() {
        let read = call(
            json!({
                "name": "deploy",
                "arguments": {"to": "production"},
                "task": {"ttl": 60_000.0},
                "_meta": {"progressToken": 7, "io.taskbridge/idempotency-key": "k"}
            }),
            true,
        );
        let expected = Call {
            name: "deploy".to_owned(),
            arguments: json!({"to": "production"}),
            task: Some(AsTask { ttl: Some(Duration::from_secs(60)) }),
            progress_token: Some(json!(7)),
            idempotency_key: Some("k".to_owned()),
        };
        assert_eq!(read, Ok(expected));
        let plain = call(json!({"name": "deploy"}), true).unwrap();
        assert_eq!((plain.task, plain.arguments), (None, json!({})));
        assert_eq!(call(json!({"name": "a", "task": {}}), true).unwrap().task, Some(AsTask::default()));
        assert_eq!(call(json!({"name": "a", "task": 5}), false).unwrap().task, None);
    }

    #[test]
    fn a_refusal_names_the_field() {
        for (params, named) in [
            (json!(null), "`params` is missing"),
            (json!({}), "`name` is missing"),
            (json!({"name": 5}), "`name` is 5: it must be the name of a tool"),
            (json!({"name": "a", "arguments": []}), "`arguments` is an array"),
            (json!({"name": "a", "task": true}), "`task` is true"),
            (json!({"name": "a", "task": {"ttl": -1}}), "`task.ttl` is -1"),
            (json!({"name": "a", "task": {"ttl": 1.5}}), "`task.ttl` is 1.5"),
            (json!({"name": "a", "task": {"ttl": "1m"}}), "`task.ttl` is a string of 2 bytes"),
            (json!({"name": "a", "_meta": 1}), "`_meta` is 1"),
            (json!({"name": "a", "_meta": {"progressToken": 0.5}}), "`_meta.progressToken` is 0.5"),
            (
                json!({"name": "a", "_meta": {"io.taskbridge/idempotency-key": ""}}),
                "`_meta[\"io.taskbridge/idempotency-key\"]` is a string of 0 bytes",
            ),
        ] {
            let error = call(params, true).unwrap_err();
            assert_eq!(error.code, INVALID_PARAMS);
            assert!(error.message.starts_with(named), "{}", error.message);
        }
        assert!(task_id(&json!({"taskId": 1})).is_err());
        assert!(cursor(&json!({"cursor": 1})).is_err());
    }

    #[test]
    fn reads_an_answer() {
        let content = json!({"name": "ana"}).as_object().unwrap().clone();
        let accepted = answer(&json!({"action": "accept", "content": {"name": "ana"}}));
        assert!(accepted == Ok(Answer::Accept(content)));
        assert!(answer(&json!({"action": "decline"})) == Ok(Answer::Decline));
        assert!(answer(&json!({"action": "cancel"})) == Ok(Answer::Cancel));
        for bad in
            [json!({}), json!(null), json!({"action": "accept", "content": 1}), json!({"action": "ok"})]
        {
            assert!(answer(&bad).is_err(), "{bad}");
        }
    }
}
