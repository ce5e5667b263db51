//! One exchange: [`Request`] and [`Reply`]. Plain data; it must not perform I/O.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;

/// One request. A [`http::HeaderValue`] cannot contain CR or LF.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Headers with the credentials. Credentials are sent to addresses below `base` only.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Longest body of the reply, also after decompression, in bytes.
    pub(crate) max_reply: u64,
    /// Timeout of the whole exchange, with redirects and the body.
    pub(crate) timeout: Duration,
    /// Whether redirects of a GET are followed: below `base`, or to a download host without credentials.
    pub(crate) follow: bool,
    /// Whether this is a download, which may be requested from a download host.
    pub(crate) download: bool,
}

impl Request {
    /// Returns true if the request only reads, so that its redirects may be followed.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }
}

/// One reply, complete.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The body, decompressed.
    pub(crate) body: Bytes,
    /// Address that sent the reply: another one than requested after a redirect.
    pub(crate) url: Url,
}
