//! Calls of GitHub: one request each, apart from redirects to a moved repository, within the rate limits, and
//! conditional if the response is cached. It must not decide what a response means for a job.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION};
use http_body_util::{BodyExt as _, Limited};
use octocrab::Octocrab;
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;
use taskbridge_sdk::Error;
use tokio::time::timeout;

use crate::caller_credentials::AuthenticatedClient;
use crate::failure::{Failure, Repeat, unclear};
use crate::response_cache::ResponseCache;

/// Maximum size of a response. A page of a hundred runs has about a megabyte.
const LONGEST: usize = 16 * 1024 * 1024;
/// Maximum number of requests per call: the first one, and one for each redirect that is followed.
const REDIRECTS: usize = 3;

/// Result of a call.
pub(crate) type ApiResult<T> = std::result::Result<T, Failure>;

/// Client of the GitHub API.
pub(crate) struct Api {
    /// The backend's own credential.
    pub(crate) own: AuthenticatedClient,
    base: Url,
    call_timeout: Duration,
    kept: ResponseCache,
}

/// Request to send.
enum Ask<'a> {
    Get(Option<HeaderMap>),
    Post(Option<&'a Value>),
}

/// Unparsed response.
struct Raw {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Api {
    pub(crate) fn new(crab: Octocrab, base: Url, call_timeout: Duration) -> Self {
        Self { own: AuthenticatedClient::new(crab), base, call_timeout, kept: ResponseCache::default() }
    }

    /// Reads a path. The request is conditional on the cached ETag, so that GitHub does not send unchanged
    /// data again.
    pub(crate) async fn get<T: DeserializeOwned>(&self, what: &str, path: &str) -> ApiResult<T> {
        self.get_within(Duration::ZERO, what, path).await
    }

    /// Reads a path, or returns the cached response if it is not older than `age`.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        age: Duration,
        what: &str,
        path: &str,
    ) -> ApiResult<T> {
        let body = match self.kept.within(age, path) {
            Some(body) => body,
            None => self.get_bytes(what, path).await?,
        };
        parsed(what, Repeat::Safe, &body)
    }

    /// Reads a path with a credential and without the cache. Also returns the headers of the response.
    pub(crate) async fn get_anew<T: DeserializeOwned>(
        &self,
        by: &AuthenticatedClient,
        what: &str,
        path: &str,
    ) -> ApiResult<(HeaderMap, T)> {
        let answer = self.call(by, what, Repeat::Safe, path, Ask::Get(None)).await?;
        match answer.status {
            200 => Ok((answer.headers, parsed(what, Repeat::Safe, &answer.body)?)),
            _ => Err(refusal(by, what, Repeat::Safe, &answer)),
        }
    }

    async fn get_bytes(&self, what: &str, path: &str) -> ApiResult<Bytes> {
        let tag = self.kept.tag(path).and_then(|tag| HeaderValue::from_str(&tag).ok());
        let headers = tag.map(|tag| HeaderMap::from_iter([(IF_NONE_MATCH, tag)]));
        let by = &self.own;
        let answer = self.call(by, what, Repeat::Safe, path, Ask::Get(headers)).await?;
        match answer.status {
            200 => {
                if let Some(tag) = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) {
                    self.kept.put(path, tag.to_owned(), answer.body.clone());
                }
                Ok(answer.body)
            }
            304 => self.kept.confirmed(path).ok_or_else(|| Failure {
                status: None,
                // The response was evicted from the cache during the request.
                error: Error::unavailable(format!("{what}: the answer before was forgotten meanwhile")),
            }),
            _ => Err(refusal(&self.own, what, Repeat::Safe, &answer)),
        }
    }

    /// Sends a POST with a credential. Returns the status and the body of the response.
    pub(crate) async fn post(
        &self,
        by: &AuthenticatedClient,
        what: &str,
        repeat: Repeat,
        path: &str,
        body: Option<&Value>,
    ) -> ApiResult<(u16, Bytes)> {
        let answer = self.call(by, what, repeat, path, Ask::Post(body)).await?;
        match answer.status {
            200..=299 => Ok((answer.status, answer.body)),
            _ => Err(refusal(by, what, repeat, &answer)),
        }
    }

    /// Returns the short-lived URL of a log or an artifact, which needs no credentials.
    pub(crate) async fn link(&self, what: &str, path: &str) -> ApiResult<String> {
        let answer = self.call(&self.own, what, Repeat::Safe, path, Ask::Get(None)).await?;
        let link = answer.headers.get(LOCATION).and_then(|link| link.to_str().ok());
        match (answer.status, link) {
            (302 | 307, Some(link)) => Ok(link.to_owned()),
            (200..=399, _) => Err(Failure {
                status: Some(answer.status),
                error: Error::unavailable(format!("{what}: GitHub gives no link")),
            }),
            _ => Err(refusal(&self.own, what, Repeat::Safe, &answer)),
        }
    }

    /// Sends a request, and follows redirects to a moved repository within this GitHub.
    async fn call(
        &self,
        by: &AuthenticatedClient,
        what: &str,
        repeat: Repeat,
        path: &str,
        ask: Ask<'_>,
    ) -> ApiResult<Raw> {
        by.limits.check().map_err(|error| Failure { status: None, error })?;
        let exchange = async {
            let mut path = path.to_owned();
            for _ in 0..REDIRECTS {
                let raw = self.send(by, what, repeat, &path, &ask).await?;
                by.limits.learn(&raw.headers);
                match moved(&self.base, &raw, &ask) {
                    Some(next) => path = next,
                    None => return Ok(raw),
                }
            }
            // The redirects had no effect but to name the next one.
            let error = Error::config(format!("{what}: GitHub redirects this more than {REDIRECTS} times"));
            Err(Failure { status: None, error })
        };
        timeout(self.call_timeout, exchange).await.unwrap_or_else(|_| Err(Failure::late(what, repeat)))
    }

    async fn send(
        &self,
        by: &AuthenticatedClient,
        what: &str,
        repeat: Repeat,
        path: &str,
        ask: &Ask<'_>,
    ) -> ApiResult<Raw> {
        let sent = match ask {
            Ask::Get(headers) => by.crab._get_with_headers(path, headers.clone()).await,
            Ask::Post(body) => by.crab._post(path, *body).await,
        };
        let (parts, body) = sent.map_err(|e| Failure::unanswered(what, repeat, e))?.into_parts();
        let body = Limited::new(body, LONGEST).collect().await.map_err(|e| Failure {
            status: None,
            error: unclear(repeat, format!("{what}: the answer broke off, or is too long")).caused_by(e),
        })?;
        Ok(Raw { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() })
    }
}

/// Returns the new path of a moved repository, or of anything in it, if it is within the same API. Links to
/// logs and artifacts lead elsewhere and return `None`.
fn moved(base: &Url, answer: &Raw, ask: &Ask<'_>) -> Option<String> {
    let keeps_method = matches!(answer.status, 307 | 308);
    let may_follow = match ask {
        Ask::Get(_) => keeps_method || matches!(answer.status, 301 | 302),
        Ask::Post(_) => keeps_method,
    };
    let location = answer.headers.get(LOCATION).filter(|_| may_follow)?.to_str().ok()?;
    let to = base.join(location).ok().filter(|to| to.origin() == base.origin())?;
    let within = to.path().strip_prefix(base.path().trim_end_matches('/'))?;
    let is_of_repository = within.starts_with("/repositories/") || within.starts_with("/repos/");
    is_of_repository.then(|| match to.query() {
        Some(query) => format!("{}?{query}", to.path()),
        None => to.path().to_owned(),
    })
}

fn refusal(by: &AuthenticatedClient, what: &str, repeat: Repeat, answer: &Raw) -> Failure {
    let failure = Failure::answered(what, repeat, answer.status, &answer.headers, &answer.body);
    by.limits.refused(&failure.error);
    failure
}

/// Parses a response.
pub(crate) fn parsed<T: DeserializeOwned>(what: &str, repeat: Repeat, body: &[u8]) -> ApiResult<T> {
    serde_json::from_slice(body).map_err(|e| Failure {
        status: None,
        error: unclear(repeat, format!("{what}: GitHub's answer is not understood: {e}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(base: &str, status: u16, location: &str, ask: &Ask<'_>) -> Option<String> {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]);
        moved(&Url::parse(base).unwrap(), &Raw { status, headers, body: Bytes::new() }, ask)
    }

    #[test]
    fn redirects_stay_within_api() {
        let github = "https://api.github.com";
        let there = "/repositories/41/actions/runs/7?page=2";
        let get = |base: &str, status, location: &str| followed(base, status, location, &Ask::Get(None));
        for status in [301, 302, 307, 308] {
            assert_eq!(get(github, status, &format!("{github}{there}")).as_deref(), Some(there));
        }
        let server = "https://ghes.example.com/api/v3";
        assert_eq!(
            get(server, 301, &format!("{server}{there}")).unwrap(),
            format!("/api/v3{there}"),
            "the client leaves a path alone that begins as the API does"
        );
        for location in [
            "https://evil.example/repositories/41",
            "http://api.github.com/repositories/41",
            "https://api.github.com:8443/repositories/41",
            "https://productionresultssa0.blob.core.windows.net/repositories/41?sig=1",
            "https://api.github.com/login",
        ] {
            assert_eq!(get(github, 302, location), None, "{location}");
        }
        assert_eq!(
            get(server, 302, "https://ghes.example.com/repositories/41"),
            None,
            "it is no part of the API"
        );
        let post = Ask::Post(None);
        assert_eq!(
            followed(github, 301, &format!("{github}{there}"), &post),
            None,
            "it need not stay a POST"
        );
        assert_eq!(followed(github, 307, &format!("{github}{there}"), &post).as_deref(), Some(there));
    }
}
