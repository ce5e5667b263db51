//! Answers a question of a task.

use axum::http::StatusCode;
use axum::response::Response;
use taskbridge_sdk::{Answer, Ask};

use crate::console::html::form;
use crate::console::pages::task_address;
use crate::console::request::{Fields, Visitor};
use crate::console::respond::{self, Refusal};
use crate::console::{Console, Result};
use crate::mcp::features::authorization::CallerContext;
use crate::tasks::service::{AnswerError, TaskOperation};
use crate::tasks::task::TaskId;

/// Answers the question that the form names.
pub(super) async fn answer(
    console: &Console,
    visitor: &Visitor,
    id: &TaskId,
    typed: &Fields,
) -> Result<Response> {
    let context = &console.parts.bridge.context;
    let by = CallerContext::new(context, &visitor.principal);
    let Some(view) = context.service.get(&by, id).await? else {
        context.not_found(&visitor.principal.owner, id);
        return Err(Refusal::not_found());
    };
    let forbidden = |why: String| Refusal::plain(StatusCode::FORBIDDEN, format!("{why}."));
    context.service.permits(&by, TaskOperation::Answer, &view.task).map_err(forbidden)?;
    let key = typed.get("question").unwrap_or_default();
    let closed = || {
        let message = "the question is no longer open: it was answered, or the task no longer needs it";
        Refusal::plain(StatusCode::CONFLICT, message)
    };
    let question = view.task.open_questions().find(|open| open.key == key).ok_or_else(closed)?;
    let invalid = |why: String| {
        Refusal::plain(StatusCode::UNPROCESSABLE_ENTITY, format!("{why}. Go back to change it."))
    };
    let answer = match (typed.get("action"), &question.question.ask) {
        (Some("decline"), _) => Answer::Decline,
        (Some("accept"), Ask::Form(schema)) => Answer::Accept(form::read(schema, typed).map_err(invalid)?),
        (Some("accept"), Ask::Url(_)) => Answer::Accept(serde_json::Map::new()),
        _ => return Err(invalid("the form has no answer to this question".to_owned())),
    };
    match context.service.answer(&by, id, key, answer).await {
        Ok(_) => Ok(respond::redirect(&task_address(id))),
        Err(AnswerError::NotFound | AnswerError::Closed) => Err(closed()),
        Err(AnswerError::Refused(why)) => Err(forbidden(why)),
        Err(error @ AnswerError::Invalid(_)) => Err(invalid(error.to_string())),
        Err(AnswerError::Store(error)) => Err(error.into()),
    }
}
