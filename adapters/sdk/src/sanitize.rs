//! Sanitizes what engines and jobs return. That data is untrusted, and it ends up in terminals, logs and the
//! prompts of models. Control characters and escape sequences are removed, and so are tag characters (U+E0000
//! to U+E007F, which only a model reads) and overrides and isolates of the text direction. Text that is too
//! long is cut and marked. Structured data that a job returns stays unchanged, because programs read it,
//! except where it is nested too deeply; if it is too large, the job fails. The server itself calls these
//! functions, so that no adapter can forget to.

use std::borrow::Cow;

use serde_json::Value;

use crate::depth::{limit_depth, limit_members};
use crate::{Artifact, Ask, Content, JobState, Note, Observation, Output, Question};

/// Longest status message, in bytes.
const LONGEST_MESSAGE: usize = 4 * 1024;
/// Longest text of a question, in bytes.
const LONGEST_QUESTION: usize = 16 * 1024;
/// Maximum number of open questions per job. Further questions are processed after these have been answered.
const MOST_QUESTIONS: usize = 64;
/// Maximum total size of the content blocks of a job, in bytes.
const MOST_CONTENT: usize = 16 * 1024 * 1024;
/// Maximum size of the structured data of a job as JSON, in bytes.
const MOST_DATA: usize = 64 * 1024 * 1024;
/// Maximum number of artifacts of a job.
const MOST_ARTIFACTS: usize = 10_000;

/// Sanitizes external text for display. Removes escape sequences, tag characters, overrides and isolates of
/// the text direction, and control characters other than line breaks and tabs. A carriage return without a
/// line feed becomes a line feed. Other invisible characters stay, such as a zero-width space.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let has_harm = |(at, c): (usize, char)| is_harmful(c) || (c == '\r' && !text[at + 1..].starts_with('\n'));
    if !text.char_indices().any(has_harm) {
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
                if !is_harmful(c) {
                    clean.push(c);
                }
                after
            }
        };
    }
    Cow::Owned(clean)
}

fn is_harmful(c: char) -> bool {
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

/// Sanitizes text and cuts it to `longest` bytes. A mark follows a text that was cut.
fn words(text: &str, longest: usize) -> String {
    let text = harmless(text);
    if text.len() <= longest {
        return text.into_owned();
    }
    format!("{}…", start(&text, longest))
}

fn start(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

impl Observation {
    /// Returns the observation with its texts for people sanitized. Limits the message, the questions, the
    /// content blocks and the artifacts; the number of notes is limited elsewhere. Addresses and structured
    /// data keep their text. If the structured data is larger than `MOST_DATA`, the state becomes `Failed`,
    /// and the data is dropped.
    #[must_use]
    pub fn made_harmless(mut self) -> Self {
        self.message = self.message.map(|message| words(&message, LONGEST_MESSAGE));
        self.notes = self.notes.into_iter().map(note).collect();
        self.questions.truncate(MOST_QUESTIONS);
        self.questions = self.questions.into_iter().map(question).collect();
        let (ended, said): (fn(Output) -> JobState, _) = match self.state {
            JobState::Succeeded(output) => (JobState::Succeeded, output),
            JobState::Failed(output) => (JobState::Failed, output),
            JobState::Cancelled(output) => (JobState::Cancelled, output),
            JobState::Queued | JobState::Running | JobState::Gone => return self,
        };
        let bytes = said.structured.as_ref().map_or(0, |data| data.to_string().len());
        let mut output = output(said);
        self.state = if bytes > MOST_DATA {
            output.structured = None;
            let why = format!("the job's data has {bytes} bytes as JSON, and at most {MOST_DATA} are taken");
            self.message = Some(why);
            JobState::Failed(output)
        } else {
            ended(output)
        };
        self
    }
}

fn note(mut note: Note) -> Note {
    limit_depth(&mut note.data);
    note.data = all_words(note.data);
    note
}

/// Sanitizes each text within JSON that is meant for people.
fn all_words(data: Value) -> Value {
    match data {
        Value::String(text) => harmless(&text).into_owned().into(),
        Value::Array(items) => items.into_iter().map(all_words).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (harmless(&name).into_owned(), all_words(value)))
            .collect(),
        other => other,
    }
}

fn question(mut question: Question) -> Question {
    question.message = words(&question.message, LONGEST_QUESTION);
    match &mut question.ask {
        Ask::Form(form) => {
            limit_depth(form);
            labels(form);
        }
        Ask::Sampling(params) => limit_members(params),
        Ask::Url(_) | Ask::Roots => {}
    }
    question
}

/// Sanitizes the titles and descriptions of a form and its fields. Its values stay unchanged, because answers
/// are validated against them.
fn labels(form: &mut Value) {
    let Value::Object(members) = form else { return };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("title" | "description", Value::String(text)) => *text = words(text, LONGEST_QUESTION),
            (_, Value::Array(items)) => items.iter_mut().for_each(labels),
            (_, value) => labels(value),
        }
    }
}

fn output(mut output: Output) -> Output {
    output.structured.iter_mut().for_each(limit_depth);
    let mut room = MOST_CONTENT;
    let content = std::mem::take(&mut output.content)
        .into_iter()
        .map(|block| bounded(plain(block), &mut room))
        .collect();
    let mut artifacts = std::mem::take(&mut output.artifacts);
    // Such a name cannot be written in an address, and could control the terminal or model that displays it.
    artifacts.retain(|Artifact { name, .. }| !name.contains(|c: char| c.is_control() || is_harmful(c)));
    artifacts.truncate(MOST_ARTIFACTS);
    Output { content, artifacts, ..output }
}

fn plain(block: Content) -> Content {
    match block {
        Content::Text { text } => Content::Text { text: harmless(&text).into_owned() },
        Content::ResourceLink { uri, name, description, mime_type, size } => Content::ResourceLink {
            uri,
            name: words(&name, LONGEST_MESSAGE),
            description: description.map(|text| words(&text, LONGEST_MESSAGE)),
            mime_type,
            size,
        },
        Content::Resource { mut resource } => {
            resource.text = resource.text.map(|text| harmless(&text).into_owned());
            Content::Resource { resource }
        }
        picture_or_sound => picture_or_sound,
    }
}

/// Returns the block if it fits into the remaining bytes. Otherwise a text is cut, and any other block is
/// replaced with a text.
fn bounded(block: Content, room: &mut usize) -> Content {
    let (bytes, what) = match &block {
        Content::Text { text } => (text.len(), "text"),
        Content::Image { data, .. } => (data.len(), "picture"),
        Content::Audio { data, .. } => (data.len(), "sound"),
        Content::Resource { resource } => {
            (resource.text.as_ref().or(resource.blob.as_ref()).map_or(0, String::len), "resource")
        }
        Content::ResourceLink { uri, .. } => (uri.len(), "link"),
    };
    if bytes <= *room {
        *room -= bytes;
        return block;
    }
    let left_out = |bytes: usize| format!("[... {bytes} bytes of a {what} left out ...]");
    match block {
        Content::Text { text } => {
            let kept = start(&text, std::mem::take(room));
            Content::text(format!("{kept}\n{}", left_out(text.len() - kept.len())))
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
        for (said, shown) in [
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
            assert_eq!(harmless(said), shown, "{said:?}");
        }
        assert!(matches!(harmless("nothing to do\r\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn sanitizing_twice_changes_nothing() {
        for said in ["\u{1b}\u{1b}[31m[31mx", "\u{1b}[\u{1b}[mJ", "\u{9d}\u{1b}\u{1b}\\]y", "\u{1b}]\u{9b}m"]
        {
            let once = harmless(said).into_owned();
            assert!(!once.chars().any(is_harmful), "{said:?} became {once:?}");
            assert_eq!(harmless(&once), once);
        }
    }

    fn succeeded(output: Output) -> Observation {
        Observation::new(JobState::Succeeded(output)).made_harmless()
    }

    /// Everything that a job prints is sanitized, and its structured data is unchanged.
    #[test]
    fn job_text_is_sanitized_except_data() {
        let red = "\u{1b}[31mred";
        let mut seen = Observation::new(JobState::Running).with_message(red);
        seen.notes = vec![Note { data: json!({"a\u{7}": [red, 1]}), ..Note::text(1, Level::Info, "") }];
        let form =
            json!({"type": "object", "properties": {"x": {"type": "string", "title": red, "enum": [red]}}});
        seen.questions = vec![Question::form("q", red, form)];
        let seen = seen.made_harmless();
        assert_eq!(seen.message.as_deref(), Some("red"));
        assert_eq!(seen.notes[0].data, json!({"a": ["red", 1]}));
        assert_eq!(seen.questions[0].message, "red");
        let field = &seen.questions[0].ask.form().unwrap()["properties"]["x"];
        assert_eq!((&field["title"], &field["enum"]), (&json!("red"), &json!([red])));

        let artifact = |name: &str| Artifact { name: name.to_owned(), mime_type: None, size: None };
        let seen = succeeded(Output {
            content: vec![Content::text(red)],
            structured: Some(json!({"said": red})),
            artifacts: vec![artifact("a.txt"), artifact("b\u{1b}[2J.txt"), artifact("c\nd")],
            ..Output::default()
        });
        let JobState::Succeeded(output) = seen.state else { panic!("it succeeded") };
        assert_eq!(output.content, [Content::text("red")]);
        assert_eq!(output.structured, Some(json!({"said": red})));
        assert_eq!(output.artifacts, [artifact("a.txt")]);
    }

    /// Long messages and texts are cut, large images are dropped, and too much data fails the job.
    #[test]
    fn oversized_output_is_cut_with_notice() {
        let seen = Observation::new(JobState::Running).with_message("ä".repeat(1_000_000)).made_harmless();
        let message = seen.message.unwrap();
        assert!(message.len() < 5_000 && message.ends_with("ä…"), "{}", message.len());

        let mut room = 12;
        let picture = Content::Image { data: "A".repeat(7), mime_type: "image/png".to_owned() };
        for (block, shown) in [
            (Content::text("first"), Content::text("first")),
            (picture.clone(), picture.clone()),
            (picture, Content::text("[... 7 bytes of a picture left out ...]")),
        ] {
            assert_eq!(bounded(block, &mut room), shown);
        }
        room = 4;
        let cut = Content::text("long\n[... 3 bytes of a text left out ...]");
        assert_eq!((bounded(Content::text("longest"), &mut room), room), (cut, 0));

        let data = json!("x".repeat(MOST_DATA));
        let seen = succeeded(Output { structured: Some(data), ..Output::default() });
        assert!(seen.message.unwrap().contains("at most 67108864 are taken"));
        assert!(matches!(seen.state, JobState::Failed(Output { structured: None, .. })));
    }

    /// Of many questions, one poll returns the first `MOST_QUESTIONS`.
    #[test]
    fn question_count_is_limited_per_poll() {
        let mut seen = Observation::new(JobState::Running);
        seen.questions = (0..1000).map(|n| Question::form(n.to_string(), "?", json!({}))).collect();
        assert_eq!(seen.made_harmless().questions.len(), MOST_QUESTIONS);
    }
}
