//! A question of a task as it is kept: who asks, where it stands, which message carried it. Plain data; nothing here
//! decides.

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Answer, OnBehalfOf, Question, Timestamp};

use super::Owner;

/// Something that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Names the question to clients; never used twice within a task.
    pub key: String,
    /// What is asked; `question.id` is the job's own name for it.
    pub question: Question,
    /// Who asks.
    pub asker: Asker,
    /// When it was first seen.
    pub at: Timestamp,
    /// Where it stands.
    pub status: AskedStatus,
    /// The newest message that carried it to a client, so that it is on one stream at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Whose answer stands: the owner of their own tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Owner>,
    /// The person who gave that answer, if it is not the owner's own: whose credentials it is handed over with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_as: Option<OnBehalfOf>,
    /// When the engine accepted the answer, or said that it came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// True if the engine did not take the answer from the person who gave it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_allowed: bool,
}

/// Who asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// The bridge, before it starts the job.
    Confirm,
    /// The job.
    Job,
}

/// Where a question stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedStatus {
    /// Waiting for a person.
    Open,
    /// Answered; the answer is still to be handed to the engine.
    Answered {
        /// What they said.
        answer: Answer,
        /// Attempts to hand it over that failed.
        attempts: u32,
        /// No attempt before this moment.
        not_before: Timestamp,
    },
    /// Somebody agreed to visit the page, and the job knows: it still lists the question, so the visit is not over.
    Visiting,
    /// Over: the engine has the answer, or no longer wants one.
    Closed,
}

/// One message that carries a question to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Counts the messages of this question, from 1.
    pub n: u32,
    /// Until when its stream counts as open, unless it says so again.
    pub until: Timestamp,
    /// True once the client has dealt with it: it was answered, or the request that it went out with. A message that
    /// is not over and whose time has run out was perhaps never seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// Why the answer to it was not taken, in words for whoever gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Asked {
    /// A question that nobody has answered or been sent.
    pub fn new(key: String, question: Question, asker: Asker, at: Timestamp) -> Self {
        let (status, delivery) = (AskedStatus::Open, None);
        let (answered_by, answered_as, settled_at, not_allowed) = (None, None, None, false);
        Self { key, question, asker, at, status, delivery, answered_by, answered_as, settled_at, not_allowed }
    }

    /// True while a message that carries the question is out on a stream that counts as open.
    pub fn is_out(&self, now: Timestamp) -> bool {
        self.delivery.as_ref().is_some_and(|delivery| !delivery.over && delivery.until > now)
    }
}
