//! [`Client`]: sends one request, and returns its whole reply. It must not retry.

use std::fmt;
use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue};
use reqwest::Url;
use tokio::time::Instant;

use super::body;
use super::config::NetConfig;
use super::exchange::{Reply, Request};
use super::failure::SendError;
use super::resolver::{Lookup, system_lookup};
use super::targets::{Place, Targets, redact};

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// HTTP client of one engine. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    targets: Arc<Targets>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &redact(self.targets.base())).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates the client.
    ///
    /// # Errors
    /// A message that begins with the field of the config.
    pub(crate) fn new(config: &NetConfig) -> Result<Self, String> {
        Self::with_lookup(config, system_lookup())
    }

    pub(super) fn with_lookup(config: &NetConfig, lookup: Lookup) -> Result<Self, String> {
        let (targets, http) = config.build(lookup)?;
        Ok(Self { http, targets })
    }

    /// Returns the address of a path below `base`. The path begins with `/`, is percent-encoded, and may have
    /// a query.
    ///
    /// # Errors
    /// A message if the path leads out of `base`.
    pub(crate) fn url(&self, path: &str) -> Result<Url, String> {
        self.targets.join(path)
    }

    /// Returns an address that a reply contains, absolute or relative to `base`.
    ///
    /// # Errors
    /// A message if it is not below `base`.
    pub(crate) fn own_url(&self, text: &str) -> Result<Url, String> {
        match self.targets.resolve(self.targets.base(), text)? {
            (url, Place::Base) => Ok(url),
            (url, Place::DownloadHost) => Err(format!("{} is not below `base`", redact(&url))),
        }
    }

    /// Returns an address to download from: below `base`, or at a download host.
    ///
    /// # Errors
    /// A message if it is neither.
    pub(crate) fn named_url(&self, text: &str) -> Result<Url, String> {
        self.targets.resolve(self.targets.base(), text).map(|(url, _)| url)
    }

    /// Sends one request, once. Redirects are followed for GET and HEAD only, if the request says so; the
    /// reply to another method can be a redirect.
    ///
    /// # Errors
    /// Why there is no complete reply. A reply with any status is no error.
    pub(crate) async fn send(&self, request: Request) -> Result<Reply, SendError> {
        let deadline = Instant::now() + request.timeout;
        let mut next = request;
        next.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for _ in 0..=MAX_REDIRECTS {
            if self.targets.place(&next.url).map_err(SendError::Forbidden)? == Place::DownloadHost {
                if !next.only_reads() || !next.download {
                    let message = format!("{} is a host for downloads only", redact(&next.url));
                    return Err(SendError::Forbidden(message));
                }
                // Any other header may be a credential.
                next.headers = without_credentials(&next.headers);
            }
            let reply = self.send_once(next.clone(), deadline).await?;
            let is_redirect = matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !next.follow || !next.only_reads() || !is_redirect {
                return Ok(reply);
            }
            let location = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location else { return Ok(reply) };
            let (url, _) = self.targets.resolve(&next.url, location).map_err(SendError::Forbidden)?;
            if next.url.scheme() == "https" && url.scheme() != "https" {
                return Err(SendError::Forbidden(format!("the redirect to {} is without TLS", redact(&url))));
            }
            next.url = url;
        }
        let message = format!("{} redirects more than {MAX_REDIRECTS} times", redact(&next.url));
        Err(SendError::Forbidden(message))
    }

    async fn send_once(&self, request: Request, deadline: Instant) -> Result<Reply, SendError> {
        let Request { method, url, headers, body, max_reply, .. } = request;
        let host = url.host_str().unwrap_or_default().to_owned();
        let remaining = deadline.saturating_duration_since(Instant::now());
        let mut builder = self.http.request(method, url.clone()).headers(headers).timeout(remaining);
        if !body.is_empty() {
            builder = builder.body(body);
        }
        let sent = builder.send().await;
        let mut response = sent.map_err(|error| SendError::classify(&host, &error.without_url()))?;
        let body = body::read(&host, &mut response, max_reply).await?;
        let status = response.status();
        Ok(Reply { status, headers: std::mem::take(response.headers_mut()), body, url })
    }
}

/// Returns the headers that may be sent to a host that gets no credentials.
fn without_credentials(headers: &HeaderMap) -> HeaderMap {
    let kept = [ACCEPT, ACCEPT_ENCODING, RANGE];
    kept.into_iter().filter_map(|name| Some((name.clone(), headers.get(&name)?.clone()))).collect()
}
