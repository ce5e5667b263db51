//! Responses of slurmrestd: whether they are a success, and the error that they mean otherwise. Pure.

use serde_json::Value;
use taskbridge_sdk::{Error, Result};

use crate::driver::error;

/// A response. A body that is no JSON is null.
pub(super) struct RestResponse {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// Returns the errors of a response in one line. Empty if there are none.
pub(super) fn error_text(response: &RestResponse) -> String {
    let errors = response.body["errors"].as_array().into_iter().flatten();
    let mut messages: Vec<&str> = Vec::new();
    for message in errors.flat_map(|error| [error["error"].as_str(), error["description"].as_str()]).flatten()
    {
        if !message.is_empty() && !messages.contains(&message) {
            messages.push(message);
        }
    }
    messages.join("; ")
}

/// Returns the body of a successful response. Errors next to the requested data are warnings.
pub(super) fn successful_body(response: RestResponse, what: &str) -> Result<Value> {
    match response.status {
        200..=299 if error_text(&response).is_empty() || has_jobs(&response.body) => Ok(response.body),
        _ => Err(response_error(&response, what)),
    }
}

/// Returns true if the list was omitted because nothing changed. From `v0.0.39` on this response is a success
/// with no jobs at all.
pub(super) fn is_unchanged(response: &RestResponse) -> bool {
    let has_notice = || warnings(response).any(|message| message.starts_with("No job changes"));
    response.status == 304 || (response.status == 200 && !has_jobs(&response.body) && has_notice())
}

/// Returns the warnings of a response.
pub(super) fn warnings(response: &RestResponse) -> impl Iterator<Item = &str> {
    let warnings = response.body["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(|warning| warning["description"].as_str())
}

/// Returns true for a list of jobs that is not empty. An empty list next to an error means nothing.
fn has_jobs(body: &Value) -> bool {
    body["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty())
}

/// The whole message if the controller rejects a token that slurmrestd passed on.
pub(super) const UNSPECIFIED_ERROR: &str = "Unspecified error";

pub(super) fn response_error(response: &RestResponse, what: &str) -> Error {
    let message = error_text(response);
    match (response.status, message.as_str()) {
        (401 | 403, _) => Error::denied(format!(
            "slurmrestd rejected the credentials: HTTP {} {message}; if the token has expired, create a new one (`scontrol token`)",
            response.status
        )),
        (429, _) => Error::limited(None, "rate limit of slurmrestd exceeded: HTTP 429"),
        // slurmrestd itself never returns these (its errors are 500). They come from a proxy in front of it.
        (status @ 502..=504, message) => Error::unavailable(format!(
            "slurmrestd cannot be reached for the {what} request: HTTP {status} {message}"
        )),
        (404, _) => Error::config(format!(
            "slurmrestd does not support the {what} request in this API version: HTTP 404"
        )),
        (status, "") => Error::unavailable(format!(
            "slurmrestd failed the {what} request without a message: HTTP {status}"
        )),
        (_, message) if message.starts_with(UNSPECIFIED_ERROR) => Error::unavailable(format!(
            "slurmrestd: {message}; this can also mean an invalid or expired token (`scontrol token`)"
        )),
        (_, message) => error::parse("slurmrestd", message),
    }
}
