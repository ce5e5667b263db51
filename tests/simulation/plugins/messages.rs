//! The messages of the adapter protocol, as a plugin reads and writes them.

use serde::Deserialize;
use serde_json::{Value, json};
use taskbridge_sdk::{
    Answer, Error, ErrorKind, GroupKey, JobHandle, JobKey, JobSpec, Observation, OnBehalfOf, Result, Subject,
    Timestamp, Trace,
};

/// A line of the host.
#[derive(Deserialize)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) method: String,
    pub(super) params: Value,
}

/// Params of `start` and `find`.
#[derive(Deserialize)]
pub(super) struct Start {
    key: JobKey,
    target: Value,
    arguments: Value,
    may_exist: bool,
    first_attempt_at: Timestamp,
    trace: Option<Trace>,
    on_behalf_of: Option<OnBehalfOf>,
}

impl From<Start> for JobSpec {
    fn from(start: Start) -> Self {
        let Start { key, target, arguments, may_exist, first_attempt_at, trace, on_behalf_of } = start;
        let files = Vec::new();
        Self { key, target, arguments, files, may_exist, first_attempt_at, trace, on_behalf_of }
    }
}

/// Params of `observe_all`.
#[derive(Deserialize)]
pub(super) struct Observe {
    pub(super) group: GroupKey,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    handle: JobHandle,
    watched: bool,
    age_ms: u64,
}

impl Observe {
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let subject = |job: &Job| Subject {
            handle: job.handle.clone(),
            watched: job.watched,
            age: std::time::Duration::from_millis(job.age_ms),
        };
        self.jobs.iter().map(subject).collect()
    }
}

/// Params of `cancel` and `answer`.
#[derive(Deserialize)]
pub(super) struct OfJob {
    pub(super) handle: JobHandle,
    pub(super) question: Option<String>,
    pub(super) answer: Option<Answer>,
}

/// Returns a line.
pub(super) fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

/// Returns the reply to a call.
pub(super) fn reply(id: u64, result: &Result<Value>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            let message = error.to_string();
            json!({"jsonrpc": "2.0", "id": id,
                "error": {"code": -32000, "message": message, "data": error_data(error)}})
        }
    }
}

/// Returns the entry of a job in the result of `observe_all`.
pub(super) fn entry(observation: Result<Observation>) -> Value {
    match observation {
        Ok(observation) => serde_json::to_value(observation).expect("an observation can be written"),
        Err(error) => {
            let mut data = error_data(&error);
            data["message"] = error.to_string().into();
            json!({ "error": data })
        }
    }
}

fn error_data(error: &Error) -> Value {
    let kind = match error.kind() {
        ErrorKind::Rejected => "rejected",
        ErrorKind::Denied => "denied",
        ErrorKind::Config => "config",
        ErrorKind::Limited { .. } => "limited",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Uncertain => "uncertain",
        ErrorKind::Unsupported => "unsupported",
    };
    let after_ms = error.retry_after().map(|after| after.as_millis() as u64);
    json!({"kind": kind, "after_ms": after_ms, "final": error.is_final()})
}
