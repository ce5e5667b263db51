//! Converts what the core returns to wire types. It must not access the store or decide anything.

use serde::Serialize;
use serde_json::Value;
use taskbridge_sdk::Content;

use super::wire;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::handle::VisibleStatus;
use crate::mcp::features::tools::result::{ToolResult, wrap_in_object};
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::revision::Revision;
use crate::mcp::wire::types::{TaskStatus, millis, value};
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId, TaskState};

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
        ttl: millis(task.expires_at(context.clock.now()).since(task.created_at)),
        poll_interval: millis(view.poll_interval),
    }
}

/// Returns the answer to an accepted task-augmented call. A task that was just created is `working`, whatever
/// its state is by now.
pub(super) fn created_task(
    context: &FeatureContext,
    view: &View,
    is_new: bool,
    client: ClientCapabilities,
) -> Value {
    let mut task = task(context, view, client);
    if is_new {
        task.status = TaskStatus::Working;
    }
    let tool = &view.task.tool;
    let id = task.task_id;
    let mut model_immediate_response = format!(
        "{tool} was started as task {id} and goes on in the background; its result follows when it is done."
    );
    model_immediate_response
        .extend(handle::describe_references(&view.task).map(|sentence| format!(" {sentence}")));
    let meta = wire::CreateTaskMeta {
        related_task: wire::RelatedTask { task_id: id },
        early_task: wire::EarlyTask { task_id: id, status: task.status },
        refers_to: &view.task.refers_to,
        model_immediate_response,
    };
    value(&wire::CreateTaskResult { task, content: [], meta })
}

/// Returns a tool result for a session of this revision.
pub(super) fn tool_result(revision: Revision, result: ToolResult, related: Option<&TaskId>) -> Value {
    let mut untrusted = result.untrusted();
    let ToolResult { mut content, structured, is_error, refers_to, job_blocks: _ } = result;
    let mut structured_content = structured.map(wrap_in_object);
    if revision < Revision::V2025_06_18 {
        // Earlier revisions know neither links nor structured content, and an unknown block makes a client
        // fail.
        structured_content = None;
        untrusted.retain(|part| part.starts_with("/content/"));
        content.iter_mut().for_each(link_to_text);
    }
    let related_task = related.map(|id| wire::RelatedTask { task_id: id.as_str() });
    let meta = (related.is_some() || !refers_to.is_empty() || !untrusted.is_empty())
        .then_some(wire::ToolResultMeta { related_task, refers_to: &refers_to, untrusted });
    value(&wire::CallToolResult { content, structured_content, is_error, meta })
}

/// Returns the metadata of a message that belongs to a task.
pub(super) fn related_meta(id: &TaskId) -> wire::RelatedMeta<'_> {
    wire::RelatedMeta { related_task: wire::RelatedTask { task_id: id.as_str() } }
}

/// Returns a complete request of this server.
pub(super) fn request(id: &str, method: &'static str, params: impl Serialize) -> Value {
    value(&wire::Message { jsonrpc: "2.0", id: Some(id), method, params })
}

/// Returns a complete notification.
pub(super) fn notification(method: &'static str, params: impl Serialize) -> Value {
    value(&wire::Message { jsonrpc: "2.0", id: None, method, params })
}

fn status(state: TaskState) -> TaskStatus {
    match state {
        TaskState::Working => TaskStatus::Working,
        TaskState::InputRequired => TaskStatus::InputRequired,
        TaskState::Ended(task::Outcome::Succeeded) => TaskStatus::Completed,
        TaskState::Ended(task::Outcome::Failed | task::Outcome::Broken) => TaskStatus::Failed,
        TaskState::Ended(task::Outcome::Cancelled) => TaskStatus::Cancelled,
    }
}

/// Converts a content block for a session of this revision.
pub(super) fn block(revision: Revision, mut block: Content) -> Content {
    if revision < Revision::V2025_06_18 {
        link_to_text(&mut block);
    }
    block
}

fn link_to_text(block: &mut Content) {
    if let Content::ResourceLink { uri, name, .. } = block {
        *block = Content::text(format!("{name}: {uri}"));
    }
}
