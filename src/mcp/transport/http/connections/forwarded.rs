//! Client addresses from `X-Forwarded-For`. Anyone can write this header, so an entry counts only if a proxy
//! from the config added it.

use std::net::IpAddr;

use axum::http::HeaderMap;
use ipnet::IpNet;

/// The header to which each proxy appends the address of its client.
const HEADER: &str = "x-forwarded-for";

/// Maximum number of header entries that are evaluated.
const MAX_ENTRIES: usize = 32;

/// The trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Trusts the proxies in these networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// Returns true if this address is a trusted proxy.
    pub(in crate::mcp::transport::http) fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client address of a request that arrived on a connection from `peer`: the nearest hop that
    /// is not a trusted proxy.
    pub fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut origin = peer.to_canonical();
        if self.0.is_empty() {
            return origin;
        }
        let values = headers.get_all(HEADER).iter().rev();
        let entries = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
        for entry in entries.take(MAX_ENTRIES) {
            // An untrusted peer may write anything about earlier hops.
            let Some(hop) = self.has(origin).then(|| address(entry)).flatten() else { break };
            origin = hop.to_canonical();
        }
        origin
    }
}

/// Parses an address as proxies write it: some add a port, some add brackets.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?.trim();
    if let Ok(address) = entry.parse() {
        return Some(address);
    }
    if let Ok(with_port) = entry.parse::<std::net::SocketAddr>() {
        return Some(with_port.ip());
    }
    entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(proxies: &[&str], peer: &str, headers: &[&str]) -> String {
        let proxies = Proxies::new(proxies.iter().map(|network| network.parse().unwrap()));
        let headers = headers.iter().map(|value| (HEADER.parse().unwrap(), value.parse().unwrap())).collect();
        proxies.origin(peer.parse().unwrap(), &headers).to_string()
    }

    /// Only addresses that configured proxies appended are used.
    #[test]
    fn forwarded_header_needs_trusted_proxy() {
        let trusted = ["10.0.0.0/8", "fd00::/8"];
        for (peer, headers, expected) in [
            ("10.0.0.1", &["203.0.113.7"][..], "203.0.113.7"),
            ("10.0.0.1", &[], "10.0.0.1"),
            // What the client wrote itself precedes what the proxy appends.
            ("10.0.0.1", &["198.51.100.1, 203.0.113.7"], "203.0.113.7"),
            ("10.0.0.1", &["198.51.100.1", "203.0.113.7, 10.0.0.2"], "203.0.113.7"),
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            ("::ffff:10.0.0.1", &["203.0.113.7:4711"], "203.0.113.7"),
            ("fd00::1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("fd00::1", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.7, nobody, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["", ","], "10.0.0.1"),
        ] {
            assert_eq!(origin(&trusted, peer, headers), expected, "{peer} {headers:?}");
        }
        assert_eq!(origin(&[], "10.0.0.1", &["203.0.113.7"]), "10.0.0.1");
    }

    /// A header of endless proxies is followed for a bounded number of entries.
    #[test]
    fn long_forwarded_header_is_cut() {
        let endless = vec!["10.0.0.2"; 100_000].join(",");
        assert_eq!(origin(&["10.0.0.0/8"], "10.0.0.1", &[&format!("203.0.113.7,{endless}")]), "10.0.0.2");
    }
}
