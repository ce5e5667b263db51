//! What counts as one place that requests come from. It must not count anything.

use std::net::{IpAddr, Ipv6Addr};

/// What those who cannot be told apart are counted by: an address, or the network of one that a single user has whole
/// (IPv6, /64: RFC 4291, section 2.5.4).
pub fn of_one_user(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}
