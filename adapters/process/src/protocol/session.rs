//! What a program says about itself: [`Description`] and [`InitializeResult`]. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Schemas;

/// Result of `describe`, and the content of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Description {
    /// The version of the protocol.
    pub protocol: u32,
    /// Name of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Schemas of its config and of targets.
    #[serde(default)]
    pub schemas: Schemas,
    /// Names that it expects in `secrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

/// Result of `initialize`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct InitializeResult {
    /// The version of the protocol.
    pub protocol: u32,
    /// What a second `start` under a key does.
    pub once: Once,
    /// How long the engine remembers a key, in milliseconds, if not as long as the job.
    #[serde(default)]
    pub key_lasts_ms: Option<u64>,
    /// `answer`, `log`, `artifact`, `discover`, `check_up`, `forget`, `files`, `changed`, `notes`.
    pub abilities: Vec<String>,
    /// What the program is connected to.
    #[serde(default)]
    pub identity: Option<String>,
    /// The group of a job is the part of its handle before this text.
    #[serde(default)]
    pub group_separator: Option<String>,
    /// How long a new job may be unknown to the engine, in milliseconds.
    #[serde(default)]
    pub start_lag_ms: u64,
    /// How long an answered question may still be listed, in milliseconds.
    #[serde(default)]
    pub list_lag_ms: u64,
    /// Schemas of its config and of targets.
    #[serde(default)]
    pub schemas: Option<Schemas>,
}

/// What a second `start` under a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Once {
    /// It returns the first job.
    Key,
    /// It would start a second job, so it is never sent.
    None,
}
