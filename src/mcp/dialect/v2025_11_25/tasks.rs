//! `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel`. A task that the caller may not see gets the
//! same "not found" error as a task that never existed.

use serde_json::Value;

use super::wait::{WaitOptions, wait};
use super::{SessionCall, from_wire, questions, to_wire, wire};
use crate::mcp::features::results;
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::wire::cursor;
use crate::mcp::wire::jsonrpc::{Error, Id, METHOD_NOT_FOUND, Outcome};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::machine::CancelMode;
use crate::tasks::service::{CancelResult, View};
use crate::tasks::task::TaskId;

/// Name of this list in its cursors.
const LIST: &str = "tasks/list";

/// `tasks/get`: answers from the row, and never waits.
pub(super) async fn get(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let id = from_wire::task_id(params)?;
    let view = call.bridge.service.get(&call.actor(), &id).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| not_found(call, &id))?;
    questions::register_poll(call, &view.task).await.map_err(|error| call.fault(&error))?;
    Ok(to_wire::value(&to_wire::task(call.bridge, &view, call.client_for(&view.task))))
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
    let view = call.bridge.service.get(&call.actor(), &id).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| not_found(call, &id))?;
    if view.task.has_ended() {
        return read_result(call, &view, sink).await;
    }
    let task = id.clone();
    sink.set_resume(Resume::Wait { id: request, task, began: None, until: None, progress_token: None });
    wait_for_result(call, &id, sink).await
}

/// The part of `tasks/result` that a new connection can resume.
pub(super) async fn wait_for_result(call: &SessionCall<'_>, id: &TaskId, sink: &dyn MessageSink) -> Outcome {
    let options = WaitOptions { deadline: None, progress: None, log_cursor: None };
    let view = wait(call, id, options, sink).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| not_found(call, id))?;
    read_result(call, &view, sink).await
}

/// Returns the result of a task that has ended.
async fn read_result(call: &SessionCall<'_>, view: &View, sink: &dyn MessageSink) -> Outcome {
    let output = results::read(call.bridge, &view.task, sink).await;
    let output = output.map_err(|error| error.to_jsonrpc_error(call.bridge))?;
    call.note_delivered(&view.task).await;
    call.bridge.audit.record(AuditEvent::Read { task: &view.task, part: Part::Result });
    let style = to_wire::Style { revision: call.revision(), related: true, preface: None };
    to_wire::ended_task(call.bridge, view, output, style)
}

/// `tasks/list`: the caller's own tasks, newest first.
pub(super) async fn list(call: &SessionCall<'_>, params: &Value) -> Outcome {
    if !call.caller.principal.identified {
        return Err(Error::new(
            METHOD_NOT_FOUND,
            "tasks/list is not offered: callers cannot be told apart here, and a list would tell strangers of tasks",
        ));
    }
    let bridge = call.bridge;
    let after = match from_wire::cursor(params)? {
        None => None,
        Some(cursor) => Some(
            cursor::position(&bridge.seal, LIST, call.owner(), cursor)
                .ok_or_else(from_wire::invalid_cursor)?,
        ),
    };
    let size = bridge.settings().page_size;
    let page = bridge.service.list(call.owner(), after.as_ref(), size + 1).await;
    let mut views = page.map_err(|error| call.fault(&error))?;
    let has_more = views.len() > size;
    views.truncate(size);
    let next_cursor =
        views.last().filter(|_| has_more).map(|view| cursor::after(&bridge.seal, LIST, &view.task));
    let tasks = views.iter().map(|view| to_wire::task(bridge, view, call.client_for(&view.task))).collect();
    Ok(to_wire::value(&wire::ListTasksResult { tasks, next_cursor }))
}

/// `tasks/cancel`: the task is in its terminal state when this answers.
pub(super) async fn cancel(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let id = from_wire::task_id(params)?;
    let service = &call.bridge.service;
    let cancellation = service.cancel(&call.actor(), &id, CancelMode::Immediate).await;
    match cancellation.map_err(|error| call.fault(&error))? {
        CancelResult::Done(task) => {
            let view = service.view(task).await.map_err(|error| call.fault(&error))?;
            Ok(to_wire::value(&to_wire::task(call.bridge, &view, call.client_for(&view.task))))
        }
        CancelResult::AlreadyEnded(task) => Err(from_wire::invalid(format!(
            "Cannot cancel task: already in terminal status '{}'",
            crate::mcp::features::tools::handle::status_word(task.state)
        ))),
        CancelResult::Refused(reason) => Err(from_wire::invalid(reason)),
        CancelResult::NotFound => Err(not_found(call, &id)),
    }
}

/// Returns the error for a task that is unknown, has expired or is not visible to the caller.
pub(super) fn not_found(call: &SessionCall<'_>, id: &TaskId) -> Error {
    call.bridge.not_found(call.owner(), id);
    from_wire::invalid("Failed to retrieve task: Task not found")
}
