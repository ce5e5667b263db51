//! Asks a person at the terminal: the fields of a question's form, consent to open a URL, and what to do
//! with a job after an interrupt. It must not send the answer.

use std::io;

use serde_json::{Map, Value, json};

use super::form::{Field, Form};
use super::{Terminal, sanitize_for_terminal};

/// The inputs to decline a question, and to cancel it.
const DECLINE: &str = ":no";
const CANCEL: &str = ":cancel";

/// A person's reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// Accepted, with this content.
    Accept(Map<String, Value>),
    /// Declined.
    Decline,
    /// Closed without an answer.
    Cancel,
}

impl Reply {
    /// Returns the `ElicitResult`. The answer to a URL has no content.
    pub(crate) fn result(&self, question: &Value) -> Value {
        match self {
            Self::Accept(_) if is_url(question) => json!({"action": "accept"}),
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// A person's choice for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Wait,
    Leave,
    Cancel,
}

fn is_url(question: &Value) -> bool {
    question.get("mode").is_some_and(|mode| mode == "url")
}

/// Asks one question (the parameters of `elicitation/create`).
pub(crate) async fn ask(terminal: &Terminal, label: &str, question: &Value) -> io::Result<Reply> {
    terminal.discard_input();
    let message = question.get("message").and_then(Value::as_str).unwrap_or_default();
    terminal.print(&format!("\n{label} asks:\n{}\n", indent(message)))?;
    if is_url(question) {
        let url = question.get("url").and_then(Value::as_str).unwrap_or_default();
        let text = "The server asks you to open this URL in a browser. Check the URL first:";
        terminal.print(&format!("  {text}\n\n    {}\n\n", sanitize_for_terminal(url)))?;
        return consent(terminal, "  Will you open it? [yes, no, cancel] ").await;
    }
    let empty = json!({});
    let schema = question.get("requestedSchema").unwrap_or(&empty);
    let form = Form::read(schema);
    if form.fields.is_empty() {
        return consent(terminal, "  Do you agree? [yes, no, cancel] ").await;
    }
    terminal.print(&format!("  ({DECLINE} declines, {CANCEL} or Ctrl-D closes the question)\n"))?;
    loop {
        let mut answer = Map::new();
        for field in &form.fields {
            match ask_field(terminal, field).await? {
                Entry::Value(Some(value)) => {
                    answer.insert(field.name.to_owned(), value);
                }
                Entry::Value(None) => {}
                Entry::Reply(reply) => return Ok(reply),
            }
        }
        match form.problem(&answer) {
            None => return Ok(Reply::Accept(answer)),
            Some(problem) => {
                terminal.print(&format!("  {}. Try again:\n", sanitize_for_terminal(&problem)))?
            }
        }
    }
}

/// The input for a field.
enum Entry {
    /// A value, or none for an optional field.
    Value(Option<Value>),
    /// The reply that ends the question.
    Reply(Reply),
}

async fn ask_field(terminal: &Terminal, field: &Field<'_>) -> io::Result<Entry> {
    terminal.print(&introduction(field))?;
    loop {
        terminal.print(&prompt(field))?;
        let Some(line) = terminal.read_line().await? else {
            terminal.print("\n")?;
            return Ok(Entry::Reply(Reply::Cancel));
        };
        match line.trim() {
            DECLINE => return Ok(Entry::Reply(Reply::Decline)),
            CANCEL => return Ok(Entry::Reply(Reply::Cancel)),
            entry => match field.parse(entry) {
                Ok(value) => return Ok(Entry::Value(value)),
                Err(problem) => terminal.print(&format!("    {}\n", sanitize_for_terminal(&problem)))?,
            },
        }
    }
}

/// Returns the text above the prompt of a field: its description and its choices.
fn introduction(field: &Field<'_>) -> String {
    let mut text = String::from("\n");
    if !field.choices.is_empty() {
        text.push_str(&format!("{}\n", indent(field.title)));
    }
    if let Some(description) = field.description {
        text.push_str(&format!("{}\n", indent(description)));
    }
    for (number, (_, title)) in field.choices.iter().enumerate() {
        text.push_str(&format!("    {:>2}) {}\n", number + 1, sanitize_for_terminal(title)));
    }
    text
}

fn prompt(field: &Field<'_>) -> String {
    let hint = field.describe();
    let (title, hint) = match field.choices.is_empty() {
        true => (field.title, Some(hint).filter(|hint| hint != "text")),
        false => ("Choose", Some(hint)),
    };
    let default = match (field.default_text(), field.required) {
        (Some(default), _) => Some(format!("Enter for {default}")),
        (None, false) => Some("Enter to skip".to_owned()),
        (None, true) => None,
    };
    let hints: Vec<String> = hint.into_iter().chain(default).collect();
    let hints = if hints.is_empty() { String::new() } else { format!(" ({})", hints.join("; ")) };
    sanitize_for_terminal(&format!("  {title}{hints}: "))
}

async fn consent(terminal: &Terminal, prompt: &str) -> io::Result<Reply> {
    loop {
        terminal.print(prompt)?;
        let Some(line) = terminal.read_line().await? else {
            terminal.print("\n")?;
            return Ok(Reply::Cancel);
        };
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(Reply::Accept(Map::new())),
            "n" | "no" | DECLINE => return Ok(Reply::Decline),
            "c" | "cancel" | CANCEL => return Ok(Reply::Cancel),
            _ => terminal.print("    Please answer yes, no or cancel.\n")?,
        }
    }
}

/// Asks what to do with a job after an interrupt of the wait.
pub(crate) async fn ask_after_interrupt(
    terminal: &Terminal,
    job: &str,
    can_cancel: bool,
) -> io::Result<Choice> {
    terminal.discard_input();
    let cancel = if can_cancel { "   [c] cancel it" } else { "" };
    let text = format!(
        "\n{job} is still running. What now?\n  [w] keep waiting   [b] leave it in the background{cancel}\n"
    );
    terminal.print(&text)?;
    loop {
        terminal.print("  > ")?;
        let Some(line) = terminal.read_line().await? else { return Ok(Choice::Wait) };
        match line.trim().to_ascii_lowercase().as_str() {
            "" | "w" | "wait" => return Ok(Choice::Wait),
            "b" | "background" | "leave" => return Ok(Choice::Leave),
            "c" | "cancel" if can_cancel => return Ok(Choice::Cancel),
            _ => terminal.print("    Please type one of the letters. Ctrl-C again leaves it running.\n")?,
        }
    }
}

fn indent(text: &str) -> String {
    sanitize_for_terminal(text).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
