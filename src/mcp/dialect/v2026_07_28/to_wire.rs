//! Converts what the core returns to wire types. It must not access the store or decide anything.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Ask, Question};

use super::wire;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::handle::VisibleStatus;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::LINK;
use crate::mcp::wire::jsonrpc::Id;
use crate::mcp::wire::types::{
    CallToolResult, REFERS_TO, SERVER_INFO, TASK, TaskStatus, UNTRUSTED, millis, non_empty, value,
    without_nulls,
};
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId, TaskState};

/// Key of the subscription that a message belongs to, in `_meta`.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Returns a result of this type. `meta` has its own metadata.
fn result(result_type: &str, body: impl Serialize, meta: Value) -> Value {
    let mut result = value(&body);
    result["resultType"] = json!(result_type);
    result["_meta"] = without_nulls(meta);
    result["_meta"]["io.modelcontextprotocol/serverInfo"] = json!(SERVER_INFO);
    result
}

/// Returns an ordinary result.
pub(super) fn complete(body: impl Serialize) -> Value {
    result("complete", body, json!({}))
}

/// Returns the answer to a request about a task.
pub(super) fn polled_task(task: wire::DetailedTask<'_>, view: &View) -> Value {
    result("complete", task, handle::task_meta(view))
}

/// Returns the result that asks a client something: it repeats its request with the answers and the state.
pub(super) fn input_required(input_requests: Map<String, Value>, request_state: String) -> Value {
    let body = json!({ "inputRequests": input_requests, "requestState": request_state });
    result("input_required", body, json!({}))
}

/// Returns a result that its client may cache.
pub(super) fn cacheable(body: impl Serialize, ttl: Duration, is_public: bool) -> Value {
    let mut result = complete(body);
    result["ttlMs"] = json!(millis(ttl));
    result["cacheScope"] = json!(if is_public { "public" } else { "private" });
    result
}

/// Returns the result that ends a subscription regularly.
pub(super) fn subscription_ended(id: &Id) -> Value {
    result("complete", json!({}), json!({ SUBSCRIPTION: id }))
}

/// Returns a tool result.
pub(super) fn tool_result(tool_result: ToolResult) -> Value {
    let untrusted = tool_result.untrusted();
    let ToolResult { content, structured, is_error, refers_to, job_blocks: _, link, shown_task } =
        tool_result;
    let body = CallToolResult { content, structured_content: structured, is_error };
    let meta = json!({
        REFERS_TO: non_empty(&refers_to), UNTRUSTED: non_empty(&untrusted), LINK: link,
        TASK: shown_task,
    });
    result("complete", body, meta)
}

/// Returns the answer to a call that became a task.
pub(super) fn created_task(task: wire::Task<'_>, refers_to: &[TaskId]) -> Value {
    result("task", task, json!({ REFERS_TO: non_empty(refers_to) }))
}

/// Returns a task as a client with these capabilities sees it.
pub(super) fn task<'a>(
    context: &FeatureContext,
    view: &'a View,
    client: ClientCapabilities,
) -> wire::Task<'a> {
    let VisibleStatus { state, message } = handle::visible_status(context, view, client);
    let task = &view.task;
    wire::Task {
        task_id: task.id.as_str(),
        status: status(state),
        status_message: message,
        created_at: task.created_at.to_string(),
        last_updated_at: task.changed_at.to_string(),
        ttl_ms: millis(task.expires_at(context.clock.now()).since(task.created_at)),
        poll_interval_ms: millis(view.poll_interval),
    }
}

/// Returns the questions for a client, by their keys.
pub(super) fn input_requests<'a>(
    questions: impl IntoIterator<Item = (&'a str, &'a Question)>,
) -> Map<String, Value> {
    let request = |question: &Question| {
        let message = &question.message;
        let (method, params) = match &question.ask {
            Ask::Form(schema) => {
                let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
                ("elicitation/create", params)
            }
            Ask::Url(url) => ("elicitation/create", json!({ "mode": "url", "message": message, "url": url })),
            Ask::Sampling(request) => ("sampling/createMessage", json!(request)),
            Ask::Roots => ("roots/list", json!({})),
        };
        json!({ "method": method, "params": params })
    };
    questions.into_iter().map(|(key, question)| (key.to_owned(), request(question))).collect()
}

/// Returns a complete notification.
pub(super) fn notification(method: &str, params: impl Serialize) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Returns a notification of a subscription.
pub(super) fn subscription_notification(method: &str, id: &Id, mut params: Value) -> Value {
    params["_meta"] = json!({ SUBSCRIPTION: id });
    notification(method, params)
}

/// Returns the wire status. A job that ran and failed is `completed` here; its result reports the failure.
fn status(state: TaskState) -> TaskStatus {
    match state {
        TaskState::Working => TaskStatus::Working,
        TaskState::InputRequired => TaskStatus::InputRequired,
        TaskState::Ended(task::Outcome::Succeeded | task::Outcome::Failed) => TaskStatus::Completed,
        TaskState::Ended(task::Outcome::Broken) => TaskStatus::Failed,
        TaskState::Ended(task::Outcome::Cancelled) => TaskStatus::Cancelled,
    }
}
