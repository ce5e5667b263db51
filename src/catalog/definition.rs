//! [`Definition`]: a tool as the config defines it. Plain data; it must not decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Confirm, FileRule, Inquiry, Mirrored, Schema};
use crate::access::Rules;
use crate::tasks::service::WhenFull;
use crate::tasks::store::Quota;
use crate::tasks::task::{OnExpiry, OnRefusal};

/// The names of the server's own tools, which no tool of the config can have.
pub const COMPANIONS: [&str; 5] = ["task_wait", "task_cancel", "task_answer", "task_list", "task_logs"];

/// A tool as the config defines it: found right, with its schemas compiled.
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
    pub published: Value,
    /// The input schema that arguments are held against: the published one, but for files, which have their own
    /// rules and clearer messages.
    pub input: Schema,
    /// What a result's structured part is held against.
    pub output: Option<Schema>,
    /// The parameters whose values are secrets.
    pub sensitive: BTreeSet<String>,
    /// The parameters that are files.
    pub files: BTreeMap<String, FileRule>,
    /// The parameters that are tasks.
    pub tasks: BTreeSet<String>,
    /// The backend that runs its jobs.
    pub backend: String,
    /// What to run there.
    pub target: Value,
    /// See [`super::Tool::task_support`].
    pub task_support: TaskSupport,
    /// What to ask before a job starts.
    pub confirm: Option<Confirm>,
    /// What to ask for parameters that are left out, in the order in which it is asked.
    pub inquiries: Vec<Inquiry>,
    /// See [`super::Tool::mirrored`].
    pub mirrored: Vec<Mirrored>,
    /// The slots that a job takes.
    pub slots: Vec<String>,
    /// The slots that a job takes in its owner's name, up to that name.
    pub owner_slots: Vec<String>,
    /// The most that is kept for one owner.
    pub most_kept: Option<Quota>,
    /// What happens to a call when one of them is taken up.
    pub when_full: WhenFull,
    /// The deadlines of its tasks.
    pub terms: TermsRule,
    /// See [`super::Tool::on_abandon`].
    pub on_abandon: OnAbandon,
    /// See [`super::Tool::result_bytes`].
    pub result_bytes: Option<usize>,
    /// See [`super::Tool::answer_by_model`].
    pub answer_by_model: bool,
    /// See [`super::Tool::access`].
    pub access: Rules,
}

/// How a tool's deadlines come about.
#[derive(Clone, Debug)]
pub struct TermsRule {
    /// The lifetime of a task whose client asks for none.
    pub default_ttl: Duration,
    /// The shortest lifetime that a client gets.
    pub min_ttl: Duration,
    /// The longest.
    pub max_ttl: Duration,
    /// See [`crate::tasks::task::Terms::keep_result`].
    pub keep_result: Duration,
    /// See [`crate::tasks::task::Terms::max_runtime`].
    pub max_runtime: Duration,
    /// See [`crate::tasks::task::Terms::max_wait`].
    pub max_wait: Option<Duration>,
    /// See [`crate::tasks::task::Terms::outcome_grace`].
    pub outcome_grace: Duration,
    /// See [`crate::tasks::task::Terms::on_expiry`].
    pub on_expiry: OnExpiry,
    /// See [`crate::tasks::task::Terms::start_within`].
    pub start_within: Duration,
    /// See [`crate::tasks::task::Terms::settle_window`].
    pub settle_window: Duration,
    /// See [`crate::tasks::task::Terms::on_decline`].
    pub on_decline: OnRefusal,
    /// See [`crate::tasks::task::Terms::on_dismiss`].
    pub on_dismiss: OnRefusal,
    /// See [`crate::tasks::task::Terms::answer_within`].
    pub answer_within: Option<Duration>,
}

/// Whether a tool can run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskSupport {
    /// It can run only as a task.
    Required,
    /// It can run either way.
    #[default]
    Optional,
    /// It cannot be called as a task.
    Forbidden,
}

/// What becomes of the job of a plain call that goes away before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAbandon {
    /// It goes on.
    #[default]
    Keep,
    /// It is cancelled.
    Cancel,
}

/// What happens to a call that wants consent, from a client that cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmDefault {
    /// It goes on as if the client had agreed.
    Accept,
    /// It is refused.
    #[default]
    Refuse,
}
