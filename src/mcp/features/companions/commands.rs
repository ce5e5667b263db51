//! Companion tools that answer at once, through the operations of the service. None of them waits for a job.

use serde::Serialize;
use serde_json::json;
use taskbridge_sdk::Answer;

use super::arguments::CompanionCommand;
use super::{Companion, CompanionResult};
use crate::auth::Principal;
use crate::mcp::features::authorization::CallerContext;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::resources::read::ReadError;
use crate::mcp::features::resources::{self, EngineReads};
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::handle::Handle;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::cursor;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::machine::CancelMode;
use crate::tasks::service::{AnswerError, CancelResult, TaskOperation, View};
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId, TaskQuestion};

/// Name of this list in the cursors of `task_list`.
const LIST: &str = "task_list";

/// Maximum number of tasks in one answer, whatever the page size: all of it goes into a model's context.
const MAX_LISTED: usize = 50;

/// A task in a list.
#[derive(Serialize)]
struct TaskListEntry<'a> {
    #[serde(flatten)]
    handle: Handle<'a>,
    tool: &'a str,
    created_at: String,
}

/// Runs a command for this caller. `client` contains the capabilities of the caller's client.
///
/// # Errors
/// If the store fails.
pub async fn run(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    client: ClientCapabilities,
    command: CompanionCommand,
) -> Result<CompanionResult, StoreError> {
    match command {
        CompanionCommand::Cancel(id) => cancel(context, caller, client, &id).await,
        CompanionCommand::Answer { id, question, answer } => {
            answer_question(context, caller, client, &id, question, answer).await
        }
        CompanionCommand::List { cursor } => list(context, caller, client, cursor).await,
        CompanionCommand::Logs { id, search, max_bytes } => {
            logs(context, reads, caller, &id, search, max_bytes).await
        }
    }
}

async fn cancel(
    context: &FeatureContext,
    caller: &Principal,
    client: ClientCapabilities,
    id: &TaskId,
) -> Result<CompanionResult, StoreError> {
    match context.service.cancel(&CallerContext::new(context, caller), id, CancelMode::Immediate).await? {
        CancelResult::Done(task) => {
            let text = format!("Task {id} is cancelled. {}", handle::job_of_cancelled(&task));
            answer_about_task(context, caller, client, task, text).await
        }
        CancelResult::Refused(reason) => Ok(CompanionResult::refusal(format!("{reason}."))),
        CancelResult::AlreadyEnded(task) => Ok(CompanionResult::refusal(format!(
            "Task {id} had already ended ({}). Call {} for its result.",
            handle::status_word(task.state),
            Companion::Wait.name()
        ))),
        CancelResult::NotFound => Ok(super::no_task(context, &caller.owner, id)),
    }
}

async fn answer_question(
    context: &FeatureContext,
    caller: &Principal,
    client: ClientCapabilities,
    id: &TaskId,
    question: Option<String>,
    answer: Answer,
) -> Result<CompanionResult, StoreError> {
    let by = CallerContext::new(context, caller);
    let Some(view) = context.service.get(&by, id).await? else {
        return Ok(super::no_task(context, &caller.owner, id));
    };
    if let Err(reason) = context.service.permits(&by, TaskOperation::Answer, &view.task) {
        return Ok(CompanionResult::refusal(format!("{reason}.")));
    }
    let key = match find_question(context, &view, question.as_deref()) {
        Ok(task_question) => task_question.key.clone(),
        Err(problem) => return Ok(CompanionResult::refusal(problem)),
    };
    match context.service.answer(&by, id, &key, answer).await {
        Ok(task) => {
            let next = Companion::Wait.name();
            let text = format!("The answer to {key:?} is on its way to the job. Call {next} for the result.");
            answer_about_task(context, caller, client, task, text).await
        }
        Err(AnswerError::Store(error)) => Err(error),
        Err(problem) => Ok(CompanionResult::refusal(format!("{problem}."))),
    }
}

/// Returns the open question of this key, or the only open one, if a model may answer it.
fn find_question<'a>(
    context: &FeatureContext,
    view: &'a View,
    key: Option<&str>,
) -> Result<&'a TaskQuestion, String> {
    let id = &view.task.id;
    let mut questions =
        view.task.open_questions().filter(|task_question| key.is_none_or(|key| task_question.key == key));
    match (questions.next(), questions.next()) {
        (Some(task_question), None) if handle::is_answerable_by_model(context, &view.task, task_question) => {
            Ok(task_question)
        }
        (Some(_), None) => Err(format!(
            "Task {id} asks for a person's answer: a model must not give it. A client that shows forms to its user \
             (elicitation) can."
        )),
        (Some(_), Some(_)) => Err(format!("Task {id} asks several questions: name one as `question`.")),
        (None, _) => Err(match key {
            Some(key) => format!("Task {id} has no open question {key:?}."),
            None => format!("Task {id} asks nothing now."),
        }),
    }
}

async fn list(
    context: &FeatureContext,
    caller: &Principal,
    client: ClientCapabilities,
    cursor: Option<String>,
) -> Result<CompanionResult, StoreError> {
    let after = match cursor {
        None => None,
        Some(cursor) => match cursor::position(&context.seal, LIST, &caller.owner, &cursor) {
            Some(after) => Some(after),
            None => {
                return Ok(CompanionResult::refusal(
                    "`cursor` is not one that this tool gave you; leave it out.",
                ));
            }
        },
    };
    let by = CallerContext::new(context, caller);
    let size = context.settings().page_size.min(MAX_LISTED);
    let mut views = context.service.list(&caller.owner, after.as_ref(), size + 1).await?;
    let has_more = views.len() > size;
    views.truncate(size);
    let last = views.last().filter(|_| has_more);
    let next_cursor = last.map(|view| cursor::after(&context.seal, LIST, &view.task));
    let tasks: Vec<TaskListEntry<'_>> = views
        .iter()
        .map(|view| TaskListEntry {
            handle: handle::handle(context, view, by.answers(&view.task, client)),
            tool: &view.task.tool,
            created_at: view.task.created_at.to_string(),
        })
        .collect();
    let mut lines: Vec<String> = tasks.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("There are no tasks.".to_owned());
    }
    let mut structured = json!({ "tasks": tasks });
    if let Some(next) = next_cursor {
        lines.push(format!("There are more: call {} with cursor {next:?}.", Companion::List.name()));
        structured["next_cursor"] = next.into();
    }
    Ok(CompanionResult {
        text: lines.join("\n"),
        structured: Some(structured),
        is_error: false,
        is_job_output: false,
    })
}

fn line(task: &TaskListEntry<'_>) -> String {
    let TaskListEntry { handle, tool, created_at } = task;
    let message = handle.status_message.as_deref().unwrap_or_default();
    let line = format!("{} {tool}, made {created_at}: {} {message}", handle.task_id, handle.status);
    line.trim_end().to_owned()
}

async fn logs(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    id: &TaskId,
    search: Option<String>,
    max_bytes: Option<usize>,
) -> Result<CompanionResult, StoreError> {
    let Some(view) = context.service.get(&CallerContext::new(context, caller), id).await? else {
        return Ok(super::no_task(context, &caller.owner, id));
    };
    let search_term = search.clone();
    let max_bytes = max_bytes.unwrap_or(context.settings().max_log_bytes);
    match resources::log(context, reads, &view.task, max_bytes, search).await {
        Ok(log) => {
            context.audit.record(AuditEvent::Read { task: &view.task, part: Part::Log });
            let mut text = match (&search_term, log.cut) {
                (Some(search_term), true) => {
                    format!("[the last lines with {search_term:?}; there are more]\n")
                }
                (None, true) => "[earlier output is left out]\n".to_owned(),
                (_, false) => String::new(),
            };
            match search_term {
                Some(search_term) if log.text.is_empty() => {
                    text = format!("No line contains {search_term:?}.")
                }
                None if log.text.is_empty() => text = format!("Task {id} has printed nothing yet."),
                _ => text.push_str(&log.text),
            }
            Ok(CompanionResult { text, structured: None, is_error: false, is_job_output: true })
        }
        Err(ReadError::NotFound) => {
            Ok(CompanionResult::refusal(format!("Task {id} has no log: its engine keeps none.")))
        }
        Err(ReadError::Store(error)) => Err(error),
        Err(problem) => {
            if let ReadError::Denied(cause) = &problem {
                tracing::warn!(task = ?id, error = %cause, "a log cannot be read");
            }
            Ok(CompanionResult::refusal(format!("{problem}.")))
        }
    }
}

async fn answer_about_task(
    context: &FeatureContext,
    caller: &Principal,
    client: ClientCapabilities,
    task: Task,
    text: String,
) -> Result<CompanionResult, StoreError> {
    let view = context.service.view(task).await?;
    let client = CallerContext::new(context, caller).answers(&view.task, client);
    Ok(CompanionResult::about(text, &handle::handle(context, &view, client)))
}
