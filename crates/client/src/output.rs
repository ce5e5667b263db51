//! Converts a call's answer into output: the result on standard output, everything else on standard error.
//! It must not fetch anything; [`super::save`] saves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use taskbridge_wire::jsonrpc::Outcome;

use super::task::{Status, Task};

/// The result of a call.
pub(super) struct FinishedCall {
    /// Its task in its final state, if it has one that could be read.
    pub(super) task: Option<Task>,
    /// The answer of the call.
    pub(super) outcome: Outcome,
}

impl FinishedCall {
    /// Returns the final status.
    pub(super) fn status(&self) -> Status {
        match (&self.task, &self.outcome) {
            (Some(task), _) if task.status.has_ended() => task.status,
            (_, Ok(result)) if result.get("isError").is_none_or(|is_error| is_error == false) => {
                Status::Completed
            }
            _ => Status::Failed,
        }
    }

    /// Returns everything as one JSON document. `saved_files` are the files that were written.
    pub(super) fn document(&self, saved_files: &[String]) -> Value {
        let mut document = json!({"status": self.status()});
        if let Some(task) = &self.task {
            document["task"] = task.raw.clone();
        }
        match &self.outcome {
            Ok(result) => document["result"] = result.clone(),
            Err(error) => document["error"] = json!(error),
        }
        if !saved_files.is_empty() {
            document["saved"] = json!(saved_files);
        }
        document
    }
}

/// A tool's result as shown to people.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FormattedResult {
    /// The result.
    pub(super) text: String,
    /// Other content, one line each.
    pub(super) other_content: Vec<String>,
}

/// Formats a tool's result for people: its text, or its structured content if it has no text.
pub(super) fn format_result(result: &Value) -> FormattedResult {
    let mut formatted = FormattedResult::default();
    let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
    for block in result.get("content").and_then(Value::as_array).into_iter().flatten() {
        match text_of(block) {
            // Servers repeat the structured content as text, for clients without support for it.
            Some(text)
                if structured.is_some_and(|value| {
                    serde_json::from_str(text).is_ok_and(|parsed: Value| parsed == *value)
                }) => {}
            Some(text) => push_line(&mut formatted.text, text),
            None => formatted.other_content.push(describe_block(block)),
        }
    }
    if let Some(structured) = structured.filter(|_| formatted.text.is_empty()) {
        push_line(&mut formatted.text, &format!("{structured:#}"));
    }
    formatted
}

/// Returns the text of a text block, or of an embedded text resource.
fn text_of(block: &Value) -> Option<&str> {
    match block.get("type")?.as_str()? {
        "text" => block.get("text")?.as_str(),
        "resource" => block.pointer("/resource/text")?.as_str(),
        _ => None,
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    if !line.ends_with('\n') {
        text.push('\n');
    }
}

/// Describes a block without text in one line: `[image/png, 12 kB]`, `[SHA256SUMS, 4.9 MB]`.
fn describe_block(block: &Value) -> String {
    let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let is_link = block.get("type").is_some_and(|kind| kind == "resource_link");
    let size = match is_link {
        true => block.get("size").and_then(Value::as_u64),
        false => bytes_of(block).map(|bytes| bytes.len() as u64),
    };
    let name = text("/name").or_else(|| text("/resource/uri")).or_else(|| text("/uri"));
    let mime_type = text("/mimeType").or_else(|| text("/resource/mimeType"));
    let kind = if name.is_none() && mime_type.is_none() { text("/type") } else { None };
    let parts: Vec<String> = [name, mime_type, kind, size.map(format_size)].into_iter().flatten().collect();
    format!("[{}]", parts.join(", "))
}

/// Returns the bytes of a block.
pub(super) fn bytes_of(block: &Value) -> Option<Vec<u8>> {
    let encoded = block.get("data").or_else(|| block.pointer("/resource/blob"))?.as_str()?;
    STANDARD.decode(encoded).ok()
}

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text blocks are printed, and images, links and files are listed separately.
    #[test]
    fn result_text_precedes_other_content() {
        let result = json!({
            "content": [
                {"type": "text", "text": "done"},
                {"type": "image", "mimeType": "image/png", "data": STANDARD.encode([0; 11_001])},
                {"type": "resource_link", "name": "a.tar", "uri": "x://a", "mimeType": "application/x-tar", "size": 7},
                {"type": "resource", "resource": {"uri": "x://b", "text": "more\n"}},
                {"type": "resource", "resource": {"uri": "x://c", "blob": "AAAA", "mimeType": "font/otf"}},
            ],
            "structuredContent": {"a": 1},
        });
        let other_content =
            ["[image/png, 12 kB]", "[a.tar, application/x-tar, 7 B]", "[x://c, font/otf, 3 B]"];
        let expected = FormattedResult {
            text: "done\nmore\n".to_owned(),
            other_content: other_content.map(str::to_owned).into(),
        };
        assert_eq!(format_result(&result), expected);
    }

    /// Structured data is printed if there is no text, or if the text is the same JSON.
    #[test]
    fn structured_result_shown_without_text() {
        let expected = "{\n  \"a\": 1\n}\n";
        for result in [
            json!({"content": [], "structuredContent": {"a": 1}}),
            json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}}),
        ] {
            assert_eq!(format_result(&result).text, expected);
        }
    }
}
