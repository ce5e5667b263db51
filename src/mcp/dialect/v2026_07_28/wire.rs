//! Wire types of the 2026-07-28 messages, and of those of the tasks extension, that this server sends. Field
//! names and shapes are those of the schemas. It must not decide their values.

use serde::Serialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{Content, Level};

use crate::catalog::Role;
use crate::mcp::wire::jsonrpc::Id;
use crate::tasks::task::TaskId;

/// Name of the tasks extension.
pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// `Result`: the fields of every result, around its body.
#[derive(Debug, Serialize)]
pub(super) struct Complete<T> {
    #[serde(rename = "resultType")]
    pub(super) result_type: ResultType,
    #[serde(flatten)]
    pub(super) body: T,
    #[serde(rename = "_meta")]
    pub(super) meta: ResultMeta,
}

/// `ResultType`, with that of the tasks extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResultType {
    Complete,
    InputRequired,
    Task,
}

/// `ResultMetaObject`.
#[derive(Debug, Serialize)]
pub(super) struct ResultMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    pub(super) server_info: Implementation,
    #[serde(rename = "io.modelcontextprotocol/subscriptionId", skip_serializing_if = "Option::is_none")]
    pub(super) subscription: Option<Id>,
    #[serde(rename = "io.taskbridge/refers-to", skip_serializing_if = "Vec::is_empty")]
    pub(super) refers_to: Vec<TaskId>,
    #[serde(rename = "io.taskbridge/untrusted", skip_serializing_if = "Vec::is_empty")]
    pub(super) untrusted: Vec<String>,
}

/// `Implementation`.
#[derive(Debug, Serialize)]
pub(super) struct Implementation {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) version: &'static str,
}

/// `CacheableResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cacheable<T> {
    #[serde(flatten)]
    pub(super) body: T,
    pub(super) ttl_ms: u64,
    pub(super) cache_scope: CacheScope,
}

/// Who may cache a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CacheScope {
    Public,
    Private,
}

/// `EmptyResult`, without further fields.
#[derive(Debug, Default, Serialize)]
pub(super) struct Empty {}

/// `DiscoverResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiscoverResult {
    pub(super) supported_versions: Vec<&'static str>,
    pub(super) capabilities: ServerCapabilities,
    pub(super) instructions: String,
}

/// `ServerCapabilities`.
#[derive(Debug, Serialize)]
pub(super) struct ServerCapabilities {
    pub(super) tools: ListCapability,
    pub(super) resources: ResourcesCapability,
    pub(super) prompts: ListCapability,
    pub(super) completions: Empty,
    pub(super) logging: Empty,
    pub(super) extensions: Extensions,
}

/// A list with change notifications.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListCapability {
    pub(super) list_changed: bool,
}

/// `ServerCapabilities.resources`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourcesCapability {
    pub(super) list_changed: bool,
    pub(super) subscribe: bool,
}

/// `ResourceUpdatedNotificationParams`.
#[derive(Debug, Serialize)]
pub(super) struct ResourceUpdated<'a> {
    pub(super) uri: &'a str,
}

/// `LoggingMessageNotificationParams`.
#[derive(Debug, Serialize)]
pub(super) struct LoggingMessage {
    pub(super) level: Level,
    pub(super) logger: String,
    pub(super) data: Value,
}

/// `ServerCapabilities.extensions`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    pub(super) tasks: Empty,
}

/// `Tool`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    pub(super) input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<&'a Value>,
}

/// `ListToolsResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListToolsResult {
    pub(super) tools: Vec<Value>,
}

/// `CallToolResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallToolResult {
    pub(super) content: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) structured_content: Option<Value>,
    pub(super) is_error: bool,
}

/// `InputRequiredResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequiredResult {
    pub(super) input_requests: Map<String, Value>,
    pub(super) request_state: String,
}

/// `InputRequest`.
#[derive(Debug, Serialize)]
#[serde(tag = "method", content = "params")]
pub(super) enum InputRequest<'a> {
    #[serde(rename = "elicitation/create")]
    Elicit(Elicit<'a>),
    #[serde(rename = "sampling/createMessage")]
    CreateMessage(&'a Map<String, Value>),
    #[serde(rename = "roots/list")]
    ListRoots(Empty),
}

/// `ElicitRequestParams`.
#[derive(Debug, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Elicit<'a> {
    Form { message: &'a str, requested_schema: &'a Value },
    Url { message: &'a str, url: &'a str },
}

/// `TaskStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// `Task`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    pub(super) task_id: &'a str,
    pub(super) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status_message: Option<String>,
    pub(super) created_at: String,
    pub(super) last_updated_at: String,
    pub(super) ttl_ms: u64,
    pub(super) poll_interval_ms: u64,
}

/// `DetailedTask`: a task with what its status requires, at most one of the three.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DetailedTask<'a> {
    #[serde(flatten)]
    pub(super) task: Task<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_requests: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<crate::mcp::wire::jsonrpc::Error>,
}

/// A notification.
#[derive(Debug, Serialize)]
pub(super) struct Notification<P> {
    pub(super) jsonrpc: &'static str,
    pub(super) method: &'static str,
    pub(super) params: P,
}

/// The parameters of a notification on a subscription.
#[derive(Debug, Serialize)]
pub(super) struct Subscribed<'a, P> {
    #[serde(flatten)]
    pub(super) body: P,
    #[serde(rename = "_meta")]
    pub(super) meta: SubscriptionMeta<'a>,
}

/// `NotificationMetaObject`.
#[derive(Debug, Serialize)]
pub(super) struct SubscriptionMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    pub(super) subscription: &'a Id,
}

/// `SubscriptionFilter`, with that of the tasks extension: what a client requests, or is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_ids: Option<Vec<String>>,
}

/// `SubscriptionsAcknowledgedNotificationParams`.
#[derive(Debug, Serialize)]
pub(super) struct Acknowledged {
    pub(super) notifications: Filter,
}

/// `CancelledNotificationParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancelled<'a> {
    pub(super) request_id: &'a Id,
    pub(super) reason: &'static str,
}

/// `ProgressNotificationParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress<'a> {
    pub(super) progress_token: &'a Value,
    pub(super) progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<f64>,
    pub(super) message: String,
}

/// `Resource`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource<'a> {
    pub(super) uri: &'a str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<Annotations<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
}

/// `Annotations`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Annotations<'a> {
    #[serde(skip_serializing_if = "<[Role]>::is_empty")]
    pub(super) audience: &'a [Role],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_modified: Option<String>,
}

/// `ListResourcesResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListResourcesResult<'a> {
    pub(super) resources: Vec<Resource<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// `ResourceTemplate`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceTemplate<'a> {
    pub(super) uri_template: &'a str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<Annotations<'a>>,
}

/// `ListResourceTemplatesResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListResourceTemplatesResult<'a> {
    pub(super) resource_templates: Vec<ResourceTemplate<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// `Prompt`.
#[derive(Debug, Serialize)]
pub(super) struct Prompt<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) arguments: Vec<PromptArgument<'a>>,
}

/// `PromptArgument`.
#[derive(Debug, Serialize)]
pub(super) struct PromptArgument<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    pub(super) required: bool,
}

/// `ListPromptsResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListPromptsResult<'a> {
    pub(super) prompts: Vec<Prompt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// `PromptMessage`.
#[derive(Debug, Serialize)]
pub(super) struct PromptMessage {
    pub(super) role: Role,
    pub(super) content: Content,
}

/// `GetPromptResult`.
#[derive(Debug, Serialize)]
pub(super) struct GetPromptResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) messages: Vec<PromptMessage>,
}

/// `CompleteResult`.
#[derive(Debug, Serialize)]
pub(super) struct CompleteResult {
    pub(super) completion: Completion,
}

/// `CompleteResult.completion`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Completion {
    pub(super) values: Vec<String>,
    pub(super) total: usize,
    pub(super) has_more: bool,
}

/// `TextResourceContents` or `BlobResourceContents`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceContents<'a> {
    pub(super) uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blob: Option<String>,
}

/// `ReadResourceResult`.
#[derive(Debug, Serialize)]
pub(super) struct ReadResourceResult<'a> {
    pub(super) contents: [ResourceContents<'a>; 1],
}
