//! Start, search, polls and cancellation of jobs. It must not send anything.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::duration;
use super::request::{Pages, Request};
use crate::language::Expression;

/// How a job is started.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Whether the engine starts at most one job under a key.
    pub(crate) once: Once,
    /// How long the engine remembers a key. After that, a repeated start only searches.
    #[serde(default, deserialize_with = "duration::optional")]
    #[schemars(with = "Option<String>")]
    pub(crate) key_lasts: Option<Duration>,
    /// Whether a repeated start searches before it sends: for an engine that looks, then acts.
    #[serde(default)]
    pub(crate) look_first: bool,
    /// True for a reply that accepts the job. The default is 2xx with a body that is not HTML.
    #[serde(default)]
    pub(crate) ok: Option<Expression>,
    /// True for a reply with status 2xx that refuses the job, such as one of GraphQL with errors.
    #[serde(default)]
    pub(crate) refused: Option<Expression>,
    /// True for a reply that says that a job with this key exists.
    #[serde(default)]
    pub(crate) duplicate: Option<Expression>,
    /// Handle of the job: all that later requests need, and no secret.
    pub(crate) handle: BTreeMap<String, Expression>,
}

/// Whether the engine starts at most one job under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Once {
    /// It does: a start can be sent again.
    Key,
    /// It does not: after a lost reply, a start only searches.
    None,
}

/// How a job is found by its key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Find {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Items of the reply. Without it, the reply is the job.
    #[serde(default)]
    pub(crate) items: Option<Expression>,
    /// True for the item that is the job. The default is an item that contains the key.
    #[serde(default, rename = "match")]
    pub(crate) matches: Option<Expression>,
    /// True for a reply that means that there is no such job. The default is 404 and 410.
    #[serde(default)]
    pub(crate) missing: Option<Expression>,
    /// Handle of the job. The default is that of the start.
    #[serde(default)]
    pub(crate) handle: Option<BTreeMap<String, Expression>>,
    /// Further pages.
    #[serde(default)]
    pub(crate) next: Option<Pages>,
}

/// How a job is polled.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Observe {
    /// The table counts if this is true of `handle`.
    #[serde(default, rename = "if")]
    pub(crate) condition: Option<Expression>,
    #[serde(flatten)]
    pub(crate) request: Request,
    /// The engine's word for the state.
    pub(crate) state: Expression,
    /// The engine's words, and what they mean. A word of taskbridge means itself.
    #[serde(default)]
    pub(crate) states: BTreeMap<String, State>,
    /// Meaning of a word that `states` does not have.
    #[serde(default = "running")]
    pub(crate) unknown: State,
    /// True for a reply that means that the engine does not know the job. The default is 404 and 410.
    #[serde(default)]
    pub(crate) gone: Option<Expression>,
    /// True for a failure that is a cancellation, such as one that carries the mark of our request.
    #[serde(default)]
    pub(crate) cancelled: Option<Expression>,
    /// A better handle of the job, once the reply has all its members: a build that came out of a queue.
    #[serde(default)]
    pub(crate) rename: Option<BTreeMap<String, Expression>>,
    /// Progress.
    #[serde(default)]
    pub(crate) progress: Option<Progress>,
    /// Status message, and the reason of an end.
    #[serde(default)]
    pub(crate) message: Option<Expression>,
    /// Since when the job is in this state: RFC 3339, or seconds or milliseconds since 1970.
    #[serde(default)]
    pub(crate) since: Option<Expression>,
    /// Page of the job for people.
    #[serde(default)]
    pub(crate) link: Option<Expression>,
    /// Result as data.
    #[serde(default)]
    pub(crate) structured: Option<Expression>,
    /// Result as text.
    #[serde(default)]
    pub(crate) text: Option<Expression>,
}

/// Progress of a job.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    /// How much is done.
    pub(crate) done: Expression,
    /// How much there is.
    #[serde(default)]
    pub(crate) total: Option<Expression>,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Accepted, and not running yet.
    Queued,
    /// Running.
    Running,
    /// Waiting for an answer.
    Asks,
    /// Ended with success.
    Succeeded,
    /// Ended with a failure.
    Failed,
    /// Ended because it was cancelled.
    Cancelled,
    /// Not known to the engine.
    Gone,
}

impl State {
    /// Returns the state with this name.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "queued" => Self::Queued,
            "running" => Self::Running,
            "asks" => Self::Asks,
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            "gone" => Self::Gone,
            _ => return None,
        })
    }

    /// Returns whether the job has ended.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Gone)
    }
}

fn running() -> State {
    State::Running
}

/// A further request of a poll. Expressions see its reply as `more.AS`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct More {
    /// Its name.
    #[serde(rename = "as")]
    pub(crate) name: String,
    /// States in which it is sent. The default is every state.
    #[serde(default)]
    pub(crate) when: Option<Vec<State>>,
    /// It is sent only if this is true.
    #[serde(default, rename = "if")]
    pub(crate) condition: Option<Expression>,
    /// Only while a client waits for progress. Its failure is then no failure of the poll.
    #[serde(default)]
    pub(crate) watched: bool,
    /// One reply is for all jobs of a poll of many. The request does not use `handle`.
    #[serde(default)]
    pub(crate) shared: bool,
    #[serde(flatten)]
    pub(crate) request: Request,
    /// True for a reply that means that there is nothing.
    #[serde(default)]
    pub(crate) missing: Option<Expression>,
    /// True for a reply that comes too early, such as an end whose outputs are not written yet: the job counts
    /// as running.
    #[serde(default)]
    pub(crate) pending: Option<Expression>,
    /// Items of the reply, if it has pages. Expressions see all of them as `more.AS.items`.
    #[serde(default)]
    pub(crate) items: Option<Expression>,
    /// Further pages.
    #[serde(default)]
    pub(crate) next: Option<Pages>,
}

/// How many jobs are polled at once.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// Jobs for which this is the same are in one list: an expression over `handle`.
    #[serde(default)]
    pub(crate) group: Option<Expression>,
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Items of a reply.
    pub(crate) items: Expression,
    /// What identifies an item: an expression over `item`.
    pub(crate) id: Expression,
    /// The same of a job: an expression over `handle`.
    pub(crate) job: Expression,
    /// The engine's word for the state of `item`.
    pub(crate) state: Expression,
    /// Further pages.
    #[serde(default)]
    pub(crate) next: Option<Pages>,
}

/// How a job is stopped.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// The table counts if this is true of `handle`, and of the poll with `look_first`.
    #[serde(default, rename = "if")]
    pub(crate) condition: Option<Expression>,
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Whether the job is polled before, and left alone if it has ended.
    #[serde(default)]
    pub(crate) look_first: bool,
    /// True of a job that cannot be stopped yet: the request is sent later.
    #[serde(default)]
    pub(crate) wait: Option<Expression>,
    /// True for a reply that accepts the request. The default is 2xx, 404 and 410.
    #[serde(default)]
    pub(crate) ok: Option<Expression>,
}
