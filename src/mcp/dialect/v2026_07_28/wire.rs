//! Wire types of the 2026-07-28 messages, and of those of the tasks extension, that this server sends. Field
//! names and shapes are those of the schemas. It must not decide their values.

use serde::Serialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{Content, Level};

use crate::mcp::wire::jsonrpc::Id;
use crate::mcp::wire::types::{Empty, Implementation, ListCapability, ResourcesCapability, TaskStatus};
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
