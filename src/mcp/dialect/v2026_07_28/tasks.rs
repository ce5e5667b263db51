//! `tasks/get`, `tasks/update` and `tasks/cancel`. A task that the caller may not see gets the same "not
//! found" error as a task that never existed.

use serde_json::{Map, Value};

use super::{StatelessCall, errors, from_wire, questions, to_wire, wire};
use crate::mcp::features::results;
use crate::mcp::features::results::ResultReadError;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, Outcome};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::machine::CancelMode;
use crate::tasks::service::{AnswerError, CancelResult, View};
use crate::tasks::task::{Task, TaskId};

/// `tasks/get`: answers from the row, and never waits.
pub(super) async fn get(call: &StatelessCall<'_>, params: &Value, sink: &dyn MessageSink) -> Outcome {
    require_tasks(call, "tasks/get")?;
    let id = from_wire::task_id(params)?;
    let view = call.bridge.service.get(&call.actor(), &id).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| not_found(call, &id))?;
    let task = detailed_task(call, &view, sink).await.map_err(|error| error.to_jsonrpc_error(call.bridge))?;
    Ok(to_wire::complete(task))
}

/// `tasks/update`: the answers are stored when this acknowledges them. Those to closed or unknown questions
/// are ignored.
pub(super) async fn update(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    require_tasks(call, "tasks/update")?;
    let id = from_wire::task_id(params)?;
    let responses = from_wire::input_responses(params)?;
    let view = call.bridge.service.get(&call.actor(), &id).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| not_found(call, &id))?;
    store_answers(call, &view.task, &responses).await?;
    Ok(to_wire::complete(wire::Empty {}))
}

/// Stores the answers for a task. Ignores answers to unknown questions and to those that are already
/// answered.
///
/// # Errors
/// If an answer is invalid (valid ones are stored), if the caller may not answer, or if the store fails.
pub(super) async fn store_answers(
    call: &StatelessCall<'_>,
    task: &Task,
    responses: &Map<String, Value>,
) -> Result<(), Error> {
    let mut problems = Vec::new();
    for (key, response) in responses {
        match questions::answer(call, task, key, response).await {
            Ok(()) | Err(AnswerError::NotFound | AnswerError::Closed) => {}
            Err(AnswerError::Store(error)) => return Err(call.fault(&error)),
            Err(AnswerError::Refused(reason)) => return Err(from_wire::invalid(reason)),
            Err(problem) => problems.push(format!("`inputResponses[{key:?}]`: {problem}")),
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(from_wire::invalid(format!("{}; what fits was taken", problems.join("; ")))),
    }
}

/// `tasks/cancel`: the cancellation is stored when this acknowledges it. The task ends when its job does.
pub(super) async fn cancel(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    require_tasks(call, "tasks/cancel")?;
    let id = from_wire::task_id(params)?;
    let cancellation = call.bridge.service.cancel(&call.actor(), &id, CancelMode::Request).await;
    match cancellation.map_err(|error| call.fault(&error))? {
        CancelResult::Done(_) | CancelResult::AlreadyEnded(_) => Ok(to_wire::complete(wire::Empty {})),
        CancelResult::Refused(reason) => Err(from_wire::invalid(reason)),
        CancelResult::NotFound => Err(not_found(call, &id)),
    }
}

/// Checks that the request declared the tasks extension.
pub(super) fn require_tasks(call: &StatelessCall<'_>, feature: &str) -> Result<(), Error> {
    if call.has_tasks() { Ok(()) } else { Err(errors::needs_tasks(feature)) }
}

/// Returns a task with what its status requires: questions, a result or an error. `outlet` reserves memory
/// for a large result.
///
/// # Errors
/// See [`ResultReadError`].
pub(super) async fn detailed_task<'a>(
    call: &StatelessCall<'_>,
    view: &'a View,
    sink: &dyn MessageSink,
) -> Result<wire::DetailedTask<'a>, ResultReadError> {
    let task = to_wire::task(call.bridge, view, call.client_for(&view.task));
    let mut detailed = wire::DetailedTask { task, input_requests: None, result: None, error: None };
    match detailed.task.status {
        wire::TaskStatus::Working | wire::TaskStatus::Cancelled => {}
        wire::TaskStatus::InputRequired => {
            detailed.input_requests = Some(questions::input_requests(call, &view.task));
        }
        wire::TaskStatus::Completed | wire::TaskStatus::Failed => {
            let output = results::read(call.bridge, &view.task, sink).await?;
            call.note_delivered(&view.task).await;
            call.bridge.audit.record(AuditEvent::Read { task: &view.task, part: Part::Result });
            match ToolResult::for_ended_task(call.bridge, view, output, None) {
                Ok(result) => detailed.result = Some(to_wire::tool_result(result)),
                Err(error) => detailed.error = Some(error),
            }
        }
    }
    // The schema requires an error for this status, whatever the row is by now.
    if detailed.task.status == wire::TaskStatus::Failed && detailed.error.is_none() {
        detailed.error = Some(Error::new(INTERNAL_ERROR, "the job could not be run or tracked"));
    }
    Ok(detailed)
}

/// Returns the error for a task that is unknown, has expired or is not visible to the caller.
pub(super) fn not_found(call: &StatelessCall<'_>, id: &TaskId) -> Error {
    call.bridge.not_found(call.owner(), id);
    from_wire::invalid("Failed to retrieve task: Task not found")
}
