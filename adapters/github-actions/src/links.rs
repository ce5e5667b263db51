//! Download of logs and artifacts from the targets of GitHub's links: other hosts, which must never receive a
//! credential. A download has a maximum size, or is passed on as a stream.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RANGE};
use reqwest::{Url, redirect};
use taskbridge_sdk::{Error, Result, innermost};

use crate::api::Api;
use crate::client;
use crate::config::Config;
use crate::failure::Failure;

/// Timeout of a whole download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of redirects by the host of a link.
const REDIRECTS: usize = 3;

/// Client for the targets of links.
pub(crate) struct Links {
    client: reqwest::Client,
    api: Url,
}

impl Links {
    /// Creates the client for links of the configured API.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let api = client::api(config)?;
        let from = api.clone();
        let redirects = redirect::Policy::custom(move |attempt| {
            match attempt.previous().len() <= REDIRECTS && may_lead(&from, attempt.url()) {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        let client = client::http(config)?.timeout(TIMEOUT).redirect(redirects);
        let client =
            client.build().map_err(|e| Error::config(format!("no client can be made: {}", innermost(&e))))?;
        Ok(Self { client, api })
    }

    /// Opens the target of the link at a path of the API. The status in an error is GitHub's. A link that its
    /// host rejects (4xx), such as an expired one, is requested a second time.
    pub(crate) async fn open(&self, api: &Api, what: &str, path: &str) -> Result<Body, Failure> {
        self.open_from(api, what, path, None).await
    }

    /// Opens the target, but only its last `most` bytes if it is longer, the host reports its length and
    /// supports ranges.
    pub(crate) async fn open_end(
        &self,
        api: &Api,
        what: &str,
        path: &str,
        most: u64,
    ) -> Result<Body, Failure> {
        let whole = self.open(api, what, path).await?;
        match whole.answer.content_length() {
            Some(length) if length > most => {
                // Closing the connection prevents the host from sending the rest.
                drop(whole);
                self.open_from(api, what, path, Some(length - most)).await
            }
            _ => Ok(whole),
        }
    }

    async fn open_from(&self, api: &Api, what: &str, path: &str, from: Option<u64>) -> Result<Body, Failure> {
        for fresh in [true, false] {
            let link = api.link(what, path).await?;
            let link = Url::parse(&link).ok().filter(|link| may_lead(&self.api, link)).ok_or_else(|| {
                unavailable(format!("{what}: GitHub's link leads to where it is not followed"))
            })?;
            let host = link.host_str().unwrap_or_default().to_owned();
            let mut request = self.client.get(link);
            if let Some(from) = from {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let answer = request.send().await.map_err(|e| broken(what, &host, &e))?;
            match answer.status().as_u16() {
                status @ (200 | 206) => {
                    return Ok(Body { answer, is_part: status == 206, what: what.to_owned(), host });
                }
                400..=499 if fresh => {}
                status => {
                    return Err(unavailable(format!("{what}: {host} answers with the status {status}")));
                }
            }
        }
        Err(unavailable(format!("{what}: every link has expired")))
    }
}

/// Returns true if a link of this API may be followed. It must use TLS, unless the API does not. It must not
/// lead to this machine or to a metadata service, unless the API itself is at such an address.
fn may_lead(api: &Url, to: &Url) -> bool {
    let secured = to.scheme() == "https" || (to.scheme() == "http" && api.scheme() == "http");
    secured && (!is_near(to) || is_near(api))
}

fn is_near(url: &Url) -> bool {
    url.host_str().is_some_and(taskbridge_sdk::is_near)
}

/// Content of a link's target, as a stream.
pub(crate) struct Body {
    answer: reqwest::Response,
    /// True if the beginning is missing.
    pub(crate) is_part: bool,
    what: String,
    host: String,
}

impl Body {
    /// Returns the media type according to the host.
    pub(crate) fn media_type(&self) -> &str {
        let given = self.answer.headers().get(CONTENT_TYPE).and_then(|given| given.to_str().ok());
        given.and_then(|given| given.split(';').next()).unwrap_or_default().trim()
    }

    /// Returns true if this is an archive that GitHub made of an artifact, and not a file that was uploaded
    /// without an archive. With older servers, only the link shows this.
    pub(crate) fn is_zip(&self) -> bool {
        let types = ["application/zip", "application/x-zip-compressed", "application/zip-compressed"];
        types.contains(&self.media_type()) || self.answer.url().path().ends_with(".zip")
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.answer.chunk().await.map_err(|e| broken(&self.what, &self.host, &e))
    }

    /// Reads the whole content. `None` if it is longer than `most`.
    pub(crate) async fn all(mut self, most: u64) -> Result<Option<Vec<u8>>, Failure> {
        // The reported length may be false, so it limits only the initial allocation.
        let length = self.answer.content_length().unwrap_or_default().min(most);
        let mut all = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        while let Some(chunk) = self.next().await? {
            if all.len() as u64 + chunk.len() as u64 > most {
                return Ok(None);
            }
            all.extend_from_slice(&chunk);
        }
        Ok(Some(all))
    }
}

/// Returns the error of a failed download. The link itself is a secret for a short time, so the message
/// contains only its host.
fn broken(what: &str, host: &str, error: &reqwest::Error) -> Failure {
    let why = innermost(error);
    unavailable(match error.is_connect() {
        true => format!("{what}: {host} cannot be reached: {why}; let the server reach it, or set `proxy`"),
        false => format!("{what}: the answer of {host} broke off: {why}"),
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
        let may = |api: &str, to: &str| may_lead(&Url::parse(api).unwrap(), &Url::parse(to).unwrap());
        let github = "https://api.github.com";
        for to in [
            "https://productionresultssa0.blob.core.windows.net/x?sig=1",
            "https://10.0.0.7/ghes/x",
            "https://storage.example.com:8443/x",
        ] {
            assert!(may(github, to), "{to}");
        }
        for to in [
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
            assert!(!may(github, to), "{to}");
        }
        assert!(may("http://127.0.0.1:3000", "http://localhost:3000/_links/1"), "the API is here itself");
        assert!(!may("http://ghes.example.com", "http://127.0.0.1/x"));
    }
}
