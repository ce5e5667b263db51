//! Parses request parameters. An error is -32602 and names the field, the kind of its content and the
//! expected value. It must not do a lookup.

use serde_json::{Map, Value};
use taskbridge_sdk::Level;

use super::wire::{Filter, TASKS_EXTENSION};
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::Error;
use crate::mcp::wire::params::{self, CallParams, Retry, invalid_field, level};
pub(super) use crate::mcp::wire::params::{invalid, task_id};
use crate::mcp::wire::revision::VERSION;

/// Key of the client's capabilities in `_meta`.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of the minimum level of log messages in `_meta`.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Maximum number of tasks, and of resources, in one request to subscribe. Of the resources,
/// `max_followed_resources` are granted.
const MAX_FOLLOWED: usize = 1024;

/// Metadata of a request, from `_meta`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestMeta {
    /// Revision of the request.
    pub(super) version: String,
    /// Capabilities of its client.
    pub(super) client: ClientCapabilities,
    /// True if its client supports the tasks extension.
    pub(super) tasks: bool,
    /// Minimum level of the log messages that it requests, if any.
    pub(super) log_level: Option<Level>,
}

/// Parses `_meta`, which every request must have.
pub(super) fn request_meta(params: &Value) -> Result<RequestMeta, Error> {
    let meta = match params.get("_meta") {
        Some(Value::Object(meta)) => meta,
        other => {
            return Err(invalid_field(
                "_meta",
                other,
                "an object with the protocol version and capabilities",
            ));
        }
    };
    let version = match meta.get(VERSION) {
        Some(Value::String(version)) => version.clone(),
        other => return Err(invalid_field(&in_meta(VERSION), other, "the revision of the request")),
    };
    let declared = match meta.get(CAPABILITIES) {
        Some(declared @ Value::Object(_)) => declared,
        other => {
            return Err(invalid_field(&in_meta(CAPABILITIES), other, "an object: what the client can do"));
        }
    };
    let log_level = match meta.get(LOG_LEVEL) {
        None => None,
        some => Some(level(&in_meta(LOG_LEVEL), some)?),
    };
    let has = |parent: &Value, name: &str| parent.get(name).is_some_and(Value::is_object);
    let tasks = has(&declared["extensions"], TASKS_EXTENSION);
    Ok(RequestMeta { version, client: ClientCapabilities::parse(declared), tasks, log_level })
}

fn in_meta(name: &str) -> String {
    format!("_meta[\"{name}\"]")
}

/// Parses the parameters of `tools/call`.
pub(super) fn call(params: Value) -> Result<CallParams, Error> {
    // The first fault in this order is reported.
    params::progress_token(&params)?;
    params::idempotency_key(&params)?;
    let retry = retry(&params)?;
    Ok(CallParams { retry, ..params::call(params)? })
}

/// Parses what a repeated request contains.
pub(super) fn retry(params: &Value) -> Result<Retry, Error> {
    let responses = match params.get("inputResponses") {
        None => None,
        some => Some(responses(some)?),
    };
    let state = match params.get("requestState") {
        None => None,
        Some(Value::String(state)) => Some(state.clone()),
        other => return Err(invalid_field("requestState", other, "the requestState of the answer before")),
    };
    Ok(Retry { responses, state })
}

/// Parses `inputResponses` of `tasks/update`, which is required.
pub(super) fn input_responses(params: &Value) -> Result<Map<String, Value>, Error> {
    responses(params.get("inputResponses"))
}

fn responses(value: Option<&Value>) -> Result<Map<String, Value>, Error> {
    let Some(Value::Object(responses)) = value else {
        return Err(invalid_field(
            "inputResponses",
            value,
            "an object: an answer for each key of inputRequests",
        ));
    };
    for (key, response) in responses {
        if !response.is_object() {
            return Err(invalid_field(&format!("inputResponses[{key:?}]"), Some(response), "an object"));
        }
    }
    Ok(responses.clone())
}

/// Parses a `SubscriptionFilter`. An unknown entry is not granted, and is not an error.
pub(super) fn filter(params: &Value) -> Result<Filter, Error> {
    let notifications = match params.get("notifications") {
        Some(notifications @ Value::Object(_)) => notifications,
        other => return Err(invalid_field("notifications", other, "an object: what is to be told of")),
    };
    let flag = |name: &str| match notifications.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        other => Err(invalid_field(&format!("notifications.{name}"), other, "true or false")),
    };
    let texts = |name: &str| -> Result<Option<Vec<String>>, Error> {
        let field = format!("notifications.{name}");
        let list = match notifications.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) if list.len() <= MAX_FOLLOWED => list,
            other => {
                return Err(invalid_field(
                    &field,
                    other,
                    &format!("a list of at most {MAX_FOLLOWED} strings"),
                ));
            }
        };
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(invalid_field(&field, Some(other), "a list of strings")),
        };
        list.iter().map(text).collect::<Result<_, _>>().map(Some)
    };
    Ok(Filter {
        tools_list_changed: flag("toolsListChanged")?,
        prompts_list_changed: flag("promptsListChanged")?,
        resources_list_changed: flag("resourcesListChanged")?,
        resource_subscriptions: texts("resourceSubscriptions")?.unwrap_or_default(),
        task_ids: texts("taskIds")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::wire::jsonrpc::INVALID_PARAMS;

    fn meta(capabilities: Value) -> Value {
        json!({"_meta": {VERSION: "v", CAPABILITIES: capabilities}})
    }

    /// Protocol version, capabilities, extensions and log level come from `_meta`.
    #[test]
    fn request_metadata_is_read() {
        let parsed = request_meta(&meta(json!({
            "elicitation": {"url": {}}, "roots": {}, "extensions": {TASKS_EXTENSION: {}}
        })))
        .unwrap();
        let client =
            ClientCapabilities { elicitation_url: true, roots: true, ..ClientCapabilities::default() };
        assert_eq!(parsed, RequestMeta { version: "v".to_owned(), client, tasks: true, log_level: None });
        let mut params = meta(json!({"elicitation": {}, "sampling": {}}));
        params["_meta"][LOG_LEVEL] = json!("notice");
        let parsed = request_meta(&params).unwrap();
        assert!(parsed.client.elicitation_form && parsed.client.sampling && !parsed.tasks);
        assert_eq!(parsed.log_level, Some(Level::Notice));
    }

    #[test]
    fn a_refusal_names_the_field() {
        let mut wrong_level = meta(json!({}));
        wrong_level["_meta"][LOG_LEVEL] = json!("loud");
        for (params, expected) in [
            (json!(null), "`_meta` is missing"),
            (json!({"_meta": 1}), "`_meta` is 1"),
            (
                json!({"_meta": {CAPABILITIES: {}}}),
                "`_meta[\"io.modelcontextprotocol/protocolVersion\"]` is missing",
            ),
            (
                json!({"_meta": {VERSION: "v"}}),
                "`_meta[\"io.modelcontextprotocol/clientCapabilities\"]` is missing",
            ),
            (wrong_level, "`_meta[\"io.modelcontextprotocol/logLevel\"]` is a string of 4 bytes"),
        ] {
            let error = request_meta(&params).unwrap_err();
            assert_eq!(error.code, INVALID_PARAMS);
            assert!(error.message.starts_with(expected), "{}", error.message);
        }
        for (params, expected) in [
            (json!({"name": 1}), "`name` is 1"),
            (json!({"name": "a", "inputResponses": null}), "`inputResponses` is null"),
            (json!({"name": "a", "inputResponses": {"k": 1}}), "`inputResponses[\"k\"]` is 1"),
            (json!({"name": "a", "requestState": 1}), "`requestState` is 1"),
        ] {
            let error = call(params).unwrap_err();
            assert!(error.message.starts_with(expected), "{}", error.message);
        }
        for (params, expected) in [
            (json!({}), "`notifications` is missing"),
            (json!({"notifications": {"toolsListChanged": 1}}), "`notifications.toolsListChanged` is 1"),
            (json!({"notifications": {"taskIds": [1]}}), "`notifications.taskIds` is 1"),
        ] {
            let error = filter(&params).unwrap_err();
            assert!(error.message.starts_with(expected), "{}", error.message);
        }
    }
}
