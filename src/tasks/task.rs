//! A task as it is kept: plain data, written to the store as it stands. Only [`super::machine`] changes the parts
//! that move; nothing here decides.

mod asked;
mod lifetime;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use super::terms::{OnExpiry, OnRefusal, Terms, outcome_grace};
pub use asked::{Asked, AskedStatus, Asker, Delivery};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskbridge_sdk::{GroupKey, JobHandle, JobKey, Note, OnBehalfOf, Progress, Timestamp, Trace};

/// Names a task to its owner. 160 random bits, because without authentication the id is the only secret.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(String);

/// Whose task it is. Every look-up by a caller names the owner; somebody else's task is "not found".
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(String);

impl TaskId {
    /// The id made of these random bytes: 32 lower-case base-32 characters.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }

    /// An id as a caller sent it. Any text is accepted: one that we never made is simply not found.
    pub fn from_wire(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as callers see it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Owner {
    /// An owner by name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows the beginning only: logs are read by more people than may use the task.
impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.0.chars().take(8).collect::<String>())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The durable promise made to a client, and what is still owed to the engine for it.
///
/// What the client sees (`state`) and what is owed to the engine (`job`, `cancel`, `questions`) are separate: a
/// cancelled task stays due until its job is known to have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Names the task.
    pub id: TaskId,
    /// Whose it is.
    pub owner: Owner,
    /// The tool that was called.
    pub tool: String,
    /// The backend that runs the job.
    pub backend: String,
    /// The key that the job starts under.
    pub key: JobKey,
    /// Where the call came from, for messages that go back there.
    pub origin: Origin,
    /// The deadlines and rules that were in force when the task was made.
    pub terms: Terms,
    /// The counted places that the job takes while it may run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// True if the call is to be refused, and not to wait, where one of them is taken up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused_when_full: bool,
    /// The tasks that the call named, in the order of its parameters' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refers_to: Vec<TaskId>,
    /// When the row was made.
    pub created_at: Timestamp,
    /// When anything that the client can see last changed.
    pub changed_at: Timestamp,
    /// When the client's state became final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What the client sees.
    pub state: TaskState,
    /// What the job, or whatever ended the task, last said in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far the job has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The furthest that `progress.done` ever was: what is reported under a progress token never goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub furthest: Option<f64>,
    /// Bytes of the files that the backend keeps of the job until the task expires.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_bytes: u64,
    /// The newest notes of the job, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Noted>,
    /// How much the job has printed, while somebody wants to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Printed>,
    /// Until when somebody wants to know how far the job has come, unless they say so again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_until: Option<Timestamp>,
    /// How the engine stands to this task.
    pub job: Job,
    /// Set when the job is to be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancelling>,
    /// All that was ever asked for this task, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Asked>,
    /// Set while the engine does not serve us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Set while a deadline of the job is over and no poll of it has succeeded since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<Overdue>,
    /// When an operator wants the open job looked at, out of its group's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<Timestamp>,
    /// Set while nobody has been given the answer to a plain call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelivered: Option<Undelivered>,
    /// When the reconciler must look at this row again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Counts the writes of the row; the store compares it.
    #[serde(skip)]
    pub version: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A note of the job, as a row keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noted {
    /// The note.
    #[serde(flatten)]
    pub note: Note,
    /// When it was first seen, by our clock.
    pub seen_at: Timestamp,
}

/// When a task that has not ended expires: 9999-12-31T23:59:59Z.
pub const NEVER: Timestamp = Timestamp::from_millis(253_402_300_799_000);

/// For so long after its start a job counts as watched without a word: whoever called has just done so.
pub const NEWLY_STARTED: Duration = Duration::from_secs(60);

/// How much a job has printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// How many bytes; 0 where nobody has looked yet.
    pub bytes: u64,
    /// Until when somebody wants to know, unless they say so again.
    pub wanted_until: Timestamp,
}

/// Where a call came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The nonce of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The token that progress of this task is reported under: a string or an integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_token: Option<Value>,
    /// The trace that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Who asked for it: what is done to the job is done on their behalf, whoever does it and whenever, but for what somebody else
    /// answers or cancels. `None` if that is nobody in particular, and for tasks of versions that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// What the client sees. Ours alone: wire statuses are rendered from it, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not ended, and nothing is asked.
    Working,
    /// Not ended, and a question is open.
    InputRequired,
    /// Final.
    Ended(Outcome),
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The job ended well.
    Succeeded,
    /// The job ran and failed, or the engine refused it.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// It could not be run or tracked.
    Broken,
}

impl Outcome {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Broken => "broken",
        }
    }
}

/// How the engine stands to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Nothing of it is in the engine.
    Pending {
        /// What to start.
        spec: Spec,
        /// True while it waits for a slot.
        queued: bool,
        /// Attempts that the engine turned away without starting.
        attempts: u32,
        /// No attempt before this moment.
        not_before: Timestamp,
    },
    /// An attempt was committed, and its reply is not known here.
    Starting {
        /// What to start.
        spec: Spec,
        /// Which attempt this is, counted from 1.
        attempts: u32,
        /// Set once the job was looked for and nothing settled it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sought: Option<Sought>,
        /// No further look before this moment.
        not_before: Timestamp,
    },
    /// The engine has it, and it may still run.
    Open {
        /// The engine's name for it.
        handle: JobHandle,
        /// The group that it is watched in.
        group: GroupKey,
        /// When the engine took it, by our clock.
        started_at: Timestamp,
    },
    /// It is known to run no more, or not to be ours to follow any longer. The handle still leads to its log.
    Closed {
        /// The engine's name for it, if it ever had one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<JobHandle>,
    },
}

/// A search for a job that may have started. Time alone does not count: processes may be away while it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sought {
    /// When the search began, plus the gaps that do not count as search time.
    pub since: Timestamp,
    /// How many times it was looked for.
    pub times: u32,
}

/// Failed polls of a job, one of whose deadlines is over. As with [`Sought`], time alone does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overdue {
    /// When the first of them failed, plus the gaps that do not count as retry time.
    pub since: Timestamp,
    /// How many failed.
    pub times: u32,
    /// No further poll before this moment.
    pub not_before: Timestamp,
}

/// What to start: the part of a row that is dropped as soon as the engine has the job.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What to run in the engine, as the config had it when the call was made.
    pub target: Value,
    /// The arguments, without the sensitive ones.
    pub arguments: Value,
    /// The sensitive arguments, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Parameters that refer to a task whose job has no handle yet. The job starts once each has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unresolved: BTreeMap<String, TaskId>,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").finish_non_exhaustive()
    }
}

/// A wish to stop the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cancelling {
    /// When it was wished.
    pub at: Timestamp,
    /// True once the engine took the request.
    pub taken: bool,
    /// Requests that failed so far.
    pub attempts: u32,
    /// No request before this moment.
    pub not_before: Timestamp,
    /// On whose behalf the engine is asked, if not on that of whoever asked for the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// The engine does not serve us.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// Why, in words.
    pub reason: String,
}

/// Nobody has been given the answer to a plain call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undelivered {
    /// Digest of owner, tool and arguments: an equal call may attach to this task.
    pub digest: String,
    /// Until when the call that made the task counts as waiting.
    pub waiting_until: Timestamp,
}

impl Task {
    /// True if the client's state is final.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, TaskState::Ended(_))
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            TaskState::Ended(outcome) => Some(outcome),
            TaskState::Working | TaskState::InputRequired => None,
        }
    }

    /// The engine's name for the job, once it has one.
    pub fn handle(&self) -> Option<&JobHandle> {
        match &self.job {
            Job::Open { handle, .. } => Some(handle),
            Job::Closed { handle } => handle.as_ref(),
            Job::Pending { .. } | Job::Starting { .. } => None,
        }
    }

    /// True while the job waits for a slot.
    pub fn is_queued(&self) -> bool {
        matches!(self.job, Job::Pending { queued: true, .. })
    }

    /// The tasks that must start before this one can.
    pub fn unresolved(&self) -> impl Iterator<Item = &TaskId> {
        let spec = match &self.job {
            Job::Pending { spec, .. } => Some(spec),
            Job::Starting { .. } | Job::Open { .. } | Job::Closed { .. } => None,
        };
        spec.into_iter().flat_map(|spec| spec.unresolved.values())
    }

    /// True while the job takes its slots: from the first attempt until it is known to have ended.
    pub fn holds_slots(&self) -> bool {
        !self.slots.is_empty() && matches!(self.job, Job::Starting { .. } | Job::Open { .. })
    }

    /// The questions that wait for a person.
    pub fn open_questions(&self) -> impl Iterator<Item = &Asked> {
        self.questions.iter().filter(|asked| asked.status == AskedStatus::Open)
    }

    /// True while somebody wants to know how much the job has printed.
    pub fn log_is_followed(&self, now: Timestamp) -> bool {
        self.printed.is_some_and(|printed| printed.wanted_until > now)
    }

    /// Until when somebody wants to know more of the open job than how it stands: how far it has come, or what it prints.
    pub fn wanted_until(&self) -> Option<Timestamp> {
        self.watched_until.max(self.printed.map(|printed| printed.wanted_until))
    }

    /// The number of the newest note.
    pub fn last_note(&self) -> Option<u64> {
        self.notes.last().map(|noted| noted.note.n)
    }

    /// One line on where the task stands, for people and models.
    pub fn status_message(&self) -> Option<String> {
        if !self.has_ended() {
            if let Some(trouble) = &self.trouble {
                return Some(format!("{} (since {})", trouble.reason, trouble.since));
            }
            if self.is_queued() {
                return Some("waiting for a free slot".to_owned());
            }
            if let Some(asked) = self.open_questions().next() {
                return Some(asked.question.message.clone());
            }
            if let Some(id) = self.unresolved().next() {
                return Some(format!("waiting for task {id} to start"));
            }
        }
        self.message.clone()
    }
}
