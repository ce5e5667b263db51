//! What the reads and claims of a store select, and what they return: scopes, cursors, connected backends,
//! groups and open jobs. It must not define how a store finds them.

use std::time::Duration;

use taskbridge_sdk::{GroupKey, JobHandle, Output, Timestamp};

use crate::tasks::task::{Owner, Task, TaskId};

/// A backend that this process has connected. A process claims, watches and admits only rows of such
/// backends. A row matches if the names are equal and the identities are equal or one of them is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedBackend {
    /// The backend's name in the config.
    pub backend: String,
    /// The identity of the connected engine ([`taskbridge_sdk::Backend::identity`]).
    pub identity: Option<String>,
}

impl ServedBackend {
    /// Creates a backend with this name and an unknown identity.
    pub fn named(backend: impl Into<String>) -> Self {
        Self { backend: backend.into(), identity: None }
    }

    /// Returns true if this process serves rows of this backend and identity.
    pub fn matches(&self, backend: &str, identity: Option<&str>) -> bool {
        let same = || self.identity.as_deref().zip(identity).is_none_or(|(ours, other)| ours == other);
        self.backend == backend && same()
    }

    /// Returns the name under which groups of its jobs are leased. Different engines are watched
    /// independently of each other.
    pub fn lease_name(&self) -> String {
        match &self.identity {
            Some(identity) => format!("{} @ {identity}", self.backend),
            None => self.backend.clone(),
        }
    }
}

/// The parameters of a claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The backend whose rows are claimed.
    pub served: ServedBackend,
    /// The maximum number of rows.
    pub limit: usize,
    /// The owner that was served last ([`ClaimResult::cursor`]).
    pub cursor: Option<Owner>,
    /// Only rows that have been due for so long are claimed.
    pub overdue: Duration,
}

/// The result of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimResult {
    /// The leased rows, in round-robin order of owners.
    pub tasks: Vec<Task>,
    /// The owner that was served last.
    pub cursor: Option<Owner>,
}

/// The rows that a caller can access: the rows of an owner, and all rows of some tools, regardless of owner.
#[derive(Clone, Copy, Debug)]
pub struct AccessScope<'a> {
    /// The owner.
    pub owner: &'a Owner,
    /// The tools.
    pub tools: &'a [String],
}

impl<'a> From<&'a Owner> for AccessScope<'a> {
    /// Returns the scope of the owner's rows only.
    fn from(owner: &'a Owner) -> Self {
        Self { owner, tools: &[] }
    }
}

/// A stored result, read with a size limit.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundedOutput {
    /// The task ended without a result, or has not ended.
    Missing,
    /// The whole result.
    Complete(Output),
    /// The size in bytes of a result that exceeds the limit.
    TooLarge(usize),
}

/// A cursor in an owner's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The creation time of the last row that was returned.
    pub created_at: Timestamp,
    /// The id of that row.
    pub id: TaskId,
}

/// A group of open jobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The backend.
    pub backend: String,
    /// The backend's key of the group.
    pub key: GroupKey,
}

/// The fields of an open job that watching needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// The id of the row.
    pub id: TaskId,
    /// The tool.
    pub tool: String,
    /// The job's handle.
    pub handle: JobHandle,
    /// When the engine accepted the job.
    pub started_at: Timestamp,
    /// The version of the row. A poll that begins after this read may write over that version.
    pub version: u64,
}
