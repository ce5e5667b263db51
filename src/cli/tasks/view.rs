//! A task as `list`, `show` and `export` present it: no arguments, results, answers or sealed values. Pure.

use serde::{Serialize, Serializer};
use taskbridge_sdk::{Progress, Timestamp};

use crate::store::survey::SurveyRow;
use crate::tasks::history::{EngineCall, Fact, HistoryEntry};
use crate::tasks::task::{Job, QuestionSource, QuestionStatus, Task, TaskState};

/// A row. Programs rely on the field names: fields are only added.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TaskView {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) tool: String,
    pub(super) backend: String,
    /// `working`, `input_required`, `succeeded`, `failed`, `cancelled` or `broken`.
    pub(super) state: &'static str,
    /// `queued`, `pending`, `starting`, `open` or `closed`.
    pub(super) job: &'static str,
    pub(super) key: String,
    pub(super) handle: Option<String>,
    pub(super) group: Option<String>,
    /// Number of start attempts, while the job is not open yet.
    pub(super) attempts: Option<u32>,
    #[serde(serialize_with = "moment")]
    pub(super) created_at: Timestamp,
    #[serde(serialize_with = "moment")]
    pub(super) changed_at: Timestamp,
    #[serde(serialize_with = "maybe")]
    pub(super) ended_at: Option<Timestamp>,
    /// `None` until the task has ended.
    #[serde(serialize_with = "maybe")]
    pub(super) expires_at: Option<Timestamp>,
    #[serde(serialize_with = "maybe")]
    pub(super) due_at: Option<Timestamp>,
    pub(super) message: Option<String>,
    pub(super) progress: Option<Progress>,
    pub(super) slots: Vec<String>,
    pub(super) cancel: Option<CancelView>,
    pub(super) questions: Vec<QuestionView>,
    pub(super) trouble: Option<OutageView>,
    pub(super) lease: Option<LeaseView>,
    pub(super) result_kept: bool,
    pub(super) version: u64,
}

/// A cancellation request.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CancelView {
    #[serde(serialize_with = "moment")]
    pub(super) at: Timestamp,
    pub(super) taken: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) unsupported: bool,
    pub(super) failed: u32,
}

/// A question without its content.
#[derive(Clone, Debug, Serialize)]
pub(super) struct QuestionView {
    pub(super) key: String,
    /// `bridge` (consent before the start) or `job`.
    pub(super) asker: &'static str,
    #[serde(serialize_with = "moment")]
    pub(super) at: Timestamp,
    /// `open`, `answered`, `visiting` or `closed`.
    pub(super) status: &'static str,
    /// The principal whose answer was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answered_by: Option<String>,
}

/// Why the engine is unavailable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OutageView {
    #[serde(serialize_with = "moment")]
    pub(super) since: Timestamp,
    pub(super) reason: String,
}

/// The replica that currently works on the task.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LeaseView {
    pub(super) replica: String,
    #[serde(serialize_with = "moment")]
    pub(super) until: Timestamp,
}

/// A row with its history: one line of `export`.
#[derive(Serialize)]
pub(super) struct ExportLine<'h> {
    #[serde(flatten)]
    view: TaskView,
    history: Vec<EntryView<'h>>,
}

#[derive(Serialize)]
struct EntryView<'h> {
    #[serde(serialize_with = "moment")]
    at: Timestamp,
    version: u64,
    replica: &'h str,
    what: &'h [Fact],
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<EngineCall>,
}

fn moment<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn maybe<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

/// Returns the client state in one word.
pub(super) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Working => "working",
        TaskState::InputRequired => "input_required",
        TaskState::Ended(outcome) => outcome.as_str(),
    }
}

impl TaskView {
    /// Creates the view of a row that could be parsed.
    pub(super) fn of(row: &SurveyRow, task: &Task) -> Self {
        let (job, attempts) = match &task.job {
            Job::Pending { queued: true, attempts, .. } => ("queued", Some(*attempts)),
            Job::Pending { attempts, .. } => ("pending", Some(*attempts)),
            Job::Starting { attempts, .. } => ("starting", Some(*attempts)),
            Job::Open { .. } => ("open", None),
            Job::Closed { .. } => ("closed", None),
        };
        let group = match &task.job {
            Job::Open { group, .. } => Some(group.as_str().to_owned()),
            Job::Pending { .. } | Job::Starting { .. } | Job::Closed { .. } => None,
        };
        let questions = task.questions.iter().map(|question| QuestionView {
            key: question.key.clone(),
            asker: match question.asker {
                QuestionSource::Confirm => "bridge",
                QuestionSource::Job => "job",
            },
            at: question.at,
            status: match question.status {
                QuestionStatus::Open => "open",
                QuestionStatus::Answered { .. } => "answered",
                QuestionStatus::Visiting => "visiting",
                QuestionStatus::Closed => "closed",
            },
            answered_by: question.answered_by.as_ref().map(|by| by.as_str().to_owned()),
        });
        let lease = row.holder.clone().zip(row.lease_until);
        Self {
            id: task.id.as_str().to_owned(),
            owner: task.owner.as_str().to_owned(),
            tool: task.tool.clone(),
            backend: task.backend.clone(),
            state: state(task.state),
            job,
            key: task.key.as_str().to_owned(),
            handle: task.handle().map(|handle| handle.as_str().to_owned()),
            group,
            attempts,
            created_at: task.created_at,
            changed_at: task.changed_at,
            ended_at: task.ended_at,
            expires_at: task.ended_at.map(|_| task.kept_until()),
            due_at: task.due_at,
            message: task.message.clone(),
            progress: task.progress,
            slots: task.slots.clone(),
            cancel: task.cancel.as_ref().map(|cancel| CancelView {
                at: cancel.at,
                taken: cancel.taken,
                unsupported: cancel.unsupported,
                failed: cancel.attempts,
            }),
            questions: questions.collect(),
            trouble: task
                .trouble
                .as_ref()
                .map(|trouble| OutageView { since: trouble.since, reason: trouble.reason.clone() }),
            lease: lease.map(|(replica, until)| LeaseView { replica, until: Timestamp::from_millis(until) }),
            result_kept: row.has_output,
            version: task.version,
        }
    }

    /// Adds the history to the row.
    pub(super) fn with_history(self, history: &[HistoryEntry]) -> ExportLine<'_> {
        let history = history.iter().map(|entry| EntryView {
            at: entry.at,
            version: entry.version,
            replica: &entry.transition.replica,
            what: &entry.transition.what,
            call: entry.transition.call,
        });
        ExportLine { view: self, history: history.collect() }
    }
}
