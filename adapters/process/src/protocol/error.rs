//! [`ErrorObject`]: an error that a program answers, and the sdk's error that it becomes. It must not decide
//! what a missing kind means: the caller does.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use taskbridge_sdk::{Error, ErrorKind};

/// Longest wait that a program can ask for.
const MAX_AFTER: Duration = Duration::from_secs(3600);

/// Error of a JSON-RPC answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ErrorObject {
    /// `-32000` for an error with a kind; `-32601` for an unknown method.
    pub code: i64,
    /// What happened, for people. Without secrets.
    #[serde(default)]
    pub message: String,
    /// The kind of error.
    #[serde(default, deserialize_with = "lenient")]
    pub data: ErrorData,
}

/// The kind of an error, and what belongs to it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ErrorData {
    /// The kind. Without it, the error says nothing about its effect.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// The wait before the next attempt, in milliseconds.
    #[serde(default)]
    pub after_ms: Option<u64>,
    /// True if a later attempt cannot learn more.
    #[serde(default, rename = "final")]
    pub is_final: bool,
}

/// Kind of an error, as in the sdk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The engine refused the request.
    Rejected,
    /// Credentials or permissions are wrong.
    Denied,
    /// The config or the deployment is wrong.
    Config,
    /// A rate limit of the engine.
    Limited,
    /// The engine could not be reached.
    Unavailable,
    /// A start may have taken effect.
    Uncertain,
    /// The engine has no way to stop this job.
    Unsupported,
}

/// Data of another shape is data without a kind.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ErrorData, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(ErrorData::deserialize(value).unwrap_or_default())
}

impl ErrorObject {
    /// Code of JSON-RPC for an unknown method.
    pub(crate) const UNKNOWN_METHOD: i64 = -32601;
}

impl ErrorData {
    /// Returns the error for the sdk. `None` if the program gave no kind.
    pub(crate) fn error(&self, message: &str) -> Option<Error> {
        let error = Error::new(self.error_kind()?, message);
        let error = match self.after_ms {
            Some(ms) => error.with_retry_after(Duration::from_millis(ms).min(MAX_AFTER)),
            None => error,
        };
        Some(if self.is_final { error.into_final() } else { error })
    }

    /// Returns the kind for the sdk. `None` if the program gave none.
    pub(crate) fn error_kind(&self) -> Option<ErrorKind> {
        Some(match self.kind? {
            Kind::Rejected => ErrorKind::Rejected,
            Kind::Denied => ErrorKind::Denied,
            Kind::Config => ErrorKind::Config,
            Kind::Limited => {
                let after = self.after_ms.map(|ms| Duration::from_millis(ms).min(MAX_AFTER));
                ErrorKind::Limited { after }
            }
            Kind::Unavailable => ErrorKind::Unavailable,
            Kind::Uncertain => ErrorKind::Uncertain,
            Kind::Unsupported => ErrorKind::Unsupported,
        })
    }
}
