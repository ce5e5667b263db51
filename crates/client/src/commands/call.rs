//! One call: its arguments, its parameters, and how it is sent. It must not print.

use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_wire::IDEMPOTENCY_KEY;
use taskbridge_wire::jsonrpc::Outcome;

use super::CommandContext;
use crate::arguments::{parse_arguments, parse_json};
use crate::error::ServerCallError;
use crate::follow::PROGRESS_TOKEN;
use crate::listing::Tool;
use crate::session::{ServerMessageSender, Session};
use crate::wait::retry_until_reached;
use crate::{Call, Failure};

impl CommandContext<'_> {
    pub(super) fn params(&self, call: &Call, arguments: Map<String, Value>, as_task: bool) -> Value {
        let mut params = json!({
            "name": call.tool, "arguments": arguments, "_meta": {"progressToken": PROGRESS_TOKEN},
        });
        if as_task {
            params["task"] = call.ttl.map_or(json!({}), |ttl| json!({"ttl": millis(ttl)}));
        }
        // With a key, a call whose answer was lost can be retried.
        let generate_key = || self.session.server().is_taskbridge.then(random_key);
        if let Some(key) = call.idempotency_key.clone().or_else(generate_key) {
            params["_meta"][IDEMPOTENCY_KEY] = json!(key);
        }
        params
    }
}

/// Calls the tool, and retries until the server was reached. After a network error or an HTTP status 5xx, the
/// server may have accepted the request. It is then retried only on a taskbridge server, where the
/// idempotency key prevents a second start. The statuses 408 and 429 are retried on any server.
pub(super) async fn send_call(
    session: &Session,
    params: &Value,
    message_sender: Option<&ServerMessageSender>,
    mut on_retry: impl FnMut(&ServerCallError),
) -> Result<Outcome, ServerCallError> {
    let is_safe = session.server().is_taskbridge;
    let result = retry_until_reached(
        async || match session.request("tools/call", params.clone(), message_sender).await {
            Err(ServerCallError::JsonRpc(error)) => Ok(Err(error)),
            Err(call_error) if !is_safe && call_error.may_have_arrived() => {
                let reason = format!("{call_error}; it is not known whether the server accepted the call");
                Err(ServerCallError::InvalidResponse(reason))
            }
            result => result.map(Ok),
        },
        |call_error| on_retry(call_error),
    );
    result.await
}

/// Returns the task that continues after a plain call, if the answer names one. Tools about tasks also
/// answer with a task: for them, it is the result.
pub(super) fn background_task_id<'a>(tool: &Tool, result: &'a Value) -> Option<&'a str> {
    let about_tasks = tool.input_schema.pointer("/properties/task_id").is_some();
    let content = result.get("structuredContent").filter(|_| !about_tasks)?;
    let status = content.get("status")?.as_str()?;
    content.get("poll_after_seconds")?;
    ["working", "input_required"].contains(&status).then(|| content.get("task_id")?.as_str())?
}

pub(super) fn read_arguments(tool: &Tool, call: &Call, input: &[u8]) -> Result<Map<String, Value>, Failure> {
    let mut read_file = |path: &str| match path {
        "-" => Ok(input.to_vec()),
        path => std::fs::read(path),
    };
    let base = match &call.json_arguments {
        None => Map::new(),
        Some(source) => {
            let usage_error = |reason: String| Failure::usage(format!("--args {source}: {reason}"));
            let path = if source == "-" { Some("-") } else { source.strip_prefix('@') };
            let text = match path {
                None => source.clone(),
                Some(path) => {
                    let bytes =
                        read_file(path).map_err(|error| usage_error(format!("cannot be read: {error}")))?;
                    String::from_utf8(bytes)
                        .map_err(|_| usage_error("content is not UTF-8 text".to_owned()))?
                }
            };
            match parse_json(&text).map_err(usage_error)? {
                Value::Object(base) => base,
                _ => return Err(usage_error("must be a JSON object: {\"NAME\": VALUE, ...}".to_owned())),
            }
        }
    };
    parse_arguments(tool, base, &call.assignments, &mut read_file)
        .map_err(|problems| Failure::usage(problems.join("\ntaskbridge: ")))
}

fn random_key() -> String {
    let mut bytes = [0; 20];
    #[allow(clippy::disallowed_methods, reason = "only the server is simulated")]
    getrandom::fill(&mut bytes).expect("the system provides random bytes");
    data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
