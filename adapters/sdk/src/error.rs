//! [`Error`]: the failure of one attempt against an engine, classified by what the caller must do. It must
//! not decide on retries: the tables in the server's reconciler do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Result of one attempt against an engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of failure. There are few kinds, because each requires a different reaction of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The engine understood the request and refused it. A retry would be refused again.
    Rejected,
    /// The engine does not accept our credentials, or they lack the permission.
    Denied,
    /// The deployment is wrong: an unknown region, a missing queue, a target that does not exist.
    Config,
    /// The engine rate limits the request. `after` is the wait that it asks for, if it gave one.
    Limited {
        /// Time to wait before the next attempt.
        after: Option<Duration>,
    },
    /// The engine could not be reached, or reported that it cannot serve requests now. After a first start,
    /// nothing has started. Any other call may have taken effect, and can be repeated safely.
    Unavailable,
    /// It is unknown whether a start took effect. The server calls `start` again with `may_exist`, or `find`,
    /// until the job is found or the search is over. A backend that only searches returns this kind for a
    /// search that found nothing.
    Uncertain,
    /// The engine has no way to do this, for this job or for any. Only [`crate::Backend::cancel`] may return
    /// it: the server then reports that the job continues, and does not ask again. After any other call it
    /// counts as [`ErrorKind::Rejected`].
    Unsupported,
}

/// Failed attempt: its kind, a message that a person can act on, and the underlying cause.
///
/// The message must not contain a secret, because it can reach the result of a task. `Display` does not
/// include the source. A clone shares the source.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    is_final: bool,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error of this kind, with a message for people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), is_final: false, retry_after: None, source: None }
    }

    /// Creates an error for a request that the engine understood and refused.
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Rejected, message)
    }

    /// Creates an error for credentials that are wrong or lack a permission.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// Creates an error for a wrong deployment.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// Creates an error for a rate limit of the engine.
    pub fn limited(after: Option<Duration>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limited { after }, message)
    }

    /// Creates an error for an engine that could not be reached: see [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Creates an error for a request that may or may not have taken effect.
    pub fn uncertain(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Uncertain, message)
    }

    /// Creates an error for something that the engine has no way to do: see [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Sets the wait that the engine asks for, such as the `Retry-After` of an HTTP reply with status 503. The
    /// server makes no further attempt before it is over, but limits it to 15 minutes.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the wait that the engine asks for, if it gave one: that of [`Error::with_retry_after`], or of
    /// [`ErrorKind::Limited`].
    pub fn retry_after(&self) -> Option<Duration> {
        let limit = match self.kind {
            ErrorKind::Limited { after } => after,
            _ => None,
        };
        self.retry_after.max(limit)
    }

    /// Marks the error as final: a later attempt cannot learn more. After a final `Uncertain`, the server
    /// does not search for the job but ends the task at once as broken. The message must therefore name the
    /// place where a person can check.
    #[must_use]
    pub fn into_final(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// Returns true if a later attempt cannot learn more.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Attaches the cause of the error, for the operator's log.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    /// Converts the error for use in [`crate::Adapter::connect`]. A response of an engine or its environment
    /// is not an error of the config file, so `Config` becomes `Unavailable`: the server runs without the
    /// backend and connects it later.
    #[must_use]
    pub fn while_connecting(self) -> Self {
        match self.kind {
            ErrorKind::Config => Self { kind: ErrorKind::Unavailable, ..self },
            _ => self,
        }
    }

    /// Returns the kind, which determines what the caller must do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl ErrorKind {
    /// Returns true if a later attempt may succeed. After a first start, nothing has started.
    pub fn is_transient(self) -> bool {
        matches!(self, ErrorKind::Limited { .. } | ErrorKind::Unavailable)
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
            ErrorKind::Unsupported => "unsupported",
        })
    }
}
