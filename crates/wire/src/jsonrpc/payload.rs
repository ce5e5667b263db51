//! [`Payload`]: the result of a request: a value, or JSON text that many responses share. It must not know
//! any method.

use bytes::Bytes;
use serde_json::Value;

use super::{Id, Outcome, VERSION, response};

/// The result of a request.
#[derive(Debug)]
pub enum Payload {
    /// A result of this response only.
    Value(Value),
    /// A result that other responses share.
    Shared(SharedText),
}

/// The text of a JSON object, most of which is shared with other responses.
#[derive(Debug)]
pub struct SharedText {
    text: Bytes,
    /// The last members, each preceded by a comma.
    members: String,
}

impl SharedText {
    /// Wraps the JSON text of an object with at least one member.
    pub fn new(text: Bytes) -> Self {
        Self { text, members: String::new() }
    }

    /// Adds one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: &Value) -> Self {
        self.members.push_str(&format!(",{}:{value}", Value::from(name)));
        self
    }
}

/// Renders a response as JSON text in pieces, which are sent one after the other. Shared text is not copied.
pub fn pieces(id: &Id, outcome: Outcome<Payload>) -> Vec<Bytes> {
    let SharedText { text, members } = match outcome {
        Ok(Payload::Shared(shared)) => shared,
        Ok(Payload::Value(value)) => return vec![response(id, &Ok(value)).into()],
        Err(error) => return vec![response(id, &Err(error)).into()],
    };
    let head = format!(r#"{{"jsonrpc":"{VERSION}","id":{},"result":"#, super::value(id));
    let unclosed = text.slice(..text.len().saturating_sub(1));
    vec![head.into(), unclosed, format!("{members}}}}}").into()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shared_text_is_sent_uncopied() {
        let text = Bytes::from_static(br#"{"tools":[{"name":"a"}]}"#);
        for id in [Id::Integer(7), Id::Text("\"7\"".to_owned())] {
            let shared = SharedText::new(text.clone()).with("nextCursor", &json!("\"c\""));
            let pieces = pieces(&id, Ok(Payload::Shared(shared)));
            assert_eq!(pieces[1].as_ptr(), text.as_ptr());
            let sent: Value = serde_json::from_slice(&pieces.concat()).unwrap();
            let result = json!({"tools": [{"name": "a"}], "nextCursor": "\"c\""});
            assert_eq!(sent, json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
    }
}
