//! Converts what the core returns to wire types. It must not access the store or decide anything.

use serde::Serialize;
use serde_json::{Value, json};
use taskbridge_sdk::Content;

use super::wire;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::handle::VisibleStatus;
use crate::mcp::features::tools::result::{ToolResult, wrap_in_object};
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::LINK;
use crate::mcp::wire::revision::Revision;
use crate::mcp::wire::types::{
    CallToolResult, REFERS_TO, TASK, TaskStatus, UNTRUSTED, millis, non_empty, value, without_nulls,
};
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId, TaskState};

/// Key of the task that a message belongs to, in `_meta`.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

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
    let meta = without_nulls(json!({
        RELATED_TASK: { "taskId": id },
        // Where clients from before the release (FastMCP 2.14) expect the task. They parse this as a tool
        // result, which requires `content`, and without the task they take it for an empty success.
        "modelcontextprotocol.io/task": { "taskId": id, "status": task.status },
        REFERS_TO: non_empty(&view.task.refers_to),
        "io.modelcontextprotocol/model-immediate-response": model_immediate_response,
    }));
    json!({ "task": task, "content": [], "_meta": meta })
}

/// Returns a tool result for a session of this revision.
pub(super) fn tool_result(revision: Revision, result: ToolResult, related: Option<&TaskId>) -> Value {
    let mut untrusted = result.untrusted();
    let ToolResult { mut content, structured, is_error, refers_to, job_blocks: _, link, shown_task } = result;
    let mut structured_content = structured.map(wrap_in_object);
    if revision < Revision::V2025_06_18 {
        // Earlier revisions know neither links nor structured content, and an unknown block makes a client
        // fail.
        structured_content = None;
        untrusted.retain(|part| part.starts_with("/content/"));
        content.iter_mut().for_each(link_to_text);
    }
    let mut message = value(&CallToolResult { content, structured_content, is_error });
    let meta = without_nulls(json!({
        RELATED_TASK: related.map(|id| json!({ "taskId": id })),
        REFERS_TO: non_empty(&refers_to),
        UNTRUSTED: non_empty(&untrusted),
        LINK: link,
        TASK: shown_task,
    }));
    if meta != json!({}) {
        message["_meta"] = meta;
    }
    message
}

/// Returns the `_meta` of a message that belongs to a task.
pub(super) fn related_meta(id: &TaskId) -> Value {
    json!({ RELATED_TASK: { "taskId": id } })
}

/// Returns a complete request of this server.
pub(super) fn request(id: &str, method: &str, params: impl Serialize) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Returns a complete notification.
pub(super) fn notification(method: &str, params: impl Serialize) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
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
