//! `[limits]`: how much one caller, one connection and one message may ask of the server.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::DEEPEST_VALUE;

use super::duration;
use super::owner_limits::OwnerLimits;
use super::reader::Reader;
use crate::mcp::http::{ConnectionLimits, PerAddress};
use crate::mcp::jsonrpc::{Bounds, DEEPEST};
use crate::mcp::limits::Limits as MessageLimits;

/// The smallest head that a client of the protocol can do with.
const SMALLEST_HEAD: usize = 1024;
/// The least nesting that a message of the protocol needs.
const FLATTEST: usize = 8;

/// How much one caller, one connection and one message may ask of the server. What is changed here holds for connections
/// that are opened from then on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at once, if the descriptor limit (`RLIMIT_NOFILE`) allows as many. The oldest idle one is closed for a new one;
    /// while none is idle, further ones wait.
    pub max_connections: NonZeroUsize,
    /// Connections of one address at once (of IPv6: of one network, /64); further ones are closed. Without this it is 512,
    /// but for this machine's own addresses, where a proxy may run, and for `trusted_proxies`: those are not counted. A number
    /// that is set holds for this machine as well.
    pub max_connections_per_address: Option<NonZeroUsize>,
    /// How long it may take to secure a connection (TLS).
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub handshake_within: Duration,
    /// How long the head of a request may take as a whole.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub head_within: Duration,
    /// How long a connection is kept on which nothing is asked.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub idle_for: Duration,
    /// How long the body of a request may take as a whole.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub body_within: Duration,
    /// The fewest bytes of a body in a second, on average, once it has had five seconds.
    pub min_body_bytes_per_second: NonZeroU64,
    /// How long a client may take nothing of what waits to be sent to it, before its connection is closed.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub stalled_for: Duration,
    /// The fewest bytes in a second that a client may take of what waits to be sent to it, on average, once it has been behind
    /// for as long as `stalled_for`.
    pub min_answer_bytes_per_second: NonZeroU64,
    /// The largest head of a request (its first line and its headers), in bytes. A connection is closed behind one of more than
    /// 8 KiB.
    pub max_head_bytes: NonZeroUsize,
    /// The most headers of a request.
    pub max_headers: NonZeroUsize,
    /// The longest address of a request, and of a resource that a session may follow, in bytes.
    pub max_url_bytes: NonZeroUsize,
    /// How deep objects and lists may lie within each other in a message. At most 100: what is larger counts as 100.
    pub max_json_depth: NonZeroUsize,
    /// Members of objects and items of lists in one message, all together.
    pub max_json_elements: NonZeroUsize,
    /// Messages in one batch of a session of 2025-03-26, the only revision that has batches. Each counts against every limit as if
    /// it had come by itself.
    pub batch: NonZeroUsize,
    /// The largest arguments of a call, in bytes as JSON. (`max_body_bytes` in `[server]` is for a message as a whole.)
    pub max_argument_bytes: NonZeroUsize,
    /// Streams and requests in hand of one owner at once; of one address, where callers are not told apart.
    pub max_streams_per_owner: NonZeroUsize,
    /// Sessions that one owner may end in a day, at each server (HTTP 429 beyond it; they are over when their time is); one address,
    /// where callers are not told apart. A session that was ended is remembered until its time is over.
    pub max_ended_sessions_per_day: NonZeroU32,
    /// Sessions of one owner that may begin in a day, at each server, to have something kept of them by `logging/setLevel` or
    /// `resources/subscribe` (HTTP 429 beyond it); of one address, where callers are not told apart. It is kept until the
    /// session's time is over.
    pub max_kept_sessions_per_day: NonZeroU32,
    /// Resources that one session may follow (`resources/subscribe` beyond it is an error), and one subscription of 2026-07-28
    /// (further ones are not granted).
    pub max_followed_resources: NonZeroUsize,
    /// The bytes of bodies on their way in and of answers on their way out, all together, of those that are larger than 64 KiB.
    /// One owner has a quarter of it (one address, where callers are not told apart), but one body or answer in any case.
    pub max_bytes_in_hand: NonZeroUsize,
    /// How much one owner may have and do, where `[auth]` tells callers apart.
    pub owner: OwnerLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let (connection, message) = (ConnectionLimits::default(), MessageLimits::default());
        let some = |n| NonZeroUsize::new(n).expect("no limit is zero by default");
        Self {
            max_connections: some(connection.connections),
            max_connections_per_address: None,
            handshake_within: connection.handshake_within,
            head_within: connection.head_within,
            idle_for: connection.idle_for,
            body_within: connection.body_within,
            min_body_bytes_per_second: NonZeroU64::new(connection.body_rate).expect("it is not zero"),
            stalled_for: connection.stalled_for,
            min_answer_bytes_per_second: NonZeroU64::new(connection.answer_rate).expect("it is not zero"),
            max_head_bytes: some(connection.head_bytes),
            max_headers: some(connection.headers),
            max_url_bytes: some(connection.url_bytes),
            max_json_depth: some(message.json.depth),
            max_json_elements: some(message.json.elements),
            batch: some(message.batch),
            max_argument_bytes: some(message.max_argument_bytes),
            max_streams_per_owner: some(message.max_streams_per_owner),
            max_ended_sessions_per_day: NonZeroU32::new(message.max_ended_sessions_per_day)
                .expect("it is not zero"),
            max_kept_sessions_per_day: NonZeroU32::new(message.max_kept_sessions_per_day)
                .expect("it is not zero"),
            max_followed_resources: some(message.max_followed_resources),
            max_bytes_in_hand: some(message.max_bytes_in_hand),
            owner: OwnerLimits::default(),
        }
    }
}

impl Limits {
    /// What a connection may take.
    pub fn of_connections(&self) -> ConnectionLimits {
        let each = |most: NonZeroUsize| PerAddress::Each(most.get());
        ConnectionLimits {
            connections: self.max_connections.get(),
            per_address: self
                .max_connections_per_address
                .map_or(ConnectionLimits::default().per_address, each),
            handshake_within: self.handshake_within,
            head_within: self.head_within,
            idle_for: self.idle_for,
            body_within: self.body_within,
            body_rate: self.min_body_bytes_per_second.get(),
            stalled_for: self.stalled_for,
            answer_rate: self.min_answer_bytes_per_second.get(),
            head_bytes: self.max_head_bytes.get(),
            headers: self.max_headers.get(),
            url_bytes: self.max_url_bytes.get(),
        }
    }

    /// What a message may ask.
    pub fn of_messages(&self) -> MessageLimits {
        MessageLimits {
            json: Bounds {
                depth: self.max_json_depth.get().min(DEEPEST_VALUE),
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

/// Says where a limit is set that is not used as it is.
pub(super) fn warning(limits: &Limits) -> Option<String> {
    let depth = limits.max_json_depth.get();
    (depth > DEEPEST_VALUE).then(|| {
        format!(
            "limits.max_json_depth is {depth}, and {DEEPEST_VALUE} is used: what is nested deeper cannot be kept in a \
             task; write {DEEPEST_VALUE} or less"
        )
    })
}

/// What the shape cannot say.
pub(super) fn check(reader: &mut Reader<'_>, limits: &Limits) {
    for (field, time) in [
        ("handshake_within", limits.handshake_within),
        ("head_within", limits.head_within),
        ("idle_for", limits.idle_for),
        ("body_within", limits.body_within),
        ("stalled_for", limits.stalled_for),
    ] {
        if time.is_zero() {
            reader.problem(format!("limits.{field}"), "it must not be zero: nothing arrives in no time");
        }
    }
    let depth = limits.max_json_depth.get();
    if !(FLATTEST..=DEEPEST).contains(&depth) {
        let message = format!("it is {depth}, and must be from {FLATTEST} to {DEEPEST}");
        reader.problem("limits.max_json_depth", message);
    }
    let head = limits.max_head_bytes.get();
    if head < SMALLEST_HEAD {
        let message = format!("it is {head}, and no client can do with less than {SMALLEST_HEAD}");
        reader.problem("limits.max_head_bytes", message);
    }
}
