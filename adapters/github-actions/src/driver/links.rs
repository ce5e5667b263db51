//! Download of logs and artifacts from the targets of GitHub's links: other hosts, which must never receive a
//! credential. A download has a maximum size, or is passed on as a stream.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RANGE};
use reqwest::{Url, redirect};
use taskbridge_sdk::{Error, Result, root_cause};

use crate::config::Config;
use crate::driver::api::Api;
use crate::driver::client;
use crate::driver::error::Failure;

/// Timeout of a whole download.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of redirects by the host of a link.
const MAX_REDIRECTS: usize = 3;

/// Client for the targets of links.
pub(crate) struct Links {
    client: reqwest::Client,
    api_url: Url,
}

impl Links {
    /// Creates the client for links of the configured API.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let api_url = client::api_url(config)?;
        let policy_api_url = api_url.clone();
        let redirect_policy = redirect::Policy::custom(move |attempt| {
            match attempt.previous().len() <= MAX_REDIRECTS && may_follow(&policy_api_url, attempt.url()) {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        let client = client::http_client_builder(config)?.timeout(DOWNLOAD_TIMEOUT).redirect(redirect_policy);
        let client = client
            .build()
            .map_err(|e| Error::config(format!("the HTTP client cannot be created: {}", root_cause(&e))))?;
        Ok(Self { client, api_url })
    }

    /// Opens the target of the link at a path of the API. The status in an error is GitHub's. A link that its
    /// host rejects (4xx), such as an expired one, is requested a second time.
    pub(crate) async fn open(&self, api: &Api, label: &str, path: &str) -> Result<Body, Failure> {
        self.open_from(api, label, path, None).await
    }

    /// Opens the target, but only its last `max_bytes` if it is longer, the host reports its length and
    /// supports ranges.
    pub(crate) async fn open_tail(
        &self,
        api: &Api,
        label: &str,
        path: &str,
        max_bytes: u64,
    ) -> Result<Body, Failure> {
        let body = self.open(api, label, path).await?;
        match body.response.content_length() {
            Some(length) if length > max_bytes => {
                // Closing the connection prevents the host from sending the rest.
                drop(body);
                self.open_from(api, label, path, Some(length - max_bytes)).await
            }
            _ => Ok(body),
        }
    }

    async fn open_from(
        &self,
        api: &Api,
        label: &str,
        path: &str,
        offset: Option<u64>,
    ) -> Result<Body, Failure> {
        for may_retry in [true, false] {
            let link = api.link(label, path).await?;
            let link =
                Url::parse(&link).ok().filter(|link| may_follow(&self.api_url, link)).ok_or_else(|| {
                    unavailable(format!("{label}: GitHub's link leads to an address that is not allowed"))
                })?;
            let host = link.host_str().unwrap_or_default().to_owned();
            let mut request = self.client.get(link);
            if let Some(offset) = offset {
                request = request.header(RANGE, format!("bytes={offset}-"));
            }
            let response = request.send().await.map_err(|e| download_error(label, &host, &e))?;
            match response.status().as_u16() {
                status @ (200 | 206) => {
                    return Ok(Body { response, is_partial: status == 206, label: label.to_owned(), host });
                }
                400..=499 if may_retry => {}
                status => {
                    return Err(unavailable(format!("{label}: {host} answers with the status {status}")));
                }
            }
        }
        Err(unavailable(format!("{label}: every link has expired")))
    }
}

/// Returns true if a link of this API may be followed. It must use TLS, unless the API does not. It must not
/// lead to this machine or to a metadata service, unless the API itself is at such an address.
fn may_follow(api: &Url, target: &Url) -> bool {
    let is_secure = target.scheme() == "https" || (target.scheme() == "http" && api.scheme() == "http");
    is_secure && (!is_local_url(target) || is_local_url(api))
}

fn is_local_url(url: &Url) -> bool {
    url.host_str().is_some_and(taskbridge_sdk::is_local_address)
}

/// Content of a link's target, as a stream.
pub(crate) struct Body {
    response: reqwest::Response,
    /// True if the beginning is missing.
    pub(crate) is_partial: bool,
    label: String,
    host: String,
}

impl Body {
    /// Returns the media type according to the host.
    pub(crate) fn media_type(&self) -> &str {
        let content_type = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim()
    }

    /// Returns true if this is an archive that GitHub made of an artifact, and not a file that was uploaded
    /// without an archive. With older servers, only the link shows this.
    pub(crate) fn is_zip(&self) -> bool {
        let types = ["application/zip", "application/x-zip-compressed", "application/zip-compressed"];
        types.contains(&self.media_type()) || self.response.url().path().ends_with(".zip")
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.response.chunk().await.map_err(|e| download_error(&self.label, &self.host, &e))
    }

    /// Reads the whole content. `None` if it is longer than `max_bytes`.
    pub(crate) async fn read_all(mut self, max_bytes: u64) -> Result<Option<Vec<u8>>, Failure> {
        // The reported length may be false, so it limits only the initial allocation.
        let length = self.response.content_length().unwrap_or_default().min(max_bytes);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        while let Some(chunk) = self.next().await? {
            if bytes.len() as u64 + chunk.len() as u64 > max_bytes {
                return Ok(None);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes))
    }
}

/// Returns the error of a failed download. The link itself is a secret for a short time, so the message
/// contains only its host.
fn download_error(label: &str, host: &str, error: &reqwest::Error) -> Failure {
    let cause = root_cause(error);
    unavailable(match error.is_connect() {
        true => {
            format!("{label}: {host} cannot be reached: {cause}; let the server reach it, or set `proxy`")
        }
        false => format!("{label}: the download from {host} was interrupted: {cause}"),
    })
}

fn unavailable(message: String) -> Failure {
    Failure { status: None, error: Error::unavailable(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link must not lead to this machine or to a metadata service, except where the API itself is local.
    #[test]
    fn loopback_and_metadata_links_are_refused() {
        let is_allowed =
            |api: &str, target: &str| may_follow(&Url::parse(api).unwrap(), &Url::parse(target).unwrap());
        let github = "https://api.github.com";
        for target in [
            "https://productionresultssa0.blob.core.windows.net/x?sig=1",
            "https://10.0.0.7/ghes/x",
            "https://storage.example.com:8443/x",
        ] {
            assert!(is_allowed(github, target), "{target}");
        }
        for target in [
            "http://productionresultssa0.blob.core.windows.net/x",
            "http://169.254.169.254/latest/meta-data/",
            "https://169.254.169.254/latest/meta-data/",
            "https://127.0.0.1:2379/v3/kv",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://localhost./x",
            "https://a.localhost/x",
            "https://0.0.0.0/x",
            "https://[::1]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://[fe80::1]/x",
            "file:///etc/passwd",
        ] {
            assert!(!is_allowed(github, target), "{target}");
        }
        assert!(
            is_allowed("http://127.0.0.1:3000", "http://localhost:3000/_links/1"),
            "the API itself is on this machine"
        );
        assert!(!is_allowed("http://ghes.example.com", "http://127.0.0.1/x"));
    }
}
