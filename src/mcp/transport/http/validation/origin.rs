//! Which web pages may use the server, and under which host names. Both rules protect against web pages that
//! a user did not intend to admit, also by DNS rebinding. "This machine" means `localhost` and the loopback
//! addresses. It must not depend on the content of requests.

use std::net::IpAddr;

/// The origin of pages without an origin of their own (files, sandboxed frames).
const OPAQUE: &str = "null";

/// The allowed origins and host names.
#[derive(Clone, Debug, Default)]
pub struct OriginPolicy {
    /// Allowed page origins in normalized form, in addition to those of this machine.
    origins: Vec<String>,
    /// Host names, in addition to `localhost` and the loopback addresses.
    hosts: Vec<String>,
    /// Whether host names are checked at all.
    check_hosts: bool,
}

impl OriginPolicy {
    /// Allows pages of this machine and of `origins` (`scheme://host[:port]`, or `null`). Allows requests to
    /// the names of this machine and to `hosts` (`name` or `name:port`). If `hosts` is empty and
    /// `bind_address` is not a loopback address, every host name is allowed.
    ///
    /// # Errors
    /// The first invalid origin.
    pub fn new(
        bind_address: IpAddr,
        origins: impl IntoIterator<Item = String>,
        hosts: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let origins = origins
            .into_iter()
            .map(|origin| normalize(&origin).ok_or(origin))
            .collect::<Result<_, _>>()
            .map_err(|origin| {
                format!("{origin:?} is no origin: write it as scheme://host or scheme://host:port")
            })?;
        let hosts: Vec<String> = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        let check_hosts = bind_address.is_loopback() || !hosts.is_empty();
        Ok(Self { origins, hosts, check_hosts })
    }

    /// Returns true if pages of this origin may use the server.
    pub fn allows_origin(&self, origin: &str) -> bool {
        let Some(origin) = normalize(origin) else { return false };
        let local = origin.split_once("://").is_some_and(|(scheme, authority)| {
            matches!(scheme, "http" | "https")
                && split(authority).is_some_and(|(host, _)| is_this_machine(host))
        });
        local || self.origins.contains(&origin)
    }

    /// Returns true if a request may have this `Host`.
    pub fn allows_host(&self, host: &str) -> bool {
        if !self.check_hosts {
            return true;
        }
        let host = host.to_ascii_lowercase();
        split(&host).is_some_and(|(name, _)| {
            is_this_machine(name) || self.hosts.iter().any(|allowed| *allowed == host || allowed == name)
        })
    }
}

/// Returns true if this `Host` is a name of this machine.
pub fn is_ours(host: &str) -> bool {
    split(&host.to_ascii_lowercase()).is_some_and(|(name, _)| is_this_machine(name))
}

/// Returns an origin in lower case, without the default port of `http` or `https`. Returns `None` if it is
/// invalid.
fn normalize(origin: &str) -> Option<String> {
    let origin = origin.to_ascii_lowercase();
    if origin == OPAQUE {
        return Some(origin);
    }
    let (scheme, authority) = origin.split_once("://").filter(|(scheme, _)| !scheme.is_empty())?;
    let (host, port) = split(authority)?;
    let is_default_port = matches!((scheme, port), ("http", ":80") | ("https", ":443"));
    Some(format!("{scheme}://{host}{}", if is_default_port { "" } else { port }))
}

/// Splits an authority into its host and its port with the colon, or an empty port. Returns `None` if it is
/// invalid.
fn split(authority: &str) -> Option<(&str, &str)> {
    let end = match authority.find(']') {
        Some(end) => end + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let valid = !host.is_empty()
        && !host.contains(['/', '@', '?', '#', ' ', '\\'])
        && (port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()));
    valid.then_some((host, port))
}

fn is_this_machine(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(bound: &str) -> OriginPolicy {
        OriginPolicy::new(
            bound.parse().unwrap(),
            ["https://App.example:443".to_owned(), "http://10.0.0.1:3000".to_owned()],
            ["tasks.internal".to_owned(), "other:99".to_owned()],
        )
        .unwrap()
    }

    /// Loopback origins and configured ones are accepted.
    #[test]
    fn origin_must_be_local_or_configured() {
        let doors = policy("127.0.0.1");
        for origin in [
            "http://localhost",
            "http://localhost:6274",
            "https://127.0.0.1:1",
            "http://[::1]:8080",
            "https://app.example",
            "https://APP.example:443",
            "http://10.0.0.1:3000",
        ] {
            assert!(doors.allows_origin(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://localhost@evil.example",
            "http://localhost:80/x",
            "http://app.example",
            "https://app.example:444",
            "http://10.0.0.1",
            "http://localhost:99999",
            "file://localhost",
            "http://[::1",
        ] {
            assert!(!doors.allows_origin(origin), "{origin}");
        }
        let with = |origin: &str| OriginPolicy::new("::1".parse().unwrap(), [origin.to_owned()], []);
        assert!(with("app.example").unwrap_err().contains("app.example"));
        assert!(with("null").unwrap().allows_origin("null"));
    }

    /// On a public address without configured names, any host is accepted.
    #[test]
    fn host_must_be_own_or_configured() {
        let local = policy("::1");
        for host in
            ["localhost:8808", "LOCALHOST", "127.0.0.1:1", "[::1]", "[::1]:2", "tasks.internal:5", "other:99"]
        {
            assert!(local.allows_host(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:80", "other:98", "10.0.0.1", "[::1]evil"] {
            assert!(!local.allows_host(host), "{host}");
        }
        let configured = policy("0.0.0.0");
        assert!(configured.allows_host("tasks.internal") && configured.allows_host("localhost"));
        assert!(!configured.allows_host("anything"), "names that are said hold wherever it listens");
        assert!(OriginPolicy::new("0.0.0.0".parse().unwrap(), [], []).unwrap().allows_host("anything"));
    }
}
