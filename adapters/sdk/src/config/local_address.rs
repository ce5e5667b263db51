//! [`is_local_address`]: checks whether a host is this machine or in its network segment. It must not resolve
//! names: only the text of the host counts.

use std::net::{IpAddr, Ipv6Addr};

/// IPv6 address at which EC2 serves credentials. It is private, and not link-local.
const EC2: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Returns true if a host is this machine, has a link-local address, or is EC2's credential service. Clouds
/// serve data for one machine alone at such addresses, such as credentials at 169.254.169.254. `host` is a
/// name or an address as in a URL, with or without brackets. Do not fetch a URL of external origin from such
/// a host.
pub fn is_local_address(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address.map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(v4)) => v4.is_loopback() || v4.is_link_local() || v4.is_unspecified(),
        Ok(IpAddr::V6(v6)) => {
            v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified() || v6 == EC2
        }
        Err(_) => {
            let host = host.to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every spelling of loopback and link-local hosts counts as this machine.
    #[test]
    fn local_addresses_are_recognized() {
        for host in [
            "localhost",
            "localhost.",
            "LocalHost",
            "x.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.169.254",
            "::1",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:169.254.169.254]",
            "[fe80::1]",
            "[fd00:ec2::254]",
        ] {
            assert!(is_local_address(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com", "notlocalhost", "10.0.0.7", "[2001:db8::1]"]
        {
            assert!(!is_local_address(host), "{host}");
        }
    }
}
