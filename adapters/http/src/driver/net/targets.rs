//! [`Targets`]: the addresses that requests of a backend may go to, judged by their text. It must not resolve
//! names: `resolver.rs` does, with the same rules.

use std::net::IpAddr;

use reqwest::Url;
use taskbridge_sdk::{is_forbidden_address, is_metadata_name, is_private_address};

/// Maximum number of download hosts.
const MAX_NAMED: usize = 32;

/// Addresses that requests may go to.
#[derive(Debug)]
pub(super) struct Targets {
    base: Url,
    named: Vec<NamedHost>,
    proxy_host: Option<String>,
}

/// One entry of `download_hosts`.
#[derive(Debug)]
struct NamedHost {
    scheme: String,
    /// Host, or the part after `*`, which begins with a dot.
    host: String,
    is_wildcard: bool,
    port: Option<u16>,
}

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Below `base`: credentials go along.
    Base,
    /// A named host: downloads only, without credentials.
    DownloadHost,
}

impl Targets {
    pub(super) fn new(base: &Url, also: &[String], proxy_host: Option<String>) -> Result<Self, String> {
        let invalid = |why: &str| format!("`base`: {:?} {why}", redact(base));
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(invalid("is not an address of HTTP: write one such as https://engine.example.com"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(invalid("contains a user or a password: write them in `auth.basic`"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(invalid("has a query or a fragment: remove it"));
        }
        if also.len() > MAX_NAMED {
            return Err(format!("`also` has {} hosts, the limit is {MAX_NAMED}", also.len()));
        }
        let named = also.iter().map(|text| NamedHost::parse(text)).collect::<Result<_, String>>()?;
        let targets = Self { base: base.clone(), named, proxy_host };
        targets.check_host(base).map_err(|why| format!("`base`: {why}"))?;
        Ok(targets)
    }

    /// Returns the address of a path below `base`. The path is percent-encoded, and may have a query.
    pub(super) fn join(&self, path: &str) -> Result<Url, String> {
        if !path.starts_with('/') {
            return Err(format!("the path {:?} must begin with `/`", shorten(path)));
        }
        // A value in the path could otherwise select another resource below `base`.
        if path.split(['?', '#']).next().is_some_and(|path| path.split(['/', '\\']).any(is_dot_segment)) {
            return Err(format!("the path {:?} contains `.` or `..` between slashes", shorten(path)));
        }
        let text = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let url = Url::parse(&text).map_err(|_| format!("the path {:?} is not valid", shorten(path)))?;
        match self.place(&url)? {
            Place::Base => Ok(url),
            Place::DownloadHost => Err(format!("the path {:?} leads out of `base`", shorten(path))),
        }
    }

    /// Resolves an address that a reply contains, relative to the address that sent it.
    pub(super) fn resolve(&self, from: &Url, text: &str) -> Result<(Url, Place), String> {
        let url = from.join(text.trim()).map_err(|_| "the reply contains an invalid address".to_owned())?;
        let place = self.place(&url)?;
        Ok((url, place))
    }

    /// Returns the base, for relative addresses.
    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// Returns where an address leads, or why it is refused.
    pub(super) fn place(&self, url: &Url) -> Result<Place, String> {
        self.check_host(url)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("{} contains a user or a password", redact(url)));
        }
        if url.origin() == self.base.origin() && is_below(self.base.path(), url.path()) {
            return Ok(Place::Base);
        }
        if self.named.iter().any(|named| named.matches(url)) {
            return Ok(Place::DownloadHost);
        }
        Err(format!(
            "{} is neither below `base` nor a host of `also`: name its host there to download from it",
            redact(url)
        ))
    }

    /// Refuses a host that no request may go to, if it is written as an address.
    fn check_host(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        if is_metadata_name(&host) {
            return Err(format!("{host} is a metadata service, which is never requested"));
        }
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => self.check_address(&host, address),
            Err(_) => Ok(()),
        }
    }

    /// Refuses an address that this host has.
    pub(super) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), String> {
        if is_forbidden_address(address) {
            return Err(format!("{host} has the address {address}, which is never requested"));
        }
        if is_private_address(address) && !self.may_be_private(host) {
            return Err(format!(
                "{host} has the private address {address}: only `base` and hosts that `also` names in full may have one"
            ));
        }
        Ok(())
    }

    /// Returns true if the config names this host in full.
    fn may_be_private(&self, host: &str) -> bool {
        let is_named = |named: &NamedHost| !named.is_wildcard && named.host.eq_ignore_ascii_case(host);
        self.base.host_str().is_some_and(|base| base.eq_ignore_ascii_case(host))
            || self.proxy_host.as_deref().is_some_and(|proxy| proxy.eq_ignore_ascii_case(host))
            || self.named.iter().any(is_named)
    }
}

impl NamedHost {
    fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            let expected = "write an origin such as https://storage.example.com or https://*.example.com";
            format!("`also`: {text:?} is not an origin: {expected}")
        };
        // A URL has no `*` in its host.
        let is_wildcard = text.contains("://*.");
        let url = Url::parse(&text.replacen("://*.", "://", 1)).map_err(|_| invalid())?;
        let host = url.host_str().filter(|host| !is_wildcard || host.contains('.')).ok_or_else(invalid)?;
        let is_origin = matches!(url.path(), "" | "/") && url.query().is_none() && url.username().is_empty();
        if !is_origin || !matches!(url.scheme(), "http" | "https") {
            return Err(invalid());
        }
        let host = if is_wildcard { format!(".{host}") } else { host.to_owned() };
        Ok(Self { scheme: url.scheme().to_owned(), host, is_wildcard, port: url.port_or_known_default() })
    }

    fn matches(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_host = if self.is_wildcard { host.ends_with(&self.host) } else { host == self.host };
        is_host && url.scheme() == self.scheme && url.port_or_known_default() == self.port
    }
}

/// Returns true if a URL parser would remove this part of a path.
fn is_dot_segment(part: &str) -> bool {
    matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// Returns true if a path is the base path, or below it.
fn is_below(base: &str, path: &str) -> bool {
    let base = base.trim_end_matches('/');
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Formats an address for messages, without its user, query and fragment, which may contain secrets.
pub(super) fn redact(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), shorten(url.path()))
}

fn shorten(text: &str) -> String {
    taskbridge_sdk::short_line(text.split('?').next().unwrap_or_default(), 120)
}

#[cfg(test)]
#[path = "tests/targets.rs"]
mod tests;
