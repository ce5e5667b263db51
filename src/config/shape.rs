//! What a config file may hold, tools apart: shapes and defaults. The comments become the config's JSON Schema.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::duration;
use super::tls::TlsTable;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Where the server listens, and the bounds of what it answers. Durations are written as `25s`, `5m`, `1h 30m`, `7d`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The address and port. One that other machines can reach is refused unless `[auth]` tells callers apart. A change
    /// takes effect when the server is started again.
    #[serde(deserialize_with = "address")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// By what connections are secured. Without it the server speaks plain HTTP, and what others can reach needs a proxy
    /// before it that speaks TLS.
    pub(super) tls: Option<TlsTable>,
    /// Proxies before this server, as addresses or networks such as `10.0.0.0/8`: what they say in `X-Forwarded-For` is
    /// believed, and their connections are not counted by address.
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<Network>,
    /// Web pages that may call the server, beside those of this machine: their origins, such as
    /// `https://app.example.com`. A request from any other page is refused.
    pub allowed_origins: Vec<String>,
    /// Names in `Host` headers that are accepted beside the loopback names, such as `bridge.example.com`. Any other is refused,
    /// unless none is named here and the server listens on another address than loopback.
    pub allowed_hosts: Vec<String>,
    /// How long a plain call waits for its job before it answers with the task instead. Hosts give up after 30 to 60
    /// seconds.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub call_budget: Duration,
    /// How long a call waits for its job before it answers with a task, to a client that holds tasks by the extension
    /// of 2026-07-28. A job that ends within it needs no task.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub quick_wait: Duration,
    /// How often a plain call reports progress while it waits.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub progress_every: Duration,
    /// When the companion tools (`task_wait`, ...) are listed.
    pub companion_tools: CompanionTools,
    /// Entries on one page of a list. Many clients read the first page only. (The tool `task_list` gives a model 50 tasks at
    /// most.)
    pub page_size: NonZeroUsize,
    /// The largest request body, in bytes.
    pub max_body_bytes: NonZeroUsize,
    /// How long a session id is good for.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub session_lifetime: Duration,
    /// The most bytes of a log in one answer.
    pub max_log_bytes: NonZeroUsize,
    /// The largest artifact that can be read through the server, in bytes.
    pub max_artifact_bytes: u64,
    /// Polls, completions, and what a session sets (its log level, its subscriptions), of one owner in a second, beyond which
    /// they are slowed down, and in the end refused (of one address, where callers are not told apart). Messages that are no
    /// requests, and ends of sessions, are counted likewise, by themselves.
    pub max_polls_per_second: NonZeroU32,
    /// How long a server that was told to stop goes on as before, while `/readyz` says that it stops: a load balancer
    /// needs some seconds to send requests elsewhere.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub drain_for: Duration,
    /// How long a stopping server lets requests and engine calls finish. A change takes effect when the server is
    /// started again.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub stop_within: Duration,
}

/// When the companion tools are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompanionTools {
    /// To clients that cannot hold tasks by the protocol itself.
    #[default]
    Auto,
    /// To all clients.
    Always,
    /// To none.
    Never,
}

impl Default for Server {
    fn default() -> Self {
        let at_least_one = |n| NonZeroUsize::new(n).expect("the defaults are not zero");
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
            page_size: at_least_one(250),
            max_body_bytes: at_least_one(4 * 1024 * 1024),
            session_lifetime: 30 * DAY,
            max_log_bytes: at_least_one(64 * 1024),
            max_artifact_bytes: 32 * 1024 * 1024,
            max_polls_per_second: NonZeroU32::new(100).expect("it is not zero"),
            drain_for: Duration::ZERO,
            stop_within: Duration::from_secs(10),
        }
    }
}

/// An address, or all of a network.
#[derive(Clone, Copy, Debug)]
pub struct Network(pub IpNet);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let alone = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        text.parse().or_else(|_| alone()).map(Self).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is neither an address nor a network: write one such as \"10.0.0.7\" or \"10.0.0.0/8\""
            ))
        })
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| {
        serde::de::Error::custom(format!(
            "\"{text}\" is not an address and port: write one such as \"127.0.0.1:8808\""
        ))
    })
}

/// What the server says about its own work, on standard error. A change takes effect when the server is started again.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// What is written: `error`, `warn`, `info`, `debug`, `trace`, or a list such as `info,taskbridge::store=debug`.
    /// `$TASKBRIDGE_LOG` wins over it.
    pub filter: String,
    /// How it is written.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

/// How jobs are watched. A change takes effect when the server is started again.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reconciler {
    /// How long one process may work on a task before another may take over. Every call to an engine is given up
    /// before that.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub lease: Duration,
    /// The shortest time between two looks at a job.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub quickest_look: Duration,
    /// The longest.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub slowest_look: Duration,
    /// The most calls to one backend at the same time.
    pub max_concurrent_calls: NonZeroUsize,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            quickest_look: Duration::from_millis(100),
            slowest_look: Duration::from_secs(30),
            max_concurrent_calls: NonZeroUsize::new(16).expect("it is not zero"),
        }
    }
}

/// How long tasks are kept. A tool may have its own `keep_result`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Lifetime {
    /// The lifetime of a task whose client asks for none, from its creation.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub default_ttl: Duration,
    /// The shortest lifetime that a client can ask for.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub min_ttl: Duration,
    /// The longest.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub max_ttl: Duration,
    /// How long a result is kept after the job's end, whatever lifetime was asked for.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub keep_result: Duration,
}

impl Default for Lifetime {
    fn default() -> Self {
        Self { default_ttl: HOUR, min_ttl: MINUTE, max_ttl: 30 * DAY, keep_result: HOUR }
    }
}

/// Tools of one group share a limit: deploys to production, one at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConcurrencyGroup {
    /// The most jobs of the group at the same time.
    pub limit: NonZeroU32,
}

impl Default for ConcurrencyGroup {
    fn default() -> Self {
        Self { limit: NonZeroU32::MIN }
    }
}
