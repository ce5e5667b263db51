//! Notices: what those are owed who want to hear that a task ended or asks, and do not poll. They follow from a change
//! of a row alone, and are written with it, so that none is owed that did not happen and none that happened is forgotten.
//! It must not know how a notice is written or sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;

use super::task::{Asked, AskedStatus, Outcome, Task, TaskId};

/// Something that receivers can want to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// A task has ended.
    Ended,
    /// A task asks something.
    Asks,
}

/// The receivers of the config that is in force, as the core sees them.
pub trait Receivers: Send + Sync {
    /// The names of those that want to hear of this.
    fn wanting(&self, tool: &str, occasion: Occasion) -> Vec<String>;
}

/// Nobody wants to hear of anything.
pub struct Nobody;

impl Receivers for Nobody {
    fn wanting(&self, _tool: &str, _occasion: Occasion) -> Vec<String> {
        Vec::new()
    }
}

/// What one receiver is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The same however often it is sent; nobody can tell the task's id from it.
    pub id: String,
    /// The receiver's name.
    pub receiver: String,
    /// What happened.
    pub news: News,
}

/// What happened to a task.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// The task.
    pub task: TaskId,
    /// Its tool.
    pub tool: String,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It ended like this.
    Ended(Outcome),
    /// It asks the question of this key.
    Asks(String),
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, tool, at, what } = self;
        write!(f, "{task:?} of {tool} at {at}: {what:?}")
    }
}

/// What is owed once a row is as it is `after`; `before` is what it was, if it was there.
pub fn owed(before: Option<&Task>, after: &Task, receivers: &dyn Receivers) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut owe = |occasion, at, what: &dyn Fn() -> What| {
        for receiver in receivers.wanting(&after.tool, occasion) {
            let news = News { task: after.id.clone(), tool: after.tool.clone(), at, what: what() };
            notices.push(Notice { id: news.id(), receiver, news });
        }
    };
    if let (Some(outcome), true) = (after.outcome(), before.is_none_or(|before| !before.has_ended())) {
        owe(Occasion::Ended, after.ended_at.unwrap_or(after.changed_at), &|| What::Ended(outcome));
    }
    // Questions are only ever added, and a key is never used again.
    let known = before.map_or(0, |before| before.questions.len());
    let is_new = |asked: &&Asked| asked.status == AskedStatus::Open && !after.has_ended();
    for asked in after.questions.iter().skip(known).filter(is_new) {
        owe(Occasion::Asks, asked.at, &|| What::Asks(asked.key.clone()));
    }
    notices
}

impl News {
    /// A name that is the same wherever and however often it is made. A task's id has 160 random bits, which a digest of
    /// it does not tell.
    fn id(&self) -> String {
        let what = match &self.what {
            What::Ended(_) => "ended".to_owned(),
            What::Asks(key) => format!("asks {key}"),
        };
        let digest = Sha256::digest(format!("taskbridge notice\n{}\n{what}", self.task.as_str()));
        format!("msg_{}", data_encoding::BASE32_NOPAD.encode(&digest[..20]).to_ascii_lowercase())
    }
}
