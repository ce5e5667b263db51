//! The events of a task, and the result of applying one. Plain data.

use std::time::Duration;

use taskbridge_sdk::{
    Answer, Error, ErrorKind, GroupKey, JobHandle, JobState, Observation, OnBehalfOf, Output, Timestamp,
    sanitize,
};

use crate::tasks::task::{Owner, Task};

/// An input of the state machine.
#[derive(Clone, Debug)]
pub enum Event {
    /// A start is about to be sent. This event must be committed first.
    StartCommitted,
    /// A slot of the job was full, or other rows queue for it, when its start was to be committed.
    NoSlot,
    /// The tasks that the call refers to were read, and none is lost. Those without a handle are read again
    /// later.
    Resolved {
        /// The handles that are known by now, by parameter; may be empty.
        handles: Vec<(String, JobHandle)>,
    },
    /// A task that the call refers to ended without a job, or was deleted.
    ReferenceLost {
        /// The parameter that refers to it.
        parameter: String,
    },
    /// The committed start was not sent, and never will be.
    StartNotSent,
    /// The lease was too old for an engine call. The action is retried a little later.
    LeaseTooOld,
    /// The engine has the job.
    Started {
        /// The engine's name for the job.
        handle: JobHandle,
        /// The group that the job is polled in.
        group: GroupKey,
        /// The first observation, if the reply contained one.
        first: Option<Observation>,
    },
    /// An attempt to start returned no handle.
    StartFailed {
        /// The number of the attempt.
        attempt: u32,
        /// True if an earlier attempt may have reached the engine.
        may_exist: bool,
        /// The error.
        failure: Failure,
    },
    /// A search for a job that is no longer wanted did not find it.
    NotFound,
    /// A search for a job that is no longer wanted failed.
    FindFailed(Failure),
    /// A poll of the job succeeded.
    Observed {
        /// What the engine reported.
        observation: Observation,
        /// When the poll began.
        polled_at: Timestamp,
        /// See [`taskbridge_sdk::Questions::list_lag`].
        list_lag: Duration,
        /// See [`taskbridge_sdk::Backend::start_lag`].
        start_lag: Duration,
        /// The group of the job's new name, if the observation has one ([`Observation::renamed_to`]).
        new_group: Option<GroupKey>,
    },
    /// A poll of the job failed.
    PollFailed(Failure),
    /// A poll crashed the adapter, like so many polls before it that the job is given up.
    PollCrashed {
        /// Number of crashes in a row.
        times: u32,
    },
    /// The engine accepted the cancellation.
    CancelTaken {
        /// See [`taskbridge_sdk::Backend::start_lag`].
        start_lag: Duration,
    },
    /// The call that requests the cancellation failed.
    CancelFailed(Failure),
    /// A client wants the job stopped.
    CancelRequested {
        /// When the client sees the task as cancelled.
        mode: CancelMode,
        /// The person on whose behalf the engine is called; `None` for the person who created the task.
        on_behalf_of: Option<OnBehalfOf>,
    },
    /// A person answered a question.
    Answered {
        /// The key of the question.
        key: String,
        /// The answer; it is valid by the question's schema.
        answer: Answer,
        /// The person who answered.
        by: Answerer,
    },
    /// The engine accepted the answer.
    AnswerTaken {
        /// The key of the question.
        key: String,
    },
    /// The engine no longer wants the answer.
    AnswerTooLate {
        /// The key of the question.
        key: String,
    },
    /// The engine refuses the answer from this person, and waits for an answer from another.
    AnswerNotAllowed {
        /// The key of the question.
        key: String,
    },
    /// The answer could not be sent to the engine, or the engine rejected it.
    AnswerFailed {
        /// The key of the question.
        key: String,
        /// The error.
        failure: Failure,
    },
    /// The question is about to be sent to a client for the first time. The row does not change.
    QuestionSent {
        /// The key of the question.
        key: String,
    },
    /// A plain call received its result.
    ResultDelivered,
    /// The result of the ended task was sent to somebody.
    ResultRead {
        /// The person who asked for it, as the owner of their own tasks.
        by: Owner,
    },
    /// A plain call disconnected before it received its result.
    CallAbandoned,
    /// An equal call takes over the task of a call that disconnected.
    CallAttached {
        /// Until when the new call waits.
        until: Timestamp,
    },
    /// A client wants to know how much the job prints.
    LogFollowed {
        /// Until when.
        until: Timestamp,
    },
    /// A client wants to know the job's progress.
    Watched {
        /// Until when.
        until: Timestamp,
    },
    /// Pending attempts and a poll are due now, whatever failed before. Sent by an operator, and for a hint
    /// whose job another process may poll.
    RetryNow,
    /// Pending answers are due now, and earlier attempts to send them do not count: what those lacked may be
    /// there.
    AnswersDue,
    /// An operator abandoned the task: the outcome of its job stays unknown.
    OutcomeUnknown,
    /// The time for a start is over (`max_wait`, `answer_within` for consent, or `start_within` in an
    /// outage). The deadline of a job is decided by [`Event::Observed`].
    DeadlinePassed,
    /// Nothing happened: the row is written only to change its lease.
    Nothing,
}

impl Event {
    /// Returns true for a poll result that a later poll may contradict: that a job still runs and what it
    /// reports, that the engine does not know it, or that the poll failed. All other events stay true however
    /// late they are written.
    pub fn is_transient(&self) -> bool {
        match self {
            Event::Observed { observation, .. } => {
                !observation.state.has_ended() || observation.state == JobState::Gone
            }
            Event::PollFailed(_) => true,
            _ => false,
        }
    }
}

/// What a cancellation means to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelMode {
    /// An unfinished task is cancelled at once, and stays cancelled whatever the job does.
    Immediate,
    /// The job is asked to stop, and the task ends as the job does. If its start was not sent, the task is
    /// cancelled at once.
    Request,
}

/// The error of a call to an engine, without its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of error, which decides how it is handled.
    pub kind: ErrorKind,
    /// The error text.
    pub message: String,
    /// True if a later attempt cannot learn more.
    pub is_final: bool,
    /// The wait that the engine asks for.
    pub retry_after: Option<Duration>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: sanitize(&error.to_string()).into_owned(),
            is_final: error.is_final(),
            retry_after: error.retry_after(),
        }
    }
}

/// The result of applying an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The row to write.
    pub task: Task,
    /// The result to write with it; it is written once and never changes.
    pub output: Option<Output>,
}

/// A person who gave an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answerer {
    /// The person, as the owner of their own tasks.
    pub owner: Owner,
    /// The person on whose behalf the engine receives the answer, if the task belongs to another owner.
    pub person: Option<OnBehalfOf>,
}

impl From<Owner> for Answerer {
    /// Creates an answerer without credentials of its own: the engine receives the answer on behalf
    /// of the person who created the task.
    fn from(owner: Owner) -> Self {
        Self { owner, person: None }
    }
}
