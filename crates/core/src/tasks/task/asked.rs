//! A question of a task as the row keeps it: who asks, its status, and who answered.
//! Plain data; nothing here decides.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use taskbridge_sdk::{Answer, OnBehalfOf, Question, Timestamp};

use super::Owner;

/// A question of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskQuestion {
    /// Identifies the question to clients; never used twice within a task.
    pub key: String,
    /// The question; `question.id` is the job's own name for it.
    pub question: Question,
    /// Who asks.
    pub asker: QuestionSource,
    /// When it was first seen.
    pub at: Timestamp,
    /// The status of the question.
    pub status: QuestionStatus,
    /// The person who gave the answer, as the owner of their own tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Owner>,
    /// The person on whose behalf the engine receives the answer, if the owner of the task did not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_as: Option<OnBehalfOf>,
    /// When the engine accepted the answer, or reported that it came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// True if the engine refused the answer: because of the person who gave it, or the answer itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_allowed: bool,
    /// Data of a front end, which the core keeps and does not read. Its names are stored next to the others
    /// here, so they must differ from these.
    #[serde(flatten)]
    pub front_end: Map<String, Value>,
}

/// Who asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionSource {
    /// The server, before it starts the job.
    Confirm,
    /// The job.
    Job,
}

/// The status of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionStatus {
    /// Waiting for a person.
    Open,
    /// Answered; the answer has not reached the engine yet.
    Answered {
        /// The answer.
        answer: Answer,
        /// Number of failed attempts to send it to the engine.
        attempts: u32,
        /// No attempt before this time.
        not_before: Timestamp,
    },
    /// A person agreed to visit the page, and the engine accepted that. While the job lists the
    /// question, the visit is not over.
    Visiting,
    /// Final: the engine has the answer, no longer wants one, or refused the one of this person; or the task
    /// ended.
    Closed,
}

impl TaskQuestion {
    /// Creates a question that was not answered.
    pub fn new(key: String, question: Question, source: QuestionSource, at: Timestamp) -> Self {
        let (status, front_end) = (QuestionStatus::Open, Map::new());
        let (answered_by, answered_as, settled_at, not_allowed) = (None, None, None, false);
        Self {
            key,
            question,
            asker: source,
            at,
            status,
            answered_by,
            answered_as,
            settled_at,
            not_allowed,
            front_end,
        }
    }
}
