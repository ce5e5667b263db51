//! [`Error`]: how one attempt against an engine failed, named by what the caller must do about it. It must not
//! decide a retry: the tables in the server's reconciler do.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The result of one attempt against an engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How an attempt failed. The kinds are few because each is a different order to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The engine understood the request and refused it. Asking again would be refused again.
    Rejected,
    /// The engine does not accept our credentials, or they may not do this.
    Denied,
    /// The deployment is wrong: an unknown region, a missing queue, a target that does not exist.
    Config,
    /// The engine asks for patience. `after` is how long, where it said so.
    Limited {
        /// How long to wait before the next attempt.
        after: Option<Duration>,
    },
    /// The engine could not be reached, or answered that it cannot serve now. It did not act on the request.
    Unavailable,
    /// The request may or may not have taken effect, and the engine offers no way to repeat it safely.
    Uncertain,
}

/// A failed attempt: its kind, what happened in words that a person can act on, and the cause underneath.
///
/// The message must hold no secret: it can reach a task's result. `Display` does not repeat the source.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of a kind, with a message for people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The engine understood and refused.
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Rejected, message)
    }

    /// Our credentials are wrong or may not do this.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// The deployment is wrong.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// The engine asks for patience.
    pub fn limited(after: Option<Duration>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limited { after }, message)
    }

    /// The engine could not be reached, and did not act.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Nobody knows whether the request took effect.
    pub fn uncertain(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Uncertain, message)
    }

    /// The same error with its cause attached, for the operator's log.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error as a reason not to connect. What an engine or its surroundings answer is no error of the config file,
    /// so `Config` becomes `Unavailable`: the server goes on without the backend and connects it later.
    #[must_use]
    pub fn while_connecting(self) -> Self {
        match self.kind {
            ErrorKind::Config => Self { kind: ErrorKind::Unavailable, ..self },
            _ => self,
        }
    }

    /// What the caller must do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Rejected => "rejected",
            ErrorKind::Denied => "denied",
            ErrorKind::Config => "misconfigured",
            ErrorKind::Limited { .. } => "rate limited",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Uncertain => "uncertain",
        })
    }
}
