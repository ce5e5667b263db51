//! HTTP client with limits: addresses, redirects, sizes and times. It must not know credentials, jobs or
//! engines.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;

/// Settings of a client, from the config of a backend.
#[derive(Clone, Debug)]
pub(crate) struct NetConfig {
    /// Address below which all requests of the engine go. It may be private.
    pub(crate) base: Url,
    /// Patterns of hosts for downloads, such as `https://*.storage.example.com`. They get no credentials.
    pub(crate) download_hosts: Vec<String>,
    /// Other addresses that may be private: those of tokens.
    pub(crate) trusted: Vec<Url>,
    /// PEM file of root certificates, absolute.
    pub(crate) ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate and its private key, absolute.
    pub(crate) client_certificate: Option<PathBuf>,
}

/// One request. A [`http::HeaderValue`] cannot contain CR or LF.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Longest body of the reply after decompression, in bytes.
    pub(crate) max_reply: u64,
    /// Timeout of the whole exchange, with redirects and the body.
    pub(crate) timeout: Duration,
    /// Whether redirects of a GET are followed: below `base`, or to a download host without credentials.
    pub(crate) follow: bool,
    /// Whether this is a download: a body beyond `max_reply` is then not read, and the reply is `TooLarge`.
    pub(crate) download: bool,
}

/// One reply, complete.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Address after redirects.
    pub(crate) url: Url,
}

/// Why there is no complete reply. The text contains no credential and no query.
#[derive(Clone, Debug)]
pub(crate) enum SendError {
    /// No byte of the request was sent: no address, refused connection, failed TLS handshake.
    NotSent(String),
    /// The address is not allowed. Nothing was sent to it.
    Forbidden(String),
    /// The request may have been received: a timeout, a reset, a broken reply.
    Uncertain(String),
    /// A reply arrived with this status, and its body breaks a limit.
    TooLarge {
        status: StatusCode,
        /// Size of the body if the reply names it, in bytes.
        size: Option<u64>,
        message: String,
    },
}

/// Client of one backend. A clone shares its connections.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    client: reqwest::Client,
}

impl Client {
    /// Creates the client. Errors are of the config.
    pub(crate) fn new(_config: NetConfig) -> Result<Self, String> {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self { client: client.map_err(|e| e.to_string())? })
    }

    /// Sends one request, once.
    pub(crate) async fn send(&self, request: Request) -> Result<Reply, SendError> {
        let Request { method, url, headers, body, timeout, .. } = request;
        let sent = self.client.request(method, url.clone()).headers(headers).body(body).timeout(timeout);
        let reply = sent.send().await.map_err(|error| match error.is_connect() {
            true => SendError::NotSent("the connection failed".to_owned()),
            false => SendError::Uncertain("the exchange failed".to_owned()),
        })?;
        let (status, headers) = (reply.status(), reply.headers().clone());
        let body = reply.bytes().await.map_err(|_| SendError::Uncertain("the reply is broken".to_owned()))?;
        Ok(Reply { status, headers, body, url })
    }
}

/// Returns whether an address is on the same origin as `base`, and its path below that of `base`.
pub(crate) fn below(base: &Url, url: &Url) -> bool {
    let prefix = base.path().trim_end_matches('/');
    let inside = url.path().strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    base.origin() == url.origin() && url.username().is_empty() && url.password().is_none() && inside
}

/// Joins `base` and a percent-encoded path that begins with `/`, and adds a query.
pub(crate) fn join(base: &Url, path: &str, query: &[(String, String)]) -> Result<Url, String> {
    let (path, own_query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let is_dot = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    let has_forbidden = path.contains(['\\', '#']) || path.contains(|c: char| c.is_control() || c == ' ');
    if !path.starts_with('/') || path.contains("//") || has_forbidden || path.split('/').any(is_dot) {
        return Err("the path must begin with `/`, without `.`, `..` or empty segments".to_owned());
    }
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.set_query(own_query);
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    match below(base, &url) {
        true => Ok(url),
        false => Err("the address does not lead below `base`".to_owned()),
    }
}
