//! The deadlines and rules of a task, fixed at its creation. Plain data; [`crate::tasks::machine`] applies them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Deadlines and rules from the tool's config at the creation of the task. A changed config affects no
/// existing task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskPolicy {
    /// Requested lifetime of the task, counted from its creation. It is the client's request, raised to
    /// `min_ttl` or lowered to `max_ttl` of `[lifetime]`; `default_ttl` without a request.
    pub ttl: Duration,
    /// How long the result is kept, counted from the end of the task.
    pub keep_result: Duration,
    /// How long the job may run, counted from its acceptance by the engine.
    pub max_runtime: Duration,
    /// Maximum time from the creation of the task to the start of its job. It includes all waiting: for
    /// consent, for a free slot, and for an engine that is unavailable. `None`: as long as `max_runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// Grace period after `max_runtime` while polls of the job fail. Polls are retried, and a late result
    /// still counts. Then the task ends with an unknown outcome.
    #[serde(default = "outcome_grace")]
    pub outcome_grace: Duration,
    /// What happens to the job when `max_runtime` is over.
    pub on_expiry: OnExpiry,
    /// Maximum duration of one engine outage before the start, counted from its first failed call. An engine
    /// that limits the rate of calls counts as unavailable. Then the task ends. `max_wait` is the limit of
    /// the whole wait, and still applies.
    pub start_within: Duration,
    /// Minimum time of the search for a job whose start was not confirmed, while the searches find nothing.
    /// If the engine cannot be searched, it is the longer of this and `start_within`. Then the task ends.
    /// After `max_wait`, the search may end earlier.
    pub settle_window: Duration,
    /// What happens when a person declines a question of the job.
    #[serde(default, skip_serializing_if = "OnRefusal::is_tell")]
    pub on_decline: OnRefusal,
    /// What happens when a person closes a question of the job without a choice.
    #[serde(default, skip_serializing_if = "OnRefusal::is_tell")]
    pub on_dismiss: OnRefusal,
    /// Maximum time for the answer to a question, including the consent before the start. `None`: only the
    /// other deadlines apply (`max_wait` before the start, `max_runtime` after it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_within: Option<Duration>,
    /// True if the owner of the task must not answer its questions. It is part of the task, so it applies
    /// even if the rules of the tool change or the tool is removed.
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

/// What happens to a job that exceeds its task's `max_runtime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It is left running and no longer polled.
    Abandon,
}

/// What happens when a user refuses a job's question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// The job receives the refusal and decides.
    #[default]
    Tell,
    /// The task fails with a message about it, and the job is stopped.
    Fail,
    /// The task is cancelled, and the job is stopped.
    Cancel,
}

impl OnRefusal {
    pub(super) fn is_tell(&self) -> bool {
        *self == Self::Tell
    }
}
