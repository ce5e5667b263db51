//! [`ConnectionLimits`]: the number of connections, and the timeouts, rates and sizes of each. A new config
//! applies to connections that are accepted after it; only the number of connections applies at once.

use std::time::Duration;

/// The limits of connections: settings of `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections (`max_connections`), if the descriptor limit allows it. Further ones
    /// wait until a connection closes or the oldest idle one can be evicted.
    pub connections: usize,
    /// Maximum number of connections per address (`max_connections_per_address`). Trusted proxies are exempt.
    pub per_address: PerAddress,
    /// Timeout of the TLS handshake.
    pub handshake_timeout: Duration,
    /// Timeout of a request head, from its first byte. For the first request, from the start of the
    /// connection or the end of its TLS handshake.
    pub head_timeout: Duration,
    /// How long a connection without a request is kept, after its first request.
    pub idle_timeout: Duration,
    /// Timeout of a request body.
    pub body_timeout: Duration,
    /// Minimum rate of a request body in bytes per second, after a grace period of 5 seconds
    /// (`min_body_bytes_per_second`).
    pub body_rate: u64,
    /// How long a client may read nothing while data waits to be sent.
    pub stall_timeout: Duration,
    /// Minimum rate at which a client must read waiting data, in bytes per second, after a grace period of
    /// `stall_timeout` (`min_answer_bytes_per_second`).
    pub answer_rate: u64,
    /// Maximum size of a request head in bytes.
    pub head_bytes: usize,
    /// Maximum number of headers.
    pub headers: usize,
    /// Maximum size of a request target in bytes.
    pub url_bytes: usize,
}

/// Connection limit per address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerAddress {
    /// This limit for each address. Loopback addresses are exempt, because a proxy may run on this machine.
    ExceptLoopback(usize),
    /// This limit for each address, including loopback addresses.
    Every(usize),
}

/// The defaults of the config.
impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            per_address: PerAddress::ExceptLoopback(512),
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            body_rate: 1024,
            stall_timeout: Duration::from_secs(30),
            answer_rate: 16 * 1024,
            head_bytes: 64 * 1024,
            headers: 100,
            url_bytes: 4096,
        }
    }
}
