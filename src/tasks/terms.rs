//! The deadlines and rules of a task, fixed at its creation. Plain data; [`super::machine`] applies them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Deadlines and rules from the tool's config at the creation of the task. A changed config affects no
/// existing task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskPolicy {
    /// How long the client asked to keep the task, after clamping; counted from its creation.
    pub ttl: Duration,
    /// How long the result is kept, counted from the end of the task.
    pub keep_result: Duration,
    /// How long the job may run, counted from its acceptance by the engine.
    pub max_runtime: Duration,
    /// How long the task may wait for its start (consent, a free slot, an unreachable engine), counted from
    /// its creation. Without it, as long as `max_runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// How long polls are retried after `max_runtime` while they fail, before the task ends with an
    /// unknown outcome.
    #[serde(default = "outcome_grace")]
    pub outcome_grace: Duration,
    /// What happens to the job when `max_runtime` is over.
    pub on_expiry: OnExpiry,
    /// How long a start is retried while the engine is unreachable or limits the rate of calls.
    pub start_within: Duration,
    /// How long the server searches for a job whose start was not confirmed, if the searches find nothing.
    pub settle_window: Duration,
    /// What happens when a person declines a question of the job.
    #[serde(default, skip_serializing_if = "OnRefusal::is_tell")]
    pub on_decline: OnRefusal,
    /// What happens when a person closes a question of the job without a choice.
    #[serde(default, skip_serializing_if = "OnRefusal::is_tell")]
    pub on_dismiss: OnRefusal,
    /// How long a question may stay open, also the one before the start; without it, as long as the other
    /// deadlines allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_within: Option<Duration>,
    /// True if a person other than the owner must answer the questions of the task, even if the
    /// rules of its tool change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
}

/// Returns the default of [`TaskPolicy::outcome_grace`].
pub const fn outcome_grace() -> Duration {
    Duration::from_secs(15 * 60)
}

impl TaskPolicy {
    /// Returns the maximum wait. See [`Self::max_wait`].
    pub fn max_wait(&self) -> Duration {
        self.max_wait.unwrap_or(self.max_runtime)
    }
}

/// What happens to a job that runs longer than its task's `max_runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// It is cancelled.
    Cancel,
    /// It continues, and is no longer polled.
    Abandon,
}

/// What happens when a question of a job is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// The job receives the refusal, and decides.
    #[default]
    Tell,
    /// The task fails, and the job is stopped.
    Fail,
    /// The task is cancelled, and the job is stopped.
    Cancel,
}

impl OnRefusal {
    pub(super) fn is_tell(&self) -> bool {
        *self == Self::Tell
    }
}
