//! Operations behind the methods `tasks/...`, for every generation that has them. A task that the caller may
//! not see gets the same "not found" error as a task that never existed. It must not know how a task is
//! written.

use serde_json::Value;
use taskbridge_sdk::Output;

use super::dialect::Dialect;
use super::request::RequestExt as _;
use super::results::internal_error::store_error;
use super::results::{self, ResultReadError};
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::{Error, METHOD_NOT_FOUND};
use crate::mcp::wire::{cursor, params};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::machine::CancelMode;
use crate::tasks::service::{CancelResult, View};
use crate::tasks::task::{Task, TaskId};

/// Name of the list of tasks in its cursors.
const LIST: &str = "tasks/list";

/// A page of tasks.
pub struct TaskPage {
    /// The tasks, newest first.
    pub views: Vec<View>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// Returns a page of the caller's own tasks.
///
/// # Errors
/// If callers are not identified, the cursor is invalid, or the store fails.
pub async fn list(request: &dyn Dialect, params: &Value) -> Result<TaskPage, Error> {
    if !request.principal().identified {
        return Err(Error::new(
            METHOD_NOT_FOUND,
            "tasks/list is not offered: callers cannot be told apart here, and a list would tell strangers of tasks",
        ));
    }
    let context = request.context();
    let after = match params::cursor(params)? {
        None => None,
        Some(cursor) => Some(
            cursor::position(&context.seal, LIST, request.owner(), cursor)
                .ok_or_else(params::invalid_cursor)?,
        ),
    };
    let size = context.settings().page_size;
    let mut views =
        context.service.list(request.owner(), after.as_ref(), size + 1).await.map_err(store_error)?;
    let has_more = views.len() > size;
    views.truncate(size);
    let last = views.last().filter(|_| has_more);
    let next_cursor = last.map(|view| cursor::after(&context.seal, LIST, &view.task));
    Ok(TaskPage { views, next_cursor })
}

/// Cancels a task. Returns whether it had ended before, and the task.
///
/// # Errors
/// If there is no such task, the caller may not cancel it, or the store fails.
pub async fn cancel(request: &dyn Dialect, id: &TaskId, mode: CancelMode) -> Result<(bool, Task), Error> {
    match request.context().service.cancel(&request.actor(), id, mode).await.map_err(store_error)? {
        CancelResult::Done(task) => Ok((false, task)),
        CancelResult::AlreadyEnded(task) => Ok((true, task)),
        CancelResult::Refused(reason) => Err(params::invalid(reason)),
        CancelResult::NotFound => Err(request.task_not_found(id)),
    }
}

/// Reads the result of a task that has ended, for its answer: it is recorded as read and delivered.
///
/// # Errors
/// See [`ResultReadError`].
pub async fn read_result(
    request: &dyn Dialect,
    view: &View,
    sink: &dyn MessageSink,
) -> Result<Option<Output>, ResultReadError> {
    let output = results::read(request, &view.task, sink).await?;
    request.note_delivered(&view.task).await;
    request.context().audit.record(AuditEvent::Read { task: &view.task, part: Part::Result });
    Ok(output)
}
