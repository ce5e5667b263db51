//! Which web pages may talk to the server, and under which names it may be reached. Both rules exist against pages
//! that a user did not mean to let in (DNS rebinding), and know nothing of what is asked.

use std::net::IpAddr;

/// The origin of pages that have none of their own (files, sandboxed frames).
const OPAQUE: &str = "null";

/// The rules.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    /// Origins of pages, beside those of this machine, in normal form.
    origins: Vec<String>,
    /// Names, beside `localhost` and the loopback addresses.
    hosts: Vec<String>,
    /// Whether names are checked at all.
    check_hosts: bool,
}

impl Doors {
    /// Lets in pages of this machine and of `origins` (`scheme://host[:port]`, or `null`). The server can be reached by the names of
    /// this machine and by `hosts` (`name` or `name:port`); by any name if there are none and it is `bound` to an address that is
    /// not a loopback one.
    ///
    /// # Errors
    /// The first origin that is none.
    pub fn new(
        bound: IpAddr,
        origins: impl IntoIterator<Item = String>,
        hosts: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let origins = origins
            .into_iter()
            .map(|origin| normal(&origin).ok_or(origin))
            .collect::<Result<_, _>>()
            .map_err(|origin| {
                format!("{origin:?} is no origin: write it as scheme://host or scheme://host:port")
            })?;
        let hosts: Vec<String> = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        let check_hosts = bound.is_loopback() || !hosts.is_empty();
        Ok(Self { origins, hosts, check_hosts })
    }

    /// True if pages of this origin may talk to the server.
    pub fn lets_in(&self, origin: &str) -> bool {
        let Some(origin) = normal(origin) else { return false };
        let local = origin.split_once("://").is_some_and(|(scheme, authority)| {
            matches!(scheme, "http" | "https")
                && split(authority).is_some_and(|(host, _)| is_this_machine(host))
        });
        local || self.origins.contains(&origin)
    }

    /// True if the server may be called by this `Host`.
    pub fn answers_to(&self, host: &str) -> bool {
        if !self.check_hosts {
            return true;
        }
        let host = host.to_ascii_lowercase();
        split(&host).is_some_and(|(name, _)| {
            is_this_machine(name) || self.hosts.iter().any(|known| *known == host || known == name)
        })
    }
}

/// True if this `Host` is a name of this machine.
pub fn is_ours(host: &str) -> bool {
    split(&host.to_ascii_lowercase()).is_some_and(|(name, _)| is_this_machine(name))
}

/// An origin in lower case and without its scheme's own port; `None` if it has another form.
fn normal(origin: &str) -> Option<String> {
    let origin = origin.to_ascii_lowercase();
    if origin == OPAQUE {
        return Some(origin);
    }
    let (scheme, authority) = origin.split_once("://").filter(|(scheme, _)| !scheme.is_empty())?;
    let (host, port) = split(authority)?;
    let own = matches!((scheme, port), ("http", ":80") | ("https", ":443"));
    Some(format!("{scheme}://{host}{}", if own { "" } else { port }))
}

/// The host of an authority, and its port with the colon or nothing; `None` if it has another form.
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

    fn doors(bound: &str) -> Doors {
        Doors::new(
            bound.parse().unwrap(),
            ["https://App.example:443".to_owned(), "http://10.0.0.1:3000".to_owned()],
            ["tasks.internal".to_owned(), "other:99".to_owned()],
        )
        .unwrap()
    }

    #[test]
    fn lets_in_this_machine_and_the_configured_origins() {
        let doors = doors("127.0.0.1");
        for origin in [
            "http://localhost",
            "http://localhost:6274",
            "https://127.0.0.1:1",
            "http://[::1]:8080",
            "https://app.example",
            "https://APP.example:443",
            "http://10.0.0.1:3000",
        ] {
            assert!(doors.lets_in(origin), "{origin}");
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
            assert!(!doors.lets_in(origin), "{origin}");
        }
        let with = |origin: &str| Doors::new("::1".parse().unwrap(), [origin.to_owned()], []);
        assert!(with("app.example").unwrap_err().contains("app.example"));
        assert!(with("null").unwrap().lets_in("null"));
    }

    #[test]
    fn answers_to_its_own_names_and_to_those_that_are_said() {
        let local = doors("::1");
        for host in
            ["localhost:8808", "LOCALHOST", "127.0.0.1:1", "[::1]", "[::1]:2", "tasks.internal:5", "other:99"]
        {
            assert!(local.answers_to(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:80", "other:98", "10.0.0.1", "[::1]evil"] {
            assert!(!local.answers_to(host), "{host}");
        }
        let named = doors("0.0.0.0");
        assert!(named.answers_to("tasks.internal") && named.answers_to("localhost"));
        assert!(!named.answers_to("anything"), "names that are said hold wherever it listens");
        assert!(Doors::new("0.0.0.0".parse().unwrap(), [], []).unwrap().answers_to("anything"));
    }
}
