//! What a job says while it runs, for people who follow it. Plain data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// How much a note matters: the severities of RFC 5424, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For whoever looks for a fault in the job.
    Debug,
    /// That all goes on as it should.
    Info,
    /// Something worth knowing, as it should be.
    Notice,
    /// Something that may become a fault.
    Warning,
    /// A fault; the job goes on.
    Error,
    /// A fault of a part that the job needs.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works any more.
    Emergency,
}

impl Level {
    /// All of them, the least first.
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

    /// Its name, such as `warning`.
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

    /// The level of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// Something that a job said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Tells the job's notes apart, and gives their order: the same in every look, and higher than those before.
    pub n: u64,
    /// How much it matters.
    pub level: Level,
    /// What was said: text, or any other JSON.
    pub data: Value,
    /// When, by the engine's clock, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Note {
    /// A note of text.
    pub fn text(n: u64, level: Level, text: impl Into<String>) -> Self {
        Self { n, level, data: Value::String(text.into()), at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_written_as_it_is_named() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.as_str()), Some(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
        }
        assert!(Level::ALL.is_sorted() && Level::parse("Info").is_none());
    }
}
