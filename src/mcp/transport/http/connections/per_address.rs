//! [`ConnectionCounter`]: the number of connections of each address. An IPv6 /64 network counts as one
//! address, because one user controls all of its addresses. This module must not close connections itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::limits::PerAddress;
use crate::auth::client_limit_key;

/// Minimum interval between two log messages about refused connections.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The connections of all addresses. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::mcp::transport::http) struct ConnectionCounter(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    counts: HashMap<IpAddr, usize>,
    /// Connections refused since the last log message.
    refused: u64,
    last_logged: Option<Instant>,
}

/// One counted connection. Dropping it releases the count.
pub(in crate::mcp::transport::http) struct ConnectionSlot {
    counter: ConnectionCounter,
    address: IpAddr,
}

impl ConnectionCounter {
    /// Counts one more connection of this address. Returns `None` at the limit, and logs a warning at most
    /// once per `LOG_EVERY`.
    pub(in crate::mcp::transport::http) fn take(
        &self,
        address: IpAddr,
        limit: PerAddress,
    ) -> Option<ConnectionSlot> {
        let address = client_limit_key(address);
        let limit = match limit {
            PerAddress::ExceptLoopback(_) if address.is_loopback() => usize::MAX,
            PerAddress::ExceptLoopback(limit) | PerAddress::Every(limit) => limit,
        };
        let mut state = self.0.lock();
        let count = state.counts.get(&address).copied().unwrap_or(0);
        if count >= limit {
            state.log_refusal(address, limit);
            return None;
        }
        state.counts.insert(address, count + 1);
        Some(ConnectionSlot { counter: self.clone(), address })
    }
}

impl State {
    fn log_refusal(&mut self, address: IpAddr, limit: usize) {
        self.refused += 1;
        let now = Instant::now();
        if self.last_logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY) {
            tracing::warn!(
                %address,
                turned_away = self.refused,
                "connections are closed at once: an address has {limit} (max_connections_per_address in [limits])"
            );
            (self.refused, self.last_logged) = (0, Some(now));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.counter.0.lock();
        if let Some(count) = state.counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                state.counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// IPv4-mapped addresses count as IPv4, and closed connections no longer count.
    #[test]
    fn connection_limit_per_address_is_returned() {
        let counter = ConnectionCounter::default();
        let limit = PerAddress::Every(2);
        let slots = [counter.take(ip("127.0.0.1"), limit), counter.take(ip("127.0.0.1"), limit)];
        assert!(slots.iter().all(Option::is_some));
        assert!(counter.take(ip("127.0.0.1"), limit).is_none());
        assert!(counter.take(ip("::ffff:127.0.0.1"), limit).is_none(), "the same address in other words");
        assert!(counter.take(ip("127.0.0.2"), limit).is_some());
        drop(slots);
        assert!(counter.take(ip("127.0.0.1"), limit).is_some());
        assert!(counter.0.lock().counts.is_empty(), "nothing is kept of who has gone");
    }

    /// Loopback addresses count only where the limit applies to every address.
    #[test]
    fn ipv6_network_shares_connection_limit() {
        let counter = ConnectionCounter::default();
        let limit = PerAddress::ExceptLoopback(1);
        let _one = counter.take(ip("2001:db8:0:1::1"), limit).unwrap();
        assert!(counter.take(ip("2001:db8:0:1:ffff::2"), limit).is_none());
        assert!(counter.take(ip("2001:db8:0:2::1"), limit).is_some());
        let _here: Vec<_> = (0..9).map(|_| counter.take(ip("::1"), limit).unwrap()).collect();
        assert!(counter.take(ip("::1"), PerAddress::Every(9)).is_none());
    }
}
