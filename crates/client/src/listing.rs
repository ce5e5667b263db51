//! [`Tool`]: a tool in a server's list, and the list formatted for people. It must not call anything.

use serde_json::Value;

use super::shape::{Shape, similar_names, value_text};

/// Maximum width of the column of parameter names.
const MAX_NAME_COLUMNS: usize = 24;
/// Indentation of parameters.
const INDENT: usize = 4;

/// A tool of `tools/list`.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) input_schema: Value,
    pub(super) task_support: TaskSupport,
}

/// `execution.taskSupport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskSupport {
    Required,
    Optional,
    Forbidden,
}

impl Tool {
    /// Parses an entry of the list. `None` if it has no name.
    pub(super) fn parse(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            name: text("name")?,
            title: text("title"),
            description: text("description"),
            input_schema: entry.get("inputSchema").cloned().unwrap_or(Value::Null),
            task_support: match entry.pointer("/execution/taskSupport").and_then(Value::as_str) {
                Some("required") => TaskSupport::Required,
                Some("optional") => TaskSupport::Optional,
                _ => TaskSupport::Forbidden,
            },
        })
    }
}

/// Returns the tool of this name.
///
/// # Errors
/// If there is no such tool; the text suggests similar names.
pub(super) fn find_tool<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool, String> {
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Ok(tool);
    }
    let suggestions = similar_names(name, tools.iter().map(|tool| tool.name.as_str()));
    let hint = match suggestions.as_slice() {
        [] => "`taskbridge call --list` shows all tools".to_owned(),
        suggestions => format!("did you mean {}?", suggestions.join(" or ")),
    };
    Err(format!("there is no tool {name:?} on this server; {hint}"))
}

/// Formats the tools with their parameters, in lines of at most `width` columns.
pub(super) fn format_tools(tools: &[Tool], width: usize) -> String {
    let mut text = String::new();
    for tool in tools {
        if !text.is_empty() {
            text.push('\n');
        }
        push_tool(&mut text, tool, width);
    }
    text
}

fn push_tool(text: &mut String, tool: &Tool, width: usize) {
    text.push_str(&tool.name);
    if let Some(title) = &tool.title {
        text.push_str(&format!(" - {title}"));
    }
    text.push('\n');
    if let Some(description) = &tool.description {
        push_wrapped(text, description, INDENT, INDENT, width);
    }
    let root = Shape::root(&tool.input_schema);
    // Required parameters come first. A parsed schema does not keep its order, so each group is sorted by
    // name.
    let (required, optional): (Vec<_>, Vec<_>) = root.properties().partition(|(name, _)| root.requires(name));
    let required = required.into_iter().map(|(name, shape)| (name.to_owned(), shape));
    let optional = optional.into_iter().map(|(name, shape)| (format!("[{name}]"), shape));
    let parameters: Vec<(String, Shape<'_>)> = required.chain(optional).collect();
    let longest = parameters.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let column = INDENT + longest.min(MAX_NAME_COLUMNS) + 2;
    for (name, shape) in parameters {
        let label = format!("{:INDENT$}{name}  ", "");
        text.push_str(&format!("{label:column$}"));
        push_wrapped(text, &describe_parameter(shape), 0, column, width);
    }
}

/// Describes a parameter's values and purpose.
fn describe_parameter(shape: Shape<'_>) -> String {
    let default = shape.get("default").map(|value| format!(" (default {})", value_text(value)));
    let description = shape.text("description").or_else(|| shape.text("title"));
    let description = description.map(|description| format!(". {description}"));
    format!("{}{}{}", shape.describe(), default.unwrap_or_default(), description.unwrap_or_default())
}

/// Appends words in wrapped lines, the first on the current line.
fn push_wrapped(text: &mut String, words: &str, first_indent: usize, indent: usize, width: usize) {
    let available = width.saturating_sub(indent).max(20);
    text.push_str(&" ".repeat(first_indent));
    let mut used = 0;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > available {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            used = 0;
        }
        if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<Tool> {
        let pack = json!({
            "name": "pack", "title": "Pack a folder",
            "description": "Packs a folder into an archive.\nAsks first if it is large.",
            "execution": {"taskSupport": "optional"},
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder, as an absolute path that begins with a slash."},
                    "how": {"enum": ["gzip", "none"], "default": "gzip"},
                },
                "required": ["path"],
            },
        });
        [pack, json!({"name": "ping", "inputSchema": {"type": "object"}})]
            .iter()
            .map(|entry| Tool::parse(entry).unwrap())
            .collect()
    }

    /// The listing wraps to the width and shows types, choices and defaults.
    #[test]
    fn tool_listing_shows_parameters() {
        let expected = "\
pack - Pack a folder
    Packs a folder into an archive. Asks first if it is
    large.
    path   text. The folder, as an absolute path that begins
           with a slash.
    [how]  one of gzip, none (default gzip)

ping
";
        assert_eq!(format_tools(&tools(), 60), expected);
    }

    /// Without a near name, the error points at `taskbridge call --list`.
    #[test]
    fn unknown_tool_suggests_nearest_name() {
        let problem = find_tool(&tools(), "pakc").unwrap_err();
        assert_eq!(problem, "there is no tool \"pakc\" on this server; did you mean pack?");
        let problem = find_tool(&tools(), "deploy").unwrap_err();
        assert_eq!(
            problem,
            "there is no tool \"deploy\" on this server; `taskbridge call --list` shows all tools"
        );
        assert_eq!(find_tool(&tools(), "ping").unwrap().task_support, TaskSupport::Forbidden);
    }
}
