//! Wire types that every revision of the protocol writes in the same way. Field names and shapes are those of
//! the schema. What a revision adds or leaves out, its dialect does. It must not decide their values.

#![expect(missing_docs, reason = "the fields are those of the schema")]

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use taskbridge_sdk::Content;

/// Returns the JSON of a wire type.
pub fn value(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("wire types have string keys and no failing serializers")
}

/// Returns a message without its members that are null, for optional fields of the schema.
pub fn without_nulls(mut message: Value) -> Value {
    if let Value::Object(members) = &mut message {
        members.retain(|_, member| !member.is_null());
    }
    message
}

/// Returns a page of a list: the entries under the name of the list, and the cursor of the next page.
pub fn page(list: &str, entries: Vec<impl Serialize>, next_cursor: Option<String>) -> Value {
    without_nulls(json!({ list: entries, "nextCursor": next_cursor }))
}

/// Returns a list for an optional field that must not be empty.
pub fn non_empty<T>(list: &[T]) -> Option<&[T]> {
    Some(list).filter(|list| !list.is_empty())
}

/// `ProgressNotificationParams`.
pub fn progress(token: &Value, progress: f64, total: Option<f64>, message: Option<String>) -> Value {
    without_nulls(json!({ "progressToken": token, "progress": progress, "total": total, "message": message }))
}

/// Returns a duration in milliseconds, the unit of the wire.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Key of the tasks that a task refers to, in `_meta`.
pub const REFERS_TO: &str = "io.taskbridge/refers-to";
/// Key of the parts of a result that come from outside of the server, in `_meta`.
pub const UNTRUSTED: &str = "io.taskbridge/untrusted";

/// Key of the task whose result this is, in `_meta`, for the view of a client that shows one.
pub const TASK: &str = "io.taskbridge/task";

/// Name of the extension of MCP Apps.
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// Media type of views that are pages.
pub const VIEW_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// This server in `serverInfo`.
pub const SERVER_INFO: Implementation =
    Implementation { name: env!("CARGO_PKG_NAME"), title: "taskbridge", version: env!("CARGO_PKG_VERSION") };

/// `TaskStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// `Tool`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool<'a> {
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    pub input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// `CallToolResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    pub content: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    pub is_error: bool,
}

/// `Implementation`.
#[derive(Debug, Serialize)]
pub struct Implementation {
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
}
