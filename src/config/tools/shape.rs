//! The shapes and defaults of tools in a config file. The doc comments become the config's JSON Schema.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::catalog::{ConfirmDefault, OnAbandon, TaskSupport};
use crate::config::callers::access::Access;
use crate::config::reading::duration::{self, DurationText};
use crate::tasks::service::WhenFull;
use crate::tasks::task::{self, OnExpiry, OnRefusal};

/// A tool that clients can call, and the job that a call starts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Tool {
    /// A title for people.
    pub title: Option<String>,
    /// What it does and when to use it, for models.
    pub description: Option<String>,
    /// Hints about its behaviour. Clients use them to decide whether to ask their user first.
    #[serde(default)]
    pub annotations: Annotations,
    /// The name of the backend that runs its jobs.
    pub backend: String,
    /// What to run there: the fields depend on the kind of the backend.
    pub target: Value,
    /// The parameters, one table each: the short form of an input schema.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// The full input schema, instead of `parameters`, as a table or as the path of a `.json` file (relative
    /// to this file). It is JSON Schema 2020-12, or the older draft in its `$schema` (2019-09, 7, 6 or 4).
    pub input_schema: Option<SchemaSource>,
    /// With `input_schema`: the top-level properties whose values are secrets.
    #[serde(default)]
    pub sensitive: Vec<String>,
    /// The schema of the structured result: a JSON Schema like `input_schema`, as a table or as the path of a
    /// `.json` file.
    pub output_schema: Option<SchemaSource>,
    /// Whether clients can or must call it as a task.
    #[serde(default)]
    pub task_support: TaskSupport,
    /// Asks for consent with this message before anything starts. May contain parameters:
    /// `Delete {{ path }}?`
    pub confirm: Option<String>,
    /// What happens if the client cannot be asked.
    pub confirm_default: Option<ConfirmDefault>,
    /// Questions to the caller about omitted parameters before anything starts, by name. Clients of
    /// 2026-07-28 that support them are asked. Others must send the parameters.
    #[serde(default)]
    pub ask: BTreeMap<String, Asking>,
    /// Maximum number of concurrent jobs of this tool.
    pub max_running: Option<NonZeroU32>,
    /// Maximum number of concurrent jobs of this tool per owner; further calls are refused. Applies if
    /// `[auth]` identifies callers.
    pub max_running_per_owner: Option<NonZeroU32>,
    /// What happens to a call beyond a limit.
    #[serde(default)]
    pub when_full: WhenFull,
    /// All tools of this group share one limit: that of `[concurrency_groups.NAME]`, or 1.
    pub concurrency_group: Option<String>,
    /// How long a job may run, counted from its acceptance by the engine.
    #[serde(default = "seven_days", with = "DurationText")]
    pub max_runtime: Duration,
    /// How long a task may wait for its start (for consent, in a queue, for an unavailable engine), counted
    /// from its creation. Default: `max_runtime`.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub max_wait: Option<Duration>,
    /// How long a job is polled after `max_runtime` while its engine is unavailable. Then the task ends with
    /// an unknown outcome.
    #[serde(default = "task::outcome_grace", with = "DurationText")]
    pub outcome_grace: Duration,
    /// What happens to the job then.
    #[serde(default)]
    pub on_expiry: OnExpiry,
    /// Retention of its results. Default: that of `[lifetime]`.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub keep_result: Option<Duration>,
    /// How long a start is retried while the engine is unavailable.
    #[serde(default = "five_minutes", with = "DurationText")]
    pub start_within: Duration,
    /// How long the server searches for a job whose start was not confirmed.
    #[serde(default = "two_minutes", with = "DurationText")]
    pub settle_window: Duration,
    /// What happens if a user declines a question of the job. (A declined `confirm` never starts anything.)
    #[serde(default)]
    pub on_decline: OnRefusal,
    /// What happens if a user dismisses a question of the job.
    #[serde(default)]
    pub on_dismiss: OnRefusal,
    /// How long a question may stay unanswered. Then the task fails and its job is cancelled. Default: no
    /// limit. The consent of `confirm` uses the shorter of this and `max_wait`.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub answer_within: Option<Duration>,
    /// What happens to the job of a plain call whose client disconnects before the response.
    #[serde(default)]
    pub on_abandon: OnAbandon,
    /// Maximum size of raw output in a result, in bytes, split between its head and tail. Default: 16384, or
    /// 1024 for a failed job. The task's log has the whole output. Results of tools with an `output_schema`,
    /// and content blocks that a job wrote, are never cut.
    pub result_bytes: Option<NonZeroUsize>,
    /// Whether a model may answer the job's questions instead of a person.
    #[serde(default)]
    pub answer_by_model: bool,
    /// Whether a task keeps the arguments of its call, so that its owner can call the tool again with them in
    /// the console. Sensitive arguments and files are never kept.
    #[serde(default)]
    pub keep_arguments: bool,
    /// The parameters that decide how long a job takes, such as the number of steps. The usual duration is kept
    /// for each of their values; numbers between the same two powers of two count as one value.
    #[serde(default)]
    pub duration_depends_on: Vec<String>,
    /// Who may call the tool and act on its tasks. `[access]` sets the defaults.
    pub access: Option<Access>,
}

fn seven_days() -> Duration {
    Duration::from_secs(7 * 86_400)
}

fn five_minutes() -> Duration {
    Duration::from_secs(300)
}

fn two_minutes() -> Duration {
    Duration::from_secs(120)
}

/// A question to the caller before anything starts: exactly one of `parameters`, `url`, `sampling` and
/// `roots`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Asking {
    /// The message. May contain parameters: `Where to, for {{ service }}?`
    #[serde(default)]
    pub message: String,
    /// Asks a user to fill in these parameters.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// Asks a user to visit this page and act there, such as to sign in.
    pub url: Option<String>,
    /// Asks the client's model: MCP's `CreateMessageRequestParams`, with `messages` and `maxTokens`.
    pub sampling: Option<serde_json::Map<String, Value>>,
    /// Asks the client for its roots.
    #[serde(default)]
    pub roots: bool,
    /// With `sampling` or `roots`: the parameter that receives the model's text, or the list of root URIs.
    pub parameter: Option<String>,
    /// The order of the questions: lower steps first, those of one step together.
    #[serde(default = "first_step")]
    pub step: NonZeroU32,
    /// Whether a call continues without an answer, if the client cannot be asked or its user declines.
    #[serde(default)]
    pub optional: bool,
}

fn first_step() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Hints about a tool's behaviour; an absent hint is unspecified.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Repeating a call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It interacts with an open world, such as the web.
    pub open_world: Option<bool>,
}

/// A JSON Schema.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a JSON Schema (a table) or the path of a .json file")]
pub(in crate::config) enum SchemaSource {
    /// The path of a `.json` file.
    File(PathBuf),
    /// The schema itself.
    Inline(serde_json::Map<String, Value>),
}

/// One parameter of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Parameter {
    /// The type; optional with `enum`.
    #[serde(rename = "type")]
    pub kind: Option<ParameterType>,
    /// A title for people.
    pub title: Option<String>,
    /// What it means, for models.
    pub description: Option<String>,
    /// Whether it is required. Default: true, unless it has a default.
    pub required: Option<bool>,
    /// The default value.
    pub default: Option<Value>,
    /// The accepted values.
    #[serde(rename = "enum")]
    pub choices: Option<Vec<Value>>,
    /// The smallest number.
    pub minimum: Option<Number>,
    /// The largest number.
    pub maximum: Option<Number>,
    /// Minimum number of characters.
    pub min_length: Option<u64>,
    /// Maximum number of characters.
    pub max_length: Option<u64>,
    /// A regular expression that the text must match somewhere; anchor it with `^` and `$`.
    pub pattern: Option<String>,
    /// A format of JSON Schema for the text: `date`, `date-time`, `email`, `uri`, ...
    pub format: Option<String>,
    /// For an array: the type of its items.
    pub items: Option<Box<Parameter>>,
    /// For an array: minimum number of items.
    pub min_items: Option<u64>,
    /// For an array: maximum number of items.
    pub max_items: Option<u64>,
    /// The question to a caller who omits it, as in `ask = "Which environment?"`. Clients of 2026-07-28 that
    /// support forms ask their user. Others must send the parameter.
    pub ask: Option<String>,
    /// Clients repeat the value in the HTTP header `Mcp-Param-NAME` (2026-07-28), so that proxies can route
    /// by it.
    pub header: Option<String>,
    /// A secret: sealed until the job ends, and never shown.
    #[serde(default)]
    pub sensitive: bool,
    /// For a file: the folders that a client may reference by a `file:` URI. Without any, clients send the
    /// content.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// For a file: maximum size in bytes (default 1 MiB).
    pub max_bytes: Option<NonZeroU64>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum ParameterType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list, with the item type in `items`.
    Array,
    /// A file: the job receives its path.
    File,
    /// The id of another task of the caller with a job on the same backend: the job receives the engine's
    /// name of that job.
    Task,
}

impl ParameterType {
    /// Returns the name in the file and in JSON Schema.
    pub(super) fn name(self) -> &'static str {
        match self {
            ParameterType::String => "string",
            ParameterType::Integer => "integer",
            ParameterType::Number => "number",
            ParameterType::Boolean => "boolean",
            ParameterType::Array => "array",
            ParameterType::File => "file",
            ParameterType::Task => "task",
        }
    }
}
