//! Parses request parameters. An error is -32602 and names the field, the kind of its content and the
//! expected value. It must not do a lookup.

use std::time::Duration;

use serde_json::Value;

use crate::mcp::wire::jsonrpc::Error;
use crate::mcp::wire::params::{self, CallParams, TaskAugmentation, invalid_field};
pub(super) use crate::mcp::wire::params::{invalid, progress_token, task_id, text};
use crate::sessions::ClientTaskStatus;
use crate::tasks::task::TaskId;

/// Parses the parameters of `tools/call`. Ignores `task` where the session has no tasks.
pub(super) fn call(params: Value, has_tasks: bool) -> Result<CallParams, Error> {
    let task = if has_tasks { task_augmentation(&params)? } else { None };
    Ok(CallParams { task, ..params::call(params)? })
}

fn task_augmentation(params: &Value) -> Result<Option<TaskAugmentation>, Error> {
    let task = match params.get("task") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(task)) => task,
        other => return Err(invalid_field("task", other, "an object")),
    };
    let ttl = match task.get("ttl") {
        None | Some(Value::Null) => None,
        Some(ttl) => match whole_number(ttl) {
            Some(millis) => Some(Duration::from_millis(millis)),
            None => return Err(invalid_field("task.ttl", Some(ttl), "a whole number of milliseconds")),
        },
    };
    Ok(Some(TaskAugmentation { ttl }))
}

/// Maximum length of the id that a client gives to a task of its own, in bytes.
const MAX_ID: usize = 1024;

/// Poll interval of a client's task if the client requests none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest poll interval that a client can request. Longer ones are shortened to it.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(86_400);

/// `Task`, as a client reports one of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientTask {
    pub(super) id: TaskId,
    pub(super) status: ClientTaskStatus,
    pub(super) poll_interval: Duration,
}

/// Parses a client's `Task`: the parameters of `notifications/tasks/status`, the result of `tasks/get`, or
/// `task` in a `CreateTaskResult`.
pub(super) fn client_task(task: &Value) -> Result<ClientTask, String> {
    let id = match task.get("taskId") {
        Some(Value::String(id)) if !id.is_empty() && id.len() <= MAX_ID => TaskId::from_wire(id),
        _ => return Err(format!("`taskId` must be a string of 1 to {MAX_ID} bytes")),
    };
    let status = match task.get("status").and_then(Value::as_str) {
        Some("working") => ClientTaskStatus::Working,
        Some("input_required") => ClientTaskStatus::InputRequired,
        Some("completed" | "failed") => ClientTaskStatus::Ended,
        Some("cancelled") => ClientTaskStatus::Cancelled,
        _ => return Err("`status` must be one of the five that tasks have".to_owned()),
    };
    let poll_interval =
        task.get("pollInterval").and_then(whole_number).map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis);
    Ok(ClientTask { id, status, poll_interval: poll_interval.min(MAX_POLL_INTERVAL) })
}

/// Parses a non-negative whole number. `60000.0` is one too, up to 2^53.
fn whole_number(number: &Value) -> Option<u64> {
    number.as_u64().or_else(|| {
        let number = number.as_f64()?;
        // Above 2^53 a double no longer distinguishes single milliseconds.
        let fits = number >= 0.0 && number.fract() == 0.0 && number <= 9_007_199_254_740_992.0;
        fits.then_some(number as u64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::wire::jsonrpc::INVALID_PARAMS;

    #[test]
    fn reads_a_call() {
        let parsed = call(
            json!({
                "name": "deploy",
                "arguments": {"to": "production"},
                "task": {"ttl": 60_000.0},
                "_meta": {"progressToken": 7, "io.taskbridge/idempotency-key": "k"}
            }),
            true,
        );
        let expected = CallParams {
            name: "deploy".to_owned(),
            arguments: json!({"to": "production"}).as_object().unwrap().clone(),
            task: Some(TaskAugmentation { ttl: Some(Duration::from_secs(60)) }),
            progress_token: Some(json!(7)),
            idempotency_key: Some("k".to_owned()),
            ..CallParams::default()
        };
        assert_eq!(parsed, Ok(expected));
        let plain = call(json!({"name": "deploy"}), true).unwrap();
        assert_eq!((plain.task, plain.arguments), (None, serde_json::Map::new()));
        assert_eq!(
            call(json!({"name": "a", "task": {}}), true).unwrap().task,
            Some(TaskAugmentation::default())
        );
        assert_eq!(call(json!({"name": "a", "task": 5}), false).unwrap().task, None);
    }

    #[test]
    fn reads_a_task_of_the_client() {
        let task = |id: Value, status: &str, poll_interval: Value| json!({"taskId": id, "status": status, "pollInterval": poll_interval});
        for (status, stage) in [
            ("working", ClientTaskStatus::Working),
            ("input_required", ClientTaskStatus::InputRequired),
            ("completed", ClientTaskStatus::Ended),
            ("failed", ClientTaskStatus::Ended),
            ("cancelled", ClientTaskStatus::Cancelled),
        ] {
            let parsed = client_task(&task(json!("theirs"), status, json!(40))).unwrap();
            assert_eq!(
                (parsed.id.as_str(), parsed.status, parsed.poll_interval.as_millis()),
                ("theirs", stage, 40)
            );
        }
        for (poll_interval, expected) in
            [(json!(null), DEFAULT_POLL_INTERVAL), (json!(u64::MAX), MAX_POLL_INTERVAL)]
        {
            assert_eq!(
                client_task(&task(json!("theirs"), "working", poll_interval)).unwrap().poll_interval,
                expected
            );
        }
        for id in [json!(""), json!(5), json!("i".repeat(MAX_ID + 1))] {
            assert!(client_task(&task(id, "working", json!(1))).is_err());
        }
        assert!(client_task(&task(json!("theirs"), "done", json!(1))).is_err());
        assert!(client_task(&json!(null)).is_err());
    }

    #[test]
    fn a_refusal_names_the_field() {
        for (params, expected) in [
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
            assert!(error.message.starts_with(expected), "{}", error.message);
        }
        assert!(task_id(&json!({"taskId": 1})).is_err());
        assert!(params::cursor(&json!({"cursor": 1})).is_err());
    }
}
