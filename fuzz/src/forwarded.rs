//! Fuzz target of `X-Forwarded-For`: any values, in one header or several. A peer that is not a configured
//! proxy is itself the origin. Otherwise the origin is the peer or an address from a header.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue};
use taskbridge::mcp::transport::http::Proxies;

use super::draw::Draw;
use super::endpoint::Endpoint;

/// Evaluates headers.
pub fn target(_: &Endpoint, bytes: &[u8]) {
    let mut draw = Draw::of(bytes);
    let peers = ["10.0.0.1", "203.0.113.9", "::ffff:10.1.2.3", "fd00::1", "2001:db8::1"];
    let peer: IpAddr = draw.one_of(&peers).parse().expect("these are addresses");
    let lines = draw.below(3);
    let text = draw.rest();
    let mut headers = HeaderMap::new();
    for part in text.splitn(lines + 1, |byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(part) {
            headers.append("x-forwarded-for", value);
        }
    }
    let canonical_peer = peer.to_canonical();
    assert_eq!(Proxies::default().origin(peer, &headers), canonical_peer);
    let proxies =
        Proxies::new(["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("these are networks")));
    let origin = proxies.origin(peer, &headers);
    let is_proxy = matches!(canonical_peer, IpAddr::V4(address) if address.octets()[0] == 10)
        || canonical_peer == IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]);
    assert!(is_proxy || origin == canonical_peer, "a stranger is believed");
    assert_eq!(origin, origin.to_canonical());
}
