//! The open questions of a task, for the view: what is asked, and whether an answer of this caller counts
//! that comes as a call of `task_answer`. On the wire the view's answer looks like a model's, so it counts
//! where a model's does. Elsewhere the view says where a person can answer.

use serde_json::{Value, json};
use taskbridge_sdk::Ask;

use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::tools::handle;
use crate::mcp::wire::types::without_nulls;
use crate::recorder::text::{clean, https_host};
use crate::tasks::service::{Actor as _, TaskOperation};
use crate::tasks::task::{QuestionSource, Task, TaskQuestion};

/// Maximum number of questions that are shown.
const MAX_QUESTIONS: usize = 5;
/// Maximum length of a question's text in characters.
const MAX_TEXT_CHARS: usize = 4_000;
/// Maximum size of a form's schema in bytes. A larger form is answered elsewhere.
const MAX_SCHEMA_BYTES: usize = 32 * 1024;

/// Returns the open questions, oldest first.
pub(super) fn open(request: &dyn Dialect, task: &Task) -> Vec<Value> {
    let refusal = request.actor().may(TaskOperation::Answer, task).err();
    let questions = task.open_questions().take(MAX_QUESTIONS);
    questions.map(|question| entry(request, task, question, refusal.as_deref())).collect()
}

fn entry(request: &dyn Dialect, task: &Task, question: &TaskQuestion, refusal: Option<&str>) -> Value {
    let context = request.context();
    let text: String = clean(&question.question.message).chars().take(MAX_TEXT_CHARS).collect();
    let form = question.question.ask.form().filter(|schema| schema.to_string().len() <= MAX_SCHEMA_BYTES);
    let elsewhere = match refusal {
        Some(why) => Some(format!("{why}.")),
        None if form.is_some() && handle::is_answerable_by_model(context, task, question) => None,
        None => Some(elsewhere(question, context.offers.console_url().is_some())),
    };
    let page = match &question.question.ask {
        Ask::Url(page) => https_host(page).map(|_| page),
        _ => None,
    };
    let console = context.offers.console_url().filter(|_| elsewhere.is_some());
    without_nulls(json!({
        "question": question.key,
        "text": text,
        "schema": form.filter(|_| elsewhere.is_none()),
        "elsewhere": elsewhere,
        "page": page,
        "console": console.map(|console| format!("{console}/tasks/{}", task.id)),
    }))
}

/// Returns where a question is answered whose answer does not count here.
fn elsewhere(question: &TaskQuestion, has_console: bool) -> String {
    let console = if has_console { "in the console, " } else { "" };
    let client = match question.question.ask {
        Ask::Form(_) => "in a client that shows forms of servers (elicitation)",
        Ask::Url(_) => "in a client that opens pages for servers (elicitation.url)",
        Ask::Sampling(_) => {
            return "Only a client that lends its model (sampling) can answer this.".to_owned();
        }
        Ask::Roots => return "Only a client with roots can answer this.".to_owned(),
    };
    // The engine does not know a question that comes before the start.
    let engine = if question.asker == QuestionSource::Job { ", or in the engine itself" } else { "" };
    format!(
        "A person must answer this, and an answer from a chat could be the model's. Answer it {console}{client}{engine}."
    )
}
