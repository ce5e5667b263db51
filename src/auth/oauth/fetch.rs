//! [`Line`]: the way to an issuer: over TLS unless it is on this machine, to the address that was named and nowhere else,
//! for a few seconds and a few bytes at most. It must not know what is fetched, and never tries again.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Certificate, Client, Proxy, RequestBuilder, StatusCode, Url, redirect};
use taskbridge_sdk::innermost;

/// The longest that an issuer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest until a connection to it stands.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// The largest answer that is read, in bytes.
const LARGEST: usize = 512 * 1024;

/// By what an issuer is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Certificates (PEM) of authorities to trust, in place of this machine's.
    pub authorities: Option<Vec<u8>>,
    /// A proxy. Without it, the one of the environment is used, but for an issuer on this machine.
    pub proxy: Option<Url>,
}

/// A client for one issuer.
#[derive(Clone, Debug)]
pub(super) struct Line(Client);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// Nobody answers, or not in time.
    #[error("{0}")]
    Away(String),
    /// An answer that is none.
    #[error("it answers {0}")]
    Status(StatusCode),
    /// More than is read.
    #[error("its answer has more than {LARGEST} bytes")]
    TooLarge,
}

impl Line {
    /// A client that goes this way. `plain` says that the issuer is on this machine and speaks without TLS.
    pub(super) fn new(way: &Way, plain: bool) -> Result<Self, String> {
        let name = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        let mut client = Client::builder()
            .user_agent(name)
            .timeout(PATIENCE)
            .connect_timeout(CONNECT_WITHIN)
            .redirect(redirect::Policy::none())
            // An issuer closes what is kept open when it likes, and a question that crosses that would have no answer.
            .pool_max_idle_per_host(0);
        if let Some(proxy) = &way.proxy {
            client = client.proxy(Proxy::all(proxy.clone()).map_err(|error| innermost(&error))?);
        } else if plain {
            client = client.no_proxy();
        }
        if let Some(pem) = &way.authorities {
            let all = Certificate::from_pem_bundle(pem).map_err(|error| innermost(&error))?;
            client = client.tls_certs_only(all);
        } else if plain && way.proxy.is_none() {
            // The certificates of this machine are not needed, and there may be none.
            client = client.tls_certs_only([]);
        }
        client.build().map(Self).map_err(|error| innermost(&error))
    }

    /// What stands at an address.
    pub(super) async fn get(&self, url: Url) -> Result<Vec<u8>, NoAnswer> {
        read(self.0.get(url).header("Accept", "application/json")).await
    }

    /// What is answered to a form. The credentials are of the client that asks (RFC 6749, section 2.3.1).
    pub(super) async fn ask(
        &self,
        url: Url,
        (client, secret): (&str, &str),
        form: String,
    ) -> Result<Vec<u8>, NoAnswer> {
        let request = self.0.post(url).header("Accept", "application/json");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form);
        read(request.basic_auth(form_encoded(client), Some(form_encoded(secret)))).await
    }
}

async fn read(request: RequestBuilder) -> Result<Vec<u8>, NoAnswer> {
    // What the address holds may be a secret, and stands in the config.
    let away = |error: reqwest::Error| NoAnswer::Away(innermost(&error.without_url()));
    let mut response = request.send().await.map_err(away)?;
    if response.status() != StatusCode::OK {
        return Err(NoAnswer::Status(response.status()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(away)? {
        if body.len() + chunk.len() > LARGEST {
            return Err(NoAnswer::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A text as it stands in a form.
pub(super) fn form_encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// An address, to be told: what stands behind its path, or before its host, may be a secret.
pub(super) fn told(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// True if an address can be asked: over TLS, or on this machine, where nobody listens on the way.
pub fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// True if an address is on this machine by what it says: no name is looked up.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        for (url, safe) in [
            ("https://login.example", true),
            ("http://127.0.0.1:9000/x", true),
            ("http://[::1]:9000", true),
            ("http://localhost:9000", true),
            ("http://login.example", false),
            ("http://127.0.0.1.example", false),
            ("http://169.254.169.254/latest", false),
            ("http://localhost.evil.example", false),
            ("file:///etc/passwd", false),
            ("ftp://127.0.0.1", false),
        ] {
            assert_eq!(is_safe(&Url::parse(url).unwrap()), safe, "{url}");
        }
    }
}
