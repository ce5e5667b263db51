//! Recorded replies, and what they must mean. `taskbridge check` tries them offline.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::lifecycle::State;

/// A reply of the engine, and what it means.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    /// The request that it answers.
    pub(crate) call: RecordedCall,
    /// HTTP status.
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// Headers.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Body: JSON, or a text that is parsed if it is JSON.
    #[serde(default)]
    pub(crate) body: Value,
    /// Replies of further requests, by their names: bodies.
    #[serde(default)]
    pub(crate) more: Map<String, Value>,
    /// Handle of the job.
    #[serde(default)]
    pub(crate) handle: Map<String, Value>,
    /// Target of the tool.
    #[serde(default)]
    pub(crate) target: Map<String, Value>,
    /// Arguments of the call.
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// What the reply means.
    pub(crate) expects: Expected,
}

/// The request that a recorded reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordedCall {
    /// `start`.
    Start,
    /// `observe`.
    Observe,
}

/// What a reply means.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// State of the job.
    #[serde(default)]
    pub(crate) state: Option<State>,
    /// Handle of the job.
    #[serde(default)]
    pub(crate) handle: Option<Map<String, Value>>,
    /// Kind of the error: `rejected`, `denied`, `limited`, `unavailable` or `uncertain`.
    #[serde(default)]
    pub(crate) error: Option<String>,
    /// A text that the message contains.
    #[serde(default)]
    pub(crate) message: Option<String>,
    /// Result as data.
    #[serde(default)]
    pub(crate) structured: Option<Value>,
    /// Ids of the questions.
    #[serde(default)]
    pub(crate) questions: Option<Vec<String>>,
    /// Progress: done, and total.
    #[serde(default)]
    pub(crate) progress: Option<Vec<f64>>,
}

fn ok() -> u16 {
    200
}
