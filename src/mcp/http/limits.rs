//! [`ConnectionLimits`]: how many connections there may be, and how slow and how large what comes over one. Another config
//! replaces them for connections that are accepted from then on.

use std::time::Duration;

/// What a connection may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in all, if the descriptor limit allows as many. Further ones wait, until one is closed or the oldest idle
    /// one can be closed for them.
    pub connections: usize,
    /// Connections of one address, if they are counted; see [`PerAddress`].
    pub per_address: PerAddress,
    /// How long it may take to secure the connection.
    pub handshake_within: Duration,
    /// How long the whole head of a request may take, from its first byte on; of the first request, from the connection on.
    pub head_within: Duration,
    /// How long a connection is kept on which nothing is asked.
    pub idle_for: Duration,
    /// How long a body may take.
    pub body_within: Duration,
    /// The fewest bytes of a body in a second, once it has had a moment.
    pub body_rate: u64,
    /// How long a client may take nothing of what is to be written to it.
    pub stalled_for: Duration,
    /// The fewest bytes that it may take in a second, once it has had as long as that.
    pub answer_rate: u64,
    /// The most bytes of a head.
    pub head_bytes: usize,
    /// The most headers.
    pub headers: usize,
    /// The most bytes of a request's target.
    pub url_bytes: usize,
}

/// How many connections one address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerAddress {
    /// So many each, but as many as there can be for this machine, on which a proxy may run.
    Others(usize),
    /// So many each, this machine as well.
    Each(usize),
}

/// What the config allows by default.
impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            per_address: PerAddress::Others(512),
            handshake_within: Duration::from_secs(10),
            head_within: Duration::from_secs(10),
            idle_for: Duration::from_secs(60),
            body_within: Duration::from_secs(30),
            body_rate: 1024,
            stalled_for: Duration::from_secs(30),
            answer_rate: 16 * 1024,
            head_bytes: 64 * 1024,
            headers: 100,
            url_bytes: 4096,
        }
    }
}
