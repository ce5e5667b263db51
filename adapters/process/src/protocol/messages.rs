//! The params and results of all methods that the sdk has no type for. Plain data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use taskbridge_sdk::{
    Answer, Error, GroupKey, JobHandle, JobKey, Level, OnBehalfOf, Subject, Timestamp, ToolTarget, Trace,
};

use super::error::ErrorData;

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// Params of a method that takes none.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Empty {}

/// Params of `initialize`. It contains secrets, so it has no `Debug`.
#[derive(Serialize, JsonSchema)]
pub struct InitializeParams {
    /// The version of the protocol.
    pub protocol: u32,
    /// Name of the backend in the config.
    pub name: String,
    /// The program's config.
    pub config: Map<String, Value>,
    /// The program's secrets, by name.
    pub secrets: BTreeMap<String, String>,
    /// After this time, in milliseconds, a call is given up.
    pub call_limit_ms: u64,
    /// Folder for this backend alone, which may not exist yet.
    pub state_dir: PathBuf,
    /// Folder of the config file.
    pub config_dir: PathBuf,
}

/// Params of `start` and `find`.
#[derive(Serialize, JsonSchema)]
pub struct StartParams {
    /// The idempotency key of the job.
    pub key: JobKey,
    /// The same 128 bits as a UUID, except for its version and variant bits.
    pub uuid: String,
    /// What to run: `[tools.NAME.target]` of the config.
    pub target: Value,
    /// The caller's arguments.
    pub arguments: Value,
    /// Files that the caller sent. Empty without the ability `files`.
    pub files: Vec<File>,
    /// True if an earlier attempt may have reached the engine.
    pub may_exist: bool,
    /// Time of the first attempt under this key, by the server's clock, in milliseconds since 1970.
    pub first_attempt_at: Timestamp,
    /// Trace context of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The person who requested the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// A file that the caller sent with an argument.
#[derive(Serialize, JsonSchema)]
pub struct File {
    /// The parameter that the file belongs to.
    pub parameter: String,
    /// File name, without a path.
    pub name: String,
    /// Bytes in base64.
    pub data: String,
}

/// Params of `observe_all`.
#[derive(Serialize, JsonSchema)]
pub struct ObserveParams {
    /// The group of all these jobs.
    pub group: GroupKey,
    /// The jobs to poll.
    pub jobs: Vec<PolledJob>,
}

/// A job to poll.
#[derive(Serialize, JsonSchema)]
pub struct PolledJob {
    /// The engine's name for it.
    pub handle: JobHandle,
    /// True if a client is waiting for progress.
    pub watched: bool,
    /// Time since the engine accepted the job, in milliseconds.
    pub age_ms: u64,
}

impl PolledJob {
    pub(crate) fn of(subject: &Subject) -> Self {
        // A JSON number keeps 53 bits in most languages.
        let age_ms = u64::try_from(subject.age.as_millis()).unwrap_or(u64::MAX).min(1 << 53);
        Self { handle: subject.handle.clone(), watched: subject.watched, age_ms }
    }
}

/// An entry in the result of `observe_all`: this job could not be polled.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PollFault {
    /// What went wrong.
    pub error: EntryError,
}

/// Error of one entry.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EntryError {
    /// What happened, for people.
    #[serde(default)]
    pub message: String,
    /// The kind, and what belongs to it.
    #[serde(flatten)]
    pub data: ErrorData,
}

/// Params of `cancel`.
#[derive(Serialize, JsonSchema)]
pub struct CancelParams {
    /// The job.
    pub handle: JobHandle,
    /// The person who cancels it, or who requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<OnBehalfOf>,
}

/// Params of `answer`.
#[derive(Serialize, JsonSchema)]
pub struct AnswerParams {
    /// The job.
    pub handle: JobHandle,
    /// Id of the question.
    pub question: String,
    /// The answer.
    pub answer: Answer,
    /// The person who answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<OnBehalfOf>,
}

/// Params of `log`.
#[derive(Serialize, JsonSchema)]
pub struct LogParams {
    /// The job.
    pub handle: JobHandle,
    /// Maximum number of bytes to return.
    pub max_bytes: usize,
    /// Text that a line must contain, regardless of case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
}

/// Params of `artifact`.
#[derive(Serialize, JsonSchema)]
pub struct ArtifactParams {
    /// The job.
    pub handle: JobHandle,
    /// Name of the file within the job.
    pub name: String,
    /// Number of bytes to skip.
    pub offset: u64,
    /// Maximum number of bytes to return.
    pub max_bytes: u64,
}

/// Result of `artifact`: a part of a file.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ArtifactPart {
    /// Bytes from the offset, in base64.
    pub data: String,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Its media type, if known.
    #[serde(default)]
    pub mime_type: Option<String>,
}

/// Params of `check_up`.
#[derive(Serialize, JsonSchema)]
pub struct CheckUpParams {
    /// The tools to check.
    pub tools: Vec<ToolTarget>,
}

/// Params of `forget`.
#[derive(Serialize, JsonSchema)]
pub struct ForgetParams {
    /// The job.
    pub handle: JobHandle,
}

/// Params of the notification `changed`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ChangedParams {
    /// Jobs that may have changed.
    #[serde(default)]
    pub jobs: Vec<JobHandle>,
}

/// Params of the notification `note`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NoteParams {
    /// Severity.
    pub level: Level,
    /// Text for the server's log.
    pub text: String,
}

impl EntryError {
    /// Converts the error of one entry. `unknown` creates the error if there is no kind, and `clean` makes
    /// the message safe to show.
    pub(crate) fn into_error(
        self,
        unknown: impl FnOnce(String) -> Error,
        clean: impl FnOnce(&str) -> String,
    ) -> Error {
        let message = clean(&self.message);
        match self.data.error(&message) {
            Some(error) => error,
            None => unknown(message),
        }
    }
}
