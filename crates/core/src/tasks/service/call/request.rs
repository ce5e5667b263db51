//! The request for a new task, and what becomes of it. It must not do anything.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use taskbridge_sdk::Question;

use super::super::LimitExceeded;
use crate::tasks::store::{IdempotencyKey, Quota, StoreError};
use crate::tasks::task::{Origin, Owner, Spec, Task, TaskId, TaskPolicy};

/// A validated call: the arguments match the tool's schema, and the caller may make it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The owner of the new task.
    pub owner: Owner,
    /// The origin of the call.
    pub origin: Origin,
    /// The tool.
    pub tool: String,
    /// The tool's backend.
    pub backend: String,
    /// What to start.
    pub spec: Spec,
    /// The arguments to keep with the task, so that its owner can call again with them.
    pub kept_arguments: Option<Map<String, Value>>,
    /// See [`crate::tasks::task::Task::variant`].
    pub variant: Option<u16>,
    /// Tasks that the arguments refer to, by parameter. The job receives the handles of their jobs.
    pub references: Vec<(String, TaskId)>,
    /// The deadlines.
    pub terms: TaskPolicy,
    /// The slots that the job takes.
    pub slots: Vec<String>,
    /// What to do if one of the slots is full. A full slot that counts the jobs of one owner, of all tools or
    /// of one, always refuses the call.
    pub when_full: WhenFull,
    /// The storage quota of its owner.
    pub quota: Option<Quota>,
    /// The question to ask before the start.
    pub confirm: Option<Question>,
    /// The caller's idempotency key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Set for a call that waits for its result.
    pub blocking: Option<BlockingCall>,
}

/// What happens to a call beyond a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It waits in the queue.
    #[default]
    Queue,
    /// It is refused.
    Refuse,
}

/// A plain call: it waits for its result, and its client does not receive the id of the task.
#[derive(Clone, Debug)]
pub struct BlockingCall {
    /// Digest of owner, tool and arguments.
    pub digest: String,
    /// How long the call waits at most. After that, an equal call may take over its task.
    pub timeout: Duration,
    /// How long after it disconnected an equal call can take over its task.
    pub attach_within: Duration,
    /// Whether the tool wants the job stopped when the call disconnects.
    pub cancel_on_abandon: bool,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub enum CallResult {
    /// A new task.
    Created(Task),
    /// The task that the same call created under the same idempotency key.
    Existing(Task),
    /// The task of an equal call that disconnected before it received its result.
    Attached(Task),
}

/// Why a call returned no task. Only after [`Self::Store`] a task may exist.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// A limit is exceeded.
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    /// The idempotency key was used for another tool or other arguments.
    #[error("idempotency key `{key}` was used before with another tool or other arguments: use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The tool's backend is not connected yet.
    #[error(
        "backend `{backend}` of tool {tool} is not connected: {reason}. This call started nothing: the server keeps trying to \
         connect, so call again later"
    )]
    Unconnected {
        /// The backend.
        backend: String,
        /// The tool.
        tool: String,
        /// The reason.
        reason: String,
    },
    /// An argument refers to a task that cannot be used.
    #[error("`{parameter}`: {why}")]
    Reference {
        /// The parameter.
        parameter: String,
        /// What is wrong with the task, and what to do.
        why: String,
    },
    /// The store failed. If it is unavailable, the outcome of the insert may be unknown: if the row exists,
    /// the reconciler acts on it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CallResult {
    /// Returns the task.
    pub fn into_task(self) -> Task {
        match self {
            CallResult::Created(task) | CallResult::Existing(task) | CallResult::Attached(task) => task,
        }
    }
}
