//! Wire types of the 2025-11-25 messages that this server sends. Field names and shapes are those of the
//! schema. It must not decide their values.

use serde::Serialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{Content, Level};

use crate::mcp::wire::types::{Empty, Implementation, ListCapability, ResourcesCapability, TaskStatus};
use crate::tasks::task::TaskId;

/// `Task`, and with it `GetTaskResult`, `CancelTaskResult` and `TaskStatusNotificationParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    pub(super) task_id: &'a str,
    pub(super) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status_message: Option<String>,
    pub(super) created_at: String,
    pub(super) last_updated_at: String,
    pub(super) ttl: u64,
    pub(super) poll_interval: u64,
}

/// `CreateTaskResult`.
#[derive(Debug, Serialize)]
pub(super) struct CreateTaskResult<'a> {
    pub(super) task: Task<'a>,
    /// Not in the schema. Clients from before the release (FastMCP 2.14) parse this as a tool result, which
    /// requires it. By [`CreateTaskMeta::early_task`] they see that the result is still pending.
    pub(super) content: [(); 0],
    #[serde(rename = "_meta")]
    pub(super) meta: CreateTaskMeta<'a>,
}

/// `_meta` of a `CreateTaskResult`.
#[derive(Debug, Serialize)]
pub(super) struct CreateTaskMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/related-task")]
    pub(super) related_task: RelatedTask<'a>,
    /// The task, where clients from before the release expect it. Without it they take `content` for an empty
    /// success.
    #[serde(rename = "modelcontextprotocol.io/task")]
    pub(super) early_task: EarlyTask<'a>,
    #[serde(rename = "io.taskbridge/refers-to", skip_serializing_if = "<[_]>::is_empty")]
    pub(super) refers_to: &'a [TaskId],
    #[serde(rename = "io.modelcontextprotocol/model-immediate-response")]
    pub(super) model_immediate_response: String,
}

/// `RelatedTaskMetadata`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RelatedTask<'a> {
    pub(super) task_id: &'a str,
}

/// A task in `_meta`, as in drafts of the tasks specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EarlyTask<'a> {
    pub(super) task_id: &'a str,
    pub(super) status: TaskStatus,
}

/// `_meta` of a message that belongs to a task.
#[derive(Debug, Serialize)]
pub(super) struct RelatedMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/related-task")]
    pub(super) related_task: RelatedTask<'a>,
}

/// `_meta` of a `CallToolResult`.
#[derive(Debug, Serialize)]
pub(super) struct ToolResultMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/related-task", skip_serializing_if = "Option::is_none")]
    pub(super) related_task: Option<RelatedTask<'a>>,
    #[serde(rename = "io.taskbridge/refers-to", skip_serializing_if = "<[_]>::is_empty")]
    pub(super) refers_to: &'a [TaskId],
    #[serde(rename = "io.taskbridge/untrusted", skip_serializing_if = "Vec::is_empty")]
    pub(super) untrusted: Vec<String>,
}

/// `ListTasksResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListTasksResult<'a> {
    pub(super) tasks: Vec<Task<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// `CallToolResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallToolResult<'a> {
    pub(super) content: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) structured_content: Option<Value>,
    pub(super) is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<ToolResultMeta<'a>>,
}

/// `InitializeResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeResult {
    pub(super) protocol_version: &'static str,
    pub(super) capabilities: ServerCapabilities,
    pub(super) server_info: Implementation,
    pub(super) instructions: String,
}

/// `ServerCapabilities`.
#[derive(Debug, Serialize)]
pub(super) struct ServerCapabilities {
    pub(super) logging: Empty,
    pub(super) tools: ListCapability,
    pub(super) resources: ResourcesCapability,
    pub(super) prompts: ListCapability,
    pub(super) completions: Empty,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tasks: Option<TasksCapability>,
}

/// `ServerCapabilities.tasks`.
#[derive(Debug, Serialize)]
pub(super) struct TasksCapability {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) list: Option<Empty>,
    pub(super) cancel: Empty,
    pub(super) requests: TaskRequests,
}

/// `ServerCapabilities.tasks.requests`.
#[derive(Debug, Default, Serialize)]
pub(super) struct TaskRequests {
    pub(super) tools: TaskToolRequests,
}

/// `ServerCapabilities.tasks.requests.tools`.
#[derive(Debug, Default, Serialize)]
pub(super) struct TaskToolRequests {
    pub(super) call: Empty,
}

/// `ProgressNotificationParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress<'a> {
    pub(super) progress_token: &'a Value,
    pub(super) progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<RelatedMeta<'a>>,
}

/// `ElicitRequestFormParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ElicitForm<'a> {
    /// Absent for clients of revisions with only one mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<&'static str>,
    pub(super) message: &'a str,
    pub(super) requested_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<TaskMetadata>,
    #[serde(rename = "_meta")]
    pub(super) meta: RelatedMeta<'a>,
}

/// `ElicitRequestURLParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ElicitUrl<'a> {
    pub(super) mode: &'static str,
    pub(super) message: &'a str,
    pub(super) elicitation_id: String,
    pub(super) url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<TaskMetadata>,
    #[serde(rename = "_meta")]
    pub(super) meta: RelatedMeta<'a>,
}

/// `params` of `notifications/elicitation/complete`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ElicitationComplete<'a> {
    pub(super) elicitation_id: String,
    #[serde(rename = "_meta")]
    pub(super) meta: RelatedMeta<'a>,
}

/// `CreateMessageRequestParams`.
#[derive(Debug, Serialize)]
pub(super) struct CreateMessage<'a> {
    #[serde(flatten)]
    pub(super) request: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<TaskMetadata>,
    #[serde(rename = "_meta")]
    pub(super) meta: RelatedMeta<'a>,
}

/// `TaskMetadata`: allows the client to create a task of its own for the request.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TaskMetadata {
    pub(super) ttl: u64,
}

/// The parameters of `tasks/get`, `tasks/result` and `tasks/cancel` as sent by this server. They have no
/// related-task metadata, because the id is enough.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTask<'a> {
    pub(super) task_id: &'a str,
}

/// `RequestParams`, of `roots/list`.
#[derive(Debug, Serialize)]
pub(super) struct ListRoots<'a> {
    #[serde(rename = "_meta")]
    pub(super) meta: RelatedMeta<'a>,
}

/// `LoggingMessageNotificationParams`.
#[derive(Debug, Serialize)]
pub(super) struct LoggingMessage<'a> {
    pub(super) level: Level,
    pub(super) logger: String,
    pub(super) data: Value,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<RelatedMeta<'a>>,
}

/// `CancelledNotificationParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancelled<'a> {
    pub(super) request_id: &'a str,
    pub(super) reason: &'static str,
    #[serde(rename = "_meta")]
    pub(super) meta: RelatedMeta<'a>,
}

/// A request of this server, or a notification (without `id`).
#[derive(Debug, Serialize)]
pub(super) struct Message<'a, P> {
    pub(super) jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) method: &'static str,
    pub(super) params: P,
}
