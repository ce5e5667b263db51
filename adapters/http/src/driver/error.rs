//! What an error of the engine means.
//!
//! | what happened | a start | every other call |
//! |---|---|---|
//! | no byte of the request was sent | `Unavailable` | `Unavailable` |
//! | 429, or `limited` | `Limited` | `Limited` |
//! | `not_accepted` | `Unavailable` | `Unavailable` |
//! | 401, 403 | `Denied` | `Denied` |
//! | 400, 404, 405, 409, 413, 422 | `Rejected` | `Rejected` |
//! | any other status, a timeout, a broken reply | `Uncertain` | `Unavailable` |
//!
//! A start with `may_exist` is `Unavailable` where a first one is `Uncertain`. It must not know jobs.

use taskbridge_sdk::{Error, ErrorKind, one_line};

use super::reply::Reply;
use crate::config::Config;
use crate::driver::net::SendError;
use crate::language::Scope;

/// Longest text of an engine in a message, in bytes.
const MAX_WORDS: usize = 600;

/// Failed exchange.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nothing was sent, with the error to report.
    NotSent(Error),
    /// The request may have been received.
    Unclear(String),
}

impl From<SendError> for CallError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotSent(message) => Self::NotSent(Error::unavailable(message)),
            SendError::Forbidden(message) => Self::NotSent(Error::config(message)),
            SendError::Uncertain(message) | SendError::TooLarge { message, .. } => Self::Unclear(message),
        }
    }
}

impl CallError {
    /// Returns the error of a request that can be repeated.
    pub(crate) fn of_read(self, what: &str) -> Error {
        match self {
            Self::NotSent(error) => error,
            Self::Unclear(message) => Error::unavailable(format!("{what}: {message}")),
        }
    }

    /// Returns the error of a start.
    pub(crate) fn of_start(self, may_exist: bool) -> Error {
        match self {
            Self::NotSent(error) => error,
            Self::Unclear(message) if may_exist => Error::unavailable(format!("start: {message}")),
            Self::Unclear(message) => Error::uncertain(format!("start: {message}")),
        }
    }
}

/// Returns the error for a reply that is not the expected one. `unclear`: the kind for a status that says
/// nothing about acceptance.
pub(crate) fn reply_error(
    config: &Config,
    what: &str,
    reply: &Reply,
    scope: &Scope,
    unclear: ErrorKind,
) -> Error {
    let scope = reply.scope(scope.clone());
    let words = words(config, reply, &scope);
    let message = match words.as_str() {
        "" => format!("{what}: HTTP status {}", reply.status),
        words => format!("{what}: HTTP status {}: {words}", reply.status),
    };
    let holds = |expression: &Option<crate::language::Expression>| {
        expression.as_ref().is_some_and(|expression| expression.is_true(&scope).unwrap_or(false))
    };
    if reply.status == 429 || holds(&config.limited) {
        return Error::limited(reply.retry_after, message);
    }
    let kind = match reply.status {
        _ if holds(&config.not_accepted) => ErrorKind::Unavailable,
        401 | 403 => ErrorKind::Denied,
        400 | 404 | 405 | 409 | 413 | 422 => ErrorKind::Rejected,
        _ => unclear,
    };
    let error = Error::new(kind, message);
    match reply.retry_after {
        Some(wait) if kind.is_transient() => error.with_retry_after(wait),
        _ => error,
    }
}

/// Returns the engine's words in a reply, as one line.
pub(crate) fn words(config: &Config, reply: &Reply, scope: &Scope) -> String {
    let words = config.words.as_ref().and_then(|words| words.text(scope).ok().flatten());
    let words = words.or_else(|| common_words(reply)).unwrap_or_else(|| match reply.is_page {
        true => String::new(),
        false => reply.text.clone(),
    });
    let line = one_line(&words);
    line[..line.floor_char_boundary(MAX_WORDS)].to_owned()
}

/// Returns the message at one of the usual places of an error in JSON.
fn common_words(reply: &Reply) -> Option<String> {
    let body = reply.body.as_ref()?;
    ["/detail", "/error/message", "/message", "/msg", "/error_description", "/error", "/title", "/reason"]
        .iter()
        .find_map(|place| body.pointer(place)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
}
