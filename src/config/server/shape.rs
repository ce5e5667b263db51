//! The shapes and defaults of the small tables, which need no file of their own. The doc comments become the
//! config's JSON Schema.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::tls::TlsTable;
use crate::config::reading::duration::DurationText;
use crate::mcp::CompanionTools;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Listen address and request settings. Durations are written as `25s`, `5m`, `1h 30m`, `7d`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The address and port. An address that other machines can reach requires authentication in `[auth]`.
    /// Changes take effect after a restart.
    #[serde(deserialize_with = "address")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// TLS settings. Without them the server uses plain HTTP, and remote access needs a proxy that terminates
    /// TLS.
    pub(in crate::config) tls: Option<TlsTable>,
    /// Trusted proxies, as addresses or networks such as `10.0.0.0/8`: their `X-Forwarded-For` is used, and
    /// their connections do not count against limits per address.
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<Network>,
    /// Origins of web pages that may call the server, such as `https://app.example.com`, in addition to pages
    /// of this machine. Requests from other pages are refused.
    pub allowed_origins: Vec<String>,
    /// Accepted `Host` names in addition to the loopback names, such as `bridge.example.com`. Others are
    /// refused. If the list is empty and the server does not listen on loopback, all are accepted.
    pub allowed_hosts: Vec<String>,
    /// How long a plain call waits for its job before it returns the task instead. Hosts time out after 30 to
    /// 60 seconds.
    #[serde(with = "DurationText")]
    pub call_budget: Duration,
    /// How long a call waits for its job before it returns a task, for clients with the tasks extension of
    /// 2026-07-28. A job that ends earlier needs no task.
    #[serde(with = "DurationText")]
    pub quick_wait: Duration,
    /// Interval of progress reports while a plain call waits.
    #[serde(with = "DurationText")]
    pub progress_every: Duration,
    /// When the companion tools (`task_wait`, ...) are listed.
    pub companion_tools: CompanionTools,
    /// Page size of lists. Many clients read only the first page. (The tool `task_list` returns at most 50
    /// tasks to a model.)
    pub page_size: NonZeroUsize,
    /// Maximum size of a request body, in bytes.
    pub max_body_bytes: NonZeroUsize,
    /// Lifetime of a session id.
    #[serde(with = "DurationText")]
    pub session_lifetime: Duration,
    /// Maximum size of a log in one response, in bytes.
    pub max_log_bytes: NonZeroUsize,
    /// Maximum size of an artifact that can be read through the server, in bytes.
    pub max_artifact_bytes: u64,
    /// Rate limit per owner (per client address, for anonymous callers) of polls, completions and session
    /// settings (log level, subscriptions), per second. Beyond it, requests are delayed, and finally refused.
    /// Messages without a response and session ends have a separate limit of the same size.
    pub max_polls_per_second: NonZeroU32,
    /// How long a stopping server continues to serve while `/readyz` reports that it stops: a load balancer
    /// needs some seconds to redirect requests.
    #[serde(with = "DurationText")]
    pub drain_for: Duration,
    /// How long a stopping server waits for requests and engine calls. Changes take effect after a restart.
    #[serde(with = "DurationText")]
    pub stop_within: Duration,
}

impl Default for Server {
    fn default() -> Self {
        let nonzero = |n| NonZeroUsize::new(n).expect("the defaults are not zero");
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8808)),
            tls: None,
            trusted_proxies: Vec::new(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            call_budget: Duration::from_secs(25),
            quick_wait: Duration::from_millis(250),
            progress_every: Duration::from_secs(5),
            companion_tools: CompanionTools::Auto,
            page_size: nonzero(250),
            max_body_bytes: nonzero(4 * 1024 * 1024),
            session_lifetime: 30 * DAY,
            max_log_bytes: nonzero(64 * 1024),
            max_artifact_bytes: 32 * 1024 * 1024,
            max_polls_per_second: NonZeroU32::new(100).expect("the default is not zero"),
            drain_for: Duration::ZERO,
            stop_within: Duration::from_secs(10),
        }
    }
}

/// An address or a network.
#[derive(Clone, Copy, Debug)]
pub struct Network(pub IpNet);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let single_address = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        text.parse().or_else(|_| single_address()).map(Self).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is neither an address nor a network: write one such as \"10.0.0.7\" or \"10.0.0.0/8\""
            ))
        })
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        serde::de::Error::custom(format!(
            "\"{text}\" is not an address and port: write one such as \"127.0.0.1:8808\""
        ))
    })
}

/// The server log on standard error. Changes take effect after a restart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The log filter: `error`, `warn`, `info`, `debug`, `trace`, or a list such as
    /// `info,taskbridge::store=debug`. The `$TASKBRIDGE_LOG` variable overrides it.
    pub filter: String,
    /// The log format.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

/// How jobs are polled. Changes take effect after a restart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reconciler {
    /// Lease duration: how long one process may work on a task before another may take over. Every engine
    /// call times out earlier.
    #[serde(with = "DurationText")]
    pub lease: Duration,
    /// The shortest interval between polls of a job.
    #[serde(with = "DurationText")]
    pub quickest_look: Duration,
    /// The longest interval.
    #[serde(with = "DurationText")]
    pub slowest_look: Duration,
    /// Maximum number of concurrent calls to one backend.
    pub max_concurrent_calls: NonZeroUsize,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            quickest_look: Duration::from_millis(100),
            slowest_look: Duration::from_secs(30),
            max_concurrent_calls: NonZeroUsize::new(16).expect("the default is not zero"),
        }
    }
}

/// Retention of tasks. A tool may set its own `keep_result`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Lifetime {
    /// The lifetime of a task from its creation, if the client requests none.
    #[serde(with = "DurationText")]
    pub default_ttl: Duration,
    /// The shortest lifetime that a client can request.
    #[serde(with = "DurationText")]
    pub min_ttl: Duration,
    /// The longest lifetime.
    #[serde(with = "DurationText")]
    pub max_ttl: Duration,
    /// Minimum retention of a result after the end of the job, for any requested lifetime.
    #[serde(with = "DurationText")]
    pub keep_result: Duration,
}

impl Default for Lifetime {
    fn default() -> Self {
        Self { default_ttl: HOUR, min_ttl: MINUTE, max_ttl: 30 * DAY, keep_result: HOUR }
    }
}

/// A limit that several tools share, such as one production deployment at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct ConcurrencyGroup {
    /// Maximum number of concurrent jobs of the group.
    pub limit: NonZeroU32,
}

impl Default for ConcurrencyGroup {
    fn default() -> Self {
        Self { limit: NonZeroU32::MIN }
    }
}
