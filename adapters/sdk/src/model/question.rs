//! [`Question`] and [`Answer`]: what a job asks a person, and the reply. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A question that a job waits to have answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Id of the question within its job. It is the same in every observation. An engine may use it again for
    /// a later question: see [`crate::Questions::list_lag`].
    pub id: String,
    /// Text of the question, for a person to read.
    pub message: String,
    /// Kind of answer that is requested. It is serialized as one more member of the question, such as
    /// `"schema": {..}` or `"url": ".."`.
    #[serde(flatten)]
    pub ask: Ask,
}

/// Kind of answer that is requested: one of the requests that a server can send to a client in MCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A person fills in a form: a flat JSON Schema object with primitive properties (`requestedSchema` of a
    /// form elicitation in MCP). Never use it for secrets.
    #[serde(rename = "schema")]
    Form(Value),
    /// A person visits this page and completes the steps there. Use this to ask for secrets.
    Url(String),
    /// The client's model continues a conversation: the parameters of `sampling/createMessage` in MCP.
    Sampling(Map<String, Value>),
    /// The client lists its roots.
    Roots,
}

impl Question {
    /// Creates a question that is answered with a form.
    pub fn form(id: impl Into<String>, message: impl Into<String>, schema: Value) -> Self {
        Self { id: id.into(), message: message.into(), ask: Ask::Form(schema) }
    }
}

impl Ask {
    /// Returns the schema of the form, if the question asks for one.
    pub fn form(&self) -> Option<&Value> {
        match self {
            Ask::Form(schema) => Some(schema),
            Ask::Url(_) | Ask::Sampling(_) | Ask::Roots => None,
        }
    }
}

/// Answer to a [`Question`]. It can contain what a person typed, so it is never logged.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", content = "content", rename_all = "snake_case")]
pub enum Answer {
    /// The request was accepted. The content is the completed form, which is valid against the schema;
    /// nothing for a page; and `CreateMessageResult` or `ListRootsResult` of MCP for the other two.
    Accept(Map<String, Value>),
    /// The person declined.
    Decline,
    /// The person closed the question without a choice.
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

    /// Each kind of question is serialized as one member beside its id and message.
    #[test]
    fn question_kind_is_one_json_member() {
        for (ask, member) in [
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
            expected.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
            assert_eq!(serde_json::to_value(&question).unwrap(), expected);
            assert_eq!(Question::deserialize(&expected).unwrap(), question);
        }
    }
}
