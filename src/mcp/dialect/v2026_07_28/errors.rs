//! The errors that this generation defines, and their HTTP status.

use serde_json::{Value, json};
use taskbridge_sdk::Ask;

use super::wire::TASKS_EXTENSION;
use crate::mcp::wire::jsonrpc::{Error, METHOD_NOT_FOUND};
use crate::mcp::wire::revision;

/// A header differs from the body.
pub(super) const HEADER_MISMATCH: i32 = -32020;
/// The request needs a capability that its client did not declare.
pub(super) const MISSING_CAPABILITY: i32 = -32021;
/// The server does not support the revision.
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

/// Returns the HTTP status of an error that answers a request (Streamable HTTP, "Request Metadata").
pub(super) fn status(error: &Error) -> u16 {
    match error.code {
        METHOD_NOT_FOUND => 404,
        HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION => 400,
        _ => 200,
    }
}

/// Returns the error for a header that is missing or differs from the body.
pub(super) fn header_mismatch(message: impl Into<String>) -> Error {
    Error::new(HEADER_MISMATCH, message)
}

/// Returns the error for a request of an unsupported revision.
pub(super) fn unsupported_version(requested: &str) -> Error {
    let supported = revision::SUPPORTED;
    let message = format!(
        "protocol version {requested:?} is not supported; this server speaks {}",
        supported.join(", ")
    );
    let data = Some(json!({"supported": supported, "requested": requested}));
    Error { code: UNSUPPORTED_VERSION, message, data }
}

/// Returns the error for a request that requires a client with tasks.
pub(super) fn needs_tasks(feature: &str) -> Error {
    missing_capability(feature, "the tasks extension", json!({"extensions": {TASKS_EXTENSION: {}}}))
}

/// Returns the error for a request that requires a client that can be asked this.
pub(super) fn needs_capability(feature: &str, ask: &Ask) -> Error {
    let (name, capabilities) = match ask {
        Ask::Form(_) => ("elicitation of forms", json!({"elicitation": {"form": {}}})),
        Ask::Url(_) => ("elicitation by pages", json!({"elicitation": {"url": {}}})),
        Ask::Sampling(_) => ("sampling", json!({"sampling": {}})),
        Ask::Roots => ("roots", json!({"roots": {}})),
    };
    missing_capability(feature, name, capabilities)
}

fn missing_capability(feature: &str, name: &str, capabilities: Value) -> Error {
    let message = format!("{feature} needs {name}, and this request did not declare it: nothing was started");
    let data = Some(json!({"requiredCapabilities": capabilities}));
    Error { code: MISSING_CAPABILITY, message, data }
}
