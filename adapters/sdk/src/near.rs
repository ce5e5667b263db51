//! [`is_near`]: whether a host is this machine or its own network segment. It goes by what is written: no name is looked up.

use std::net::{IpAddr, Ipv6Addr};

/// Where EC2 hands out credentials by IPv6: private, and not link-local.
const EC2: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// True if a host (of a URL: a name, or an address, with brackets or without) is this machine, or on a link where machines find
/// what is meant for them alone, such as the credentials that clouds hand out at 169.254.169.254. Whoever is told by somebody
/// else where to fetch something should not fetch it there.
pub fn is_near(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address.map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(four)) => four.is_loopback() || four.is_link_local() || four.is_unspecified(),
        Ok(IpAddr::V6(six)) => {
            six.is_loopback() || six.is_unicast_link_local() || six.is_unspecified() || six == EC2
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

    #[test]
    fn this_machine_is_near_however_it_is_written() {
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
            assert!(is_near(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com", "notlocalhost", "10.0.0.7", "[2001:db8::1]"]
        {
            assert!(!is_near(host), "{host}");
        }
    }
}
