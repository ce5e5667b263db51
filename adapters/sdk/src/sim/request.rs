//! Requests to the simulated engine and its replies, for callers in this process and on the wire. Plain data.

use serde::{Deserialize, Serialize};

use super::{Operation, Target};
use crate::{
    Answer, AnswerOutcome, DiscoveredTool, JobHandle, JobKey, LogRequest, LogText, Observation, Started,
};

/// A request to the engine.
#[derive(Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Request {
    Start { key: JobKey, target: Target, may_exist: bool },
    Find { key: JobKey },
    Observe { handles: Vec<JobHandle> },
    Cancel { handle: JobHandle },
    Answer { handle: JobHandle, question: String, answer: Answer },
    Log { handle: JobHandle, request: LogRequest },
    File { handle: JobHandle, name: String, max_bytes: u64 },
    Discover,
}

impl Request {
    /// Returns the kind of request, which determines its faults.
    pub(super) fn operation(&self) -> Operation {
        match self {
            Request::Start { .. } => Operation::Start,
            Request::Find { .. } => Operation::Find,
            Request::Observe { .. } => Operation::Observe,
            Request::Cancel { .. } => Operation::Cancel,
            Request::Answer { .. } => Operation::Answer,
            Request::Log { .. } | Request::File { .. } => Operation::Read,
            Request::Discover => Operation::Discover,
        }
    }

    /// Returns the jobs that the request names.
    pub(super) fn handles(&self) -> &[JobHandle] {
        match self {
            Request::Start { .. } | Request::Find { .. } | Request::Discover => &[],
            Request::Observe { handles } => handles,
            Request::Cancel { handle }
            | Request::Answer { handle, .. }
            | Request::Log { handle, .. }
            | Request::File { handle, .. } => std::slice::from_ref(handle),
        }
    }
}

/// A reply of the engine.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Started(Started),
    Found(Option<Started>),
    Seen(Vec<Observation>),
    Done,
    Taken(AnswerOutcome),
    Log(LogText),
    File(Option<String>),
    Discovered(Vec<DiscoveredTool>),
    /// Makes the adapter panic.
    Panic,
}
