//! [`Plan`]: the file of `taskbridge adapter test`. Plain data.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// What to test a program with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The program's config.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// The program's secrets.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// Names of environment variables that the program inherits.
    #[serde(default)]
    pub env: Vec<String>,
    /// The fields of a service, in place of a command: `url`, `auth` and `ca_file`.
    pub service: Option<Map<String, Value>>,
    /// How long a job may take to get from one state to the next, if not 30 s.
    pub timeout_seconds: Option<u32>,
    /// A well-formed handle that belongs to no job.
    pub unknown_handle: String,
    /// A job that succeeds soon. Its output contains `text`.
    pub succeeding: WithText,
    /// A job that soon runs and fails.
    pub failing: Job,
    /// A job that runs until it is cancelled.
    pub long: Job,
    /// A job that the engine refuses. The error contains `text`.
    pub refused: Option<WithText>,
    /// A job that asks one question and succeeds after `answer`.
    pub question: Option<WithAnswer>,
    /// A job that prints `lines` and succeeds.
    pub log: Option<WithLines>,
    /// A job that leaves the file `name` with the content `text`.
    pub artifact: Option<WithFile>,
    /// A target that does not exist in the engine.
    pub check_up: Option<MissingTarget>,
}

/// What to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The target of the tool.
    #[serde(default)]
    pub target: Map<String, Value>,
    /// The arguments of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// A job, and a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithText {
    /// The target of the tool.
    #[serde(default)]
    pub target: Map<String, Value>,
    /// The arguments of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The text.
    pub text: String,
}

/// A job, and an answer to its question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithAnswer {
    /// The target of the tool.
    #[serde(default)]
    pub target: Map<String, Value>,
    /// The arguments of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The completed form.
    pub answer: Map<String, Value>,
}

/// A job, and what it prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithLines {
    /// The target of the tool.
    #[serde(default)]
    pub target: Map<String, Value>,
    /// The arguments of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// At least three different lines.
    pub lines: Vec<String>,
}

/// A job, and the file that it leaves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithFile {
    /// The target of the tool.
    #[serde(default)]
    pub target: Map<String, Value>,
    /// The arguments of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Name of the file.
    pub name: String,
    /// Content of the file: more than one byte.
    pub text: String,
}

/// A target that does not exist.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingTarget {
    /// The target.
    pub missing_target: Map<String, Value>,
}
