//! Questions, logs and files of jobs. It must not send anything.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::duration;
use super::request::Request;
use super::signals::Property;
use crate::language::Expression;

/// Where questions of a job are.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// Items, each of which may be a question.
    pub(crate) items: Expression,
    /// True for an item that is an open question of this job. The default is every item.
    #[serde(default, rename = "match")]
    pub(crate) matches: Option<Expression>,
    /// Id of the question within its job.
    pub(crate) id: Expression,
    /// Text of the question.
    pub(crate) message: Expression,
    /// JSON Schema of the answer: an object of texts, numbers and choices. The default has no fields.
    #[serde(default)]
    pub(crate) schema: Option<Expression>,
    /// Further fields of the answer, as an object by name or as a list.
    #[serde(default)]
    pub(crate) properties: Option<Expression>,
    /// What each of them is.
    #[serde(default)]
    pub(crate) property: Property,
    /// How long after its answer a question may still be listed.
    #[serde(default, deserialize_with = "duration::deserialize")]
    #[schemars(with = "String")]
    pub(crate) lag: Duration,
}

/// How a question is answered. Templates see `handle`, `question` (its id) and `answer` (an object).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerTable {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Whether the job is polled before, so that an answer to one that has ended is too late.
    #[serde(default)]
    pub(crate) look_first: bool,
    /// True for a reply that accepts the answer. The default is 2xx.
    #[serde(default)]
    pub(crate) ok: Option<Expression>,
    /// True for a reply that means that the question is not open any more. The default is 404, 409 and 410.
    #[serde(default)]
    pub(crate) too_late: Option<Expression>,
    /// True for a reply that means that this person may not answer. The default is 403.
    #[serde(default)]
    pub(crate) not_allowed: Option<Expression>,
    /// Request for a person who declines. Without it, a question cannot be declined.
    #[serde(default)]
    pub(crate) decline: Option<Request>,
}

/// How a log is read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// Items, each of which has a log. Without it, the job has one.
    #[serde(default)]
    pub(crate) each: Option<Expression>,
    #[serde(flatten)]
    pub(crate) request: Request,
    /// The text of a reply. The default is its body.
    #[serde(default)]
    pub(crate) text: Option<Expression>,
    /// Title of the log of an `item`.
    #[serde(default)]
    pub(crate) title: Option<Expression>,
    /// True for a reply that means that there is no log yet. The default is 404.
    #[serde(default)]
    pub(crate) missing: Option<Expression>,
    /// Cursor of the next part, which goes into the query as `as`.
    #[serde(default)]
    pub(crate) next: Option<super::request::Pages>,
}

/// Files of a job.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Artifacts {
    /// Items, each of which is a file.
    pub(crate) items: Expression,
    /// Name of the file of an `item`.
    pub(crate) name: Expression,
    /// Its size in bytes.
    #[serde(default)]
    pub(crate) size: Option<Expression>,
    /// Its media type.
    #[serde(default)]
    pub(crate) mime: Option<Expression>,
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Hosts to which a download may be redirected, such as `https://*.storage.example.com`. No credential
    /// goes along.
    #[serde(default)]
    pub(crate) also: Vec<String>,
}
