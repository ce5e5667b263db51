//! Where rows live, as traits. A store keeps and compares; it must not decide anything about a task.
//!
//! Times are compared by the store's own clock, so that processes whose clocks differ agree about leases. Every
//! method is one transaction: it happens as a whole or not at all, and when it has returned it survives a crash.

mod sessions;
mod writes;

use std::time::Duration;

use async_trait::async_trait;
use taskbridge_sdk::{GroupKey, JobHandle, Output, Timestamp};

use super::history::Entry;
use super::meter::Phase;
use super::notices::Notice;
use super::task::{Owner, Task, TaskId};

pub use sessions::{Held, MOST_HELD, MOST_POLLS, Message, Sessions, Setting, Settings, Stage};
pub use writes::{
    Attach, Change, Inserted, Lease, MAX_DECISION_AGE, NewTask, Once, Purged, Quota, SlotLimit, Updated,
};

/// The result of a store's work.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store could not do its work.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be used now (locked, out of reach, out of space). Nothing was written, unless the store is on another
    /// machine and its answer was lost: then nobody can tell.
    #[error("the store cannot be used now: {0}")]
    Unavailable(String),
    /// What it holds cannot be understood, or it refuses what cannot be. Trying again will not help.
    #[error("the store is broken: {0}")]
    Broken(String),
    /// One row cannot be understood. All others can be used, and trying again will not help.
    #[error("{0}")]
    Unreadable(String),
}

/// A process that holds leases: random, made anew at each start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(pub String);

/// Tasks. The behaviour suite (`store::suite`) has a test for every bullet.
///
/// A row that cannot be understood is an error where it is asked for by id; everywhere else it is told to the operator
/// and left out, so that it keeps no other row from being found.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Adds a row with version 1.
    ///
    /// - If `once` names a key that a row of its scope already holds, nothing is written and that row comes back. A
    ///   row that has expired holds no key any more.
    /// - If the owner has `most_kept` rows that are not deleted, or they and the new row have more bytes than that, nothing is
    ///   written.
    /// - If the row holds slots of which one is taken up, or others queue for the same slots, nothing is written.
    /// - If `attach` names a digest under which an abandoned row is kept, that row comes back as it is, and nothing is
    ///   written but that the key of `once` stands for it.
    /// - With `lease`, the row is born leased: nobody else can claim it before the lease runs out.
    /// - Dropped before it returns, it is still done as a whole or not at all, and before any write to that row that
    ///   this process begins later.
    async fn insert(&self, new: NewTask) -> Result<Inserted>;

    /// One row, by id and reach in one query: a row out of reach, an expired one and none at all look the same.
    /// Without a reach the row is found whoever owns it, expired or not (for the reconciler).
    async fn get(&self, id: &TaskId, within: Option<Reach<'_>>) -> Result<Option<Task>>;

    /// The result that was written with the row's end.
    async fn output(&self, id: &TaskId) -> Result<Option<Output>>;

    /// The same, unless it is kept in more bytes than these; then only how many they are, and it is not read.
    async fn output_within(&self, id: &TaskId, most: usize) -> Result<Found>;

    /// An owner's rows that have not expired, newest first, `limit` at most, those after `after` in that order.
    async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<Task>>;

    /// The rows of a session ([`super::task::Origin::session`]) that have not ended, oldest first.
    async fn of_session(&self, session: &str) -> Result<Vec<Task>>;

    /// Writes the row if its version still is `task.version`, and raises the version by one.
    ///
    /// - An output is kept with it; if one was kept before, that one stays.
    /// - If the row holds slots now and did not before, and one of them is taken up, nothing is written.
    /// - If the change was decided at another time than the store's clock shows ([`MAX_DECISION_AGE`]), nothing is written.
    /// - With `Lease::Release` the lease ends if the holder has it; with `Lease::Hold` the holder has it from now on,
    ///   and it is a conflict if somebody else has it. With `Lease::Keep` it stays as it was.
    async fn update(&self, change: Change<'_>) -> Result<Updated>;

    /// Leases rows of a connected backend that are due and not leased, and raises their versions.
    ///
    /// - Owners are served round-robin, beginning after the request's cursor; of each owner the longest due row first.
    /// - Rows of another engine under this name are left alone; a row without an identity gets that of the request.
    async fn claim(&self, holder: &Holder, lease: Duration, request: &ClaimRequest) -> Result<Claimed>;

    /// Rows of a connected backend that are due and not leased, ordered by due time and id, `limit` at most, those after
    /// `after` in that order. Nothing is leased.
    async fn list_due(
        &self,
        served: &Served,
        after: Option<&(Timestamp, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Task>>;

    /// Gives this backend's rows for which something is owed, and which have no identity, the identity that is connected.
    /// Returns what other identities such rows of this name have, and how many each. Does nothing without an identity.
    async fn adopt(&self, served: &Served) -> Result<Vec<(String, u64)>>;

    /// Deletes rows that have expired, and whose job is closed, with all that belongs to them. Returns them, at most
    /// `limit`. A row has expired when both this time and the store's clock are past its end: a process that was suspended
    /// while the clock was set back deletes nothing by its old time. Writes nothing where nothing has expired.
    async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<Purged>>;

    /// For each of these backends, the earliest moment at which an unleased row of it is due or a lease runs out on a row
    /// that is.
    async fn next_due(&self, served: &[Served]) -> Result<Vec<Option<Timestamp>>>;
}

/// A backend that this process has connected. A process claims, watches and admits only rows of such a backend: those
/// with its name whose identity is the same, or not known on either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its name in the config.
    pub backend: String,
    /// What it is connected to ([`taskbridge_sdk::Backend::identity`]).
    pub identity: Option<String>,
}

impl Served {
    /// A backend by its name, connected to something that is not known.
    pub fn named(backend: impl Into<String>) -> Self {
        Self { backend: backend.into(), identity: None }
    }

    /// True if a row of this backend and identity is for this process.
    pub fn matches(&self, backend: &str, identity: Option<&str>) -> bool {
        let same = || self.identity.as_deref().zip(identity).is_none_or(|(ours, other)| ours == other);
        self.backend == backend && same()
    }

    /// The name under which groups of its jobs are leased: engines that differ are watched independently of each other.
    pub fn lease_name(&self) -> String {
        match &self.identity {
            Some(identity) => format!("{} @ {identity}", self.backend),
            None => self.backend.clone(),
        }
    }
}

/// Which rows to claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Whose rows.
    pub served: Served,
    /// The most rows.
    pub limit: usize,
    /// The owner that was served last ([`Claimed::cursor`]).
    pub cursor: Option<Owner>,
}

/// What a claim leased.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed {
    /// The rows, owners in turn.
    pub tasks: Vec<Task>,
    /// The owner that was served last.
    pub cursor: Option<Owner>,
}

/// What somebody who asks for a row can get at: the rows of an owner, and those of these tools, whoever owns them.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// The owner.
    pub owner: &'a Owner,
    /// The tools.
    pub tools: &'a [String],
}

impl<'a> From<&'a Owner> for Reach<'a> {
    /// No more than an owner's own.
    fn from(owner: &'a Owner) -> Self {
        Self { owner, tools: &[] }
    }
}

/// What there is of a result, where no more than so much is wanted of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The task ended without one, or has not ended.
    Nothing,
    /// All of it.
    Whole(Output),
    /// It is kept in so many bytes, which are more.
    Longer(usize),
}

/// The rows that wait for slots. A waiting line is all rows that wait for the same set of slots.
#[async_trait]
pub trait Queue: Send + Sync {
    /// The first row of every waiting line that is of a connected backend and can be read, oldest first.
    async fn heads(&self, served: &[Served]) -> Result<Vec<Task>>;

    /// How many rows of its line wait before this one.
    async fn ahead(&self, task: &Task) -> Result<u64>;
}

/// The groups that open jobs are watched in. One process at a time watches a group.
#[async_trait]
pub trait Groups: Send + Sync {
    /// Leases the groups that have open jobs of these backends and that nobody else holds, and renews those that `holder`
    /// has. All that it holds now comes back; a group without such jobs is let go. The leases of one group under two
    /// identities ([`Served::lease_name`]) are independent.
    async fn hold(&self, holder: &Holder, lease: Duration, served: &[Served]) -> Result<Vec<Group>>;

    /// Lets go of this holder's leases on groups.
    async fn leave(&self, holder: &Holder) -> Result<()>;

    /// Lets go of every lease of this holder, on groups, rows and notices.
    async fn let_go(&self, holder: &Holder) -> Result<()>;

    /// Ends every lease of the holders that are proven dead. True if there were any. A store that cannot prove it
    /// leaves them to run out.
    async fn free_dead(&self) -> Result<bool> {
        Ok(false)
    }

    /// The open jobs of a group whose rows were opened at or after `opened_since`, but for those of an engine with another
    /// identity.
    async fn open_jobs(
        &self,
        group: &Group,
        identity: Option<&str>,
        opened_since: Timestamp,
    ) -> Result<Vec<OpenJob>>;

    /// The open jobs of a group of which somebody wants to know more than how they stand ([`Task::wanted_until`]).
    async fn wanted(&self, group: &Group) -> Result<Vec<TaskId>>;
}

/// What receivers of notices are owed. It is written with the change that caused it: [`NewTask::notices`],
/// [`Change::notices`]. A notice that is there already is not written again.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Leases up to `limit` notices for this receiver that are due, the longest due first. Those come again when the
    /// lease has run out.
    async fn take_notices(
        &self,
        receiver: &str,
        holder: &Holder,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Owed>>;

    /// The receiver has it: it is owed no more, whoever holds it.
    async fn strike(&self, notice: &Notice) -> Result<()>;

    /// The receiver does not have it: it is due again after so long. Only its holder can say so.
    async fn put_off(&self, notice: &Notice, holder: &Holder, pause: Duration) -> Result<()>;

    /// Forgets what is owed since before a moment, and returns how many notices that were.
    async fn forget_notices(&self, which: Forget<'_>, before: Timestamp) -> Result<usize>;
}

/// Whose notices are forgotten.
#[derive(Clone, Copy, Debug)]
pub enum Forget<'a> {
    /// Those for this receiver.
    Of(&'a str),
    /// Those for any but these.
    AllBut(&'a [String]),
}

/// A notice on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// The notice.
    pub notice: Notice,
    /// How many times it was leased to be sent, this time included.
    pub attempts: u32,
}

/// What happened to tasks. An entry is written with the change that it tells of ([`Change::transition`],
/// [`NewTask::transition`]), or not at all.
#[async_trait]
pub trait History: Send + Sync {
    /// What is kept of a task, oldest first, also once its row is gone.
    async fn entries(&self, id: &TaskId) -> Result<Vec<Entry>>;

    /// Deletes entries from before this moment, the oldest first. Returns how many, at most `limit`. Writes nothing
    /// where none is.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize>;
}

/// How long jobs of a tool usually take.
#[async_trait]
pub trait Durations: Send + Sync {
    /// Remembers one job's duration; the newest hundred of a tool are kept.
    async fn record(&self, tool: &str, took: Duration) -> Result<()>;

    /// The median of what is remembered.
    async fn typical(&self, tool: &str) -> Result<Option<Duration>>;
}

/// Secrets that all processes over one store share.
#[async_trait]
pub trait Keys: Send + Sync {
    /// The seal key. If there is none yet, `fresh` becomes it.
    async fn seal_key(&self, fresh: [u8; 32]) -> Result<[u8; 32]>;
}

/// What time it is for everybody over this store.
#[async_trait]
pub trait Time: Facts {
    /// The moment by the clock that leases and due times are compared with.
    async fn now(&self) -> Result<Timestamp>;

    /// Lets no lease last longer than this from now on: for when the clock was set back.
    async fn shorten_leases(&self, longest: Duration) -> Result<()>;
}

/// What a store knows of itself as a whole.
#[async_trait]
pub trait Facts: Send + Sync {
    /// The value under this name.
    async fn fact(&self, name: &str) -> Result<Option<String>>;

    /// Writes the value under this name.
    async fn set_fact(&self, name: &str, value: &str) -> Result<()>;

    /// The same, if the value is still what it was `before`. False if it is not.
    async fn replace_fact(&self, name: &str, before: Option<&str>, value: &str) -> Result<bool>;

    /// Why writes fail, in fixed words that hold no names: the last write failed, or the writer has stopped. `None` if
    /// writes succeed.
    fn write_failure(&self) -> Option<&'static str> {
        None
    }
}

/// Hints that somebody else wrote. Any of them may be lost.
#[async_trait]
pub trait Hints: Send + Sync {
    /// Waits until another process may have written, and says what. Never resolves where none can. Dropped while it
    /// waits, it loses nothing.
    async fn changed_elsewhere(&self) -> Vec<Hint>;

    /// True if the store is made for several processes at once: what a client says to one of them is then kept for the
    /// others, too, where it matters to them.
    fn is_shared(&self) -> bool {
        false
    }
}

/// What another process may have written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Nobody knows what.
    Anything,
    /// A task, of this session if it has one ([`super::task::Origin::session`]).
    Task {
        /// The task.
        id: TaskId,
        /// The session.
        session: Option<String>,
    },
    /// What a session has set, or that it was ended.
    Session(String),
}

/// How much there is, for whoever watches over the server. It is asked for now and then, and must not go along what is over.
#[async_trait]
pub trait Tally: Send + Sync {
    /// Counts the rows for which anything is owed, those that are only kept, and what receivers are owed. Rows that cannot be
    /// understood may be left out.
    async fn tally(&self) -> Result<Counts>;
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The rows for which anything is owed, by tool and phase, in no order.
    pub live: Vec<(String, Phase, u64)>,
    /// The rows for which nothing is owed any more, and which are kept for their results.
    pub kept: u64,
    /// The notices that receivers are owed.
    pub owed: u64,
    /// Since when the first of them is owed.
    pub owed_since: Option<Timestamp>,
}

/// All that the server needs of a store.
pub trait Store:
    TaskStore + Queue + Groups + Notices + History + Durations + Sessions + Keys + Time + Facts + Hints + Tally
{
}

impl<
    T: TaskStore
        + Queue
        + Groups
        + Notices
        + History
        + Durations
        + Sessions
        + Keys
        + Time
        + Facts
        + Hints
        + Tally,
> Store for T
{
}

/// A place in an owner's list, to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The creation time of the last row seen.
    pub created_at: Timestamp,
    /// Its id.
    pub id: TaskId,
}

/// A group of open jobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The backend.
    pub backend: String,
    /// The backend's key for it.
    pub key: GroupKey,
}

/// An open job, as far as watching needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// The row.
    pub id: TaskId,
    /// The tool.
    pub tool: String,
    /// The engine's name for the job.
    pub handle: JobHandle,
    /// When the engine took it.
    pub started_at: Timestamp,
    /// The version of the row: what a look sees after this was read may be written over that one.
    pub version: u64,
}
