//! The storage traits for tasks and leases. A store keeps and compares data; it must not decide anything
//! about a task.
//!
//! The store compares times by its own clock, so that processes with different clocks agree about leases.
//! Every method is one transaction: it is atomic, and its effect is durable when the method returns.

mod reads;
pub mod time;
mod writes;

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::{Output, Timestamp};

use super::history::HistoryEntry;
use super::meter::Phase;
use super::notices::Notice;
use super::pace::usual::UsualDuration;
use super::task::{Owner, Task, TaskId};

pub use reads::{
    AccessScope, BoundedOutput, ClaimRequest, ClaimResult, Group, OpenJob, Position, ServedBackend,
};
pub use writes::{
    AttachRequest, Change, DeletedRow, IdempotencyKey, InsertResult, Lease, MAX_DECISION_AGE, NewTask, Quota,
    SlotLimit, UpdateResult,
};

/// The result of a store operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store operation failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store is unavailable for now (locked, unreachable, out of space). Nothing was written, with one
    /// exception: if the store is remote and its reply was lost, the outcome is unknown.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The stored data is invalid, or the store rejects invalid data. A retry does not help.
    #[error("the store is broken: {0}")]
    Broken(String),
    /// One row cannot be parsed. All other rows are usable, and a retry does not help.
    #[error("{0}")]
    Unreadable(String),
}

/// The random id of a process that owns leases. Each start creates a new one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(pub String);

/// Tasks. The behaviour suite (`store::suite`) has a test for every bullet.
///
/// A row that cannot be parsed is an error in a lookup by id. All other methods report it to the operator
/// and skip it, so that it hides no other row.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Inserts a row with version 1.
    ///
    /// - If a row of its scope already has the `idempotency_key`, nothing is written and that row is
    ///   returned. An expired row no longer has its key.
    /// - If the owner has `quota.rows` rows that are not deleted, nothing is written. The same applies if
    ///   these rows and the new one exceed the byte limit.
    /// - If one of the row's slots is full, or rows queue for the same slots or for one of
    ///   `queue_behind`, nothing is written. This does not apply to a row that is itself queued.
    /// - If an abandoned row (no call waits for it, [`super::task::Undelivered`]) has the digest in `attach`,
    ///   that row is returned unchanged. The only write is that the `idempotency_key` then maps to it.
    /// - With `lease`, the row is inserted with a lease: no other process can claim it before the lease
    ///   expires.
    /// - If the future is dropped before it returns, the insert is still atomic. It completes before any
    ///   write to that row that this process begins later.
    async fn insert(&self, new: NewTask) -> Result<InsertResult>;

    /// Returns one row by id and scope, in one query. A row out of scope, an expired row and a missing row
    /// give the same result. Without a scope, the owner and the expiry are ignored (for the reconciler).
    async fn get(&self, id: &TaskId, scope: Option<AccessScope<'_>>) -> Result<Option<Task>>;

    /// Returns the result that was written when the task ended; `None` if there is none.
    async fn output(&self, id: &TaskId) -> Result<Option<Output>>;

    /// Returns the result, unless it is stored in more than `max_bytes` bytes. In that case only its size is
    /// read and returned.
    async fn output_within(&self, id: &TaskId, max_bytes: usize) -> Result<BoundedOutput>;

    /// Returns at most `limit` rows of an owner that have not expired, newest first, starting after `after`.
    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>>;

    /// Returns the rows of a channel ([`super::task::Origin::channel`]) that have not ended, oldest first.
    async fn of_channel(&self, channel: &str) -> Result<Vec<Task>>;

    /// Writes the row if its version is still `task.version`, and increments the version.
    ///
    /// - The output is stored with the row. An output that is already stored is not replaced.
    /// - If the row takes slots with this change and one of them is full, nothing is written.
    /// - If the change's decision time differs from the store's clock by more than [`MAX_DECISION_AGE`],
    ///   nothing is written.
    /// - `Lease::Release` ends the lease if the holder owns it. `Lease::Acquire` gives the lease to the
    ///   holder; if another holder owns it, that is a conflict. `Lease::Keep` leaves it unchanged.
    async fn update(&self, change: Change<'_>) -> Result<UpdateResult>;

    /// Leases due rows of a connected backend that have no lease, and increments their versions.
    ///
    /// - Owners are served round-robin, starting after the request's cursor. For each owner, the row that
    ///   has been due longest comes first.
    /// - Rows of another engine under the same backend name are skipped. A row without an identity gets the
    ///   identity in the request.
    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<ClaimResult>;

    /// Returns at most `limit` due rows of a connected backend that have no lease, ordered by due time and
    /// id, starting after `after`. Leases nothing.
    async fn list_due(
        &self,
        served: &ServedBackend,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>>;

    /// Assigns the connected identity to this backend's rows that have pending work and no identity. Returns
    /// the other identities that such rows of this name have, with the number of rows for each. Does nothing
    /// without an identity.
    async fn adopt(&self, served: &ServedBackend) -> Result<Vec<(String, u64)>>;

    /// Deletes expired rows whose job is closed, with all related data. Returns them, at most `limit`. A row
    /// is expired only when both `now` and the store's clock are past its expiry. A process that was
    /// suspended while the clock was set back therefore deletes nothing by its old time. Writes nothing if
    /// nothing has expired.
    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<DeletedRow>>;

    /// Returns, for each of these backends, the earliest time at which an unleased row is due or the lease
    /// on a due row expires.
    async fn next_due(&self, served: &[ServedBackend]) -> Result<Vec<Option<Timestamp>>>;
}

/// The rows that wait for slots. A queue is all rows that wait for the same set of slots.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Returns the first row of every queue that belongs to a connected backend and can be parsed, oldest
    /// first.
    async fn queue_heads(&self, served: &[ServedBackend]) -> Result<Vec<Task>>;

    /// Returns the number of rows ahead of this one in its queue.
    async fn ahead(&self, task: &Task) -> Result<u64>;
}

/// The groups in which open jobs are watched. Only one process at a time watches a group.
#[async_trait]
pub trait Groups: Send + Sync {
    /// Leases the groups that have open jobs of these backends and that no other holder has leased, and
    /// renews the leases of `holder`. Returns all groups that it now has. A lease of `holder` on any other
    /// group is ended: the group has no open jobs, or its backend is not in `served`. The leases of one group
    /// under two identities ([`ServedBackend::lease_name`]) are independent.
    async fn acquire_groups(
        &self,
        holder: &Holder,
        lease: Duration,
        served: &[ServedBackend],
    ) -> Result<Vec<Group>>;

    /// Releases this holder's leases on groups.
    async fn release_groups(&self, holder: &Holder) -> Result<()>;

    /// Releases all leases of this holder, on groups, rows and notices.
    async fn release_all(&self, holder: &Holder) -> Result<()>;

    /// Ends all leases of holders that are proven dead. Returns true if there were any. A store that cannot
    /// prove it lets the leases expire.
    async fn release_dead_holders(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the open jobs of a group whose rows were opened at or after `opened_since`, without jobs of
    /// an engine with another identity.
    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>>;

    /// Returns the open jobs of a group for which a client wants more than the state, by the store's clock
    /// ([`Task::wanted_until`]).
    async fn watched_jobs(&self, group: &Group) -> Result<Vec<TaskId>>;
}

/// The notices that are pending for receivers. A notice is written with the change that caused it:
/// [`NewTask::notices`], [`Change::notices`]. A notice that already exists is not written again.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Leases up to `limit` due notices for this receiver, the longest due first. A notice that was not
    /// acknowledged is returned again when its lease has expired.
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedNotice>>;

    /// Acknowledges a notice: it is no longer pending, even if another holder has its lease.
    async fn ack_notice(&self, notice: &Notice) -> Result<()>;

    /// Makes the notice due again after `pause`, because the receiver did not accept it. Does nothing if
    /// another holder has leased it since.
    async fn retry_notice_later(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()>;

    /// Deletes notices that have been pending since before this time. Returns their number.
    async fn delete_notices(&self, which: ReceiverFilter<'_>, before: Timestamp) -> Result<usize>;
}

/// The receivers whose notices are deleted.
#[derive(Clone, Copy, Debug)]
pub enum ReceiverFilter<'a> {
    /// This receiver.
    Only(&'a str),
    /// All receivers except these.
    AllExcept(&'a [String]),
}

/// A notice that is leased for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedNotice {
    /// The notice.
    pub notice: Notice,
    /// How many times it was leased for sending, including this time.
    pub attempts: u32,
}

/// The history of tasks. An entry is written in the transaction of its change ([`Change::transition`],
/// [`NewTask::transition`]), or not at all.
#[async_trait]
pub trait History: Send + Sync {
    /// Returns the history of a task, oldest first, also after its row was deleted.
    async fn entries(&self, id: &TaskId) -> Result<Vec<HistoryEntry>>;

    /// Deletes entries from before this time, the oldest first. Returns their number, at most `limit`.
    /// Writes nothing if there are none.
    async fn delete_entries(&self, before: Timestamp, limit: usize) -> Result<usize>;
}

/// The durations of each tool's jobs.
#[async_trait]
pub trait Durations: Send + Sync {
    /// Records the duration of one job. The newest [`MAX_DURATIONS`](super::pace::usual::MAX_DURATIONS) of a tool are kept.
    async fn record_duration(&self, tool: &str, took: Duration) -> Result<()>;

    /// Returns the usual one of the recorded durations ([`UsualDuration::of`]).
    async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>>;
}

/// Secrets that all processes over one store share.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Returns the seal key. If none is stored yet, stores `new_key` as the key.
    async fn seal_key(&self, new_key: [u8; 32]) -> Result<[u8; 32]>;
}

/// The clock that all processes over this store share.
#[async_trait]
pub trait Time: Facts {
    /// Returns the time of the clock that leases and due times are compared with.
    async fn now(&self) -> Result<Timestamp>;

    /// Shortens every lease to at most `longest` from now. Used when the clock was set back.
    async fn shorten_leases(&self, longest: Duration) -> Result<()>;
}

/// Named values about the store as a whole.
#[async_trait]
pub trait Facts: Send + Sync {
    /// Returns the value under this name.
    async fn fact(&self, name: &str) -> Result<Option<String>>;

    /// Writes the value under this name.
    async fn set_fact(&self, name: &str, value: &str) -> Result<()>;

    /// Writes the value under this name if the current value equals `before`. Returns false if it does not.
    async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool>;

    /// Returns why writes fail, as a fixed text without names: the last write failed, or the writer has
    /// stopped. Returns `None` while writes succeed.
    fn write_failure(&self) -> Option<&'static str> {
        None
    }
}

/// Hints about writes of other processes. Any hint may be lost.
#[async_trait]
pub trait Hints: Send + Sync {
    /// Waits until another process may have written, and returns hints about it. Never resolves if the store
    /// has no such hints. It is cancel-safe: a drop while it waits loses nothing.
    async fn changed_elsewhere(&self) -> Vec<Hint>;

    /// Returns true if several processes can use the store at once. State that a client sends to one of them
    /// is then stored for the others, where they need it.
    fn is_shared(&self) -> bool {
        false
    }
}

/// The data that another process may have written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Unknown data.
    Anything,
    /// A task, with its channel if it has one ([`super::task::Origin::channel`]).
    Task {
        /// The task.
        id: TaskId,
        /// The channel.
        channel: Option<String>,
    },
    /// Other data of the front end that belongs to a channel.
    Channel(String),
}

/// Row counts for monitoring. They are read now and then, so they must not scan finished rows.
#[async_trait]
pub trait RowCounts: Send + Sync {
    /// Counts rows with pending work, rows that are only kept, and pending notices. Rows that cannot be
    /// parsed may be left out.
    async fn row_counts(&self) -> Result<Counts>;
}

/// Counts of rows and notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows with pending work, by tool and phase, in no order.
    pub active: Vec<(String, Phase, u64)>,
    /// Rows without pending work, which are kept for their results.
    pub retained: u64,
    /// Pending notices.
    pub pending_notices: u64,
    /// Since when the oldest pending notice has been pending.
    pub notices_pending_since: Option<Timestamp>,
}

/// All storage traits that the core needs.
pub trait Store:
    TaskStore + Queue + Groups + Notices + History + Durations + Keys + Time + Facts + Hints + RowCounts
{
}

impl<T: TaskStore + Queue + Groups + Notices + History + Durations + Keys + Time + Facts + Hints + RowCounts>
    Store for T
{
}
