//! `[limits]`: limits per caller, connection and message.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::MAX_VALUE_DEPTH;

use super::owner_limits::OwnerLimits;
use crate::config::reading::duration::DurationText;
use crate::config::reading::reader::Reader;
use crate::mcp::transport::http::{ConnectionLimits, PerAddress};
use crate::mcp::wire::jsonrpc::{Bounds, MAX_DEPTH};
use crate::mcp::wire::limits::Limits as MessageLimits;

/// Minimum of `max_head_bytes` with which clients can still work.
const MIN_HEAD_BYTES: usize = 1024;
/// Minimum of `max_json_depth` that protocol messages require.
const MIN_JSON_DEPTH: usize = 8;

/// Limits per caller, connection and message. Changes apply to connections that are opened afterwards.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum number of connections. The descriptor limit (`RLIMIT_NOFILE`) may reduce it. A new connection
    /// closes the oldest idle one; while none is idle, new ones wait.
    pub max_connections: NonZeroUsize,
    /// Maximum number of connections per client address (for IPv6: per /64 network); further ones are closed.
    /// Default: 512, except for this machine's own addresses, where a proxy may run, and `trusted_proxies`,
    /// which are unlimited. A configured value applies to this machine as well.
    pub max_connections_per_address: Option<NonZeroUsize>,
    /// Timeout of the TLS handshake.
    #[serde(with = "DurationText")]
    pub handshake_within: Duration,
    /// Timeout for receiving the head of a request.
    #[serde(with = "DurationText")]
    pub head_within: Duration,
    /// How long an idle connection is kept.
    #[serde(with = "DurationText")]
    pub idle_for: Duration,
    /// Timeout for receiving the body of a request.
    #[serde(with = "DurationText")]
    pub body_within: Duration,
    /// Minimum average rate of a request body, in bytes per second, after the first five seconds.
    pub min_body_bytes_per_second: NonZeroU64,
    /// How long a client may read nothing of pending data before its connection is closed.
    #[serde(with = "DurationText")]
    pub stalled_for: Duration,
    /// Minimum average rate at which a client must read pending data, in bytes per second, after it has been
    /// behind for `stalled_for`.
    pub min_answer_bytes_per_second: NonZeroU64,
    /// Maximum size of a request head (request line and headers), in bytes. A head of more than 8 KiB closes
    /// the connection after its request.
    pub max_head_bytes: NonZeroUsize,
    /// Maximum number of headers of a request.
    pub max_headers: NonZeroUsize,
    /// Maximum length of a request URI, and of a resource URI in a subscription, in bytes.
    pub max_url_bytes: NonZeroUsize,
    /// Maximum nesting depth of JSON in a message. At most 100: larger values count as 100.
    pub max_json_depth: NonZeroUsize,
    /// Maximum number of object members and list items in one message, in total.
    pub max_json_elements: NonZeroUsize,
    /// Maximum number of messages in one batch. Only sessions of 2025-03-26 have batches. Each message counts
    /// against every limit.
    pub batch: NonZeroUsize,
    /// Maximum size of the arguments of a call, in bytes as JSON. (`max_body_bytes` in `[server]` limits a
    /// whole message.)
    pub max_argument_bytes: NonZeroUsize,
    /// Maximum number of concurrent streams and requests per owner, or per client address for anonymous
    /// callers.
    pub max_streams_per_owner: NonZeroUsize,
    /// Maximum number of sessions that one owner may end per day, per server (HTTP 429 beyond it; further
    /// ones end by expiry). For anonymous callers, it counts per client address. An ended session is
    /// remembered until its expiry.
    pub max_ended_sessions_per_day: NonZeroU32,
    /// Maximum number of sessions per owner and day that may store state by `logging/setLevel` or
    /// `resources/subscribe`, per server (HTTP 429 beyond it). For anonymous callers, it counts per client
    /// address. The state is kept until the session expires.
    pub max_kept_sessions_per_day: NonZeroU32,
    /// Maximum number of resource subscriptions of one session (`resources/subscribe` fails beyond it), and
    /// in one subscription of 2026-07-28 (further ones are not granted).
    pub max_followed_resources: NonZeroUsize,
    /// Maximum total size of request bodies and responses in transfer, in bytes. Only those larger than 64
    /// KiB count. One owner may use a quarter of it (one client address, for anonymous callers), but always
    /// one body or response.
    pub max_bytes_in_hand: NonZeroUsize,
    /// Limits per owner, where `[auth]` identifies callers.
    pub owner: OwnerLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let (connection, message) = (ConnectionLimits::default(), MessageLimits::default());
        let nonzero = |n| NonZeroUsize::new(n).expect("no limit is zero by default");
        Self {
            max_connections: nonzero(connection.connections),
            max_connections_per_address: None,
            handshake_within: connection.handshake_timeout,
            head_within: connection.head_timeout,
            idle_for: connection.idle_timeout,
            body_within: connection.body_timeout,
            min_body_bytes_per_second: NonZeroU64::new(connection.body_rate)
                .expect("the default is not zero"),
            stalled_for: connection.stall_timeout,
            min_answer_bytes_per_second: NonZeroU64::new(connection.answer_rate)
                .expect("the default is not zero"),
            max_head_bytes: nonzero(connection.head_bytes),
            max_headers: nonzero(connection.headers),
            max_url_bytes: nonzero(connection.url_bytes),
            max_json_depth: nonzero(message.json.depth),
            max_json_elements: nonzero(message.json.elements),
            batch: nonzero(message.batch),
            max_argument_bytes: nonzero(message.max_argument_bytes),
            max_streams_per_owner: nonzero(message.max_streams_per_owner),
            max_ended_sessions_per_day: NonZeroU32::new(message.max_ended_sessions_per_day)
                .expect("the default is not zero"),
            max_kept_sessions_per_day: NonZeroU32::new(message.max_kept_sessions_per_day)
                .expect("the default is not zero"),
            max_followed_resources: nonzero(message.max_followed_resources),
            max_bytes_in_hand: nonzero(message.max_bytes_in_hand),
            owner: OwnerLimits::default(),
        }
    }
}

impl Limits {
    /// Returns the limits of connections.
    pub fn of_connections(&self) -> ConnectionLimits {
        let per_address = |max: NonZeroUsize| PerAddress::Every(max.get());
        ConnectionLimits {
            connections: self.max_connections.get(),
            per_address: self
                .max_connections_per_address
                .map_or(ConnectionLimits::default().per_address, per_address),
            handshake_timeout: self.handshake_within,
            head_timeout: self.head_within,
            idle_timeout: self.idle_for,
            body_timeout: self.body_within,
            body_rate: self.min_body_bytes_per_second.get(),
            stall_timeout: self.stalled_for,
            answer_rate: self.min_answer_bytes_per_second.get(),
            head_bytes: self.max_head_bytes.get(),
            headers: self.max_headers.get(),
            url_bytes: self.max_url_bytes.get(),
        }
    }

    /// Returns the limits of messages.
    pub fn of_messages(&self) -> MessageLimits {
        MessageLimits {
            json: Bounds {
                depth: self.max_json_depth.get().min(MAX_VALUE_DEPTH),
                elements: self.max_json_elements.get(),
            },
            batch: self.batch.get(),
            max_argument_bytes: self.max_argument_bytes.get(),
            max_streams_per_owner: self.max_streams_per_owner.get(),
            max_ended_sessions_per_day: self.max_ended_sessions_per_day.get(),
            max_kept_sessions_per_day: self.max_kept_sessions_per_day.get(),
            max_followed_resources: self.max_followed_resources.get(),
            max_url_bytes: self.max_url_bytes.get(),
            max_bytes_in_hand: self.max_bytes_in_hand.get(),
        }
    }
}

/// Returns a warning if a limit exceeds its effective maximum.
pub(in crate::config) fn warning(limits: &Limits) -> Option<String> {
    let depth = limits.max_json_depth.get();
    (depth > MAX_VALUE_DEPTH).then(|| {
        format!(
            "limits.max_json_depth is {depth}, and {MAX_VALUE_DEPTH} is used: a task cannot store deeper values; \
             write {MAX_VALUE_DEPTH} or less"
        )
    })
}

/// Validates the limits beyond their schema.
pub(in crate::config) fn check(reader: &mut Reader<'_>, limits: &Limits) {
    for (field, time) in [
        ("handshake_within", limits.handshake_within),
        ("head_within", limits.head_within),
        ("idle_for", limits.idle_for),
        ("body_within", limits.body_within),
        ("stalled_for", limits.stalled_for),
    ] {
        if time.is_zero() {
            reader.problem(format!("limits.{field}"), "must not be zero: write a time such as \"10s\"");
        }
    }
    let depth = limits.max_json_depth.get();
    if !(MIN_JSON_DEPTH..=MAX_DEPTH).contains(&depth) {
        let message = format!("{depth} is out of range: write a number from {MIN_JSON_DEPTH} to {MAX_DEPTH}");
        reader.problem("limits.max_json_depth", message);
    }
    let head = limits.max_head_bytes.get();
    if head < MIN_HEAD_BYTES {
        let message = format!("{head} is too small for clients: write at least {MIN_HEAD_BYTES}");
        reader.problem("limits.max_head_bytes", message);
    }
}
