//! What a config file may hold about resources and prompts: shapes. The comments become the config's JSON Schema.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::catalog::Role;

/// A resource: something that clients can read, such as a runbook.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resource {
    /// Its address: a URI such as `runbook://deploy`. With places in it, such as `runbook://{service}/deploy`, there is
    /// one for each address of that form, and `text` or `file` is a template that may name the places.
    pub uri: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it is and when to read it, for models.
    pub description: Option<String>,
    /// Its media type. By default it is told from the ending of `file`; a text is `text/plain`.
    pub mime_type: Option<String>,
    /// What it holds.
    pub text: Option<String>,
    /// The file that holds it, relative to this file: up to 8 MiB.
    pub file: Option<PathBuf>,
    /// What it holds, in base64.
    pub blob: Option<String>,
    /// Hints about it.
    #[serde(default)]
    pub annotations: Annotations,
    /// The tools that it belongs to. Their descriptions name it, and a job of theirs that failed links to it.
    #[serde(default)]
    pub tools: Vec<String>,
    /// What the places of its address can hold, by name. A place without a table here can hold anything.
    #[serde(default)]
    pub places: BTreeMap<String, Place>,
}

/// Hints about a resource.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Annotations {
    /// Whom it is for: the person, the model, or both.
    pub audience: Vec<Role>,
    /// How much it matters, from 0 (can be left out) to 1 (must be read).
    #[schemars(range(min = 0, max = 1))]
    pub priority: Option<f64>,
}

/// What a place in the address of a resource can hold. At most one of the three.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Place {
    /// These values and no others: at any other address there is nothing.
    #[serde(rename = "enum")]
    pub choices: Option<Vec<String>>,
    /// Anything; these values are suggested.
    pub suggest: Option<Vec<String>>,
    /// The values of a tool's parameter, as `TOOL.PARAMETER`.
    pub same_as: Option<String>,
}

/// A prompt: messages that a user picks and fills in, such as a release checklist.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prompt {
    /// A title for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it takes, in this order. Messages name it: `Release {{ version }}`.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// What it says, in this order.
    pub messages: Vec<Message>,
}

/// An argument of a prompt: a text. At most one of `enum`, `suggest` and `same_as`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptArgument {
    /// Its name: letters, digits and `_`.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it means. With `same_as` it is the parameter's unless it is said here.
    pub description: Option<String>,
    /// Whether it must be given. It must, unless it has a default.
    pub required: Option<bool>,
    /// Its value where none is given.
    pub default: Option<String>,
    /// What to ask a user who left it out, as in `ask = "Which version?"`: clients of 2026-07-28 that show forms ask.
    /// From others it must come with the request.
    pub ask: Option<String>,
    /// The values that it can have; they are suggested, and others are refused.
    #[serde(rename = "enum")]
    pub choices: Option<Vec<String>>,
    /// Values to suggest; others are taken too.
    pub suggest: Option<Vec<String>>,
    /// It can have the values of a tool's parameter, named as `TOOL.PARAMETER`.
    pub same_as: Option<String>,
}

/// A message of a prompt. Exactly one of `text`, `file`, `resource`, `link`, `image` and `audio`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Message {
    /// Who says it.
    pub role: Role,
    /// A template that may name arguments: `Release {{ version }} to {{ env }}.`
    pub text: Option<String>,
    /// The file that holds such a template, relative to this file.
    pub file: Option<PathBuf>,
    /// The address of a resource that is carried along; may name arguments. Logs and artifacts of tasks have addresses
    /// too: `taskbridge://tasks/{{ task_id }}/log`.
    pub resource: Option<String>,
    /// The address of a resource that is linked to; may name arguments.
    pub link: Option<String>,
    /// A picture: a file, relative to this file.
    pub image: Option<PathBuf>,
    /// A sound: a file, relative to this file.
    pub audio: Option<PathBuf>,
}
