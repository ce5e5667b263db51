//! Notices: messages to receivers that a task has ended or asks a question, for consumers that do not poll.
//! They derive from a change of a row and are written in its transaction. So no notice is sent for a change
//! that did not happen, and no change lacks the notices of the receivers in force. This module must not
//! depend on how a notice is stored or sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;

use super::task::{Outcome, QuestionStatus, Task, TaskId, TaskQuestion};

/// An event type that receivers can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    /// A task has ended.
    Ended,
    /// A task asks a question.
    Asks,
}

/// The receivers of the config that is in force, as the core sees them.
pub trait Receivers: Send + Sync {
    /// Returns the names of the receivers that subscribe to this.
    fn receivers_for(&self, tool: &str, kind: NoticeKind) -> Vec<String>;
}

/// No receivers.
pub struct NoReceivers;

impl Receivers for NoReceivers {
    fn receivers_for(&self, _tool: &str, _occasion: NoticeKind) -> Vec<String> {
        Vec::new()
    }
}

/// A notice for one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The message id. It is the same for every attempt and every receiver, and the task's id cannot be
    /// derived from it.
    pub id: String,
    /// The receiver's name.
    pub receiver: String,
    /// The event.
    pub content: NoticeContent,
}

/// What happened to a task.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeContent {
    /// The task.
    pub task: TaskId,
    /// Its tool.
    pub tool: String,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub what: NoticeCause,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeCause {
    /// The task ended with this outcome.
    Ended(Outcome),
    /// The task asks the question with this key.
    Asks(String),
}

impl fmt::Debug for NoticeContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, tool, at, what } = self;
        write!(f, "{task:?} of {tool} at {at}: {what:?}")
    }
}

/// Returns the notices that a change of a row causes. `before` is the earlier row, or `None` for a new one.
pub fn notices_for_change(before: Option<&Task>, after: &Task, receivers: &dyn Receivers) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut add_notices = |kind, at, what: &dyn Fn() -> NoticeCause| {
        for receiver in receivers.receivers_for(&after.tool, kind) {
            let content =
                NoticeContent { task: after.id.clone(), tool: after.tool.clone(), at, what: what() };
            notices.push(Notice { id: content.id(), receiver, content });
        }
    };
    if let (Some(outcome), true) = (after.outcome(), before.is_none_or(|before| !before.has_ended())) {
        add_notices(NoticeKind::Ended, after.ended_at.unwrap_or(after.changed_at), &|| {
            NoticeCause::Ended(outcome)
        });
    }
    // Questions are only appended, and a key is never reused.
    let known_questions = before.map_or(0, |before| before.questions.len());
    let is_new = |question: &&TaskQuestion| question.status == QuestionStatus::Open && !after.has_ended();
    for question in after.questions.iter().skip(known_questions).filter(is_new) {
        add_notices(NoticeKind::Asks, question.at, &|| NoticeCause::Asks(question.key.clone()));
    }
    notices
}

impl NoticeContent {
    /// Returns a deterministic id. A task's id has 160 random bits, so it cannot be recovered from the
    /// digest.
    fn id(&self) -> String {
        let what = match &self.what {
            NoticeCause::Ended(_) => "ended".to_owned(),
            NoticeCause::Asks(key) => format!("asks {key}"),
        };
        let digest = Sha256::digest(format!("taskbridge notice\n{}\n{what}", self.task.as_str()));
        format!("msg_{}", data_encoding::BASE32_NOPAD.encode(&digest[..20]).to_ascii_lowercase())
    }
}
