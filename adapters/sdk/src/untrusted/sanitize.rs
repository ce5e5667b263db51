//! Sanitizes what engines and jobs return. That data is untrusted, and it ends up in terminals, logs and the
//! prompts of models. Control characters and escape sequences are removed, and so are tag characters (U+E0000
//! to U+E007F, which only a model reads) and overrides and isolates of the text direction. Text that is too
//! long is cut and marked. Structured data that a job returns stays unchanged, because programs read it,
//! except where it is nested too deeply; if it is too large, the job fails. The server itself calls these
//! functions, so that no adapter can forget to.

use std::borrow::Cow;

use serde_json::Value;

use super::depth::{limit_depth, limit_members};
use super::link::is_page_link;
use crate::{Artifact, Ask, Content, JobHandle, JobState, Note, Observation, Output, Question};

/// Longest status message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 * 1024;
/// Longest new name of a job, in bytes. A longer or empty one is ignored, and the job keeps its name.
const MAX_HANDLE_BYTES: usize = 4 * 1024;
/// Longest text of a question, in bytes.
const MAX_QUESTION_BYTES: usize = 16 * 1024;
/// Maximum number of open questions per job. Further questions are processed after these have been answered.
const MAX_QUESTIONS: usize = 64;
/// Maximum total size of the content blocks of a job, in bytes.
const MAX_CONTENT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of the structured data of a job as JSON, in bytes.
const MAX_DATA_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of artifacts of a job.
const MAX_ARTIFACTS: usize = 10_000;

/// Sanitizes external text for display. Removes escape sequences, tag characters, overrides and isolates of
/// the text direction, and control characters other than line breaks and tabs. A carriage return without a
/// line feed becomes a line feed. Other invisible characters stay, such as a zero-width space.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    let needs_change =
        |(at, c): (usize, char)| is_unsafe_char(c) || (c == '\r' && !text[at + 1..].starts_with('\n'));
    if !text.char_indices().any(needs_change) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\u{1b}' => after_escape(after),
            '\u{9b}' => after_csi(after),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => after_string(after),
            // A carriage return that would overwrite the line starts a new one.
            '\r' => {
                clean.push_str(if after.starts_with('\n') { "\r" } else { "\n" });
                after
            }
            c => {
                if !is_unsafe_char(c) {
                    clean.push(c);
                }
                after
            }
        };
    }
    Cow::Owned(clean)
}

fn is_unsafe_char(c: char) -> bool {
    match c {
        '\n' | '\t' | '\r' => false,
        // Direction overrides, and tag characters, which spell words that only a model reads.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

/// Returns the text after the sequence that an escape character starts.
fn after_escape(text: &str) -> &str {
    match text.chars().next() {
        Some('[') => after_csi(&text[1..]),
        Some(']' | 'P' | 'X' | '^' | '_') => after_string(&text[1..]),
        Some(' '..='/') => {
            let rest = text.trim_start_matches(|c| matches!(c, ' '..='/'));
            rest.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(rest)
        }
        Some('0'..='~') => &text[1..],
        _ => text,
    }
}

/// Skips the parameters of a control sequence, and the character that ends it.
fn after_csi(text: &str) -> &str {
    let rest = text.trim_start_matches(|c| matches!(c, ' '..='?'));
    if rest.starts_with(|c| matches!(c, '@'..='~')) { &rest[1..] } else { rest }
}

/// Skips a string that is meant for the terminal: up to its terminator, or to the end of the line if it has
/// none there.
fn after_string(text: &str) -> &str {
    let end = text.find(['\u{7}', '\u{1b}', '\u{9c}', '\n', '\r']).unwrap_or(text.len());
    let rest = &text[end..];
    rest.strip_prefix(['\u{7}', '\u{9c}']).or_else(|| rest.strip_prefix("\u{1b}\\")).unwrap_or(rest)
}

/// Sanitizes text and cuts it to `max_bytes` bytes. A mark follows a text that was cut.
fn sanitize_bounded(text: &str, max_bytes: usize) -> String {
    let text = sanitize(text);
    if text.len() <= max_bytes {
        return text.into_owned();
    }
    format!("{}…", truncate(&text, max_bytes))
}

fn truncate(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

impl Observation {
    /// Returns the observation with its texts for people sanitized. Limits the message, the questions, the
    /// content blocks and the artifacts; the number of notes is limited elsewhere. Drops a link that is not
    /// a page's ([`is_page_link`]). Other addresses and structured data keep their text. If the structured
    /// data is larger than `MAX_DATA_BYTES`, the state becomes `Failed`, and the data is dropped.
    #[must_use]
    pub fn sanitized(mut self) -> Self {
        self.message = self.message.map(|message| sanitize_bounded(&message, MAX_MESSAGE_BYTES));
        self.notes = self.notes.into_iter().map(sanitize_note).collect();
        let is_name = |handle: &JobHandle| (1..=MAX_HANDLE_BYTES).contains(&handle.as_str().len());
        self.renamed_to = self.renamed_to.filter(is_name);
        self.link = self.link.filter(|link| is_page_link(link));
        self.questions.truncate(MAX_QUESTIONS);
        self.questions = self.questions.into_iter().map(sanitize_question).collect();
        let (make_state, raw_output): (fn(Output) -> JobState, _) = match self.state {
            JobState::Succeeded(output) => (JobState::Succeeded, output),
            JobState::Failed(output) => (JobState::Failed, output),
            JobState::Cancelled(output) => (JobState::Cancelled, output),
            JobState::Queued | JobState::Running | JobState::Gone => return self,
        };
        let bytes = raw_output.structured.as_ref().map_or(0, |data| data.to_string().len());
        let mut output = sanitize_output(raw_output);
        self.state = if bytes > MAX_DATA_BYTES {
            output.structured = None;
            let reason = format!("the job's data has {bytes} bytes as JSON, the limit is {MAX_DATA_BYTES}");
            self.message = Some(reason);
            JobState::Failed(output)
        } else {
            make_state(output)
        };
        self
    }
}

fn sanitize_note(mut note: Note) -> Note {
    limit_depth(&mut note.data);
    note.data = sanitize_json(note.data);
    note
}

/// Sanitizes each text within JSON that is meant for people.
fn sanitize_json(data: Value) -> Value {
    match data {
        Value::String(text) => sanitize(&text).into_owned().into(),
        Value::Array(items) => items.into_iter().map(sanitize_json).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (sanitize(&name).into_owned(), sanitize_json(value)))
            .collect(),
        other => other,
    }
}

fn sanitize_question(mut question: Question) -> Question {
    question.message = sanitize_bounded(&question.message, MAX_QUESTION_BYTES);
    match &mut question.ask {
        Ask::Form(form) => {
            limit_depth(form);
            sanitize_labels(form);
        }
        Ask::Sampling(params) => limit_members(params),
        Ask::Url(_) | Ask::Roots => {}
    }
    question
}

/// Sanitizes the titles and descriptions of a form and its fields. Its values stay unchanged, because answers
/// are validated against them.
fn sanitize_labels(form: &mut Value) {
    let Value::Object(members) = form else { return };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("title" | "description", Value::String(text)) => {
                *text = sanitize_bounded(text, MAX_QUESTION_BYTES)
            }
            (_, Value::Array(items)) => items.iter_mut().for_each(sanitize_labels),
            (_, value) => sanitize_labels(value),
        }
    }
}

fn sanitize_output(mut output: Output) -> Output {
    output.structured.iter_mut().for_each(limit_depth);
    let mut budget = MAX_CONTENT_BYTES;
    let content = std::mem::take(&mut output.content)
        .into_iter()
        .map(|block| fit_block(sanitize_block(block), &mut budget))
        .collect();
    let mut artifacts = std::mem::take(&mut output.artifacts);
    // Such a name cannot be written in an address, and could control the terminal or model that displays it.
    artifacts.retain(|Artifact { name, .. }| !name.contains(|c: char| c.is_control() || is_unsafe_char(c)));
    artifacts.truncate(MAX_ARTIFACTS);
    Output { content, artifacts, ..output }
}

fn sanitize_block(block: Content) -> Content {
    match block {
        Content::Text { text } => Content::Text { text: sanitize(&text).into_owned() },
        Content::ResourceLink { uri, name, description, mime_type, size } => Content::ResourceLink {
            uri,
            name: sanitize_bounded(&name, MAX_MESSAGE_BYTES),
            description: description.map(|text| sanitize_bounded(&text, MAX_MESSAGE_BYTES)),
            mime_type,
            size,
        },
        Content::Resource { mut resource } => {
            resource.text = resource.text.map(|text| sanitize(&text).into_owned());
            Content::Resource { resource }
        }
        other => other,
    }
}

/// Returns the block if it fits into the remaining bytes. Otherwise a text is cut, and any other block is
/// replaced with a text.
fn fit_block(block: Content, budget: &mut usize) -> Content {
    let (bytes, what) = match &block {
        Content::Text { text } => (text.len(), "text"),
        Content::Image { data, .. } => (data.len(), "picture"),
        Content::Audio { data, .. } => (data.len(), "sound"),
        Content::Resource { resource } => {
            (resource.text.as_ref().or(resource.blob.as_ref()).map_or(0, String::len), "resource")
        }
        Content::ResourceLink { uri, .. } => (uri.len(), "link"),
    };
    if bytes <= *budget {
        *budget -= bytes;
        return block;
    }
    let left_out = |bytes: usize| format!("[... {bytes} bytes of a {what} left out ...]");
    match block {
        Content::Text { text } => {
            let head = truncate(&text, std::mem::take(budget));
            Content::text(format!("{head}\n{}", left_out(text.len() - head.len())))
        }
        _ => Content::text(left_out(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Level;

    /// Escape sequences, control characters and invisible characters are removed, and plain text is
    /// unchanged.
    #[test]
    fn terminal_controls_are_removed() {
        for (input, expected) in [
            ("plain äöü 日本 👩‍👩‍👧 a\tb\nc\r\nd", "plain äöü 日本 👩‍👩‍👧 a\tb\nc\r\nd"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}[2J\u{1b}[1;1Hb\u{1b}[?25lc", "abc"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;https://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\", "xlink"),
            ("\u{1b}P+q544e\u{1b}\\y\u{1b}(Bz\u{1b}cw", "yzw"),
            ("\u{9b}31mred \u{9d}0;title\u{9c}x", "red x"),
            ("50%\r100%\rdone", "50%\n100%\ndone"),
            ("a\0b\u{8}\u{7f}c\u{85}d", "abcd"),
            ("abc\u{202e}fed\u{2066}g", "abcfedg"),
            ("hi\u{e0001}\u{e0069}\u{e0067}\u{e007f}", "hi"),
            ("a\u{1b}(\u{fc} the whole rest", "aü the whole rest"),
            ("a\u{1b}( \nb\u{1b}%\u{1b}[31mc", "a\nbc"),
            ("cut short \u{1b}", "cut short "),
            ("cut short \u{1b}(", "cut short "),
            ("cut short \u{1b}[3", "cut short "),
            ("no end \u{1b}]0;swallows\nnot this", "no end \nnot this"),
        ] {
            assert_eq!(sanitize(input), expected, "{input:?}");
        }
        assert!(matches!(sanitize("nothing to do\r\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn sanitizing_twice_changes_nothing() {
        for input in ["\u{1b}\u{1b}[31m[31mx", "\u{1b}[\u{1b}[mJ", "\u{9d}\u{1b}\u{1b}\\]y", "\u{1b}]\u{9b}m"]
        {
            let once = sanitize(input).into_owned();
            assert!(!once.chars().any(is_unsafe_char), "{input:?} became {once:?}");
            assert_eq!(sanitize(&once), once);
        }
    }

    fn succeeded(output: Output) -> Observation {
        Observation::new(JobState::Succeeded(output)).sanitized()
    }

    /// Everything that a job prints is sanitized, and its structured data is unchanged.
    #[test]
    fn job_text_is_sanitized_except_data() {
        let red = "\u{1b}[31mred";
        let mut observation = Observation::new(JobState::Running).with_message(red);
        observation.notes =
            vec![Note { data: json!({"a\u{7}": [red, 1]}), ..Note::text(1, Level::Info, "") }];
        let form =
            json!({"type": "object", "properties": {"x": {"type": "string", "title": red, "enum": [red]}}});
        observation.questions = vec![Question::form("q", red, form)];
        let observation = observation.sanitized();
        assert_eq!(observation.message.as_deref(), Some("red"));
        assert_eq!(observation.notes[0].data, json!({"a": ["red", 1]}));
        assert_eq!(observation.questions[0].message, "red");
        let field = &observation.questions[0].ask.form().unwrap()["properties"]["x"];
        assert_eq!((&field["title"], &field["enum"]), (&json!("red"), &json!([red])));

        let artifact = |name: &str| Artifact { name: name.to_owned(), mime_type: None, size: None };
        let observation = succeeded(Output {
            content: vec![Content::text(red)],
            structured: Some(json!({"said": red})),
            artifacts: vec![artifact("a.txt"), artifact("b\u{1b}[2J.txt"), artifact("c\nd")],
            ..Output::default()
        });
        let JobState::Succeeded(output) = observation.state else { panic!("it succeeded") };
        assert_eq!(output.content, [Content::text("red")]);
        assert_eq!(output.structured, Some(json!({"said": red})));
        assert_eq!(output.artifacts, [artifact("a.txt")]);
    }

    /// Long messages and texts are cut, large images are dropped, and too much data fails the job.
    #[test]
    fn oversized_output_is_cut_with_notice() {
        let observation = Observation::new(JobState::Running).with_message("ä".repeat(1_000_000)).sanitized();
        let message = observation.message.unwrap();
        assert!(message.len() < 5_000 && message.ends_with("ä…"), "{}", message.len());

        let mut budget = 12;
        let picture = Content::Image { data: "A".repeat(7), mime_type: "image/png".to_owned() };
        for (block, expected) in [
            (Content::text("first"), Content::text("first")),
            (picture.clone(), picture.clone()),
            (picture, Content::text("[... 7 bytes of a picture left out ...]")),
        ] {
            assert_eq!(fit_block(block, &mut budget), expected);
        }
        budget = 4;
        let cut = Content::text("long\n[... 3 bytes of a text left out ...]");
        assert_eq!((fit_block(Content::text("longest"), &mut budget), budget), (cut, 0));

        let data = json!("x".repeat(MAX_DATA_BYTES));
        let observation = succeeded(Output { structured: Some(data), ..Output::default() });
        assert!(observation.message.unwrap().contains("the limit is 67108864"));
        assert!(matches!(observation.state, JobState::Failed(Output { structured: None, .. })));
    }

    /// Of many questions, one poll returns the first `MAX_QUESTIONS`.
    #[test]
    fn question_count_is_limited_per_poll() {
        let mut observation = Observation::new(JobState::Running);
        observation.questions = (0..1000).map(|n| Question::form(n.to_string(), "?", json!({}))).collect();
        assert_eq!(observation.sanitized().questions.len(), MAX_QUESTIONS);
    }
}
