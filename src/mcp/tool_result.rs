//! What a call is answered with, before any generation writes it down: the same words, blocks and data for all. Plain
//! answers and those that are fetched later are made by the same function, so that they cannot differ. Nothing here
//! looks anything up but the catalog.

use std::ops::Range;

use serde_json::{Value, json};
use taskbridge_sdk::{Content, Output};

use super::Bridge;
use super::companions::Said;
use super::fallback;
use super::jsonrpc::{Error, INTERNAL_ERROR};
use super::resources::{Link, beside, links, log_uri};
use super::session::Abilities;
use crate::tasks::service::View;
use crate::tasks::task::{self, TaskId};

/// The most bytes of raw output that a result shows, where the config does not say.
const RESULT_BYTES: usize = 16 * 1024;

/// The same of a failed job. With the reason and the links it stays below 2 KiB.
const FAILED_BYTES: usize = 1024;

/// A tool result.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// Blocks to show.
    pub content: Vec<Content>,
    /// The same as data: any JSON value.
    pub structured: Option<Value>,
    /// True if the tool could not do what was asked, or failed at it.
    pub is_error: bool,
    /// The tasks that the call named.
    pub refers_to: Vec<TaskId>,
    /// Which of `content` a job wrote, or its engine: data for whoever reads it, and no words of this server.
    pub of_job: Range<usize>,
}

impl ToolResult {
    /// Why the tool could not do what was asked: for the model, so that it can do better.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            content: vec![Content::text(message)],
            structured: None,
            is_error: true,
            refers_to: Vec::new(),
            of_job: 0..0,
        }
    }

    /// What a companion tool says.
    pub fn said(said: Said) -> Self {
        let content = vec![Content::text(said.text)];
        let of_job = 0..usize::from(said.of_job);
        Self { content, structured: said.structured, is_error: said.is_error, refers_to: Vec::new(), of_job }
    }

    /// A handle, with the line that says what to do next. `preface` is said before everything else.
    pub fn handle(
        bridge: &Bridge,
        view: &View,
        client: Abilities,
        companions: bool,
        preface: Option<&str>,
    ) -> Self {
        let handle = fallback::handle(bridge, view, client);
        let next = fallback::next_step(&handle, &view.task, companions);
        let content = preface.into_iter().chain([next.as_str()]).map(Content::text).collect();
        let refers_to = view.task.refers_to.clone();
        Self { content, structured: Some(json!(handle)), is_error: false, refers_to, of_job: 0..0 }
    }

    /// The result of a task that has ended.
    ///
    /// # Errors
    /// The JSON-RPC error that stands for a job that could not be run or tracked.
    pub fn ended(
        bridge: &Bridge,
        view: &View,
        output: Option<Output>,
        preface: Option<&str>,
    ) -> Result<Self, Error> {
        let task = &view.task;
        let links = links(bridge, task, output.as_ref());
        let tool = bridge.catalog().get(&task.tool).cloned();
        let declares = tool.as_ref().is_some_and(|tool| tool.output_schema.is_some());
        let mut output = output.unwrap_or_default();
        if let Some(log) = links.iter().find(|link| link.uri == log_uri(&task.id)).filter(|_| !declares) {
            let usual = match task.outcome() {
                Some(task::Outcome::Failed) => FAILED_BYTES,
                _ => RESULT_BYTES,
            };
            let max_bytes = tool.and_then(|tool| tool.result_bytes).unwrap_or(usual);
            output.shorten_raw(max_bytes, &format!("read them in {}, or by task_logs", log.uri));
        }
        let message = task.message.as_deref().unwrap_or_default();
        let mut content: Vec<Content> = preface.map(Content::text).into_iter().collect();
        let ours = content.len();
        let is_error = match task.outcome() {
            Some(task::Outcome::Succeeded) => false,
            Some(task::Outcome::Failed) => {
                if !mentions(&output, message) {
                    content.push(Content::text(message));
                }
                true
            }
            Some(task::Outcome::Cancelled) => {
                // A message of ours that says that nothing was started says all there is to say of the job.
                let says_so = task.handle().is_none() && message.contains("started");
                let job = if says_so { "" } else { fallback::job_of_cancelled(task) };
                content.push(Content::text(cancelled(&output, message, job)));
                true
            }
            Some(task::Outcome::Broken) | None => return Err(Error::new(INTERNAL_ERROR, message)),
        };
        let has_text = output.content.iter().any(|block| matches!(block, Content::Text { .. }));
        content.extend(output.content);
        if let Some(structured) = &output.structured
            && !has_text
        {
            content.push(Content::text(wrapped(structured.clone()).to_string()));
        }
        if content.is_empty() {
            content.push(Content::text(message));
        }
        let of_job = ours..content.len();
        content.extend(fallback::referred(task).map(Content::text));
        content.extend(links.into_iter().map(link));
        if matches!(task.outcome(), Some(task::Outcome::Failed)) {
            content.extend(beside(bridge, &task.tool));
        }
        // Clients hold the structured content of an error against the output schema too, and hide the error behind
        // their own when it does not fit.
        let structured = output.structured.filter(|_| !(is_error && declares));
        Ok(Self { content, structured, is_error, refers_to: task.refers_to.clone(), of_job })
    }

    /// Where in the result are words and data of a job, as JSON Pointers.
    pub fn untrusted(&self) -> Vec<String> {
        let blocks = self.of_job.clone().map(|at| format!("/content/{at}"));
        let data = self.structured.iter().filter(|_| !self.of_job.is_empty());
        blocks.chain(data.map(|_| "/structuredContent".to_owned())).collect()
    }
}

/// Data as every client takes it: an object, where need be one around it.
pub fn wrapped(structured: Value) -> Value {
    match structured {
        object @ Value::Object(_) => object,
        other => json!({ "result": other }),
    }
}

/// The first line for a cancelled task. How it was cancelled is left out where the job's own blocks say it.
fn cancelled(output: &Output, message: &str, job: &str) -> String {
    let text = match message.strip_prefix("cancelled") {
        _ if mentions(output, message) => format!("Cancelled. {job}"),
        // `cancelled by request`
        Some(how) => format!("Cancelled{how}. {job}"),
        None => format!("Cancelled: {message}. {job}"),
    };
    text.trim_end().to_owned()
}

/// True if the blocks contain every part of the message, in whatever case: a headline and its reason can be in different lines.
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
    fn message_is_not_repeated() {
        let output = Output::text("The job failed: out of memory [FAILED].\nRaise `memory`.");
        for (message, is_said) in [
            ("the job failed: out of memory. Raise `memory`.", true),
            ("the job failed: out of memory. Raise `time`.", false),
            ("exit code 3", false),
        ] {
            assert_eq!(mentions(&output, message), is_said, "{message}");
        }
        assert!(!mentions(&Output::default(), "exit code 3"));
    }

    #[test]
    fn cancellation_is_said_once() {
        let said = |text: &str, message| cancelled(&Output::text(text), message, "It ended.");
        assert_eq!(said("", "cancelled by request"), "Cancelled by request. It ended.");
        let restarted = "cancelled by ann, who restarted the node";
        assert_eq!(said("", restarted), "Cancelled by ann, who restarted the node. It ended.");
        let declined = cancelled(&Output::default(), "declined: the job was not started", "");
        assert_eq!(declined, "Cancelled: declined: the job was not started.");
        assert_eq!(said("", "stopped on request"), "Cancelled: stopped on request. It ended.");
        assert_eq!(said("The run was cancelled: LINK", "the run was cancelled"), "Cancelled. It ended.");
    }
}
