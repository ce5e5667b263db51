//! The shape of `[backends.NAME]` with `kind = "http"`. A preset has the same shape: it is merged below what
//! the user writes, before this shape is read. It must not send anything.

pub(crate) mod auth;
mod choices;
mod duration;
mod lifecycle;
mod outputs;
pub(crate) mod presets;
mod recorded;
mod request;
mod requests;
mod signals;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use taskbridge_sdk::Secret;

use crate::language::{Expression, Template};
use auth::{AuthConfig, PerCaller};

use self::choices::yes;
pub(crate) use choices::{Cancels, OneOrMore, TargetField};
pub(crate) use lifecycle::{Find, List, More, Observe, Once, Start, State};
pub(crate) use outputs::{AnswerTable, Artifacts, Ask, Log};
pub(crate) use recorded::{Recorded, RecordedCall};
pub(crate) use request::{Body, Method, Pages, Request};
pub(crate) use signals::{Discover, Doctor, DoctorTool, Encoding, Hash, Hook, Property};

/// Fields of `[backends.NAME]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of a preset: its tables count where this backend has none. `taskbridge presets` lists them.
    #[serde(default)]
    #[allow(dead_code, reason = "it is merged before this shape is read")]
    pub(crate) preset: Option<String>,
    /// Address of the engine. Every request goes below it.
    #[schemars(with = "String")]
    #[serde(deserialize_with = "request::base_url")]
    pub(crate) base: Url,
    /// Credentials.
    #[serde(default)]
    pub(crate) auth: AuthConfig,
    /// Credentials of people, with which their jobs are started, answered and stopped.
    #[serde(default)]
    pub(crate) per_caller: Option<PerCaller>,
    /// Proxy, in place of that of the environment.
    #[serde(default)]
    pub(crate) proxy: Option<Secret>,
    /// Headers of every request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Template>,
    /// Values for templates and expressions, as `vars.NAME`.
    #[serde(default)]
    pub(crate) vars: Map<String, Value>,
    /// Timeout of one request.
    #[serde(default = "default_timeout", deserialize_with = "duration::deserialize")]
    #[schemars(with = "String")]
    pub(crate) call_timeout: Duration,
    /// Longest reply, in bytes.
    #[serde(default = "default_max_reply")]
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub(crate) max_reply: u64,
    /// PEM file with root certificates, besides those of the system.
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
    /// PEM file with a client certificate and its key.
    #[serde(default)]
    pub(crate) client_certificate: Option<PathBuf>,
    /// Whether redirects of a GET are followed.
    #[serde(default = "yes")]
    pub(crate) follow: bool,
    /// What the engine is called in stored tasks. It must not change. The default is the address without its
    /// scheme.
    #[serde(default)]
    pub(crate) identity: Option<String>,
    /// How long after its start a job may be unknown to the engine.
    #[serde(default, deserialize_with = "duration::deserialize")]
    #[schemars(with = "String")]
    pub(crate) start_lag: Duration,
    /// A reply for which this is true asks for patience, besides 429.
    #[serde(default)]
    pub(crate) limited: Option<Expression>,
    /// A reply for which this is true means that the engine has not accepted the request, such as
    /// `status == 503` of an engine that documents it.
    #[serde(default)]
    pub(crate) not_accepted: Option<Expression>,
    /// Words of the engine in a reply that is an error.
    #[serde(default)]
    pub(crate) words: Option<Expression>,
    /// Fields of a tool's target.
    #[serde(default)]
    pub(crate) target: BTreeMap<String, TargetField>,
    /// How a job is started.
    pub(crate) start: Start,
    /// How a job is found by its key.
    #[serde(default)]
    pub(crate) find: OneOrMore<Find>,
    /// How a job is polled.
    pub(crate) observe: OneOrMore<Observe>,
    /// Further requests of a poll.
    #[serde(default)]
    pub(crate) more: Vec<More>,
    /// How many jobs are polled at once.
    #[serde(default)]
    pub(crate) list: Option<List>,
    /// Where questions of a job are.
    #[serde(default)]
    pub(crate) ask: Option<Ask>,
    /// How a question is answered.
    #[serde(default)]
    pub(crate) answer: Option<AnswerTable>,
    /// How a job is stopped; `false` if the engine cannot.
    #[serde(default)]
    pub(crate) cancel: Cancels,
    /// How a log is read.
    #[serde(default)]
    pub(crate) log: Option<Log>,
    /// Files of a job.
    #[serde(default)]
    pub(crate) artifacts: Option<Artifacts>,
    /// Posts of the engine to `/hooks/NAME`.
    #[serde(default)]
    pub(crate) hook: Option<Hook>,
    /// What the engine offers as tools.
    #[serde(default)]
    pub(crate) discover: Option<Discover>,
    /// What `taskbridge doctor` checks.
    #[serde(default)]
    pub(crate) doctor: Doctor,
    /// Replies of the engine, and what they mean: `taskbridge check` tries them.
    #[serde(default)]
    pub(crate) recorded: Vec<Recorded>,
    /// What a preset says about itself. It has no effect.
    #[serde(default)]
    #[allow(dead_code, reason = "it is for readers")]
    pub(crate) about: Option<About>,
}

/// What a preset says about itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "it is for readers")]
pub(crate) struct About {
    /// One line: what it connects to.
    pub(crate) title: String,
    /// What it was tried against: `real`, `emulator`, `contract` or `documentation`.
    pub(crate) proof: String,
    /// Versions of the engine that it was tried with.
    #[serde(default)]
    pub(crate) versions: String,
}

/// Content of `[tools.NAME.target]`: the fields that `[backends.NAME.target]` names.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Target(pub(crate) BTreeMap<String, Value>);

fn default_timeout() -> Duration {
    Duration::from_secs(7)
}

fn default_max_reply() -> u64 {
    4 * 1024 * 1024
}
