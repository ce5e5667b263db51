//! How a task ended, for the view and for the model that the view tells: the beginning of its result as text.
//! The whole result is read by `task_wait`, or as any result.

use serde_json::{Value, json};
use taskbridge_sdk::{Content, Output};

use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::wire::types::without_nulls;
use crate::recorder::text::{clean, one_line};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::View;
use crate::tasks::store::{BoundedOutput, StoreError};
use crate::tasks::task::Outcome;

/// Maximum size of a stored result that is read, in bytes.
const MAX_READ_BYTES: usize = 128 * 1024;
/// Maximum size of the shown beginning, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024;
/// Maximum number of artifact names.
const MAX_ARTIFACTS: usize = 20;

/// Returns the outcome of a task that has ended. It is recorded as a read of the result.
pub(super) async fn of(request: &dyn Dialect, view: &View) -> Result<Option<Value>, StoreError> {
    let (context, task) = (request.context(), &view.task);
    let Some(outcome) = task.outcome() else { return Ok(None) };
    let output = context.service.output_within(task, MAX_READ_BYTES).await?;
    if !matches!(output, BoundedOutput::Missing) {
        context.audit.record(AuditEvent::Read { task, part: Part::Result });
    }
    let (text, files) = match output {
        BoundedOutput::Missing => (String::new(), Vec::new()),
        BoundedOutput::TooLarge(bytes) => (format!("[the result has {bytes} bytes]"), Vec::new()),
        BoundedOutput::Complete(output) => {
            context.service.note_result_read(task, request.owner());
            (text(&output), files(&output))
        }
    };
    let shown = beginning(&text);
    Ok(Some(without_nulls(json!({
        "succeeded": outcome == Outcome::Succeeded,
        "text": shown,
        "cut": shown.len() < text.len(),
        "files": files,
    }))))
}

fn text(output: &Output) -> String {
    let blocks = output.content.iter().map(|block| match block {
        Content::Text { text } => clean(text),
        Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => {
            format!("[{}]", one_line(mime_type, 100))
        }
        Content::ResourceLink { name, .. } => format!("[{}]", one_line(name, 200)),
        Content::Resource { .. } => "[an embedded resource]".to_owned(),
    });
    let text = blocks.collect::<Vec<_>>().join("\n");
    match &output.structured {
        Some(data) if text.is_empty() => clean(&data.to_string()),
        _ => text,
    }
}

fn files(output: &Output) -> Vec<String> {
    output.artifacts.iter().take(MAX_ARTIFACTS).map(|artifact| one_line(&artifact.name, 200)).collect()
}

/// Returns the beginning of a text, without a part of a character.
fn beginning(text: &str) -> &str {
    let end = (0..=MAX_TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_ends_with_character() {
        assert_eq!(beginning("ä"), "ä");
        let long = format!("x{}", "ä".repeat(MAX_TEXT_BYTES));
        assert_eq!(beginning(&long).len(), MAX_TEXT_BYTES - 1);
    }
}
