//! Validation of the server's own tables beyond their schema, and warnings.

use std::net::SocketAddr;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::shape::{Lifetime, Reconciler, Server};
use crate::config::callers::auth::{AuthMode, Authentication};
use crate::config::reading::reader::Reader;
use crate::mcp::transport::http::Tls;
use crate::tasks::machine::format_duration;

/// Maximum number of concurrent calls to a backend. Its thread limit is 256, which hints, logs and artifacts
/// share with the calls.
const MAX_CALLS: usize = 200;

/// Validates the server's own tables.
pub(in crate::config) fn all(
    reader: &mut Reader<'_>,
    server: &Server,
    auth: &Authentication,
    reconciler: &Reconciler,
    lifetime: &Lifetime,
) {
    if reader.is_clean("auth")
        && let Err(message) = check_listen_address(server.listen, auth)
    {
        reader.problem("server.listen", message);
    }
    for (field, zero) in [
        ("server.progress_every", server.progress_every.is_zero()),
        ("server.session_lifetime", server.session_lifetime.is_zero()),
        ("reconciler.quickest_look", reconciler.quickest_look.is_zero()),
    ] {
        if zero {
            reader.problem(field, "must not be zero: write a time such as \"5s\"");
        }
    }
    if reconciler.lease.as_secs() < 2 {
        let message = format!("{} is too short: write at least \"2s\"", format_duration(reconciler.lease));
        reader.problem("reconciler.lease", message);
    }
    if reconciler.max_concurrent_calls.get() > MAX_CALLS {
        let message = format!("{} is too many: at most {MAX_CALLS}", reconciler.max_concurrent_calls);
        reader.problem("reconciler.max_concurrent_calls", message);
    }
    if reconciler.quickest_look > reconciler.slowest_look {
        let message = longer_than(reconciler.quickest_look, "slowest_look", reconciler.slowest_look);
        reader.problem("reconciler.quickest_look", message);
    }
    if lifetime.min_ttl > lifetime.max_ttl {
        let message = longer_than(lifetime.min_ttl, "max_ttl", lifetime.max_ttl);
        reader.problem("lifetime.min_ttl", message);
    }
    for origin in server.allowed_origins.iter().enumerate() {
        check_origin(reader, origin);
    }
}

fn longer_than(time: Duration, than: &str, limit: Duration) -> String {
    format!(
        "{} is longer than `{than}` ({}): change one of them",
        format_duration(time),
        format_duration(limit)
    )
}

/// Returns warnings about a config that is valid.
pub(in crate::config) fn warnings(server: &Server, tls: Option<&Tls>, now: Timestamp) -> Vec<String> {
    let mut all: Vec<String> = tls.and_then(|tls| tls.warning(now)).into_iter().collect();
    let address = server.listen;
    if tls.is_none() && !address.ip().is_loopback() && server.trusted_proxies.is_empty() {
        all.push(format!(
            "other machines can reach {address}, and connections are not encrypted: others on the network can read \
             and use the credentials of callers. Set [server.tls]; or, behind a proxy that terminates TLS, add it to \
             `trusted_proxies` in [server]"
        ));
    }
    all
}

/// Returns an error if a server with this authentication must not listen on this address.
pub(in crate::config) fn check_listen_address(
    address: SocketAddr,
    auth: &Authentication,
) -> Result<(), String> {
    if address.ip().is_loopback() || auth.mode != AuthMode::None || auth.allow_anonymous {
        return Ok(());
    }
    Err(format!(
        "other machines can reach {address}, and [auth] admits every caller: listen on 127.0.0.1, or set mode = \
         \"api_keys\", \"oauth\" or \"certificates\" in [auth]"
    ))
}

/// An origin is a scheme, a host and optionally a port (RFC 6454): a path would never match.
fn check_origin(reader: &mut Reader<'_>, (index, origin): (usize, &String)) {
    let rest = origin.split_once("://").filter(|(scheme, _)| !scheme.is_empty()).map(|(_, rest)| rest);
    if rest.is_none_or(|rest| rest.is_empty() || rest.contains('/')) {
        let message = format!("\"{origin}\" is not an origin: write one such as \"https://app.example.com\"");
        reader.problem(format!("server.allowed_origins[{index}]"), message);
    }
}
