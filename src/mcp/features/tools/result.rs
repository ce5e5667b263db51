//! Builds the answer of a call before a generation writes it: the same text, blocks and data for all. Plain
//! answers and those that are fetched later come from the same function, so that they cannot differ. It must
//! not access the store.

use std::ops::Range;

use serde_json::{Value, json};
use taskbridge_sdk::{Content, Output};

use super::handle;
use crate::mcp::features::companions::CompanionResult;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::resources::{EngineReads, Link, links, log_uri, tool_resource_links};
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR};
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId};

/// Maximum bytes of raw output in a result, if the config sets no `result_bytes`. Raw output is shortened
/// only if the task's log can be read and the tool declares no output schema.
const RESULT_BYTES: usize = 16 * 1024;

/// The same for a failed job, so that with the reason and a few links its result stays below 2 KiB.
const FAILED_BYTES: usize = 1024;

/// A tool result.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// Content blocks.
    pub content: Vec<Content>,
    /// The same as structured data: any JSON value.
    pub structured: Option<Value>,
    /// True if the request was refused, or its job failed or was cancelled.
    pub is_error: bool,
    /// The tasks that the call referred to.
    pub refers_to: Vec<TaskId>,
    /// The blocks of `content` that may contain text of a job or its engine: untrusted data.
    pub job_blocks: Range<usize>,
    /// The address of the job in the engine's own pages.
    pub link: Option<String>,
    /// The task, if a view of the client shows it.
    pub shown_task: Option<TaskId>,
}

impl ToolResult {
    /// Returns an error for the model, so that it can correct the call.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            content: vec![Content::text(message)],
            structured: None,
            is_error: true,
            refers_to: Vec::new(),
            job_blocks: 0..0,
            link: None,
            shown_task: None,
        }
    }

    /// Returns the answer of a companion tool.
    pub fn from_companion(said: CompanionResult) -> Self {
        let content = vec![Content::text(said.text)];
        let job_blocks = 0..usize::from(said.is_job_output);
        Self {
            content,
            structured: said.structured,
            is_error: said.is_error,
            refers_to: Vec::new(),
            job_blocks,
            link: None,
            shown_task: None,
        }
    }

    /// Returns a handle, with a line about the next step. `preface` comes before everything else.
    pub fn handle(
        context: &FeatureContext,
        view: &View,
        client: ClientCapabilities,
        companions: bool,
        preface: Option<&str>,
    ) -> Self {
        let handle = handle::handle(context, view, client);
        let next = handle::next_step(&handle, &view.task, companions);
        let content = preface.into_iter().chain([next.as_str()]).map(Content::text).collect();
        let (refers_to, link) = (view.task.refers_to.clone(), view.task.link.clone());
        Self {
            content,
            structured: Some(json!(handle)),
            is_error: false,
            refers_to,
            job_blocks: 0..0,
            link,
            shown_task: None,
        }
    }

    /// Returns the result of a task that has ended.
    ///
    /// # Errors
    /// The JSON-RPC error for a job that could not be run or tracked, and for a task that has not ended.
    pub fn for_ended_task(
        context: &FeatureContext,
        reads: &EngineReads,
        view: &View,
        output: Option<Output>,
        preface: Option<&str>,
    ) -> Result<Self, Error> {
        let task = &view.task;
        let links = links(reads, task, output.as_ref());
        let tool = context.catalog().get(&task.tool).cloned();
        let has_schema = tool.as_ref().is_some_and(|tool| tool.output_schema.is_some());
        let mut output = output.unwrap_or_default();
        if let Some(log) = links.iter().find(|link| link.uri == log_uri(&task.id)).filter(|_| !has_schema) {
            let default_bytes = match task.outcome() {
                Some(task::Outcome::Failed) => FAILED_BYTES,
                _ => RESULT_BYTES,
            };
            let max_bytes = tool.and_then(|tool| tool.result_bytes).unwrap_or(default_bytes);
            output.shorten_raw(max_bytes, &format!("read them in {}, or by task_logs", log.uri));
        }
        let message = task.message.as_deref().unwrap_or_default();
        let mut content: Vec<Content> = preface.map(Content::text).into_iter().collect();
        let job_start = content.len();
        let is_error = match task.outcome() {
            Some(task::Outcome::Succeeded) => false,
            Some(task::Outcome::Failed) => {
                if !mentions(&output, message) {
                    content.push(Content::text(message));
                }
                true
            }
            Some(task::Outcome::Cancelled) => {
                // After a message of this server that nothing was started, nothing is to be added about the
                // job.
                let says_not_started = task.handle().is_none() && message.contains("started");
                let job = if says_not_started { "" } else { handle::job_of_cancelled(task) };
                content.push(Content::text(cancelled_text(&output, message, job)));
                true
            }
            Some(task::Outcome::Broken) | None => return Err(Error::new(INTERNAL_ERROR, message)),
        };
        let has_text = output.content.iter().any(|block| matches!(block, Content::Text { .. }));
        content.extend(output.content);
        if let Some(structured) = &output.structured
            && !has_text
        {
            content.push(Content::text(wrap_in_object(structured.clone()).to_string()));
        }
        if content.is_empty() {
            content.push(Content::text(message));
        }
        let job_blocks = job_start..content.len();
        content.extend(handle::describe_references(task).map(Content::text));
        content.extend(links.into_iter().map(link));
        if matches!(task.outcome(), Some(task::Outcome::Failed)) {
            content.extend(tool_resource_links(context, &task.tool));
        }
        // Clients check the structured content of an error against the output schema too. If it does not fit,
        // they replace the error by their own.
        let structured = output.structured.filter(|_| !(is_error && has_schema));
        let (refers_to, link) = (task.refers_to.clone(), task.link.clone());
        Ok(Self { content, structured, is_error, refers_to, job_blocks, link, shown_task: None })
    }

    /// Returns JSON Pointers to the text and data of a job in the result.
    pub fn untrusted(&self) -> Vec<String> {
        let blocks = self.job_blocks.clone().map(|index| format!("/content/{index}"));
        let data = self.structured.iter().filter(|_| !self.job_blocks.is_empty());
        blocks.chain(data.map(|_| "/structuredContent".to_owned())).collect()
    }
}

/// Returns data as every client accepts it: wrapped in an object unless it is one.
pub fn wrap_in_object(structured: Value) -> Value {
    match structured {
        object @ Value::Object(_) => object,
        other => json!({ "result": other }),
    }
}

/// Returns the first line for a cancelled task. If the job's own blocks contain how it was cancelled, that is
/// left out.
fn cancelled_text(output: &Output, message: &str, job: &str) -> String {
    let text = match message.strip_prefix("cancelled") {
        _ if mentions(output, message) => format!("Cancelled. {job}"),
        // `cancelled by request`
        Some(how) => format!("Cancelled{how}. {job}"),
        None => format!("Cancelled: {message}. {job}"),
    };
    text.trim_end().to_owned()
}

/// Returns true if the blocks contain every part of the message, ignoring case. A headline and its reason can
/// be in different lines.
fn mentions(output: &Output, message: &str) -> bool {
    let texts: Vec<String> = output
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => Some(text.to_lowercase()),
            _ => None,
        })
        .collect();
    let message = message.to_lowercase();
    let mut parts = message.split(": ").flat_map(|part| part.split(". "));
    parts.all(|part| texts.iter().any(|text| text.contains(part.trim_end_matches(['.', '…']))))
}

fn link(link: Link) -> Content {
    Content::ResourceLink {
        uri: link.uri,
        name: link.name,
        description: Some(link.description),
        mime_type: link.mime_type,
        size: link.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_message_is_not_repeated() {
        let output = Output::text("The job failed: out of memory [FAILED].\nRaise `memory`.");
        for (message, is_mentioned) in [
            ("the job failed: out of memory. Raise `memory`.", true),
            ("the job failed: out of memory. Raise `time`.", false),
            ("exit code 3", false),
        ] {
            assert_eq!(mentions(&output, message), is_mentioned, "{message}");
        }
        assert!(!mentions(&Output::default(), "exit code 3"));
    }

    #[test]
    fn cancellation_message_is_not_repeated() {
        let render = |text: &str, message| cancelled_text(&Output::text(text), message, "It ended.");
        assert_eq!(render("", "cancelled by request"), "Cancelled by request. It ended.");
        let restarted = "cancelled by ann, who restarted the node";
        assert_eq!(render("", restarted), "Cancelled by ann, who restarted the node. It ended.");
        let declined = cancelled_text(&Output::default(), "declined: the job was not started", "");
        assert_eq!(declined, "Cancelled: declined: the job was not started.");
        assert_eq!(render("", "stopped on request"), "Cancelled: stopped on request. It ended.");
        assert_eq!(render("The run was cancelled: LINK", "the run was cancelled"), "Cancelled. It ended.");
    }
}
