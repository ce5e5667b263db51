//! What is written into a store and what comes of it: new rows, changes of rows, and the limits and leases that they go by. It must
//! not say how a store does it.

use std::time::Duration;

use taskbridge_sdk::{JobHandle, Output, Timestamp};

use super::Holder;
use crate::tasks::history::Transition;
use crate::tasks::notices::Notice;
use crate::tasks::task::Task;

/// A row to be added.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The row.
    pub task: Task,
    /// The identity of the engine that its backend is connected to, where that is known.
    pub identity: Option<String>,
    /// The most rows that may hold each of the row's slots at once.
    pub limits: Vec<SlotLimit>,
    /// Slots that the row does not take while another row waits for one of them, in whatever line, even where there is room. Behind
    /// those in a line of all its slots it stands in any case.
    pub behind: Vec<String>,
    /// The most that is kept of its owner. Inserts at the same moment may exceed it by their number.
    pub most_kept: Option<Quota>,
    /// The idempotency key of the call, if it has one.
    pub once: Option<Once>,
    /// Whether an abandoned row with this digest serves as well.
    pub attach: Option<Attach>,
    /// Who acts on the row at once, and for how long nobody else may.
    pub lease: Option<(Holder, Duration)>,
    /// What the history says of it, if the row is written.
    pub transition: Option<Transition>,
    /// What is owed to receivers once the row is there.
    pub notices: Vec<Notice>,
}

/// How much is kept of one owner at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Rows.
    pub rows: u32,
    /// Bytes of rows and of their results. A row is counted as it is inserted, and again as it ends.
    pub bytes: u64,
}

/// A caller's idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Whose key it is: the owner, or the session where callers cannot be identified.
    pub scope: String,
    /// The key.
    pub key: String,
    /// Digest of the tool and its arguments.
    pub digest: String,
}

/// The wish to take over a task that nobody was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// [`super::task::Undelivered::digest`].
    pub digest: String,
    /// How long after its call went away a row can be taken over.
    pub within: Duration,
}

/// The most rows that may hold a slot at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLimit {
    /// The slot's name.
    pub slot: String,
    /// How many.
    pub limit: u32,
}

/// What became of an insert.
#[derive(Clone, Debug)]
pub enum Inserted {
    /// The row is there.
    Created(Task),
    /// The idempotency key already stands for this row.
    Existing {
        /// The row.
        task: Task,
        /// True if it was made with the same tool and arguments.
        same: bool,
    },
    /// This abandoned row can be taken over by [`super::machine::Event::Attached`]; nothing was changed on it.
    Abandoned(Task),
    /// A slot is taken up, or others queue for it. Nothing was written.
    NoSlot {
        /// The first slot that is taken up, if one is.
        full: Option<String>,
    },
    /// The owner keeps as many rows as they may. Nothing was written.
    TooMany,
    /// The owner would keep more bytes than they may. Nothing was written.
    TooLarge {
        /// How many bytes are kept.
        kept: u64,
    },
}

/// The largest difference between the time of a decision and the store's clock at which the decision is still written.
pub const MAX_DECISION_AGE: Duration = Duration::from_secs(60);

/// A change of a row.
#[derive(Debug)]
pub struct Change<'a> {
    /// The row as it shall be; `version` is that of the row it was made from.
    pub task: &'a Task,
    /// The time by which the change was decided. The row's own times follow from it.
    pub decided_at: Timestamp,
    /// Its result, if it has one now.
    pub output: Option<&'a Output>,
    /// The limits of its slots; read only if the row takes slots with this change.
    pub limits: &'a [SlotLimit],
    /// What happens to the lease.
    pub lease: Lease<'a>,
    /// What is owed to receivers from now on.
    pub notices: &'a [Notice],
    /// How long the write may be put off, to be made together with others. The method returns when it was made. A store
    /// that gains nothing by that puts nothing off.
    pub patience: Duration,
    /// What the history says of it, if it is written.
    pub transition: Option<&'a Transition>,
}

impl<'a> Change<'a> {
    /// The row, and nothing else: no output, slots, history or notices, and the lease stays.
    pub fn new(task: &'a Task, decided_at: Timestamp) -> Self {
        let (lease, patience) = (Lease::Keep, Duration::ZERO);
        Self { task, decided_at, output: None, limits: &[], lease, notices: &[], patience, transition: None }
    }

    /// True if a change that was decided at this time is not to be written at the other, by the store's clock.
    pub fn is_stale(decided_at: Timestamp, now: Timestamp) -> bool {
        now.since(decided_at).max(decided_at.since(now)) > MAX_DECISION_AGE
    }
}

/// What a change does to a row's lease.
#[derive(Clone, Copy, Debug)]
pub enum Lease<'a> {
    /// Nothing.
    Keep,
    /// It ends, if this holder has it.
    Release(&'a Holder),
    /// This holder has it for this long from now. If somebody else has it, that is a conflict.
    Hold(&'a Holder, Duration),
}

/// What became of a change.
#[derive(Clone, Debug)]
pub enum Updated {
    /// Written; the row's version now is this.
    Written(u64),
    /// Somebody else wrote the row first, or it is gone. Nothing was written.
    Conflict,
    /// This slot is taken up. Nothing was written.
    NoSlot(String),
    /// [`Change::decided_at`] differs from the store's clock by more than [`MAX_DECISION_AGE`]: the process was suspended
    /// since, or one of the clocks was set. Nothing was written.
    Stale,
}

/// A row that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Its backend.
    pub backend: String,
    /// The identity of the engine that its backend was connected to, if that is known.
    pub identity: Option<String>,
    /// The engine's name for its job, if it has one and the row can be understood.
    pub handle: Option<JobHandle>,
}
