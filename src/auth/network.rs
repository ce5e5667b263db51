//! The grouping of client addresses for limits per client. It must not count anything.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the key under which limits count a client: the address, or for IPv6 its /64 network. A single user
/// usually controls a whole /64 network (RFC 4291, section 2.5.4).
pub fn client_limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}
