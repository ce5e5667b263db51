//! A task as the store keeps it: plain data. Only [`super::machine`] changes its state; nothing here decides.

mod asked;
mod job;
mod lifetime;
pub mod slots;
mod terms;

use std::fmt;
use std::time::Duration;

pub use self::terms::{OnExpiry, OnRefusal, TaskPolicy, outcome_grace};
pub use asked::{QuestionSource, QuestionStatus, TaskQuestion};
pub use job::{CancelRequest, EngineOutage, Job, MissingJob, Overdue, RecoverySearch, Spec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use taskbridge_sdk::{JobHandle, JobKey, Note, OnBehalfOf, Progress, Timestamp, Trace};

/// Identifier of a task for its owner. It has 160 random bits, because without authentication the
/// id is the only secret.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(String);

/// Owner of a task. A lookup by a caller finds the tasks of this owner, and those of tools that the caller
/// may read ([`super::store::AccessScope`]). Any other task is "not found".
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(String);

impl TaskId {
    /// Creates an id from these random bytes: 32 lower-case base-32 characters.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }

    /// Creates an id from the text of a caller. Any text is accepted: an unknown id is simply not found.
    pub fn from_wire(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the id as callers see it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Owner {
    /// Creates an owner by name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows the beginning only: more people read logs than may use the task.
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

/// A task: what the client sees, and the work that is pending at the engine.
///
/// The client's view (`state`) and the work at the engine (`job`, `cancel`, `questions`) are separate. A
/// cancelled task stays due until its job is known to have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Identifier of the task.
    pub id: TaskId,
    /// Owner of the task.
    pub owner: Owner,
    /// The tool that was called.
    pub tool: String,
    /// The backend that runs the job.
    pub backend: String,
    /// The idempotency key under which the job starts.
    pub key: JobKey,
    /// Where the call came from, for messages that go back there.
    pub origin: Origin,
    /// The deadlines and rules that were in force when the task was created.
    pub terms: TaskPolicy,
    /// The slots that the job occupies while it may run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// True if the call is refused, instead of queued, when one of the slots is not free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused_when_full: bool,
    /// The arguments of the call, without sensitive ones and files, if its tool keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_arguments: Option<Map<String, Value>>,
    /// The number of the call's variant of the tool, below [`MAX_VARIANTS`](super::pace::usual::MAX_VARIANTS), by the
    /// arguments that decide how long a job takes. `None` if none of them does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<u16>,
    /// The tasks that the call refers to, in the order of its parameters' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refers_to: Vec<TaskId>,
    /// When the row was created.
    pub created_at: Timestamp,
    /// When anything that the client can see last changed.
    pub changed_at: Timestamp,
    /// When the client's state became final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The client's state.
    pub state: TaskState,
    /// The last one-line message of the job, or of whatever ended the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The address of the job in the engine's own pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The progress of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The maximum of `progress.done` so far: reported progress must not go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub furthest: Option<f64>,
    /// Bytes of the files that the backend keeps of the job until the task expires.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_bytes: u64,
    /// The newest notes of the job, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<StoredNote>,
    /// How much the job has printed. Set when a client wants to know, and removed by a later poll when no
    /// client does any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<LogSize>,
    /// Until when a client wants to know the job's progress, unless it asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_until: Option<Timestamp>,
    /// The state of the job in the engine.
    pub job: Job,
    /// Set when the job is to be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
    /// All questions of this task, in order. Old closed ones may be dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<TaskQuestion>,
    /// Set from a failed start or poll until the next one that succeeds, or the end of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<EngineOutage>,
    /// Set after a poll that failed past a deadline of the job, until a poll succeeds or the task ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<Overdue>,
    /// Set while the engine does not know the open job, until it counts as lost, is found, or a poll fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingJob>,
    /// When the open job is to be polled outside its group's schedule, by request of an operator or
    /// after a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<Timestamp>,
    /// Set on the task of a plain call ([`super::service::BlockingCall`]) until the call has received the
    /// result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelivered: Option<Undelivered>,
    /// When the result of the ended task was first sent to somebody, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_read_at: Option<Timestamp>,
    /// When the reconciler must process this row again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Number of writes of the row; the store compares it.
    #[serde(skip)]
    pub version: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A note of the job, as a row keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredNote {
    /// The note.
    #[serde(flatten)]
    pub note: Note,
    /// When it was first seen, by the store's clock.
    pub seen_at: Timestamp,
}

/// What the client of a task reads if the engine has no way to stop its job.
pub const CANNOT_BE_CANCELLED: &str = "the engine cannot stop this job, so it runs to its end";

/// Expiry of a task that has not ended: 9999-12-31T23:59:59Z.
pub const NEVER: Timestamp = Timestamp::from_millis(253_402_300_799_000);

/// How long after its start a job counts as watched without a request: its caller has just called.
pub const INITIAL_WATCH: Duration = Duration::from_secs(60);

/// How much a job has printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSize {
    /// Number of bytes; 0 before the first poll.
    pub bytes: u64,
    /// Until when a client wants to know, unless it asks again.
    pub wanted_until: Timestamp,
}

/// Where a call came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The channel: the name by which a front end groups tasks and subscribes to their changes.
    #[serde(default, rename = "session", skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Data of the front end, which the core keeps and does not read. Its names are stored next to the others
    /// here, so they must differ from these.
    #[serde(flatten)]
    pub front_end: Map<String, Value>,
    /// The trace that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The person who requested the task. Every process acts on the job on their behalf, at any
    /// time, except for answers and cancellations by others. `None` for an unidentified caller, and
    /// for tasks of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// The client's state. It is internal: wire statuses are rendered from it, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not ended, and no question is open.
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
    /// The job succeeded.
    Succeeded,
    /// The job ran and failed, its output does not fit the tool's schema, the engine rejected it, or a rule
    /// failed the task: a full slot, a lost reference, an invalid or unanswered question, `on_decline` or
    /// `on_dismiss`.
    Failed,
    /// It was cancelled by a client, an operator or the engine, or a person refused a question (the consent
    /// before the start, or by `on_decline` or `on_dismiss`).
    Cancelled,
    /// It could not be run or tracked, or it ran longer than `max_runtime`.
    Broken,
}

impl Outcome {
    /// Returns the name of the outcome.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Broken => "broken",
        }
    }
}

/// A plain call that has not received its result. After `waiting_until` the task is abandoned: an equal call
/// may take it over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undelivered {
    /// Digest of owner, tool and arguments. Calls with the same digest are equal.
    pub digest: String,
    /// Until when the call that created the task, or took it over, counts as waiting.
    pub waiting_until: Timestamp,
}

impl Task {
    /// Returns true if the client's state is final.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, TaskState::Ended(_))
    }

    /// Returns how the task ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            TaskState::Ended(outcome) => Some(outcome),
            TaskState::Working | TaskState::InputRequired => None,
        }
    }

    /// Returns the engine's name for the job, once it has one.
    pub fn handle(&self) -> Option<&JobHandle> {
        match &self.job {
            Job::Open { handle, .. } => Some(handle),
            Job::Closed { handle } => handle.as_ref(),
            Job::Pending { .. } | Job::Starting { .. } => None,
        }
    }

    /// Returns since when the job runs towards its end: neither a question, an outage nor a cancellation decides
    /// when it ends. `None` before its engine accepted it, and once it ended.
    pub fn running_since(&self) -> Option<Timestamp> {
        match &self.job {
            Job::Open { started_at, .. }
                if self.state == TaskState::Working && self.trouble.is_none() && self.cancel.is_none() =>
            {
                Some(*started_at)
            }
            _ => None,
        }
    }

    /// Returns true while the job waits for a slot.
    pub fn is_queued(&self) -> bool {
        matches!(self.job, Job::Pending { queued: true, .. })
    }

    /// Returns the tasks that must start before this one can.
    pub fn unresolved(&self) -> impl Iterator<Item = &TaskId> {
        let spec = match &self.job {
            Job::Pending { spec, .. } => Some(spec),
            Job::Starting { .. } | Job::Open { .. } | Job::Closed { .. } => None,
        };
        spec.into_iter().flat_map(|spec| spec.unresolved.values())
    }

    /// Returns true while the job occupies its slots: a start may have been sent, and the job is neither
    /// known to have ended nor given up.
    pub fn holds_slots(&self) -> bool {
        !self.slots.is_empty() && matches!(self.job, Job::Starting { .. } | Job::Open { .. })
    }

    /// Returns the questions that wait for a person.
    pub fn open_questions(&self) -> impl Iterator<Item = &TaskQuestion> {
        self.questions.iter().filter(|question| question.status == QuestionStatus::Open)
    }

    /// Returns true while a client wants to know how much the job has printed.
    pub fn log_is_followed(&self, now: Timestamp) -> bool {
        self.printed.is_some_and(|log_size| log_size.wanted_until > now)
    }

    /// Returns until when a client wants more than the state of the open job: its progress or its output.
    pub fn wanted_until(&self) -> Option<Timestamp> {
        self.watched_until.max(self.printed.map(|log_size| log_size.wanted_until))
    }

    /// Returns the number of the newest note.
    pub fn last_note(&self) -> Option<u64> {
        self.notes.last().map(|stored| stored.note.n)
    }

    /// Returns true if the job was to be stopped, and its engine has no way to do so.
    pub fn cannot_be_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.unsupported)
    }

    /// Returns the status as one line for people and models.
    pub fn status_message(&self) -> Option<String> {
        if !self.has_ended() {
            if let Some(outage) = &self.trouble {
                return Some(format!("{} (since {})", outage.reason, outage.since));
            }
            if self.is_queued() {
                return Some("waiting for a free slot".to_owned());
            }
            if let Some(task_question) = self.open_questions().next() {
                return Some(task_question.question.message.clone());
            }
            if let Some(id) = self.unresolved().next() {
                return Some(format!("waiting for task {id} to start"));
            }
            if self.cannot_be_cancelled() {
                let message = self.message.as_ref().map(|message| format!(" ({message})"));
                return Some(format!("{CANNOT_BE_CANCELLED}{}", message.unwrap_or_default()));
            }
        }
        self.message.clone()
    }
}
