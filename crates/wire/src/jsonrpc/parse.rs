//! Parses one JSON-RPC message. Errors describe the problem precisely, and never repeat the content of the
//! message: arguments may be secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::bounds::Bounds;
use super::plain::Plain;
use super::{Error, INVALID_REQUEST, Id, Outcome, PARSE_ERROR, Request, VERSION, batch};

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A message that requires a response.
    Request(Request),
    /// A message without a response.
    Notification {
        /// The method.
        method: String,
        /// The parameters: an object, or null if there are none.
        params: Value,
    },
    /// A response.
    Response {
        /// The id of the request. `None` in an error response to an unreadable message.
        id: Option<Id>,
        /// The result or error.
        outcome: Outcome,
    },
}

/// The error for a text that is not a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The id for the error response, if it could be read.
    pub id: Option<Id>,
    /// The error.
    pub error: Error,
}

/// The members of all three kinds of messages. Unknown members are ignored.
#[derive(Deserialize)]
struct Wire<'a> {
    jsonrpc: Option<&'a str>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Plain>,
    method: Option<String>,
    #[serde(default)]
    params: Plain,
    #[serde(default, deserialize_with = "present")]
    result: Option<Plain>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Plain>,
}

/// Parses one message from JSON text.
///
/// # Errors
/// [`Malformed`] with -32700 for a text that is not JSON, and with -32600 for anything else. The latter are a
/// batch, a message that is not JSON-RPC 2.0, an id that is neither a string nor an integer, parameters that
/// are not an object, a duplicate member, or more structure than the bounds allow. The bounds are checked
/// first, so that a text beyond them gets -32600 even if it is not JSON.
pub fn parse(text: &[u8], bounds: Bounds) -> Result<Message, Malformed> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(unreadable("the message is not UTF-8"));
    };
    if batch::is_batch(text.as_bytes()) {
        return Err(batch::refuse(text.as_bytes()));
    }
    bounds.check(text.as_bytes()).map_err(|excess| invalid(None, &excess.to_string()))?;
    match serde_json::from_str::<Wire<'_>>(text) {
        Ok(wire) => wire.into_message(),
        Err(error) => Err(diagnose(text, &error)),
    }
}

impl Wire<'_> {
    fn into_message(self) -> Result<Message, Malformed> {
        let id = match self.id.map(|Plain(id)| id) {
            None => None,
            Some(Value::String(text)) => Some(Id::Text(text)),
            Some(Value::Number(number)) if number.is_i64() => number.as_i64().map(Id::Integer),
            Some(Value::Null) if self.method.is_none() && self.error.is_some() => None,
            Some(_) => return Err(invalid(None, "id must be a string or an integer of at most 64 bits")),
        };
        if self.jsonrpc != Some(VERSION) {
            return Err(invalid(id, "jsonrpc must be \"2.0\""));
        }
        let (Plain(params), result, error) = (self.params, self.result, self.error);
        match (self.method, result.map(|Plain(result)| result), error.map(|Plain(error)| error)) {
            (Some(_), None, None) if !(params.is_object() || params.is_null()) => {
                Err(invalid(id, "params must be an object"))
            }
            (Some(method), None, None) => Ok(match id {
                Some(id) => Message::Request(Request { id, method, params }),
                None => Message::Notification { method, params },
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

/// Determines why `text` is not a message. It may be slower than parsing, because it runs only for malformed
/// messages. It does not parse the content of the members.
fn diagnose(text: &str, error: &serde_json::Error) -> Malformed {
    let members = match serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
        Ok(members) if error.is_data() => members,
        Ok(_) => return unreadable(&format!("the message is not JSON: {error}")),
        Err(error) if error.is_data() => return invalid(None, "a message is a JSON object"),
        Err(error) => return unreadable(&format!("the message is not JSON: {error}")),
    };
    let member = |name: &str| members.get(name).map(|raw| raw.get());
    let is_text = |raw: &str| raw.starts_with('"');
    let id = member("id").and_then(|raw| serde_json::from_str(raw).ok());
    if member("jsonrpc").is_some_and(|version| !is_text(version)) {
        return invalid(id, "jsonrpc must be \"2.0\"");
    }
    if member("method").is_some_and(|method| !is_text(method)) {
        return invalid(id, "method must be a string");
    }
    invalid(id, &format!("the message cannot be read: {error}"))
}

pub(super) fn invalid(id: Option<Id>, message: &str) -> Malformed {
    Malformed { id, error: Error::new(INVALID_REQUEST, message) }
}

pub(super) fn unreadable(message: &str) -> Malformed {
    Malformed { id: None, error: Error::new(PARSE_ERROR, message) }
}

/// Distinguishes a null member from a missing one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Plain>, D::Error> {
    Plain::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_failure(text: &str) -> (Option<Id>, i32, String) {
        let malformed = parse(text.as_bytes(), Bounds::default()).expect_err(text);
        (malformed.id, malformed.error.code, malformed.error.message)
    }

    #[test]
    fn message_kinds_are_parsed() {
        assert_eq!(
            parse(br#" {"jsonrpc":"2.0","id":"a\n1","method":"ping","extra":[1]} "#, Bounds::default()),
            Ok(Message::Request(Request {
                id: Id::Text("a\n1".to_owned()),
                method: "ping".to_owned(),
                params: Value::Null,
            }))
        );
        assert_eq!(
            parse(br#"{"method":"m","params":{"a":1},"jsonrpc":"2.0"}"#, Bounds::default()),
            Ok(Message::Notification { method: "m".to_owned(), params: json!({"a": 1}) })
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":-7,"result":{}}"#, Bounds::default()),
            Ok(Message::Response { id: Some(Id::Integer(-7)), outcome: Ok(json!({})) })
        );
        for id in ["", r#""id":null,"#] {
            let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-1,"message":"no"}}}}"#);
            assert_eq!(
                parse(text.as_bytes(), Bounds::default()),
                Ok(Message::Response { id: None, outcome: Err(Error::new(-1, "no")) })
            );
        }
    }

    #[test]
    fn parse_error_names_problem() {
        let none = None;
        let one = Some(Id::Integer(1));
        for (text, id, code, expected) in [
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
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}"#,
                &one,
                INVALID_REQUEST,
                "a member stands twice",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e999}}"#,
                &none,
                PARSE_ERROR,
                "out of range",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud800"}}"#,
                &none,
                PARSE_ERROR,
                "not JSON",
            ),
        ] {
            let (got_id, got_code, message) = parse_failure(text);
            assert_eq!((&got_id, got_code), (id, code), "{text}: {message}");
            assert!(message.contains(expected), "{text}: {message}");
        }
        assert_eq!(
            parse(b"{\"jsonrpc\":\"2.0\",\"x\":\"\xff\"}", Bounds::default()).map_err(|m| m.error.code),
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
            let (_, code, message) = parse_failure(&deep);
            assert_eq!(code, INVALID_REQUEST);
            assert!(message.contains("nested deeper"), "{message}");
        }
        let (_, code, message) = parse_failure(&"[".repeat(1_000_000));
        assert_eq!(code, PARSE_ERROR, "{message}");
    }

    /// The number of members and items is checked before any is allocated.
    #[test]
    fn oversized_message_refused_before_parsing() {
        let bounds = Bounds { elements: 1_000, ..Bounds::default() };
        let wide = |items: usize| {
            let list = vec!["[]"; items].join(",");
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":[{list}]}}}}"#)
        };
        assert!(parse(wide(400).as_bytes(), bounds).is_ok());
        let malformed = parse(wide(600).as_bytes(), bounds).unwrap_err();
        assert_eq!(malformed.error.message, "the message has more than 1000 members and items");
    }

    #[test]
    fn never_repeats_content() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":{"hunter2":1}}"#,
            r#"{"jsonrpc":"2.0","id":"x" hunter2}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"hunter2":1,"hunter2":2}}"#,
        ] {
            assert!(!parse_failure(text).2.contains("hunter2"), "{}", parse_failure(text).2);
        }
    }
}
