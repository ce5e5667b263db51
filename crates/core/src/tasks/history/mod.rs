//! The history entry of each transition of a task: the event, the changes, the process that wrote them, and
//! the engine call that caused them. Pure: [`HistoryRecorder::transition`] derives it from the row before,
//! the event and the row after.
//!
//! An entry contains no argument, result or answer, and of the texts of an engine or a job only the handle.
//! Leases, the size of a log and watches are not transitions.

mod facts;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{JobHandle, Progress, Timestamp};

pub use self::facts::event_fact;

use self::facts::facts;
use super::machine::Event;
use super::store::Holder;
use super::task::{Job, Outcome, Owner, Task};

/// A history entry as it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The version of the row that it created.
    pub version: u64,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// The transition and the process that wrote it.
    #[serde(flatten)]
    pub transition: Transition,
}

/// A transition to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The process that wrote it, under its holder id.
    pub replica: String,
    /// The event and its changes; never empty.
    pub what: Vec<Fact>,
    /// The engine call that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<EngineCall>,
}

/// A call to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineCall {
    /// The operation.
    pub to: EngineOperation,
    /// The duration in milliseconds.
    pub ms: u64,
}

/// An operation of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the verbs of a backend")]
pub enum EngineOperation {
    Start,
    Find,
    Look,
    Cancel,
    Answer,
}

/// One event in the life of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The row was inserted.
    Created {
        /// The owner.
        owner: Owner,
        /// The tool that was called.
        tool: String,
        /// The backend that will run the job.
        backend: String,
    },
    /// It waits for a free slot.
    Queued,
    /// This attempt to start was committed, and is about to be sent.
    Attempt(u32),
    /// The committed attempt was not sent.
    TakenBack,
    /// An attempt returned no handle.
    StartFailed {
        /// The number of the attempt.
        attempt: u32,
        /// The error kind.
        kind: String,
    },
    /// A search for a job that may have started found none.
    NotFound,
    /// A search failed.
    FindFailed {
        /// The error kind.
        kind: String,
    },
    /// The engine accepted the job under this handle.
    Accepted(JobHandle),
    /// The job's progress.
    Progress(Progress),
    /// Polls of the job fail from now on.
    LooksFail {
        /// The error kind of the failed poll.
        kind: String,
    },
    /// Polls of the job succeed again.
    LooksAgain,
    /// A question with this key was asked.
    Asked(String),
    /// The question was sent to a client for the first time.
    Sent(String),
    /// A question was answered.
    Answered {
        /// The question's key.
        key: String,
        /// The kind of answer, never its content.
        how: AnswerKind,
        /// The person who answered, as the owner of their own tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Owner>,
    },
    /// The engine accepted the answer.
    AnswerTaken(String),
    /// The engine no longer needed the answer.
    AnswerTooLate(String),
    /// The answer could not be delivered to the engine, or the engine refuses it from this person (kind
    /// `denied`).
    AnswerFailed {
        /// The question's key.
        key: String,
        /// The number of attempts.
        times: u32,
        /// The error kind.
        kind: String,
    },
    /// The job no longer needs an answer to the question.
    Withdrawn(String),
    /// A client or an operator requested cancellation.
    CancelWished,
    /// The engine accepted the cancellation request.
    CancelTaken,
    /// The cancellation request failed.
    CancelFailed {
        /// The number of attempts.
        times: u32,
        /// The error kind.
        kind: String,
    },
    /// An immediate retry of the pending attempts was requested: by an operator, or for a hint that another
    /// process passed on.
    RetryWished,
    /// An operator gave up the task; its outcome is unknown.
    OutcomeUnknown,
    /// `max_wait`, `start_within` or (for consent) `answer_within` expired before the start, or `max_runtime`
    /// after it.
    DeadlinePassed,
    /// The caller of a plain call disconnected.
    CallerGone,
    /// The job is closed after its task had ended: no action on the engine is pending any more.
    JobOver,
    /// The client's state is final.
    Ended(Outcome),
    /// The result was sent for the first time.
    ResultRead {
        /// The person who asked for it, as the owner of their own tasks.
        by: Owner,
    },
}

/// The kind of an answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words of the protocol")]
pub enum AnswerKind {
    Accepted,
    Declined,
    Dismissed,
}

/// An event with the engine call that produced it.
#[derive(Clone, Debug)]
pub struct EventWithCall {
    /// The event.
    pub event: Event,
    /// The call, if there was one.
    pub call: Option<EngineCall>,
}

impl From<Event> for EventWithCall {
    fn from(event: Event) -> Self {
        Self { event, call: None }
    }
}

impl Event {
    /// Returns the event with the engine call that produced it and the call's duration.
    pub fn after_call(self, to: EngineOperation, took: Duration) -> EventWithCall {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        EventWithCall { event: self, call: Some(EngineCall { to, ms }) }
    }
}

/// Builds transitions in the name of a process, if history is kept.
#[derive(Clone, Debug)]
pub struct HistoryRecorder {
    /// The holder id of this process.
    pub replica: Holder,
    /// Whether history is kept.
    pub enabled: bool,
}

impl HistoryRecorder {
    /// Returns the transition of an insert; `None` if no history is kept.
    pub fn creation(&self, task: &Task) -> Option<Transition> {
        let created = Fact::Created {
            owner: task.owner.clone(),
            tool: task.tool.clone(),
            backend: task.backend.clone(),
        };
        let mut what = vec![created];
        what.extend(task.open_questions().map(|question| Fact::Asked(question.key.clone())));
        match &task.job {
            Job::Pending { queued: true, .. } => what.push(Fact::Queued),
            Job::Starting { attempts, .. } => what.push(Fact::Attempt(*attempts)),
            Job::Pending { .. } | Job::Open { .. } | Job::Closed { .. } => {}
        }
        self.build(what, None)
    }

    /// Returns the transition of a write from `before` to `after`; `fact` is the result of [`event_fact`]
    /// for the event and `before`. `None` if no history is kept, or nothing happened that it records.
    pub fn transition(
        &self,
        before: &Task,
        fact: Option<Fact>,
        after: &Task,
        call: Option<EngineCall>,
    ) -> Option<Transition> {
        if !self.enabled {
            return None;
        }
        self.build(facts(before, fact, after), call)
    }

    fn build(&self, what: Vec<Fact>, call: Option<EngineCall>) -> Option<Transition> {
        let replica = self.replica.0.clone();
        (self.enabled && !what.is_empty()).then_some(Transition { replica, what, call })
    }
}

#[cfg(test)]
mod tests;
