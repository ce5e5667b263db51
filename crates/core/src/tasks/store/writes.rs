//! The write requests of a store and their results: new rows, changes of rows, limits and leases. It must
//! not define how a store executes them.

use std::time::Duration;

use taskbridge_sdk::{JobHandle, Output, Timestamp};

use super::Holder;
use crate::tasks::history::Transition;
use crate::tasks::notices::Notice;
use crate::tasks::task::Task;

/// A row to insert.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The row.
    pub task: Task,
    /// The identity of the engine that its backend is connected to, if known.
    pub identity: Option<String>,
    /// The limits of the row's slots.
    pub limits: Vec<SlotLimit>,
    /// Slots whose queues have precedence: the row is not inserted while another row waits for one of them,
    /// even if the slot is free. Rows that wait for exactly the same slots always have precedence.
    pub queue_behind: Vec<String>,
    /// The storage quota of its owner. Concurrent inserts may exceed it by their number.
    pub quota: Option<Quota>,
    /// The idempotency key of the call, if it has one.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Set if the call accepts an abandoned row with this digest instead of a new one.
    pub attach: Option<AttachRequest>,
    /// The holder that acts on the row at once, and the length of its lease.
    pub lease: Option<(Holder, Duration)>,
    /// The history entry to write with the row.
    pub transition: Option<Transition>,
    /// The notices to write with the row.
    pub notices: Vec<Notice>,
}

/// The storage quota of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The maximum number of rows.
    pub rows: u32,
    /// The maximum bytes of rows and their results. The size of a row is measured when it is inserted and
    /// updated when it ends.
    pub bytes: u64,
}

/// A caller's idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The scope of the key: the owner, or the channel if callers cannot be identified.
    pub scope: String,
    /// The key.
    pub key: String,
    /// Digest of the tool and its arguments.
    pub digest: String,
}

/// A request to take over an abandoned task: its plain call disconnected, so no client has received its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachRequest {
    /// The digest of the call; see [`crate::tasks::task::Undelivered::digest`].
    pub digest: String,
    /// How long after its call disconnected a row can be taken over.
    pub within: Duration,
}

/// The maximum number of rows that hold a slot at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLimit {
    /// The slot's name.
    pub slot: String,
    /// The limit.
    pub limit: u32,
}

/// The result of an insert.
#[derive(Clone, Debug)]
pub enum InsertResult {
    /// The row was inserted.
    Created(Task),
    /// The idempotency key already belongs to this row.
    Existing {
        /// The row.
        task: Task,
        /// True if it was created with the same tool and arguments.
        same: bool,
    },
    /// The store found this abandoned row and did not change it. The caller attaches to it with
    /// [`crate::tasks::machine::Event::CallAttached`].
    Abandoned(Task),
    /// A slot is full, or other rows queue for it. Nothing was written.
    NoSlot {
        /// The first slot that is full, if any.
        slot: Option<String>,
    },
    /// The owner's quota of rows is used up. Nothing was written.
    TooMany,
    /// The row would exceed the owner's quota of bytes. Nothing was written.
    TooLarge {
        /// The bytes that are stored now.
        stored_bytes: u64,
    },
}

/// The maximum difference between the decision time of a change and the store's clock. A change with a larger
/// difference is not written.
pub const MAX_DECISION_AGE: Duration = Duration::from_secs(60);

/// A change of a row.
#[derive(Debug)]
pub struct Change<'a> {
    /// The new row; its `version` is that of the row it is based on.
    pub task: &'a Task,
    /// The time of the decision. The row's own times derive from it.
    pub decided_at: Timestamp,
    /// The result of the task, if it has one now.
    pub output: Option<&'a Output>,
    /// The limits of its slots; read only if the row takes slots with this change.
    pub limits: &'a [SlotLimit],
    /// The change of the lease.
    pub lease: Lease<'a>,
    /// The notices to write with the row.
    pub notices: &'a [Notice],
    /// How long the write may be delayed to be batched with others. The update returns after the commit in
    /// any case. A store that does not benefit from batching does not delay.
    pub batch_delay: Duration,
    /// The history entry to write with the row.
    pub transition: Option<&'a Transition>,
}

impl<'a> Change<'a> {
    /// Creates a change of the row only: no output, slots, history or notices. The lease is kept.
    pub fn new(task: &'a Task, decided_at: Timestamp) -> Self {
        let (lease, batch_delay) = (Lease::Keep, Duration::ZERO);
        Self {
            task,
            decided_at,
            output: None,
            limits: &[],
            lease,
            notices: &[],
            batch_delay,
            transition: None,
        }
    }

    /// Returns true if a change decided at this time is too old or too new to be written at `now` of the
    /// store's clock.
    pub fn is_stale(decided_at: Timestamp, now: Timestamp) -> bool {
        now.since(decided_at).max(decided_at.since(now)) > MAX_DECISION_AGE
    }
}

/// The effect of a change on a row's lease.
#[derive(Clone, Copy, Debug)]
pub enum Lease<'a> {
    /// The lease is unchanged.
    Keep,
    /// The lease ends, if this holder owns it.
    Release(&'a Holder),
    /// This holder owns the lease for this long from now. It is a conflict if another holder owns it.
    Acquire(&'a Holder, Duration),
}

/// The result of a change.
#[derive(Clone, Debug)]
pub enum UpdateResult {
    /// The change was written; the row now has this version.
    Written(u64),
    /// Another writer changed the row first, the row was deleted, or (only with [`Lease::Acquire`])
    /// another holder has the lease. Nothing was written.
    Conflict,
    /// This slot is full. Nothing was written.
    NoSlot(String),
    /// [`Change::decided_at`] differs from the store's clock by more than [`MAX_DECISION_AGE`]: the process
    /// was suspended in between, or one of the clocks was set. Nothing was written.
    Stale,
}

/// A deleted row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedRow {
    /// Its backend.
    pub backend: String,
    /// The identity of the engine that its backend was connected to, if known.
    pub identity: Option<String>,
    /// The job's handle, if it has one and the row can be parsed.
    pub handle: Option<JobHandle>,
}
