//! The settings of a session, with the tasks that its client created for our questions, and their changes.
//! Plain data; it must not depend on a store or on a generation of the protocol.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Level, Timestamp};

use super::streams::{StreamEvent, Streams};
use crate::tasks::task::TaskId;

/// The maximum number of tasks that the client of one session keeps for our questions.
pub const MAX_CLIENT_TASKS: usize = 100;

/// The maximum number of tasks of other sessions that one session polls and receives questions for.
pub const MAX_POLLED_TASKS: usize = 100;

/// The settings of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// The minimum level of log messages that it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The URIs of the resources that it subscribes to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub follows: BTreeSet<String>,
    /// The tasks that its client created for our questions, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<ClientTaskRecord>,
    /// The tasks of other sessions that it polled while they had an open question. Its listening stream
    /// receives these questions too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub polls: BTreeSet<TaskId>,
    /// True if its client has reported that it is initialized. Stored only if several processes use the
    /// store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
    /// The state of its streams that the processes over this store share.
    #[serde(default, skip_serializing_if = "Streams::is_empty")]
    pub streams: Streams,
}

/// A task that the client created for our question. The answer is fetched from that task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTaskRecord {
    /// The message that the client created it for.
    #[serde(flatten)]
    pub of: QuestionMessage,
    /// The client's id of the task. It may be a secret there, as our task ids are here.
    pub id: TaskId,
    /// When it was recorded.
    pub since: Timestamp,
    /// Its last known stage.
    pub stage: ClientTaskStatus,
    /// The poll interval that the client requests.
    pub every: Duration,
}

/// One message that carried a question to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuestionMessage {
    /// The task that asks.
    pub task: TaskId,
    /// The question's key.
    pub key: String,
    /// The message number; see [`super::Delivery::n`].
    pub n: u32,
}

/// The status of a client's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientTaskStatus {
    /// There is no answer yet.
    Working,
    /// The client's task needs input from us.
    InputRequired,
    /// There is an answer, or a reason why there is none.
    Ended,
    /// The client cancelled it.
    Cancelled,
}

impl ClientTaskStatus {
    /// Returns the name of the status in log and audit lines.
    pub fn as_str(self) -> &'static str {
        match self {
            ClientTaskStatus::Working => "Working",
            ClientTaskStatus::InputRequired => "InputRequired",
            ClientTaskStatus::Ended => "Ended",
            ClientTaskStatus::Cancelled => "Cancelled",
        }
    }
}

/// One change of [`SessionSettings`].
#[derive(Clone, Debug, PartialEq)]
pub enum SessionChange {
    /// Sets the minimum log level.
    Level(Level),
    /// Subscribes to a resource. The number is the limit of subscriptions.
    Subscribe(String, usize),
    /// Unsubscribes from a resource.
    Unsubscribe(String),
    /// Adds a task of the client, unless one for the same message exists. At most
    /// [`MAX_CLIENT_TASKS`] are kept.
    AddClientTask(ClientTaskRecord),
    /// Updates the stage and the poll interval of that task, if it still exists.
    UpdateClientTask(QuestionMessage, ClientTaskStatus, Duration),
    /// Removes that task.
    RemoveClientTask(QuestionMessage),
    /// Adds a task of another session that this session polls, if it polls fewer than
    /// [`MAX_POLLED_TASKS`].
    Poll(TaskId),
    /// Removes such a task because it has ended.
    EndPoll(TaskId),
    /// Marks the client as initialized.
    Ready,
    /// Records an event of its streams.
    Streams(StreamEvent),
}

impl SessionSettings {
    /// Returns these settings with the change applied; `None` if a limit is exceeded.
    pub fn with(mut self, change: &SessionChange) -> Option<Self> {
        match change {
            SessionChange::Level(level) => self.level = Some(*level),
            SessionChange::Subscribe(uri, max) => {
                if self.follows.insert(uri.clone()) && self.follows.len() > *max {
                    return None;
                }
            }
            SessionChange::Unsubscribe(uri) => {
                self.follows.remove(uri);
            }
            SessionChange::AddClientTask(record) => {
                if !self.held.iter().any(|other| other.of == record.of) {
                    self.held.push(record.clone());
                }
            }
            SessionChange::UpdateClientTask(of, stage, every) => {
                if let Some(record) = self.held.iter_mut().find(|record| record.of == *of) {
                    (record.stage, record.every) = (*stage, *every);
                }
            }
            SessionChange::RemoveClientTask(of) => self.held.retain(|record| record.of != *of),
            SessionChange::Poll(task) => {
                self.polls.insert(task.clone());
            }
            SessionChange::EndPoll(task) => {
                self.polls.remove(task);
            }
            SessionChange::Ready => self.ready = true,
            SessionChange::Streams(event) => self.streams = self.streams.with(event),
        }
        (self.held.len() <= MAX_CLIENT_TASKS && self.polls.len() <= MAX_POLLED_TASKS).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::ClientTaskStatus::{self, Cancelled, Ended, InputRequired, Working};

    /// Lines of earlier versions have the names of the variants.
    #[test]
    fn status_keeps_logged_name() {
        let names = [Working, InputRequired, Ended, Cancelled].map(ClientTaskStatus::as_str);
        assert_eq!(names, ["Working", "InputRequired", "Ended", "Cancelled"]);
    }
}
