//! What a job asks a person, and what the person says. Plain data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that a job waits to be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Names the question within its job; the same in every observation, and never used for another question.
    pub id: String,
    /// What to ask, for a person to read.
    pub message: String,
    /// The answer's form: a flat JSON Schema object with primitive properties, as MCP's form elicitation has it
    /// (`requestedSchema` in the 2025-11-25 schema).
    pub schema: Value,
}

/// What a person said to a [`Question`]. It can hold what they typed, so it is never logged.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", content = "content", rename_all = "snake_case")]
pub enum Answer {
    /// The form, filled in; it fits the question's schema.
    Accept(Map<String, Value>),
    /// They said no.
    Decline,
    /// They closed the question without a choice.
    Cancel,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Answer::Accept(_) => "Accept(..)",
            Answer::Decline => "Decline",
            Answer::Cancel => "Cancel",
        })
    }
}
