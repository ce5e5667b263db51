//! `tasks/get`, `tasks/update` and `tasks/cancel`. A task that the caller may not see gets the same "not
//! found" error as a task that never existed.

use serde_json::{Map, Value, json};

use super::{StatelessCall, errors, from_wire, questions, to_wire, wire};
use crate::mcp::features::apps;
use crate::mcp::features::dialect::Dialect as _;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::results::ResultReadError;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::features::tasks;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, Outcome};
use crate::mcp::wire::types::TaskStatus;
use crate::tasks::machine::CancelMode;
use crate::tasks::service::{AnswerError, View};
use crate::tasks::task::Task;

/// `tasks/get`: answers from the row, and never waits.
pub(super) async fn get(call: &StatelessCall<'_>, params: &Value, sink: &dyn MessageSink) -> Outcome {
    require_tasks(call, "tasks/get")?;
    let id = from_wire::task_id(params)?;
    let view = call.find_task(&id).await?;
    let task = detailed_task(call, &view, sink).await?;
    Ok(to_wire::polled_task(task, &view))
}

/// `tasks/update`: the answers are stored when this acknowledges them. Those to closed or unknown questions
/// are ignored.
pub(super) async fn update(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    require_tasks(call, "tasks/update")?;
    let id = from_wire::task_id(params)?;
    let responses = from_wire::input_responses(params)?;
    let view = call.find_task(&id).await?;
    store_answers(call, &view.task, &responses).await?;
    Ok(to_wire::complete(json!({})))
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
            Err(AnswerError::Store(error)) => return Err(store_error(error)),
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
    tasks::cancel(call, &id, CancelMode::Request).await?;
    Ok(to_wire::complete(json!({})))
}

/// Checks that the request declared the tasks extension.
pub(super) fn require_tasks(call: &StatelessCall<'_>, feature: &str) -> Result<(), Error> {
    if call.caller.tasks { Ok(()) } else { Err(errors::needs_tasks(feature)) }
}

/// Returns a task with what its status requires: questions, a result or an error. `sink` reserves memory
/// for a large result.
///
/// # Errors
/// See [`ResultReadError`].
pub(super) async fn detailed_task<'a>(
    call: &StatelessCall<'_>,
    view: &'a View,
    sink: &dyn MessageSink,
) -> Result<wire::DetailedTask<'a>, ResultReadError> {
    let task = to_wire::task(call.context(), view, call.client_for(&view.task));
    let mut detailed = wire::DetailedTask { task, input_requests: None, result: None, error: None };
    match detailed.task.status {
        TaskStatus::Working | TaskStatus::Cancelled => {}
        TaskStatus::InputRequired => {
            detailed.input_requests = Some(questions::input_requests(call, &view.task));
        }
        TaskStatus::Completed | TaskStatus::Failed => {
            let output = tasks::read_result(call, view, sink).await?;
            match ToolResult::for_ended_task(call.context(), call.reads(), view, output, None) {
                Ok(result) => {
                    let result = apps::for_view(call, &view.task, result);
                    detailed.result = Some(to_wire::tool_result(result));
                }
                Err(error) => detailed.error = Some(error),
            }
        }
    }
    // The schema requires an error for this status, whatever the row is by now.
    if detailed.task.status == TaskStatus::Failed && detailed.error.is_none() {
        detailed.error = Some(Error::new(INTERNAL_ERROR, "the job could not be run or tracked"));
    }
    Ok(detailed)
}
