//! [`IssuerClient`]: an HTTP client for one issuer. It follows no redirects, never retries, and limits time
//! and response size. It must not know what it fetches. Its callers pass only URLs that [`is_safe`] accepts:
//! with TLS, or on this machine.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Certificate, Client, Proxy, RequestBuilder, StatusCode, Url, redirect};
use taskbridge_sdk::root_cause;

/// Request timeout, including the response body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum response size, in bytes.
const LARGEST: usize = 512 * 1024;

/// Network settings for an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerNetwork {
    /// Trusted CA certificates (PEM), instead of those of this machine.
    pub authorities: Option<Vec<u8>>,
    /// HTTP proxy. Without it, the proxy of the environment applies, but not for a plain-HTTP issuer on this
    /// machine.
    pub proxy: Option<Url>,
}

/// An HTTP client for one issuer.
#[derive(Clone, Debug)]
pub(super) struct IssuerClient(Client);

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// Connection failure or timeout.
    #[error("{0}")]
    Unreachable(String),
    /// A status other than 200.
    #[error("HTTP status {0}")]
    Status(StatusCode),
    /// The response is too large.
    #[error("response larger than {LARGEST} bytes")]
    TooLarge,
}

impl IssuerClient {
    /// Creates a client with these settings. `is_plain_http` means that the issuer is on this machine and
    /// uses no TLS.
    pub(super) fn new(network: &IssuerNetwork, is_plain_http: bool) -> Result<Self, String> {
        let name = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        let mut client = Client::builder()
            .user_agent(name)
            .timeout(REQUEST_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            // The issuer may close an idle connection at any time, and a request sent at that moment would
            // fail.
            .pool_max_idle_per_host(0);
        if let Some(proxy) = &network.proxy {
            client = client.proxy(Proxy::all(proxy.clone()).map_err(|error| root_cause(&error))?);
        } else if is_plain_http {
            client = client.no_proxy();
        }
        if let Some(pem) = &network.authorities {
            let certificates = Certificate::from_pem_bundle(pem).map_err(|error| root_cause(&error))?;
            client = client.tls_certs_only(certificates);
        } else if is_plain_http && network.proxy.is_none() {
            // The CA certificates of this machine are not needed, and may not exist.
            client = client.tls_certs_only([]);
        }
        client.build().map(Self).map_err(|error| root_cause(&error))
    }

    /// Sends a GET request and returns the body.
    pub(super) async fn get(&self, url: Url) -> Result<Vec<u8>, FetchError> {
        send(self.0.get(url).header("Accept", "application/json")).await
    }

    /// Posts a form and returns the body. Credentials authenticate the client in a header (RFC 6749,
    /// section 2.3.1).
    pub(super) async fn post_form(
        &self,
        url: Url,
        credentials: Option<(&str, &str)>,
        form: String,
    ) -> Result<Vec<u8>, FetchError> {
        let request = self.0.post(url).header("Accept", "application/json");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form);
        send(match credentials {
            Some((client, secret)) => request.basic_auth(form_encoded(client), Some(form_encoded(secret))),
            None => request,
        })
        .await
    }
}

async fn send(request: RequestBuilder) -> Result<Vec<u8>, FetchError> {
    // The error is shown without the URL, which may contain a secret. An operator finds the URL in the
    // config.
    let unreachable_error = |error: reqwest::Error| FetchError::Unreachable(root_cause(&error.without_url()));
    let mut response = request.send().await.map_err(unreachable_error)?;
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status(response.status()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable_error)? {
        if body.len() + chunk.len() > LARGEST {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Encodes a text for a form.
pub(super) fn form_encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Formats a URL for messages. Userinfo and query are left out, because they may contain secrets.
pub(super) fn redacted_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Returns true if a URL is safe to request: it uses TLS, or the host is this machine.
pub fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// Returns true if the host is this machine, judged by its name without a DNS lookup.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain HTTP is only allowed for loopback addresses.
    #[test]
    fn only_local_issuer_may_skip_tls() {
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
