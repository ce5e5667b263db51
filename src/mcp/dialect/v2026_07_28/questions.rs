//! Questions of tasks, for a client to answer. They are sent in `inputRequests`. The answers arrive by
//! `tasks/update`, or with the repeated call.

use serde_json::{Map, Value};

use super::{StatelessCall, to_wire};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::wire::params;
use crate::tasks::service::AnswerError;
use crate::tasks::task::{Task, TaskQuestion};

/// Returns the questions of a task that this client can be asked, by their keys.
pub(super) fn input_requests(call: &StatelessCall<'_>, task: &Task) -> Map<String, Value> {
    to_wire::input_requests(
        client_questions(call, task)
            .map(|task_question| (task_question.key.as_str(), &task_question.question)),
    )
}

/// Returns true if a task asks something that this client can be asked.
pub(super) fn has_questions(call: &StatelessCall<'_>, task: &Task) -> bool {
    client_questions(call, task).next().is_some()
}

fn client_questions<'a>(call: &StatelessCall<'_>, task: &'a Task) -> impl Iterator<Item = &'a TaskQuestion> {
    let client = call.client_for(task);
    task.open_questions().filter(move |task_question| client.can_ask(&task_question.question.ask))
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
    let task_question =
        task.questions.iter().find(|task_question| task_question.key == key).ok_or(AnswerError::NotFound)?;
    let answer = params::answer(&task_question.question.ask, response).map_err(AnswerError::Invalid)?;
    call.bridge.context.service.answer(&call.actor(), &task.id, key, answer).await.map(|_| ())
}
