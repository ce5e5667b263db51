//! What clients were promised, and the last snapshot of each row. The checks compare the two; this file must
//! not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_core::tasks::task::{Outcome, Owner, Task, TaskId};
use taskbridge_sdk::{Output, Timestamp};

use super::calls::PlannedCall;

/// The expected outcome of a call without a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Success with this text.
    Text(String),
    /// Success, and the output contains this number of answers.
    Answered(usize),
    /// The job fails.
    Failure,
    /// The engine forgets the job.
    Gone,
    /// The job runs until it is stopped.
    Endless,
    /// The job ignores cancels and runs until its deadline.
    Stubborn,
    /// Every poll of the job crashes the adapter.
    Poison,
    /// Nothing: another owner could read the task.
    Private,
    /// Nothing: a client read another state after a terminal one.
    Unseen,
}

/// What a client knows about a request of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ack {
    /// Not sent, or refused.
    #[default]
    NotSent,
    /// Sent; the response was lost or failed.
    Unknown,
    /// Sent, and confirmed.
    Confirmed,
}

/// A task id that a client received, with the expected outcome.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) id: TaskId,
    pub(super) owner: Owner,
    pub(super) expected: Expected,
    /// The job's own duration.
    pub(super) job_duration: Duration,
    /// When the call was made, by the world's clock.
    pub(super) called_at: Timestamp,
    pub(super) idempotency_key: Option<String>,
    /// The first terminal state that was read.
    pub(super) terminal_outcome: Option<Outcome>,
    /// True once a cancel was sent.
    pub(super) cancelled: bool,
    /// Whether its owner declined the start.
    pub(super) declined: Ack,
    /// Whether its owner accepted the start.
    pub(super) consented: Ack,
    /// True if the tool requires consent.
    pub(super) asks_consent: bool,
    /// True once an operator abandoned it.
    pub(super) given_up: bool,
}

impl Promise {
    /// Creates the promise of a call, before any other request.
    pub(super) fn of(id: TaskId, planned: &PlannedCall, called_at: Timestamp) -> Self {
        Self {
            id,
            owner: planned.call.owner.clone(),
            expected: planned.expected.clone(),
            job_duration: planned.job_duration,
            called_at,
            idempotency_key: planned
                .call
                .idempotency_key
                .as_ref()
                .map(|idempotency_key| idempotency_key.key.clone()),
            terminal_outcome: None,
            cancelled: false,
            declined: Ack::NotSent,
            consented: Ack::NotSent,
            asks_consent: planned.call.confirm.is_some(),
            given_up: false,
        }
    }
}

/// The last state of a row.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) task: Task,
    pub(super) output: Option<Output>,
    /// When it was first read as ended, by the world's clock.
    pub(super) ended_at: Option<Timestamp>,
}

/// Everything that is recorded in a world.
#[derive(Default)]
pub(super) struct Record {
    pub(super) promises: Vec<Promise>,
    /// The answers sent for each task, each with a unique number.
    pub(super) answers: HashMap<TaskId, Vec<(u64, Ack)>>,
    /// Tasks whose result was delivered to a plain call, and the time of that commit.
    pub(super) delivered: HashMap<TaskId, Timestamp>,
    /// The last snapshot of each task, even after its row was deleted.
    pub(super) snapshots: HashMap<TaskId, Snapshot>,
    /// Deleted rows whose deletion was checked.
    pub(super) deleted: HashSet<TaskId>,
    /// The rows in the store at the last check.
    pub(super) present: HashSet<TaskId>,
}

/// A record shared by all clients of a world.
pub(super) type SharedRecord = Arc<Mutex<Record>>;

impl Record {
    /// Updates every promise of this task.
    pub(super) fn update_promises(&mut self, id: &TaskId, update: impl Fn(&mut Promise)) {
        self.promises.iter_mut().filter(|promise| promise.id == *id).for_each(update);
    }

    /// Records what a client read.
    pub(super) fn record_read(&mut self, task: &Task) {
        self.update_promises(&task.id, |promise| {
            promise.terminal_outcome = promise.terminal_outcome.or(task.outcome())
        });
    }
}
