//! What can happen to a task, and what comes of it. Plain data.

use std::time::Duration;

use taskbridge_sdk::{
    Answer, Error, ErrorKind, GroupKey, JobHandle, Observation, OnBehalfOf, Output, Timestamp, harmless,
};

use crate::tasks::task::{Owner, Task};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A start is about to be sent: commit this first.
    Intended,
    /// The job's slots were all taken when its start was to be committed.
    NoSlot,
    /// The jobs of some tasks that the call refers to have handles now.
    Resolved {
        /// The handles, by parameter.
        handles: Vec<(String, JobHandle)>,
    },
    /// A task that the call refers to ended without a job.
    ReferenceLost {
        /// The parameter that names it.
        parameter: String,
    },
    /// The start that was committed was not sent after all, and never will be.
    Unsent,
    /// The lease had grown too old for a call before one could be made: it is tried again a little later.
    LeaseTooOld,
    /// The engine has the job.
    Started {
        /// The engine's name for it.
        handle: JobHandle,
        /// The group that it is watched in.
        group: GroupKey,
        /// What was already seen of it.
        first: Option<Observation>,
    },
    /// An attempt to start did not bring a handle.
    StartFailed {
        /// Which attempt.
        attempt: u32,
        /// True if an earlier attempt may have reached the engine.
        may_exist: bool,
        /// How it failed.
        failure: Failure,
    },
    /// A search for a job that is no longer wanted did not find it.
    NotFound,
    /// Such a search could not be made.
    FindFailed(Failure),
    /// A poll of the job.
    Observed {
        /// What the engine reported.
        seen: Observation,
        /// When the poll began.
        began: Timestamp,
        /// See [`taskbridge_sdk::Questions::list_lag`].
        list_lag: Duration,
    },
    /// A look that failed.
    LookFailed(Failure),
    /// A look crashed the adapter, as each one did before it.
    LookCrashed {
        /// How many in a row.
        times: u32,
    },
    /// The engine took the request to stop.
    CancelTaken {
        /// See [`taskbridge_sdk::Backend::start_lag`].
        start_lag: Duration,
    },
    /// It did not.
    CancelFailed(Failure),
    /// A client wants the job stopped.
    CancelRequested {
        /// When the client counts it as cancelled.
        mode: Cancel,
        /// On whose behalf the engine is asked, if not on that of whoever asked for the task.
        on_behalf_of: Option<OnBehalfOf>,
    },
    /// A person answered.
    Answered {
        /// Which question.
        key: String,
        /// What they said; it fits the question's schema.
        answer: Answer,
        /// Who they are.
        by: Answerer,
    },
    /// The engine has the answer.
    AnswerTaken {
        /// To which question.
        key: String,
    },
    /// The engine no longer wants the answer.
    AnswerTooLate {
        /// To which question.
        key: String,
    },
    /// The engine does not take the answer from whoever gave it, and waits for somebody else's.
    AnswerNotAllowed {
        /// To which question.
        key: String,
    },
    /// The answer could not be handed over.
    AnswerFailed {
        /// To which question.
        key: String,
        /// How it failed.
        failure: Failure,
    },
    /// A stream is about to carry the question as its `n`-th message, or is still open with it.
    Delivering {
        /// Which question.
        key: String,
        /// Which message.
        n: u32,
        /// Until when the stream counts as open.
        until: Timestamp,
    },
    /// The message is out no longer.
    DeliveryEnded {
        /// Which question.
        key: String,
        /// Which message.
        n: u32,
        /// True if the client has dealt with it; false if its stream broke, and perhaps nobody saw it.
        over: bool,
        /// Why the answer to it was not taken, if there was one.
        problem: Option<String>,
    },
    /// A plain call was answered.
    Delivered,
    /// A plain call went away before it was answered.
    Abandoned,
    /// An equal call takes over the task of one that went away.
    Attached {
        /// Until when it waits.
        until: Timestamp,
    },
    /// Somebody wants to know until then how much the job prints.
    LogFollowed {
        /// Until when.
        until: Timestamp,
    },
    /// Somebody wants to know until then how far the job comes.
    Watched {
        /// Until when.
        until: Timestamp,
    },
    /// An operator wants what is owed done now, whatever failed before.
    RetryNow,
    /// An operator gave the task up: how its job ends will not be known.
    OutcomeUnknown,
    /// The time to wait for a start is over. The deadline of a job is decided by [`Event::Observed`].
    DeadlinePassed,
    /// Nothing: the row is written for its lease alone.
    Nothing,
}

impl Event {
    /// True for what a look saw at one moment and another look may see otherwise: that a job runs on and what it says, or
    /// that nothing can be seen. All else stays true however late it is written.
    pub fn passes(&self) -> bool {
        match self {
            Event::Observed { seen, .. } => !seen.state.has_ended(),
            Event::LookFailed(_) => true,
            _ => false,
        }
    }
}

/// What a cancellation means to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// The task is cancelled at once, and stays so whatever the job does.
    Settle,
    /// The job is asked to stop, and the task ends as the job does.
    Request,
}

/// How an attempt against an engine failed, without its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What must be done about it.
    pub kind: ErrorKind,
    /// What happened, in words.
    pub message: String,
    /// True if a later attempt cannot learn more.
    pub is_final: bool,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: harmless(&error.to_string()).into_owned(),
            is_final: error.is_final(),
        }
    }
}

/// What comes of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The row as it is to be written.
    pub task: Task,
    /// The result that is to be written with it, once and for all.
    pub output: Option<Output>,
}

/// Somebody who gave an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answerer {
    /// The owner of their own tasks.
    pub owner: Owner,
    /// The person, where the task is somebody else's: the engine is told the answer as them.
    pub person: Option<OnBehalfOf>,
}

impl From<Owner> for Answerer {
    /// The owner of the task, or nobody in particular.
    fn from(owner: Owner) -> Self {
        Self { owner, person: None }
    }
}
