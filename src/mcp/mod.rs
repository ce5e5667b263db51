//! The protocol, in five modules that depend downwards: [`transport`], [`dialect`] with one module per
//! generation, [`features`], [`session`] and [`wire`]. A request arrives through [`transport::http`] or
//! [`transport::stdio`], and [`wire::revision`] decides once which generation handles it. A generation
//! translates between its wire format and the features, which call [`crate::tasks::service`]. This module
//! must not access an engine, except to read logs and artifacts.

pub mod dialect;
pub mod features;
pub mod session;
pub mod transport;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use self::features::context::FeatureContext;
use self::features::resources::EngineReads;
use self::session::SessionState;
use crate::metrics::Metrics;

/// The dependencies of the handlers of all generations. All connections share one.
pub struct Bridge {
    /// What the features share.
    pub context: FeatureContext,
    /// Reads logs and artifacts from engines.
    pub reads: EngineReads,
    /// The state of sessions.
    pub sessions: SessionState,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

/// The protocol settings of the config.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a plain call waits for its job before it returns a handle.
    pub call_budget: Duration,
    /// How long a call waits for its job before it returns a task, for clients with the tasks extension of
    /// 2026-07-28.
    pub quick_wait: Duration,
    /// Interval of the progress reports of a waiting plain call. New progress of the job is reported earlier.
    pub progress_every: Duration,
    /// When the companion tools are listed and can be called.
    pub companion_tools: CompanionTools,
    /// Entries per page of a list. In `resources/list`, a task counts as one entry.
    pub page_size: usize,
    /// How long a session id is valid.
    pub session_lifetime: Duration,
    /// Maximum size of the log text in one response, in bytes.
    pub max_log_bytes: usize,
    /// Maximum size of an artifact that is read, in bytes.
    pub max_artifact_bytes: u64,
    /// Maximum size of a message, in bytes.
    pub max_body_bytes: usize,
    /// Maximum number of polls per owner and second. Further ones are delayed by some seconds, and then
    /// refused. Two more limits of the same size apply to streams and requests that wait, and to messages
    /// without a response. Only HTTP applies them.
    pub max_polls_per_second: u32,
    /// Limits of messages, sessions and owners.
    pub limits: wire::limits::Limits,
    /// Maximum number of tool calls per minute, for each owner who is identified by credentials. Only HTTP
    /// applies it.
    pub max_calls_per_minute: u32,
}

// `task_logs` is listed for all clients, and `task_list` for all identified callers. With `auto`, the others
// are listed in every session, and for clients of 2026-07-28 without the tasks extension.
/// When the companion tools are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompanionTools {
    /// For clients that do not support tasks in the protocol.
    #[default]
    Auto,
    /// For all clients.
    Always,
    /// For no client.
    Never,
}
