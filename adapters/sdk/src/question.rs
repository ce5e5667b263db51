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
    /// What is wanted: written as one more member beside the others, such as `"schema": {..}` or `"url": ".."`.
    #[serde(flatten)]
    pub ask: Ask,
}

/// What is wanted for an answer: one of the requests that MCP lets a server make of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A person fills in a form: a flat JSON Schema object with primitive properties (`requestedSchema` of a form
    /// elicitation in MCP). Never for secrets.
    #[serde(rename = "schema")]
    Form(Value),
    /// A person visits this page, and does there what is to be done: the way to ask for secrets.
    Url(String),
    /// The client's model goes on with a conversation: the parameters of MCP's `sampling/createMessage`.
    Sampling(Map<String, Value>),
    /// The client tells its roots.
    Roots,
}

impl Question {
    /// A question that is answered by filling in a form.
    pub fn form(id: impl Into<String>, message: impl Into<String>, schema: Value) -> Self {
        Self { id: id.into(), message: message.into(), ask: Ask::Form(schema) }
    }
}

impl Ask {
    /// The form, if one is to be filled in.
    pub fn form(&self) -> Option<&Value> {
        match self {
            Ask::Form(schema) => Some(schema),
            Ask::Url(_) | Ask::Sampling(_) | Ask::Roots => None,
        }
    }
}

/// What was said to a [`Question`]. It can hold what somebody typed, so it is never logged.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", content = "content", rename_all = "snake_case")]
pub enum Answer {
    /// Yes, with what was wanted: the form, filled in so that it fits the schema; nothing for a page; MCP's
    /// `CreateMessageResult` or `ListRootsResult` for the other two.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_is_written_as_one_more_member() {
        for (ask, written) in [
            (Ask::Form(json!({"type": "object"})), json!({"schema": {"type": "object"}})),
            (Ask::Url("https://a.example".to_owned()), json!({"url": "https://a.example"})),
            (
                Ask::Sampling(Map::from_iter([("maxTokens".to_owned(), json!(1))])),
                json!({"sampling": {"maxTokens": 1}}),
            ),
            (Ask::Roots, json!({"roots": null})),
        ] {
            let question = Question { id: "q".to_owned(), message: "?".to_owned(), ask };
            let mut expected = json!({"id": "q", "message": "?"});
            expected.as_object_mut().unwrap().extend(written.as_object().unwrap().clone());
            assert_eq!(serde_json::to_value(&question).unwrap(), expected);
            assert_eq!(Question::deserialize(&expected).unwrap(), question);
        }
    }
}
