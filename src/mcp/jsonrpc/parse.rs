//! Reads one JSON-RPC message. It says what is wrong with a bad one as exactly as it can, and never repeats its
//! content: arguments may be secret.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Error, INVALID_REQUEST, Id, Outcome, PARSE_ERROR, Request, VERSION};

/// The nesting beyond which serde_json stops reading.
const MAX_DEPTH: usize = 128;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// It wants an answer.
    Request(Request),
    /// It wants none.
    Notification {
        /// The method.
        method: String,
        /// The parameters: an object, or null where there are none.
        params: Value,
    },
    /// It is an answer.
    Response {
        /// The id of the request. An error that answers something unreadable has none.
        id: Option<Id>,
        /// The answer.
        outcome: Outcome,
    },
}

/// Why something is not a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The id to answer with, if one could be read.
    pub id: Option<Id>,
    /// The answer.
    pub error: Error,
}

/// The members of all three kinds of messages; what else there is, is ignored.
#[derive(Deserialize)]
struct Wire<'a> {
    jsonrpc: Option<&'a str>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Value>,
}

/// Reads one message from JSON text.
///
/// # Errors
/// [`Malformed`] with -32700 for what is not JSON, with -32600 for anything else: a batch, no JSON-RPC 2.0, an id
/// that is no string or integer, parameters that are no object, nesting too deep to read.
pub fn parse(text: &[u8]) -> Result<Message, Malformed> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(unreadable("the message is not UTF-8"));
    };
    if text.trim_ascii_start().starts_with('[') {
        return Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => invalid(None, "batches are not supported: send each message by itself"),
            Err(error) => unreadable(&format!("the message is not JSON: {error}")),
        });
    }
    match serde_json::from_str::<Wire<'_>>(text) {
        Ok(wire) => wire.into_message(),
        Err(error) => Err(diagnose(text, &error)),
    }
}

impl Wire<'_> {
    fn into_message(self) -> Result<Message, Malformed> {
        let id = match self.id {
            None => None,
            Some(Value::String(text)) => Some(Id::Text(text)),
            Some(Value::Number(number)) if number.is_i64() => number.as_i64().map(Id::Integer),
            Some(Value::Null) if self.method.is_none() && self.error.is_some() => None,
            Some(_) => return Err(invalid(None, "id must be a string or an integer of at most 64 bits")),
        };
        if self.jsonrpc != Some(VERSION) {
            return Err(invalid(id, "jsonrpc must be \"2.0\""));
        }
        match (self.method, self.result, self.error) {
            (Some(_), None, None) if !(self.params.is_object() || self.params.is_null()) => {
                Err(invalid(id, "params must be an object"))
            }
            (Some(method), None, None) => Ok(match id {
                Some(id) => Message::Request(Request { id, method, params: self.params }),
                None => Message::Notification { method, params: self.params },
            }),
            (None, Some(_), None) if id.is_none() => {
                Err(invalid(None, "a result needs the id of its request"))
            }
            (None, Some(result), None) if result.is_object() => {
                Ok(Message::Response { id, outcome: Ok(result) })
            }
            (None, Some(_), None) => Err(invalid(None, "result must be an object")),
            (None, None, Some(error)) => match serde_json::from_value(error) {
                Ok(error) => Ok(Message::Response { id, outcome: Err(error) }),
                Err(_) => Err(invalid(None, "error must have an integer code and a message")),
            },
            (None, None, None) => Err(invalid(id, "a message needs a method, a result or an error")),
            _ => Err(invalid(id, "a message has only one of method, result and error")),
        }
    }
}

/// Finds out why `text` is no message. Slower than reading one, since nobody waits for it.
fn diagnose(text: &str, error: &serde_json::Error) -> Malformed {
    let members = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return invalid(None, "a message is a JSON object"),
        Err(error) if error.to_string().starts_with("recursion limit exceeded") => {
            return invalid(None, &format!("the message is nested deeper than {MAX_DEPTH} levels"));
        }
        Err(error) => return unreadable(&format!("the message is not JSON: {error}")),
    };
    let id = match members.get("id") {
        Some(Value::String(text)) => Some(Id::Text(text.clone())),
        Some(number) => number.as_i64().map(Id::Integer),
        None => None,
    };
    if members.get("jsonrpc").is_some_and(|version| !version.is_string()) {
        return invalid(id, "jsonrpc must be \"2.0\"");
    }
    if members.get("method").is_some_and(|method| !method.is_string()) {
        return invalid(id, "method must be a string");
    }
    invalid(id, &format!("the message cannot be read: {error}"))
}

fn invalid(id: Option<Id>, message: &str) -> Malformed {
    Malformed { id, error: Error::new(INVALID_REQUEST, message) }
}

fn unreadable(message: &str) -> Malformed {
    Malformed { id: None, error: Error::new(PARSE_ERROR, message) }
}

/// Tells a member that is null from one that is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> (Option<Id>, i32, String) {
        let malformed = parse(text.as_bytes()).expect_err(text);
        (malformed.id, malformed.error.code, malformed.error.message)
    }

    #[test]
    fn reads_the_three_kinds() {
        assert_eq!(
            parse(br#" {"jsonrpc":"2.0","id":"a\n1","method":"ping","extra":[1]} "#),
            Ok(Message::Request(Request {
                id: Id::Text("a\n1".to_owned()),
                method: "ping".to_owned(),
                params: Value::Null,
            }))
        );
        assert_eq!(
            parse(br#"{"method":"m","params":{"a":1},"jsonrpc":"2.0"}"#),
            Ok(Message::Notification { method: "m".to_owned(), params: json!({"a": 1}) })
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":-7,"result":{}}"#),
            Ok(Message::Response { id: Some(Id::Integer(-7)), outcome: Ok(json!({})) })
        );
        for id in ["", r#""id":null,"#] {
            let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-1,"message":"no"}}}}"#);
            assert_eq!(
                parse(text.as_bytes()),
                Ok(Message::Response { id: None, outcome: Err(Error::new(-1, "no")) })
            );
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let none = None;
        let one = Some(Id::Integer(1));
        for (text, id, code, says) in [
            ("", &none, PARSE_ERROR, "not JSON: EOF"),
            ("{", &none, PARSE_ERROR, "not JSON: EOF"),
            (r#"{"jsonrpc":"2.0"} x"#, &none, PARSE_ERROR, "trailing characters"),
            ("[1,", &none, PARSE_ERROR, "not JSON"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, &none, INVALID_REQUEST, "batches"),
            ("[]", &none, INVALID_REQUEST, "batches"),
            ("3", &none, INVALID_REQUEST, "JSON object"),
            ("null", &none, INVALID_REQUEST, "JSON object"),
            (r#"{"id":1,"method":"ping"}"#, &one, INVALID_REQUEST, "jsonrpc must be"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, &one, INVALID_REQUEST, "jsonrpc must be"),
            (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, &one, INVALID_REQUEST, "jsonrpc must be"),
            (r#"{"jsonrpc":"2.0","id":1,"method":3}"#, &one, INVALID_REQUEST, "method must be"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, &none, INVALID_REQUEST, "id must be"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, &none, INVALID_REQUEST, "id must be"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, &none, INVALID_REQUEST, "id must be"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, &none, INVALID_REQUEST, "id must be"),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"m"}"#,
                &none,
                INVALID_REQUEST,
                "id must be",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#,
                &one,
                INVALID_REQUEST,
                "params must be",
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, &one, INVALID_REQUEST, "needs a method"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, &one, INVALID_REQUEST, "only one of"),
            (r#"{"jsonrpc":"2.0","id":1,"result":3}"#, &none, INVALID_REQUEST, "result must be"),
            (r#"{"jsonrpc":"2.0","result":{}}"#, &none, INVALID_REQUEST, "needs the id"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#, &none, INVALID_REQUEST, "error must have"),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}"#, &one, INVALID_REQUEST, "duplicate field"),
        ] {
            let (got_id, got_code, message) = refused(text);
            assert_eq!((&got_id, got_code), (id, code), "{text}: {message}");
            assert!(message.contains(says), "{text}: {message}");
        }
        assert_eq!(
            parse(b"{\"jsonrpc\":\"2.0\",\"x\":\"\xff\"}").map_err(|m| m.error.code),
            Err(PARSE_ERROR)
        );
    }

    #[test]
    fn refuses_deep_nesting_without_following_it() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}1{}}}}}"#,
                open.repeat(100_000),
                close.repeat(100_000)
            );
            let (_, code, message) = refused(&deep);
            assert_eq!(code, INVALID_REQUEST);
            assert!(message.contains("nested deeper"), "{message}");
        }
        let (_, code, message) = refused(&"[".repeat(1_000_000));
        assert_eq!(code, PARSE_ERROR, "{message}");
    }

    #[test]
    fn never_repeats_content() {
        for text in
            [r#"{"jsonrpc":"2.0","id":1,"method":{"hunter2":1}}"#, r#"{"jsonrpc":"2.0","id":"x" hunter2}"#]
        {
            assert!(!refused(text).2.contains("hunter2"), "{}", refused(text).2);
        }
    }
}
