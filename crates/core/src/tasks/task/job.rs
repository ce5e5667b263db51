//! The job of a task at its engine: what was requested of the engine, and what is known of the job. It must
//! not hold the result.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskbridge_sdk::{GroupKey, JobHandle, OnBehalfOf, Timestamp};

use super::TaskId;

/// The state of a task's job in the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// No start is at the engine: none was sent, or the last one is known to have started nothing.
    Pending {
        /// What to start.
        spec: Spec,
        /// True while it waits for a slot.
        queued: bool,
        /// Attempts that did not start the job.
        attempts: u32,
        /// No attempt before this time.
        not_before: Timestamp,
    },
    /// An attempt was committed and may have been sent. It is not known whether the engine has the job.
    Starting {
        /// What to start.
        spec: Spec,
        /// The number of this attempt, counted from 1.
        attempts: u32,
        /// Set once the job was searched for without a definite result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sought: Option<RecoverySearch>,
        /// When the first attempt was committed that may have reached the engine. `None` in rows of versions
        /// that did not record it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_attempt_at: Option<Timestamp>,
        /// No further attempt or search before this time.
        not_before: Timestamp,
    },
    /// The engine has the job, and it may still run.
    Open {
        /// The engine's name for the job.
        handle: JobHandle,
        /// The group that it is polled in.
        group: GroupKey,
        /// When the engine accepted it, by the store's clock.
        started_at: Timestamp,
    },
    /// The job is known to have ended or not to have started, or it is no longer tracked. The
    /// handle still gives access to its log.
    Closed {
        /// The engine's name for the job, if it ever had one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<JobHandle>,
    },
}

/// A search for a job that may have started: by attempts with `may_exist`, or by
/// [`crate::tasks::machine::Action::Find`]. Elapsed time alone does not count, because all processes may be
/// down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverySearch {
    /// When the search began, plus the gaps that do not count as search time.
    pub since: Timestamp,
    /// Number of searches.
    pub times: u32,
}

/// Polls in a row that did not find an open job. A failed poll ends the row, so an outage counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingJob {
    /// When the last counted poll began.
    pub polled_at: Timestamp,
    /// Number of counted polls.
    pub times: u32,
}

/// Failed polls of a job with a deadline that has passed. As with [`RecoverySearch`], elapsed time alone
/// does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overdue {
    /// When the first of them failed, plus the gaps that do not count as retry time.
    pub since: Timestamp,
    /// Number of failed polls.
    pub times: u32,
    /// No further poll before this time.
    pub not_before: Timestamp,
}

/// What to start. The row drops this part as soon as the engine has the job, or the job is closed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What to run in the engine, from the config at the time of the call.
    pub target: Value,
    /// The arguments, without the sensitive ones.
    pub arguments: Value,
    /// The sensitive arguments, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Parameters that refer to a task whose job has no handle yet. The job starts once each has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unresolved: BTreeMap<String, TaskId>,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").finish_non_exhaustive()
    }
}

/// A request to stop the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// When it was requested.
    pub at: Timestamp,
    /// True once the engine accepted the request.
    pub taken: bool,
    /// Number of failed requests to the engine.
    pub attempts: u32,
    /// True if the engine has no way to stop the job. It is not asked again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// No request to the engine before this time.
    pub not_before: Timestamp,
    /// The person on whose behalf the engine is called; `None` for the person who created the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// An outage: calls to the engine for this task fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineOutage {
    /// When the outage began.
    pub since: Timestamp,
    /// The reason as text.
    pub reason: String,
}
