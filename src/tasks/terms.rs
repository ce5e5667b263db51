//! The deadlines and rules of a task, fixed when it is made. Plain data; [`super::machine`] applies them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Deadlines and the like, taken from the tool when the task was made, so that a changed config moves no running task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// How long the client asked to keep the task, after clamping; counted from its creation.
    pub ttl: Duration,
    /// How long the result is kept, counted from the end.
    pub keep_result: Duration,
    /// How long the job may run, counted from its acceptance by the engine.
    pub max_runtime: Duration,
    /// How long the task may wait for its start (consent, a free slot, an engine that cannot be reached), counted from its
    /// creation; without it, as long as `max_runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// How long an engine that cannot be asked about a job after `max_runtime` is asked again, before the task ends with
    /// an unknown outcome.
    #[serde(default = "outcome_grace")]
    pub outcome_grace: Duration,
    /// What happens to the job when `max_runtime` is over.
    pub on_expiry: OnExpiry,
    /// How long an engine that cannot be reached is tried for a start.
    pub start_within: Duration,
    /// How long a job whose start was not confirmed is looked for.
    pub settle_window: Duration,
    /// What happens when somebody says no to a question of the job.
    #[serde(default, skip_serializing_if = "OnRefusal::is_tell")]
    pub on_decline: OnRefusal,
    /// What happens when somebody closes a question of the job without a choice.
    #[serde(default, skip_serializing_if = "OnRefusal::is_tell")]
    pub on_dismiss: OnRefusal,
    /// How long a question may stay open; without it, for as long as the task goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_within: Option<Duration>,
    /// True if somebody else than the owner must answer what the task asks, whatever becomes of its tool's rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
}

/// How long it is where nothing else is said.
pub const fn outcome_grace() -> Duration {
    Duration::from_secs(15 * 60)
}

impl Terms {
    /// See [`Self::max_wait`].
    pub fn max_wait(&self) -> Duration {
        self.max_wait.unwrap_or(self.max_runtime)
    }
}

/// What happens to a job that outlives its task's `max_runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// It is cancelled.
    Cancel,
    /// It is left alone and no longer watched.
    Abandon,
}

/// What happens when a job's question is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// The job is told, and decides.
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
