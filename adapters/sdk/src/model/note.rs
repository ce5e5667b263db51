//! [`Note`] and [`Level`]: messages that a job emits while it runs, for the people who follow it. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// Severity of a note, as in RFC 5424. The lowest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Information for debugging the job.
    Debug,
    /// Confirmation of normal operation.
    Info,
    /// A normal but significant event.
    Notice,
    /// Something that may become a fault.
    Warning,
    /// A fault. The job continues.
    Error,
    /// A fault in a component that the job needs.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Level; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns the name of the level, such as `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Returns the level with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// A message that a job emitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Number of the note within its job. It is the same in every observation, and higher than those of
    /// earlier notes.
    pub n: u64,
    /// Severity.
    pub level: Level,
    /// Content: text, or any other JSON.
    pub data: Value,
    /// Time of the note by the engine's clock, if the engine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Note {
    /// Creates a note that contains text.
    pub fn text(n: u64, level: Level, text: impl Into<String>) -> Self {
        Self { n, level, data: Value::String(text.into()), at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels are parsed and serialized by their lower-case names, in order.
    #[test]
    fn log_level_uses_its_name() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.as_str()), Some(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
        }
        assert!(Level::ALL.is_sorted() && Level::parse("Info").is_none());
    }
}
