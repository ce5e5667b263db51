//! [`Definition`]: a tool as the config defines it. Plain data; it must not decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Confirm, FileRule, Inquiry, MirroredParameter, Schema};
use crate::access::Rules;
use crate::tasks::service::WhenFull;
use crate::tasks::store::Quota;
use crate::tasks::task::{OnExpiry, OnRefusal};

/// A tool as the config defines it: validated, with its schemas compiled.
#[derive(Debug)]
pub struct Definition {
    /// See [`super::Tool::name`].
    pub name: String,
    /// See [`super::Tool::title`].
    pub title: Option<String>,
    /// See [`super::Tool::description`].
    pub description: Option<String>,
    /// See [`super::Tool::annotations`].
    pub annotations: Value,
    /// The input schema as clients see it.
    pub client_schema: Value,
    /// The input schema that arguments are validated against: the client schema without files, which have
    /// their own rules and clearer messages.
    pub input: Schema,
    /// The schema that a result's structured content is validated against.
    pub output: Option<Schema>,
    /// The parameters whose values are secrets.
    pub secret_parameters: BTreeSet<String>,
    /// The parameters that are files.
    pub file_parameters: BTreeMap<String, FileRule>,
    /// The parameters that are tasks.
    pub task_parameters: BTreeSet<String>,
    /// The backend that runs its jobs.
    pub backend: String,
    /// The target to run on the backend.
    pub target: Value,
    /// See [`super::Tool::task_support`].
    pub task_support: TaskSupport,
    /// The consent question before a job starts.
    pub confirm: Option<Confirm>,
    /// The questions for omitted parameters, in the order in which they are asked.
    pub inquiries: Vec<Inquiry>,
    /// See [`super::Tool::mirrored`].
    pub mirrored: Vec<MirroredParameter>,
    /// The slots that a job uses.
    pub slots: Vec<String>,
    /// The slots that a job uses per owner: the slot names without the owner's name.
    pub owner_slots: Vec<String>,
    /// The quota of kept tasks for one owner.
    pub quota: Option<Quota>,
    /// The behaviour of a call when a slot is full.
    pub when_full: WhenFull,
    /// The deadlines of its tasks.
    pub terms: TermsRule,
    /// See [`super::Tool::on_abandon`].
    pub on_abandon: OnAbandon,
    /// See [`super::Tool::result_bytes`].
    pub result_bytes: Option<usize>,
    /// See [`super::Tool::answer_by_model`].
    pub answer_by_model: bool,
    /// True if the arguments of calls are kept with their tasks, without sensitive ones and files.
    pub keep_arguments: bool,
    /// The parameters that decide how long a job takes; see [`super::variant`].
    pub duration_depends_on: Vec<String>,
    /// See [`super::Tool::access`].
    pub access: Rules,
}

/// The rules for a tool's deadlines.
#[derive(Clone, Debug)]
pub struct TermsRule {
    /// The lifetime of a task whose client requests none.
    pub default_ttl: Duration,
    /// The minimum lifetime that a client gets.
    pub min_ttl: Duration,
    /// The maximum lifetime that a client gets.
    pub max_ttl: Duration,
    /// See [`crate::tasks::task::TaskPolicy::keep_result`].
    pub keep_result: Duration,
    /// See [`crate::tasks::task::TaskPolicy::max_runtime`].
    pub max_runtime: Duration,
    /// See [`crate::tasks::task::TaskPolicy::max_wait`].
    pub max_wait: Option<Duration>,
    /// See [`crate::tasks::task::TaskPolicy::outcome_grace`].
    pub outcome_grace: Duration,
    /// See [`crate::tasks::task::TaskPolicy::on_expiry`].
    pub on_expiry: OnExpiry,
    /// See [`crate::tasks::task::TaskPolicy::start_within`].
    pub start_within: Duration,
    /// See [`crate::tasks::task::TaskPolicy::settle_window`].
    pub settle_window: Duration,
    /// See [`crate::tasks::task::TaskPolicy::on_decline`].
    pub on_decline: OnRefusal,
    /// See [`crate::tasks::task::TaskPolicy::on_dismiss`].
    pub on_dismiss: OnRefusal,
    /// See [`crate::tasks::task::TaskPolicy::answer_within`].
    pub answer_within: Option<Duration>,
}

/// Whether a tool can run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskSupport {
    /// The tool can run only as a task.
    Required,
    /// The tool can run as a task or as a plain call.
    #[default]
    Optional,
    /// The tool cannot run as a task.
    Forbidden,
}

/// Policy for the job of a plain call that disconnects before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAbandon {
    /// The job continues.
    #[default]
    Keep,
    /// The job is cancelled.
    Cancel,
}

/// Policy for a call that requires consent, if the client cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmDefault {
    /// The call continues as if the client had agreed.
    Accept,
    /// The call is refused.
    #[default]
    Refuse,
}
