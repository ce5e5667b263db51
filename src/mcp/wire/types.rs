//! Wire types that every revision of the protocol writes in the same way. Field names and shapes are those of
//! the schema. What a revision adds or leaves out, its dialect does. It must not decide their values.

#![expect(missing_docs, reason = "the fields are those of the schema")]

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use taskbridge_sdk::Content;

use crate::catalog::Role;

/// Returns the JSON of a wire type.
pub fn value(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("wire types have string keys and no failing serializers")
}

/// Returns a duration in milliseconds, the unit of the wire.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

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
    pub execution: Option<ToolExecution>,
}

/// `ToolExecution`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    pub task_support: &'static str,
}

/// `ListToolsResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListToolsResult {
    pub tools: Vec<Value>,
}

/// A list with change notifications.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    pub list_changed: bool,
}

/// `ServerCapabilities.resources`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    pub list_changed: bool,
    pub subscribe: bool,
}

/// `{}`.
#[derive(Debug, Default, Serialize)]
pub struct Empty {}

/// `Implementation`.
#[derive(Debug, Serialize)]
pub struct Implementation {
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
}

/// `Resource`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource<'a> {
    pub uri: &'a str,
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// `Annotations`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations<'a> {
    #[serde(skip_serializing_if = "<[Role]>::is_empty")]
    pub audience: &'a [Role],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// `ListResourcesResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResourcesResult<'a> {
    pub resources: Vec<Resource<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// `ResourceTemplate`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate<'a> {
    pub uri_template: &'a str,
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations<'a>>,
}

/// `ListResourceTemplatesResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResourceTemplatesResult<'a> {
    pub resource_templates: Vec<ResourceTemplate<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// `Prompt`.
#[derive(Debug, Serialize)]
pub struct Prompt<'a> {
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument<'a>>,
}

/// `PromptArgument`.
#[derive(Debug, Serialize)]
pub struct PromptArgument<'a> {
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    pub required: bool,
}

/// `ListPromptsResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPromptsResult<'a> {
    pub prompts: Vec<Prompt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// `PromptMessage`.
#[derive(Debug, Serialize)]
pub struct PromptMessage {
    pub role: Role,
    pub content: Content,
}

/// `GetPromptResult`.
#[derive(Debug, Serialize)]
pub struct GetPromptResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub messages: Vec<PromptMessage>,
}

/// `CompleteResult`.
#[derive(Debug, Serialize)]
pub struct CompleteResult {
    pub completion: Completion,
}

/// `CompleteResult.completion`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    pub values: Vec<String>,
    pub total: usize,
    pub has_more: bool,
}

/// `TextResourceContents` or `BlobResourceContents`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents<'a> {
    pub uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// `ReadResourceResult`.
#[derive(Debug, Serialize)]
pub struct ReadResourceResult<'a> {
    pub contents: [ResourceContents<'a>; 1],
}

/// `ResourceUpdatedNotificationParams`.
#[derive(Debug, Serialize)]
pub struct ResourceUpdated<'a> {
    pub uri: &'a str,
}
