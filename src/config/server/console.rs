//! `[console]`: whether the server has a console for browsers, and how long its sessions last. It must not
//! build the console.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::shape::Server;
use crate::config::callers::auth::{AuthMode, Authentication};
use crate::config::reading::duration::DurationText;
use crate::config::reading::reader::Reader;
use crate::console;

/// The console in the browser, at `/console`. Changes take effect after a restart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    /// Whether there is a console. Default: only on a loopback address with `single_user`.
    enabled: Option<bool>,
    /// An address and port of its own, such as `127.0.0.1:8809`. Default: the console is at the address of the
    /// server. The settings of `[server.tls]` and `allowed_hosts` apply here, too.
    #[serde(deserialize_with = "address")]
    #[schemars(with = "Option<String>")]
    listen: Option<SocketAddr>,
    /// The origin at which browsers reach it, such as `https://bridge.example.com`, where that differs from
    /// the listen address: behind a proxy that terminates TLS.
    url: Option<String>,
    /// How long a session lasts without a request.
    #[serde(with = "DurationText")]
    idle: Duration,
    /// How long a session lasts at most.
    #[serde(with = "DurationText")]
    lifetime: Duration,
}

impl Default for Console {
    fn default() -> Self {
        let hour = 3_600;
        let (idle, lifetime) = (Duration::from_secs(12 * hour), Duration::from_secs(7 * 24 * hour));
        Self { enabled: None, listen: None, url: None, idle, lifetime }
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|_| {
        serde::de::Error::custom(format!(
            "\"{text}\" is not an address and port: write one such as \"127.0.0.1:8809\""
        ))
    })
}

/// Validates the table.
pub(in crate::config) fn check(
    reader: &mut Reader<'_>,
    console: &Console,
    server: &Server,
    auth: &Authentication,
) {
    let origin = console.url.as_deref().map(|url| (url, url.split_once("://")));
    if let Some((url, parts)) = origin
        && !parts.is_some_and(|(scheme, host)| {
            matches!(scheme, "http" | "https") && !host.is_empty() && !host.contains(['/', '?', '#', '@'])
        })
    {
        let message = format!("\"{url}\" is not an origin: write one such as \"https://bridge.example.com\"");
        reader.problem("console.url", message);
    }
    for (field, zero) in
        [("console.idle", console.idle.is_zero()), ("console.lifetime", console.lifetime.is_zero())]
    {
        if zero {
            reader.problem(field, "must not be zero: write a time such as \"12h\"");
        }
    }
    if console.listen.is_some_and(|listen| listen.port() != 0 && listen == server.listen) {
        let message = "is the address of the server: remove it, since the console is there without it";
        reader.problem("console.listen", message);
    }
    check_sign_in(reader, console, auth);
    if console.enabled != Some(true) || !reader.is_clean("auth") {
        return;
    }
    if auth.mode == AuthMode::None && !auth.single_user {
        let message = "callers cannot be distinguished: set single_user = true or a `mode` in [auth], or \
                       enabled = false";
        reader.problem("console.enabled", message);
    }
    let listen = console.listen.unwrap_or(server.listen);
    if !listen.ip().is_loopback() && server.tls.is_none() && !console.is_https() {
        let message = format!(
            "other machines can reach {}, and sessions would not be encrypted: set [server.tls]; or, behind a proxy \
             that terminates TLS, set url = \"https://...\" in [console]",
            listen
        );
        reader.problem("console.enabled", message);
    }
}

/// Checks that there is a console where an issuer has `sign_in`, at an address that the issuer can send
/// browsers to.
fn check_sign_in(reader: &mut Reader<'_>, console: &Console, auth: &Authentication) {
    let issuers = auth.oauth.iter().flat_map(|oauth| &oauth.issuers).enumerate();
    for (index, _) in issuers.filter(|(_, issuer)| issuer.sign_in.is_some()) {
        let message = match (console.enabled, &console.url) {
            (Some(true), Some(_)) => return,
            (Some(true), None) => {
                "needs the origin of the console, to which the issuer sends browsers back: write it into [console], \
                 such as url = \"https://bridge.example.com\""
            }
            _ => {
                "needs a console, which persons sign in to: write [console] with enabled = true, or remove this"
            }
        };
        reader.problem(format!("auth.issuers[{index}].sign_in"), message);
    }
}

impl Console {
    fn is_https(&self) -> bool {
        self.url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }

    /// Returns the settings of the console, or `None` if there is none.
    pub(in crate::config) fn settings(
        &self,
        server: &Server,
        auth: &Authentication,
    ) -> Option<console::Settings> {
        let address = self.listen.unwrap_or(server.listen);
        let default = address.ip().is_loopback() && auth.mode == AuthMode::None && auth.single_user;
        let Self { enabled, listen, url, idle, lifetime } = self.clone();
        let is_secure = server.tls.is_some() || self.is_https();
        enabled.unwrap_or(default).then_some(console::Settings { is_secure, listen, url, idle, lifetime })
    }
}
