//! The envelope of JSON-RPC 2.0: writes requests, and reads what a program sends. It must not know a method.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use taskbridge_sdk::{count_values, one_line};

use crate::protocol::ErrorObject;

/// Longest line that a program may write, in bytes.
pub(super) const MAX_LINE: usize = 4 * 1024 * 1024;
/// Longest line that is written to a program, in bytes.
pub(super) const MAX_REQUEST: usize = 16 * 1024 * 1024;
/// Maximum number of values in a line. Parsed values take far more memory than their text.
const MAX_VALUES: usize = 400_000;

/// An answer to a call.
#[derive(Debug)]
pub(crate) enum Reply {
    Result(Box<RawValue>),
    Error(ErrorObject),
}

/// What a line of the program contains.
#[derive(Debug)]
pub(super) enum Incoming {
    /// An answer to the call with this id, and hints that came with it.
    Answer { id: u64, reply: Reply, changed: Option<Box<RawValue>> },
    /// A notification.
    Notification { method: String, params: Option<Box<RawValue>> },
    /// A request, which the program may not make, with its id as JSON.
    Request { id: Box<RawValue> },
    /// No message, for this reason.
    Invalid(String),
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Box<RawValue>>,
    /// Jobs that may have changed.
    #[serde(default, deserialize_with = "present")]
    changed: Option<Box<RawValue>>,
}

/// Keeps `null` apart from a missing member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Writes the params of a request, to measure them before the request has an id.
pub(super) fn write_params(params: &impl Serialize) -> serde_json::Result<Box<RawValue>> {
    serde_json::value::to_raw_value(params)
}

/// Writes a request as a line.
pub(super) fn write_request(id: u64, method: &str, params: &RawValue) -> Vec<u8> {
    // Numbers, texts and JSON that is valid already cannot fail.
    let mut line = serde_json::to_vec(&Request { jsonrpc: "2.0", id, method, params }).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns the id of a request that [`write_request`] wrote.
pub(super) fn id_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// Writes the answer to a request of the program.
pub(super) fn write_unknown_method(id: &RawValue) -> Vec<u8> {
    let id = id.get();
    let error = r#"{"code":-32601,"message":"the server has no methods"}"#;
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n").into_bytes()
}

/// Reads a line of the program. `None` for a blank line.
pub(super) fn read(line: &[u8]) -> Option<Incoming> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    if line[0] != b'{' {
        let start = String::from_utf8_lossy(&line[..line.len().min(80)]);
        return Some(Incoming::Invalid(format!("not a JSON object: {}", one_line(&start))));
    }
    if count_values(line) > MAX_VALUES {
        return Some(Incoming::Invalid(format!("more than {MAX_VALUES} values in one message")));
    }
    Some(match serde_json::from_slice::<Envelope>(line) {
        Ok(envelope) => sort(envelope),
        Err(error) => Incoming::Invalid(format!("not a message of JSON-RPC: {error}")),
    })
}

fn sort(envelope: Envelope) -> Incoming {
    let Envelope { id, method, params, result, error, changed } = envelope;
    match (method, id) {
        (Some(method), None) => Incoming::Notification { method, params },
        (Some(_), Some(id)) => Incoming::Request { id },
        (None, None) => Incoming::Invalid("a message with neither `id` nor `method`".to_owned()),
        (None, Some(id)) => {
            let Ok(number) = id.get().parse::<u64>() else {
                return Incoming::Invalid(format!("the id {} is not one of a call", one_line(id.get())));
            };
            let reply = match (result, error) {
                (Some(result), None) => Reply::Result(result),
                // The call has failed, whatever the shape of its error.
                (None, Some(error)) => {
                    Reply::Error(serde_json::from_str(error.get()).unwrap_or_else(|_| unreadable_error()))
                }
                // Neither or both: the result of the call is unknown.
                _ => Reply::Error(unreadable_error()),
            };
            Incoming::Answer { id: number, reply, changed }
        }
    }
}

fn unreadable_error() -> ErrorObject {
    let message = "an answer without exactly one of `result` and `error`".to_owned();
    ErrorObject { code: -32603, message, data: Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |text: &str| read(text.as_bytes()).unwrap();
        assert!(
            matches!(read(r#"{"id":7,"result":null}"#), Incoming::Answer { id: 7, reply: Reply::Result(r), changed: None } if r.get() == "null")
        );
        let wrong_data = read(r#"{"id":7,"error":{"code":1,"message":"m","data":3}}"#);
        assert!(matches!(wrong_data, Incoming::Answer { reply: Reply::Error(e), .. } if e.message == "m"));
        assert!(matches!(read(r#"{"id":7}"#), Incoming::Answer { reply: Reply::Error(_), .. }));
        assert!(matches!(read(r#"{"id":7,"error":"no"}"#), Incoming::Answer { reply: Reply::Error(_), .. }));
        assert!(matches!(
            read(r#"{"id":7,"result":1,"error":{"code":1}}"#),
            Incoming::Answer { reply: Reply::Error(_), .. }
        ));
        assert!(matches!(read(r#"{"method":"changed"}"#), Incoming::Notification { params: None, .. }));
        assert!(matches!(read(r#"{"method":"x","id":"a"}"#), Incoming::Request { .. }));
        for text in [
            "[1]",
            "{}",
            "{",
            "hello",
            r#"{"id":"7","result":1}"#,
            r#"{"id":-1,"result":1}"#,
            r#"{"id":1.5,"result":1}"#,
        ] {
            assert!(matches!(read(text), Incoming::Invalid(_)), "{text}");
        }
        assert!(super::read(b"  \r").is_none());
    }

    /// Any nesting and any number of values is refused or read without exhausting anything.
    #[test]
    fn hostile_json_is_harmless() {
        let deep = format!("{{\"id\":1,\"result\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(matches!(super::read(deep.as_bytes()), Some(Incoming::Invalid(_))));
        let deep = format!("{{\"id\":1,\"result\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        let Some(Incoming::Answer { reply: Reply::Result(result), .. }) = super::read(deep.as_bytes()) else {
            panic!()
        };
        assert!(taskbridge_sdk::from_json::<taskbridge_sdk::Started>(result.get().as_bytes()).is_err());
        let wide = format!("{{\"id\":1,\"result\":[{}1]}}", "1,".repeat(500_000));
        assert!(matches!(super::read(wide.as_bytes()), Some(Incoming::Invalid(_))));
    }

    #[test]
    fn request_is_one_line() {
        let params = write_params(&serde_json::json!({"text": "a\nb"})).unwrap();
        let line = String::from_utf8(write_request(3, "start", &params)).unwrap();
        assert_eq!(id_of(line.as_bytes()), Some(3));
        assert_eq!(
            line,
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"start\",\"params\":{\"text\":\"a\\nb\"}}\n"
        );
    }
}
