//! The shapes of resources and prompts in a config file. The doc comments become the config's JSON Schema.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::catalog::Role;

/// A resource: something that clients can read, such as a runbook.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Resource {
    /// Its URI, such as `runbook://deploy`. With placeholders, such as `runbook://{service}/deploy`, it is a
    /// template for all URIs of that form, and `text` or `file` may use the placeholders.
    pub uri: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it is and when to read it, for models.
    pub description: Option<String>,
    /// Its media type. Default: derived from the extension of `file`; `text/plain` for a text.
    pub mime_type: Option<String>,
    /// The content.
    pub text: Option<String>,
    /// The file with the content, relative to this file: up to 8 MiB.
    pub file: Option<PathBuf>,
    /// The content, in base64.
    pub blob: Option<String>,
    /// Hints about it.
    #[serde(default)]
    pub annotations: Annotations,
    /// The tools that it belongs to. Their descriptions mention it, and a failed job of theirs links to it.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The accepted values of the placeholders, by name. A placeholder without a table here accepts any
    /// value.
    #[serde(default)]
    pub places: BTreeMap<String, AcceptedValues>,
}

/// Hints about a resource.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Annotations {
    /// The audience: the user, the model, or both.
    pub audience: Vec<Role>,
    /// The importance, from 0 (optional) to 1 (required).
    #[schemars(range(min = 0, max = 1))]
    pub priority: Option<f64>,
}

/// The accepted values of a placeholder. At most one of the three.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PlaceholderValues")]
pub(in crate::config) struct AcceptedValues {
    /// Only these values: other URIs do not exist.
    #[serde(rename = "enum")]
    pub choices: Option<Vec<String>>,
    /// Any value; these are suggested.
    pub suggest: Option<Vec<String>>,
    /// The values of a tool's parameter, as `TOOL.PARAMETER`.
    pub same_as: Option<String>,
}

/// A prompt: messages that a user picks and fills in, such as a release checklist.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Prompt {
    /// A title for people.
    pub title: Option<String>,
    /// The purpose of the prompt.
    pub description: Option<String>,
    /// The arguments, in this order. Messages refer to them: `Release {{ version }}`.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// The messages, in this order.
    pub messages: Vec<Message>,
}

/// An argument of a prompt: a text. At most one of `enum`, `suggest` and `same_as`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct PromptArgument {
    /// Its name: letters, digits and `_`.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// The meaning of the argument. With `same_as`, the default is the parameter's description.
    pub description: Option<String>,
    /// Whether the argument is required. Default: true, unless it has a default.
    pub required: Option<bool>,
    /// The default value.
    pub default: Option<String>,
    /// The question to a user who omits the argument, as in `ask = "Which version?"`. Clients of 2026-07-28
    /// that support forms show it. Other clients must send the argument.
    pub ask: Option<String>,
    /// The accepted values, which are also suggested.
    #[serde(rename = "enum")]
    pub choices: Option<Vec<String>>,
    /// Suggested values; others are accepted, too.
    pub suggest: Option<Vec<String>>,
    /// Accepts the values of a tool's parameter, named as `TOOL.PARAMETER`.
    pub same_as: Option<String>,
}

/// A message of a prompt. Exactly one of `text`, `file`, `resource`, `link`, `image` and `audio`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Message {
    /// The role of the message.
    pub role: Role,
    /// A template that may use arguments: `Release {{ version }} to {{ env }}.`
    pub text: Option<String>,
    /// A file with such a template, relative to this file.
    pub file: Option<PathBuf>,
    /// The URI of a resource to embed; may use arguments. Logs and artifacts of tasks have URIs, too:
    /// `taskbridge://tasks/{{ task_id }}/log`.
    pub resource: Option<String>,
    /// The URI of a resource to link; may use arguments.
    pub link: Option<String>,
    /// An image: a file, relative to this file.
    pub image: Option<PathBuf>,
    /// An audio clip: a file, relative to this file.
    pub audio: Option<PathBuf>,
}
