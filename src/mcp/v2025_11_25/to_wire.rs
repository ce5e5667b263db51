//! From what the core has to what goes out. Plain answers and `tasks/result` are written by the same function, so that
//! they cannot differ. Nothing here looks anything up but the catalog.

use serde::Serialize;
use serde_json::{Value, json};
use taskbridge_sdk::{Content, Output};

use super::wire;
use crate::mcp::Bridge;
use crate::mcp::companions::Said;
use crate::mcp::fallback::{self, Standing};
use crate::mcp::generation::Revision;
use crate::mcp::jsonrpc::{Error, INTERNAL_ERROR, Outcome};
use crate::mcp::resources::{Link, links};
use crate::mcp::session::Abilities;
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId, TaskState};

/// The JSON of a wire type.
pub(super) fn value(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("wire types have string keys and no failing serializers")
}

/// A task, as a client is told that can do this.
pub(super) fn task<'a>(bridge: &Bridge, view: &'a View, client: Abilities) -> wire::Task<'a> {
    let Standing { state, message } = fallback::standing(bridge, view, client);
    let task = &view.task;
    wire::Task {
        task_id: task.id.as_str(),
        status: status(state),
        status_message: message,
        created_at: task.created_at.to_string(),
        last_updated_at: task.changed_at.to_string(),
        ttl: millis(task.expires_at().since(task.created_at)),
        poll_interval: millis(view.poll_interval),
    }
}

/// The answer to an accepted task-augmented call. A task that was just made is `working`, whatever has become of it
/// since.
pub(super) fn created(bridge: &Bridge, view: &View, is_new: bool, client: Abilities) -> Value {
    let mut task = task(bridge, view, client);
    if is_new {
        task.status = wire::TaskStatus::Working;
    }
    let tool = &view.task.tool;
    let id = task.task_id;
    let model_immediate_response = format!(
        "{tool} was started as task {id} and goes on in the background; its result follows when it is done."
    );
    let meta =
        wire::CreateTaskMeta { related_task: wire::RelatedTask { task_id: id }, model_immediate_response };
    value(&wire::CreateTaskResult { task, content: [], meta })
}

/// How a result is written.
#[derive(Clone, Copy)]
pub(super) struct Style<'a> {
    /// For a session of this revision.
    pub(super) revision: Revision,
    /// With the related-task metadata.
    pub(super) related: bool,
    /// With this line before everything else.
    pub(super) preface: Option<&'a str>,
}

/// What a call is answered with whose task has ended: its tool result, or the JSON-RPC error that stands for a job
/// that could not be run or tracked.
pub(super) fn ended(bridge: &Bridge, view: &View, output: Option<Output>, style: Style<'_>) -> Outcome {
    let task = &view.task;
    let links = links(bridge, task, output.as_ref());
    let output = output.unwrap_or_default();
    let message = task.message.as_deref().unwrap_or_default();
    let mut content: Vec<Content> = style.preface.map(Content::text).into_iter().collect();
    let is_error = match task.outcome() {
        Some(task::Outcome::Succeeded) => false,
        Some(task::Outcome::Failed) => {
            if !mentions(&output, message) {
                content.push(Content::text(message));
            }
            true
        }
        Some(task::Outcome::Cancelled) => {
            let job = fallback::job_of_cancelled(task);
            content.push(Content::text(format!("Cancelled: {message}. {job}")));
            true
        }
        Some(task::Outcome::Broken) | None => return Err(Error::new(INTERNAL_ERROR, message)),
    };
    let structured = output.structured.map(|structured| match structured {
        object @ Value::Object(_) => object,
        other => json!({ "result": other }),
    });
    let has_text = output.content.iter().any(|block| matches!(block, Content::Text { .. }));
    content.extend(output.content);
    if let Some(structured) = &structured
        && !has_text
    {
        content.push(Content::text(structured.to_string()));
    }
    if content.is_empty() {
        content.push(Content::text(message));
    }
    content.extend(links.into_iter().map(link));
    // Clients hold the structured content of an error against the output schema too, and hide the error behind
    // their own when it does not fit.
    let declares = bridge.catalog().get(&task.tool).is_some_and(|tool| tool.output_schema.is_some());
    let structured_content = structured.filter(|_| !(is_error && declares));
    Ok(result(style.revision, content, structured_content, is_error, style.related.then_some(&task.id)))
}

/// A handle, with the line that says what to do next.
pub(super) fn handle(
    bridge: &Bridge,
    view: &View,
    client: Abilities,
    companions: bool,
    style: Style<'_>,
) -> Value {
    let handle = fallback::handle(bridge, view, client);
    let next = fallback::next_step(&handle, &view.task.tool, companions);
    let content = style.preface.into_iter().chain([next.as_str()]).map(Content::text).collect();
    result(style.revision, content, Some(value(&handle)), false, None)
}

/// What a companion tool says.
pub(super) fn said(revision: Revision, said: Said) -> Value {
    result(revision, vec![Content::text(said.text)], said.structured, said.is_error, None)
}

/// A tool result that says why the tool could not do what was asked: for the model, so that it can do better.
pub(super) fn tool_error(message: impl Into<String>) -> Value {
    let content = vec![Content::text(message)];
    value(&wire::CallToolResult { content, structured_content: None, is_error: true, meta: None })
}

fn result(
    revision: Revision,
    mut content: Vec<Content>,
    mut structured_content: Option<Value>,
    is_error: bool,
    related: Option<&TaskId>,
) -> Value {
    if revision < Revision::V2025_06_18 {
        // Neither links nor structured content were known then, and an unknown block makes a client fail.
        structured_content = None;
        content.iter_mut().for_each(spell_out);
    }
    let meta = related.map(related_meta);
    value(&wire::CallToolResult { content, structured_content, is_error, meta })
}

/// The metadata of what belongs to a task.
pub(super) fn related_meta(id: &TaskId) -> wire::RelatedMeta<'_> {
    wire::RelatedMeta { related_task: wire::RelatedTask { task_id: id.as_str() } }
}

/// A notification, whole.
pub(super) fn notification(method: &'static str, params: impl Serialize) -> Value {
    value(&wire::Message { jsonrpc: "2.0", id: None, method, params })
}

fn status(state: TaskState) -> wire::TaskStatus {
    match state {
        TaskState::Working => wire::TaskStatus::Working,
        TaskState::InputRequired => wire::TaskStatus::InputRequired,
        TaskState::Ended(task::Outcome::Succeeded) => wire::TaskStatus::Completed,
        TaskState::Ended(task::Outcome::Failed | task::Outcome::Broken) => wire::TaskStatus::Failed,
        TaskState::Ended(task::Outcome::Cancelled) => wire::TaskStatus::Cancelled,
    }
}

fn mentions(output: &Output, message: &str) -> bool {
    output.content.iter().any(|block| matches!(block, Content::Text { text } if text.contains(message)))
}

fn link(link: Link) -> Content {
    Content::ResourceLink {
        uri: link.uri,
        name: link.name,
        description: Some(link.description),
        mime_type: link.mime_type,
        size: link.size,
    }
}

fn spell_out(block: &mut Content) {
    if let Content::ResourceLink { uri, name, .. } = block {
        *block = Content::text(format!("{name}: {uri}"));
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
