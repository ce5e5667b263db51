//! JSON-RPC 2.0 envelopes. It must not know any method.

pub mod batch;
mod bounds;
mod parse;
mod payload;
mod plain;

pub use self::bounds::{Bounds, Excess, MAX_DEPTH};
pub use self::parse::{Malformed, Message, parse};
pub use self::payload::{Payload, SharedText, pieces};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const VERSION: &str = "2.0";

/// The message is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The message is JSON, but not a valid request.
pub const INVALID_REQUEST: i32 = -32600;
/// The method does not exist, or is not available to this caller.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters are invalid.
pub const INVALID_PARAMS: i32 = -32602;
/// An internal error of the server.
pub const INTERNAL_ERROR: i32 = -32603;

/// The id of a request, which is echoed unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// An integer.
    Integer(i64),
    /// A string.
    Text(String),
}

/// A request that requires a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The id.
    pub id: Id,
    /// The method.
    pub method: String,
    /// The parameters: an object, or null if there are none.
    pub params: Value,
}

/// An error object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// The code.
    pub code: i32,
    /// A description of the error for people.
    pub message: String,
    /// Additional data for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The result of a request, or an error.
pub type Outcome<T = Value> = Result<T, Error>;

impl Error {
    /// Creates an error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// Renders a response to a request as JSON text.
pub fn response(id: &Id, outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Ok(result) => text(&Envelope { jsonrpc: VERSION, id: Some(id), result: Some(result), error: None }),
        Err(error) => failure(Some(id), error),
    }
}

/// Renders a response as a value. Without an id, it is an error for a request that could not be read.
pub fn answer(id: Option<Id>, outcome: Outcome) -> Value {
    let mut answer = Map::new();
    answer.insert("jsonrpc".to_owned(), VERSION.into());
    if let Some(id) = id {
        answer.insert("id".to_owned(), value(&id));
    }
    match outcome {
        Ok(result) => answer.insert("result".to_owned(), result),
        Err(error) => answer.insert("error".to_owned(), value(&error)),
    };
    Value::Object(answer)
}

/// Renders an error response as JSON text. The id is missing only if that of the request could not be read.
pub fn failure(id: Option<&Id>, error: &Error) -> Vec<u8> {
    text(&Envelope { jsonrpc: VERSION, id, result: None, error: Some(error) })
}

#[derive(Serialize)]
struct Envelope<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
}

fn value(source: &impl Serialize) -> Value {
    serde_json::to_value(source).expect("ids and errors always serialize")
}

fn text(envelope: &Envelope<'_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    serde_json::to_writer(&mut text, envelope).expect("strings and JSON values always serialize");
    text
}
