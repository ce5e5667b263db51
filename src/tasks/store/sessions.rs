//! What a store keeps of sessions: what each has set, and which tasks of its own its client holds for us. It must not know
//! the protocol.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Level, Timestamp};

use super::Result;
use crate::tasks::streams::{StreamNote, Streams};
use crate::tasks::task::TaskId;

/// The little that a session can change.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Ends a session: from now on it is not found, and what it has set is forgotten. The note is kept until
    /// `forget_after`.
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()>;

    /// True if the session was ended.
    async fn has_ended(&self, nonce: &str) -> Result<bool>;

    /// What the session has set; `None` if it was ended.
    async fn settings(&self, nonce: &str) -> Result<Option<Settings>>;

    /// Sets something for a session, and keeps all that it has set until `forget_after`. Returns what it has set from
    /// then on; `None` if nothing was set: the session was ended, or follows as many others as it may, or holds
    /// [`MOST_HELD`], or polls [`MOST_POLLS`].
    async fn set(&self, nonce: &str, setting: Setting, forget_after: Timestamp) -> Result<Option<Settings>>;
}

/// The most tasks of its own that one session's client holds for us.
pub const MOST_HELD: usize = 100;

/// The most tasks of other sessions that one session polls and is asked for.
pub const MOST_POLLS: usize = 100;

/// What a session has set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The least level of what it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The addresses of the resources that it wants to hear of.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub follows: BTreeSet<String>,
    /// The tasks of its own that its client made of questions of ours, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// The tasks of other sessions that it polled while they asked something: its listening stream asks it too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub polls: BTreeSet<TaskId>,
    /// True if its client has said that it is ready. It is kept where several processes use the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
    /// What the processes over this store must know of each other's streams.
    #[serde(default, skip_serializing_if = "Streams::is_empty")]
    pub streams: Streams,
}

/// A task of the client's own, which it made of a question that we asked it: the answer is fetched there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The message that it was made of.
    #[serde(flatten)]
    pub of: Message,
    /// The client's own name for it. It may be a secret there, as our ids are here.
    pub id: TaskId,
    /// Since when.
    pub since: Timestamp,
    /// Where it stands, as far as we were told.
    pub stage: Stage,
    /// How long the client wants us to wait between two looks.
    pub every: Duration,
}

/// One message that carried a question to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// The task that asks.
    pub task: TaskId,
    /// The question's key.
    pub key: String,
    /// [`crate::tasks::task::Delivery::n`].
    pub n: u32,
}

/// Where a client's task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// There is no answer yet.
    Working,
    /// It wants something of us before it can go on.
    InputRequired,
    /// There is an answer, or the reason why there will be none.
    Ended,
    /// Somebody at the client has cancelled it.
    Cancelled,
}

/// One change of [`Settings`].
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// From now on this is the least level.
    Level(Level),
    /// It wants to hear of this resource, and may follow so many.
    Follow(String, usize),
    /// It no longer does.
    Unfollow(String),
    /// Its client holds this task for us, if it holds none yet that was made of the same message.
    Hold(Held),
    /// That task, if it is held still, stands here now, and is to be looked at this often.
    Stands(Message, Stage, Duration),
    /// That task is nothing to us any more.
    LetGo(Message),
    /// It polls this task of another session, if it polls fewer than [`MOST_POLLS`].
    Poll(TaskId),
    /// That task has ended.
    EndPoll(TaskId),
    /// Its client is ready.
    Ready,
    /// Something happened to its streams.
    Streams(StreamNote),
}

impl Settings {
    /// These settings with a change; `None` if there is no room for it.
    pub fn with(mut self, setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Level(level) => self.level = Some(*level),
            Setting::Follow(uri, most) => {
                if self.follows.insert(uri.clone()) && self.follows.len() > *most {
                    return None;
                }
            }
            Setting::Unfollow(uri) => {
                self.follows.remove(uri);
            }
            Setting::Hold(held) => {
                if !self.held.iter().any(|other| other.of == held.of) {
                    self.held.push(held.clone());
                }
            }
            Setting::Stands(of, stage, every) => {
                if let Some(held) = self.held.iter_mut().find(|held| held.of == *of) {
                    (held.stage, held.every) = (*stage, *every);
                }
            }
            Setting::LetGo(of) => self.held.retain(|held| held.of != *of),
            Setting::Poll(task) => {
                self.polls.insert(task.clone());
            }
            Setting::EndPoll(task) => {
                self.polls.remove(task);
            }
            Setting::Ready => self.ready = true,
            Setting::Streams(note) => self.streams = self.streams.with(note),
        }
        (self.held.len() <= MOST_HELD && self.polls.len() <= MOST_POLLS).then_some(self)
    }
}
