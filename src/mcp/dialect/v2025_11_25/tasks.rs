//! `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel`.

use serde_json::{Value, json};

use super::{SessionCall, from_wire, questions, to_wire};
use crate::mcp::features::apps;
use crate::mcp::features::dialect::Dialect as _;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::features::tasks;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::features::tools::wait::{WaitOptions, wait};
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::wire::jsonrpc::{Id, Outcome};
use crate::mcp::wire::types;
use crate::tasks::machine::CancelMode;
use crate::tasks::service::View;
use crate::tasks::task::TaskId;

/// `tasks/get`: answers from the row, and never waits.
pub(super) async fn get(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let id = from_wire::task_id(params)?;
    let view = call.find_task(&id).await?;
    questions::register_poll(call, &view.task).await.map_err(store_error)?;
    Ok(write_task(call, &view))
}

/// `tasks/result`: waits until the task has ended, without a time limit.
pub(super) async fn result(
    call: &SessionCall<'_>,
    request: Id,
    params: &Value,
    sink: &dyn MessageSink,
) -> Outcome {
    let id = from_wire::task_id(params)?;
    from_wire::progress_token(params)?;
    let view = call.find_task(&id).await?;
    if view.task.has_ended() {
        return read_result(call, &view, sink).await;
    }
    let task = id.clone();
    sink.set_resume(Resume::Wait { id: request, task, began: None, until: None, progress_token: None });
    wait_for_result(call, &id, sink).await
}

/// The part of `tasks/result` that a new connection can resume.
pub(super) async fn wait_for_result(call: &SessionCall<'_>, id: &TaskId, sink: &dyn MessageSink) -> Outcome {
    let view = wait(call, id, WaitOptions::default(), sink).await.map_err(store_error)?;
    let view = view.ok_or_else(|| call.task_not_found(id))?;
    read_result(call, &view, sink).await
}

/// Returns the result of a task that has ended.
async fn read_result(call: &SessionCall<'_>, view: &View, sink: &dyn MessageSink) -> Outcome {
    let output = tasks::read_result(call, view, sink).await?;
    let result = ToolResult::for_ended_task(call.context(), call.reads(), view, output, None)?;
    let result = apps::for_view(call, &view.task, result);
    Ok(to_wire::tool_result(call.session.revision, result, Some(&view.task.id)))
}

/// `tasks/list`: the caller's own tasks, newest first.
pub(super) async fn list(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let page = tasks::list(call, params).await?;
    let task = |view| to_wire::task(call.context(), view, call.client_for(&view.task));
    Ok(types::page("tasks", page.views.iter().map(task).collect(), page.next_cursor))
}

/// `tasks/cancel`: the task is in its terminal state when this answers.
pub(super) async fn cancel(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let id = from_wire::task_id(params)?;
    match tasks::cancel(call, &id, CancelMode::Immediate).await? {
        (false, task) => {
            let view = call.bridge.context.service.view(task).await.map_err(store_error)?;
            Ok(write_task(call, &view))
        }
        (true, task) => Err(from_wire::invalid(format!(
            "Cannot cancel task: already in terminal status '{}'",
            handle::status_word(task.state)
        ))),
    }
}

fn write_task(call: &SessionCall<'_>, view: &View) -> Value {
    let mut task = types::value(&to_wire::task(call.context(), view, call.client_for(&view.task)));
    let meta = handle::task_meta(view);
    if meta != json!({}) {
        task["_meta"] = meta;
    }
    task
}
