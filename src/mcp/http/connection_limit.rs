//! [`ConnectionCounter`]: the number of connections of each address. An IPv6 /64 network counts as one
//! address, because one user controls all of its addresses. This module must not close connections itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::limits::PerAddress;
use crate::auth::of_one_user;

/// Minimum interval between two log messages about refused connections.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The connections of all addresses. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ConnectionCounter(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    taken: HashMap<IpAddr, usize>,
    /// Connections refused since the last log message.
    turned_away: u64,
    told: Option<Instant>,
}

/// One counted connection. Dropping it releases the count.
pub(super) struct ConnectionSlot {
    seats: ConnectionCounter,
    address: IpAddr,
}

impl ConnectionCounter {
    /// Counts one more connection of this address. Returns `None` at the limit, and logs a warning at most
    /// once per `TELL_EVERY`.
    pub(super) fn take(&self, address: IpAddr, most: PerAddress) -> Option<ConnectionSlot> {
        let address = of_one_user(address);
        let most = match most {
            PerAddress::Others(_) if address.is_loopback() => usize::MAX,
            PerAddress::Others(most) | PerAddress::Each(most) => most,
        };
        let mut state = self.0.lock();
        let taken = state.taken.get(&address).copied().unwrap_or(0);
        if taken >= most {
            state.turn_away(address, most);
            return None;
        }
        state.taken.insert(address, taken + 1);
        Some(ConnectionSlot { seats: self.clone(), address })
    }
}

impl State {
    fn turn_away(&mut self, address: IpAddr, most: usize) {
        self.turned_away += 1;
        let now = Instant::now();
        if self.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
            tracing::warn!(
                %address,
                turned_away = self.turned_away,
                "connections are closed at once: an address has {most} (max_connections_per_address in [limits])"
            );
            (self.turned_away, self.told) = (0, Some(now));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.seats.0.lock();
        if let Some(taken) = state.taken.get_mut(&self.address) {
            *taken -= 1;
            if *taken == 0 {
                state.taken.remove(&self.address);
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
        let seats = ConnectionCounter::default();
        let each = PerAddress::Each(2);
        let taken = [seats.take(ip("127.0.0.1"), each), seats.take(ip("127.0.0.1"), each)];
        assert!(taken.iter().all(Option::is_some));
        assert!(seats.take(ip("127.0.0.1"), each).is_none());
        assert!(seats.take(ip("::ffff:127.0.0.1"), each).is_none(), "the same address in other words");
        assert!(seats.take(ip("127.0.0.2"), each).is_some());
        drop(taken);
        assert!(seats.take(ip("127.0.0.1"), each).is_some());
        assert!(seats.0.lock().taken.is_empty(), "nothing is kept of who has gone");
    }

    /// Loopback addresses count only where the limit applies to every address.
    #[test]
    fn ipv6_network_shares_connection_limit() {
        let seats = ConnectionCounter::default();
        let others = PerAddress::Others(1);
        let _one = seats.take(ip("2001:db8:0:1::1"), others).unwrap();
        assert!(seats.take(ip("2001:db8:0:1:ffff::2"), others).is_none());
        assert!(seats.take(ip("2001:db8:0:2::1"), others).is_some());
        let _here: Vec<_> = (0..9).map(|_| seats.take(ip("::1"), others).unwrap()).collect();
        assert!(seats.take(ip("::1"), PerAddress::Each(9)).is_none());
    }
}
