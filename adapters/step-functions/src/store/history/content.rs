//! Content of a question, parsed from the message of a step, and the digest that identifies it. Pure.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Ask;

/// Content of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuestionContent {
    /// Digest of the whole message except the token.
    pub(crate) digest: String,
    pub(crate) message: String,
    pub(crate) ask: Ask,
}

impl QuestionContent {
    /// Parses the message of a step.
    ///
    /// # Errors
    /// Returns an error message if the question is invalid.
    pub(crate) fn of(value: &Value) -> Result<Self, String> {
        let Value::Object(fields) = value else { return Err("not a JSON object".to_owned()) };
        let message = match fields.get("message") {
            Some(Value::String(message)) if !message.trim().is_empty() => message.clone(),
            _ => return Err("no `message`, which is the text of the question".to_owned()),
        };
        let kinds: Vec<&str> = ["schema", "url", "sampling", "roots"]
            .into_iter()
            .filter(|kind| fields.contains_key(*kind))
            .collect();
        let ask = match kinds[..] {
            // A question without a form: accept or decline.
            [] => Ask::Form(json!({"type": "object", "properties": {}})),
            [kind] => serde_json::from_value(json!({kind: fields[kind]}))
                .map_err(|_| format!("invalid `{kind}`"))?,
            _ => return Err(format!("more than one of `{}`", kinds.join("`, `"))),
        };
        Ok(Self { digest: digest(fields), message, ask })
    }
}

/// Returns a digest that depends neither on the order of members nor on the token.
fn digest(fields: &Map<String, Value>) -> String {
    fn write(value: &Value, hasher: &mut Sha256) {
        match value {
            Value::Object(members) => {
                let mut names: Vec<&String> = members.keys().collect();
                names.sort();
                hasher.update("{");
                for name in names {
                    hasher.update(Value::from(name.as_str()).to_string());
                    write(&members[name], hasher);
                }
                hasher.update("}");
            }
            Value::Array(items) => {
                hasher.update("[");
                items.iter().for_each(|item| write(item, hasher));
                hasher.update("]");
            }
            scalar => hasher.update(scalar.to_string()),
        }
    }
    let mut hash = Sha256::new();
    let rest = fields.iter().filter(|(name, _)| *name != "token").map(|(n, v)| (n.clone(), v.clone()));
    write(&Value::Object(rest.collect()), &mut hash);
    hash.finalize().iter().take(10).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An invalid question is rejected with a reason. The digest ignores the token and the order of keys.
    #[test]
    fn invalid_question_content_is_explained() {
        for (value, part) in [
            (json!("Well?"), "not a JSON object"),
            (json!({"schema": {}}), "no `message`"),
            (json!({"message": "?", "url": 3}), "invalid `url`"),
            (json!({"message": "?", "url": "https://x", "schema": {}}), "more than one of `schema`, `url`"),
        ] {
            let reason = QuestionContent::of(&value).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
        assert_eq!(
            QuestionContent::of(&json!({"message": "?", "a": {"x": 1, "y": 2}, "token": "t"}))
                .unwrap()
                .digest,
            QuestionContent::of(&json!({"a": {"y": 2, "x": 1}, "message": "?"})).unwrap().digest,
        );
    }
}
