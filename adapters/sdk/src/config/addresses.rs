//! Rules for IP addresses of engines: those that no request may go to, and those that need a named host. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services outside the link-local range: Alibaba Cloud, Azure, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// Names of metadata services. A proxy resolves names itself, so the names are refused, too.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata", "instance-data"];

/// Returns true if a host name belongs to a metadata service. `host` is in lower case.
pub fn is_metadata_name(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    METADATA_NAMES.contains(&host) || host.starts_with("instance-data.")
}

/// Returns true if no request may go to this address: link-local addresses and metadata services, which
/// serve credentials of this machine, and addresses of no single host.
pub fn is_forbidden_address(address: IpAddr) -> bool {
    match unwrap_v4(address) {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.octets()[0] == 0
                || v4.is_broadcast()
                || v4.is_multicast()
                || METADATA_V4.contains(&v4)
        }
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            let is_aws_service = segments[..2] == [0xfd00, 0x0ec2];
            let is_google_metadata = segments[..2] == [0xfd20, 0x00ce];
            v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6.is_multicast()
                || is_aws_service
                || is_google_metadata
        }
    }
}

/// Returns true if only a named host may have this address: loopback, and networks that the internet does not
/// route.
pub fn is_private_address(address: IpAddr) -> bool {
    match unwrap_v4(address) {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            v4.is_private()
                || v4.is_loopback()
                || (a == 100 && (64..128).contains(&b))
                || (a == 198 && (18..20).contains(&b))
                || [a, b, c] == [192, 0, 0]
                || a >= 240
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.segments()[0] & 0xffc0 == 0xfec0,
    }
}

/// Returns the IPv4 address within an IPv6 address that carries one: mapped, compatible, NAT64 and 6to4.
fn unwrap_v4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([p, q], [r, s]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(p, q, r, s))
    };
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        [0, 0, 0, 0, 0, 0] if !matches!(v6, Ipv6Addr::LOCALHOST | Ipv6Addr::UNSPECIFIED) => v4(g, h),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> (bool, bool) {
        let address = text.parse().unwrap();
        (is_forbidden_address(address), is_private_address(address))
    }

    /// Link-local addresses and metadata services are refused in every notation that carries them.
    #[test]
    fn metadata_addresses_are_forbidden() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
        ] {
            assert!(rules(text).0, "{text}");
        }
    }

    #[test]
    fn private_addresses_need_named_host() {
        for text in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "fc00::1",
            "fd12::1",
        ] {
            assert_eq!(rules(text), (false, true), "{text}");
        }
        for text in ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "172.32.0.1", "100.128.0.1"] {
            assert_eq!(rules(text), (false, false), "{text}");
        }
    }

    #[test]
    fn metadata_names_are_recognized() {
        for name in ["metadata.google.internal", "metadata.google.internal.", "instance-data.ec2.internal"] {
            assert!(is_metadata_name(name), "{name}");
        }
        assert!(!is_metadata_name("metadata.example.com"));
    }
}
