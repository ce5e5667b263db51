//! A task as JSON, for people who report or compare: what its page shows, without arguments and answers.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::{Request, find};
use crate::console::Result;
use crate::console::html::pieces;
use crate::tasks::task::{TaskId, TaskQuestion};

pub(super) async fn answer(request: &Request<'_>, id: &TaskId) -> Result<Response> {
    let view = find(request, id).await?;
    let history = request.context().service.history(&view.task).await?;
    let task = &view.task;
    let body = json!({
        "id": task.id,
        "tool": task.tool,
        "backend": task.backend,
        "owner": task.owner,
        "state": pieces::state_words(task).0,
        "message": view.status_message(),
        "job": task.handle().map(|handle| handle.as_str()),
        "created_at": task.created_at.to_string(),
        "changed_at": task.changed_at.to_string(),
        "ended_at": task.ended_at.map(|at| at.to_string()),
        "progress": task.progress,
        "questions": task.questions.iter().map(question).collect::<Vec<_>>(),
        "history": history,
    });
    let text = serde_json::to_string_pretty(&body).unwrap_or_default();
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn question(question: &TaskQuestion) -> Value {
    json!({
        "key": question.key,
        "message": question.question.message,
        "asked_at": question.at.to_string(),
        "is_open": question.status == crate::tasks::task::QuestionStatus::Open,
        "answered_by": question.answered_by,
    })
}
