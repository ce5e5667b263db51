//! Questions of tasks, for a client to answer. They are sent in `inputRequests`. The answers arrive by
//! `tasks/update`, or with the repeated call.

use serde_json::{Map, Value};

use super::{StatelessCall, to_wire};
use crate::mcp::params;
use crate::tasks::service::AnswerError;
use crate::tasks::task::{Task, TaskQuestion};

/// Returns the questions of a task that this client can be asked, by their keys.
pub(super) fn of_task(call: &StatelessCall<'_>, task: &Task) -> Map<String, Value> {
    to_wire::input_requests(for_client(call, task).map(|asked| (asked.key.as_str(), &asked.question)))
}

/// Returns true if a task asks something that this client can be asked.
pub(super) fn asks(call: &StatelessCall<'_>, task: &Task) -> bool {
    for_client(call, task).next().is_some()
}

fn for_client<'a>(call: &StatelessCall<'_>, task: &'a Task) -> impl Iterator<Item = &'a TaskQuestion> {
    let client = call.client_for(task);
    task.open_questions().filter(move |asked| client.can_ask(&asked.question.ask))
}

/// Stores the answer to one of a task's questions. When this returns, the row contains it.
///
/// # Errors
/// See [`AnswerError`]; the question is then unchanged.
pub(super) async fn answer(
    call: &StatelessCall<'_>,
    task: &Task,
    key: &str,
    response: &Value,
) -> Result<(), AnswerError> {
    let asked = task.questions.iter().find(|asked| asked.key == key).ok_or(AnswerError::NotFound)?;
    let answer = params::answer(&asked.question.ask, response).map_err(AnswerError::Invalid)?;
    call.bridge.service.answer(&call.actor(), &task.id, key, answer).await.map(|_| ())
}
