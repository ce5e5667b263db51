//! What a config file may hold about a tool: shapes and defaults. The comments become the config's JSON Schema.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::access::Access;
use super::duration;
use crate::catalog::{ConfirmDefault, OnAbandon, TaskSupport};
use crate::tasks::task;

/// A tool: what a client may call, and what runs then.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    /// A title for people.
    pub title: Option<String>,
    /// What it does and when to use it, for models.
    pub description: Option<String>,
    /// Hints about its behaviour. Clients use them to decide whether to ask their user first.
    #[serde(default)]
    pub annotations: Annotations,
    /// The name of the backend that runs it.
    pub backend: String,
    /// What to run there: the fields depend on the kind of the backend.
    pub target: Value,
    /// The parameters, one table each: the short form of an input schema.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// The input schema in full, instead of `parameters`: JSON Schema 2020-12, or the older draft that its `$schema` names
    /// (2019-09, 7, 6 or 4), as a table or as the path of a `.json` file (relative to this file).
    pub input_schema: Option<SchemaSource>,
    /// With `input_schema`: the top-level properties whose values are secrets.
    #[serde(default)]
    pub sensitive: Vec<String>,
    /// What the structured result looks like: a JSON Schema like `input_schema`, as a table or as the path of a `.json`
    /// file.
    pub output_schema: Option<SchemaSource>,
    /// Whether clients can call it as a task, and whether they must.
    #[serde(default)]
    pub task_support: TaskSupport,
    /// Ask the client for consent, in these words, before anything starts. May name parameters: `Delete {{ path }}?`
    pub confirm: Option<String>,
    /// What happens then with a client that cannot be asked.
    pub confirm_default: Option<ConfirmDefault>,
    /// What to ask of a caller before anything starts, to learn parameters that were left out, by a name for each:
    /// clients of 2026-07-28 that can be asked are asked. Others must give the parameters.
    #[serde(default)]
    pub ask: BTreeMap<String, Asking>,
    /// The most jobs of this tool at the same time.
    pub max_running: Option<NonZeroU32>,
    /// The most jobs of this tool of one owner at the same time; a call beyond it is refused. It holds where `[auth]` tells
    /// callers apart.
    pub max_running_per_owner: Option<NonZeroU32>,
    /// What happens to a call beyond a limit.
    #[serde(default)]
    pub when_full: WhenFull,
    /// Jobs of all tools in this group share a limit: that of `[concurrency_groups.NAME]`, or 1.
    pub concurrency_group: Option<String>,
    /// How long a job may run, from its acceptance by the engine.
    #[serde(default = "seven_days", with = "duration")]
    #[schemars(with = "String")]
    pub max_runtime: Duration,
    /// How long a task may wait for its start (for consent, in a queue, for an engine that cannot be reached), from its
    /// creation; without it, as long as `max_runtime`.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub max_wait: Option<Duration>,
    /// How long an engine that cannot be asked about a job after `max_runtime` is asked again, before the task ends with an
    /// unknown outcome.
    #[serde(default = "task::outcome_grace", with = "duration")]
    #[schemars(with = "String")]
    pub outcome_grace: Duration,
    /// What happens to its job then.
    #[serde(default)]
    pub on_expiry: OnExpiry,
    /// How long its results are kept; without it, as `[lifetime]` says.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub keep_result: Option<Duration>,
    /// How long an engine that cannot be reached is tried for a start.
    #[serde(default = "five_minutes", with = "duration")]
    #[schemars(with = "String")]
    pub start_within: Duration,
    /// How long a job whose start was not confirmed is looked for.
    #[serde(default = "two_minutes", with = "duration")]
    #[schemars(with = "String")]
    pub settle_window: Duration,
    /// What happens when somebody says no to a question of the job. (A `confirm` that is declined never starts anything.)
    #[serde(default)]
    pub on_decline: OnRefusal,
    /// What happens when somebody closes a question of the job without a choice.
    #[serde(default)]
    pub on_dismiss: OnRefusal,
    /// How long a question may stay unanswered before the task ends as failed and its job is cancelled; without it, for as
    /// long as the task goes on. For the consent of `confirm` the shorter of this and `max_wait` holds.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub answer_within: Option<Duration>,
    /// What becomes of the job of a plain call whose client goes away before the answer.
    #[serde(default)]
    pub on_abandon: OnAbandon,
    /// The most bytes of raw output that a result shows, its head and tail: 16384 without it, and 1024 where the job failed. The
    /// whole is in the task's log. Results of tools with an `output_schema`, and blocks that a job wrote as its result, are never
    /// cut.
    pub result_bytes: Option<NonZeroUsize>,
    /// Whether a model may answer the job's questions in place of a person.
    #[serde(default)]
    pub answer_by_model: bool,
    /// Who may do what with it and its tasks. What is not said here is as the table `[access]` says.
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

/// Something that is asked of a caller before anything starts: exactly one of `parameters`, `url`, `sampling` and
/// `roots`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asking {
    /// What is asked, in these words. May name parameters: `Where to, for {{ service }}?`
    #[serde(default)]
    pub message: String,
    /// A person fills in these parameters.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// A person visits this page and does there what is to be done, such as signing in.
    pub url: Option<String>,
    /// The client's model is asked: MCP's `CreateMessageRequestParams`, with `messages` and `maxTokens`.
    pub sampling: Option<serde_json::Map<String, Value>>,
    /// The client tells its roots.
    #[serde(default)]
    pub roots: bool,
    /// With `sampling` or `roots`: the parameter that takes what the model said, or the list of addresses.
    pub parameter: Option<String>,
    /// Those of a lower step are asked first, and those of one step together.
    #[serde(default = "first_step")]
    pub step: NonZeroU32,
    /// Whether a call goes on without an answer: where a client cannot be asked, or its user declines.
    #[serde(default)]
    pub optional: bool,
}

fn first_step() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Hints about a tool's behaviour; one that is absent says nothing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// To call it again with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It reaches beyond a closed world, such as the web.
    pub open_world: Option<bool>,
}

/// A JSON Schema.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "it is neither a JSON Schema (a table) nor the path of a .json file")]
pub(super) enum SchemaSource {
    /// The path of a `.json` file.
    File(PathBuf),
    /// The schema itself.
    Inline(serde_json::Map<String, Value>),
}

/// What happens to a call beyond a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenFull {
    /// It waits in line.
    #[default]
    Queue,
    /// It is refused.
    Refuse,
}

/// What happens to a job that outlives its task's `max_runtime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnExpiry {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It is left alone and no longer watched.
    Abandon,
}

/// What happens when a job's question is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnRefusal {
    /// The job is told, and decides.
    #[default]
    Tell,
    /// The task fails with a message that says so, and the job is stopped.
    Fail,
    /// The task is cancelled, and the job is stopped.
    Cancel,
}

impl From<OnRefusal> for task::OnRefusal {
    fn from(rule: OnRefusal) -> Self {
        match rule {
            OnRefusal::Tell => task::OnRefusal::Tell,
            OnRefusal::Fail => task::OnRefusal::Fail,
            OnRefusal::Cancel => task::OnRefusal::Cancel,
        }
    }
}

/// One parameter of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameter {
    /// What it is; `enum` says as much.
    #[serde(rename = "type")]
    pub kind: Option<ParameterType>,
    /// A title for people.
    pub title: Option<String>,
    /// What it means, for models.
    pub description: Option<String>,
    /// Whether it must be given. It must, unless it has a default.
    pub required: Option<bool>,
    /// Its value where none is given.
    pub default: Option<Value>,
    /// The values that it can have.
    #[serde(rename = "enum")]
    pub choices: Option<Vec<Value>>,
    /// The smallest number.
    pub minimum: Option<Number>,
    /// The largest number.
    pub maximum: Option<Number>,
    /// The fewest characters.
    pub min_length: Option<u64>,
    /// The most characters.
    pub max_length: Option<u64>,
    /// A regular expression that the text must match somewhere; anchor it with `^` and `$`.
    pub pattern: Option<String>,
    /// A format that the text must have, as JSON Schema names them: `date`, `date-time`, `email`, `uri`, ...
    pub format: Option<String>,
    /// For an array: what its items are.
    pub items: Option<Box<Parameter>>,
    /// For an array: the fewest items.
    pub min_items: Option<u64>,
    /// For an array: the most items.
    pub max_items: Option<u64>,
    /// What to ask a caller who left it out, as in `ask = "Which environment?"`: clients of 2026-07-28 that show forms
    /// ask their user. From others it must come with the call.
    pub ask: Option<String>,
    /// Clients repeat the value in the HTTP header `Mcp-Param-NAME` (2026-07-28), for proxies to route by.
    pub header: Option<String>,
    /// A secret: sealed until the job ends, and never shown.
    #[serde(default)]
    pub sensitive: bool,
    /// For a file: the folders under which a client may name one by a `file:` URI. Without any, clients send the
    /// content.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// For a file: the most bytes (default 1 MiB).
    pub max_bytes: Option<NonZeroU64>,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ParameterType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list; `items` says of what.
    Array,
    /// A file: the job is given its path.
    File,
    /// The id of another task of the caller whose job is of the same backend: the job is given that job's name in the engine.
    Task,
}

impl ParameterType {
    /// Its name in the file and in JSON Schema.
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
