//! Addresses that no request may go to: link-local addresses and metadata services, which serve credentials
//! of this machine. The rules are those of `kind = "http"`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Metadata services outside the link-local range: Alibaba Cloud, Azure, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// Names of metadata services. A proxy resolves names itself, so the names are refused, too.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata", "instance-data"];

/// Refuses a host by its text, which is in lower case.
///
/// # Errors
/// Why it is refused.
pub(super) fn check_host(host: &str) -> Result<(), String> {
    let name = host.trim_end_matches('.');
    if METADATA_NAMES.contains(&name) || name.starts_with("instance-data.") {
        return Err(format!("{host} is a metadata service, which is never requested"));
    }
    match name.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => check_address(host, address).map_err(|forbidden| forbidden.to_string()),
        Err(_) => Ok(()),
    }
}

fn check_address(host: &str, address: IpAddr) -> Result<(), ForbiddenAddress> {
    match is_forbidden(address) {
        true => Err(ForbiddenAddress(format!("{host} has the address {address}, which is never requested"))),
        false => Ok(()),
    }
}

fn is_forbidden(address: IpAddr) -> bool {
    match embedded_v4(address) {
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

/// Returns the IPv4 address within an IPv6 address that carries one: mapped, compatible, NAT64 and 6to4.
fn embedded_v4(address: IpAddr) -> IpAddr {
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

/// Resolves names, and refuses a name with a forbidden address. The connection uses exactly the checked
/// addresses, so a second answer of the name server cannot change them.
pub(super) struct CheckedResolver;

/// Refused address. The cause of an error of the HTTP library.
#[derive(Debug)]
pub(super) struct ForbiddenAddress(String);

impl fmt::Display for ForbiddenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ForbiddenAddress {}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_ascii_lowercase();
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            for address in &found {
                // One forbidden address refuses all: no order of attempts can then reach it.
                check_address(&host, address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_refused() {
        for host in [
            "169.254.169.254",
            "0.0.0.0",
            "100.100.100.200",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:a9fe:a9fe::1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "metadata.google.internal.",
            "instance-data.ec2.internal",
        ] {
            assert!(check_host(host).is_err(), "{host}");
        }
        for host in ["10.1.2.3", "127.0.0.1", "[::1]", "jobs.internal", "metadata.example.com"] {
            assert_eq!(check_host(host), Ok(()), "{host}");
        }
    }
}
