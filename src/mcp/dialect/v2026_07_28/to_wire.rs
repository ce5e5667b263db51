//! Converts what the core returns to wire types. It must not access the store or decide anything.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{Ask, Question};

use super::wire;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::handle::VisibleStatus;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::Id;
use crate::mcp::wire::types::{Empty, SERVER_INFO, TaskStatus, millis, value};
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId, TaskState};

/// Returns a result of this type.
pub(super) fn result(result_type: wire::ResultType, body: impl Serialize) -> Value {
    value(&wire::Complete { result_type, body, meta: meta() })
}

/// Returns an ordinary result.
pub(super) fn complete(body: impl Serialize) -> Value {
    result(wire::ResultType::Complete, body)
}

/// Returns a result that its client may cache.
pub(super) fn cacheable(body: impl Serialize, ttl: Duration, cache_scope: wire::CacheScope) -> Value {
    complete(wire::Cacheable { body, ttl_ms: millis(ttl), cache_scope })
}

/// Returns the result that ends a subscription regularly.
pub(super) fn subscription_ended(id: &Id) -> Value {
    let meta = wire::ResultMeta { subscription: Some(id.clone()), ..meta() };
    value(&wire::Complete { result_type: wire::ResultType::Complete, body: Empty {}, meta })
}

fn meta() -> wire::ResultMeta {
    wire::ResultMeta {
        server_info: SERVER_INFO,
        subscription: None,
        refers_to: Vec::new(),
        untrusted: Vec::new(),
    }
}

/// Returns a tool result.
pub(super) fn tool_result(result: ToolResult) -> Value {
    let untrusted = result.untrusted();
    let ToolResult { content, structured, is_error, refers_to, job_blocks: _ } = result;
    let body = wire::CallToolResult { content, structured_content: structured, is_error };
    let meta = wire::ResultMeta { refers_to, untrusted, ..meta() };
    value(&wire::Complete { result_type: wire::ResultType::Complete, body, meta })
}

/// Returns the answer to a call that became a task.
pub(super) fn created_task(task: wire::Task<'_>, refers_to: &[TaskId]) -> Value {
    let meta = wire::ResultMeta { refers_to: refers_to.to_vec(), ..meta() };
    value(&wire::Complete { result_type: wire::ResultType::Task, body: task, meta })
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
    let request = |question: &'a Question| {
        let message = question.message.as_str();
        value(&match &question.ask {
            Ask::Form(schema) => {
                wire::InputRequest::Elicit(wire::Elicit::Form { message, requested_schema: schema })
            }
            Ask::Url(url) => wire::InputRequest::Elicit(wire::Elicit::Url { message, url }),
            Ask::Sampling(request) => wire::InputRequest::CreateMessage(request),
            Ask::Roots => wire::InputRequest::ListRoots(Empty {}),
        })
    };
    questions.into_iter().map(|(key, question)| (key.to_owned(), request(question))).collect()
}

/// Returns a complete notification.
pub(super) fn notification(method: &'static str, params: impl Serialize) -> Value {
    value(&wire::Notification { jsonrpc: "2.0", method, params })
}

/// Returns a notification of a subscription.
pub(super) fn subscription_notification(method: &'static str, id: &Id, body: impl Serialize) -> Value {
    let meta = wire::SubscriptionMeta { subscription: id };
    notification(method, wire::Subscribed { body, meta })
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
