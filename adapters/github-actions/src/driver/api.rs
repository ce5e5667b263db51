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

use crate::driver::callers::AuthenticatedClient;
use crate::driver::error::{Failure, RetrySafety, unknown_outcome};
use crate::driver::response_cache::ResponseCache;

/// Maximum size of a response. A page of a hundred runs has about a megabyte.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of requests per call: the first one, and one for each redirect that is followed.
const MAX_REQUESTS: usize = 3;

/// Result of a call.
pub(crate) type ApiResult<T> = std::result::Result<T, Failure>;

/// Client of the GitHub API.
pub(crate) struct Api {
    /// The backend's own credential.
    pub(crate) own_client: AuthenticatedClient,
    base: Url,
    call_timeout: Duration,
    cache: ResponseCache,
}

/// Request to send.
enum Request<'a> {
    Get(Option<HeaderMap>),
    Post(Option<&'a Value>),
}

/// Unparsed response.
struct RawResponse {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Api {
    pub(crate) fn new(crab: Octocrab, base: Url, call_timeout: Duration) -> Self {
        Self {
            own_client: AuthenticatedClient::new(crab),
            base,
            call_timeout,
            cache: ResponseCache::default(),
        }
    }

    /// Reads a path. The request is conditional on the cached ETag, so that GitHub does not send unchanged
    /// data again.
    pub(crate) async fn get<T: DeserializeOwned>(&self, label: &str, path: &str) -> ApiResult<T> {
        self.get_cached(Duration::ZERO, label, path).await
    }

    /// Reads a path, or returns the cached response if it is not older than `max_age`.
    pub(crate) async fn get_cached<T: DeserializeOwned>(
        &self,
        max_age: Duration,
        label: &str,
        path: &str,
    ) -> ApiResult<T> {
        let body = match self.cache.get_fresh(max_age, path) {
            Some(body) => body,
            None => self.get_bytes(label, path).await?,
        };
        parse_response(label, RetrySafety::Safe, &body)
    }

    /// Reads a path with a credential and without the cache. Also returns the headers of the response.
    pub(crate) async fn get_uncached<T: DeserializeOwned>(
        &self,
        by: &AuthenticatedClient,
        label: &str,
        path: &str,
    ) -> ApiResult<(HeaderMap, T)> {
        let response = self.call(by, label, RetrySafety::Safe, path, Request::Get(None)).await?;
        match response.status {
            200 => Ok((response.headers, parse_response(label, RetrySafety::Safe, &response.body)?)),
            _ => Err(handle_error_response(by, label, RetrySafety::Safe, &response)),
        }
    }

    async fn get_bytes(&self, label: &str, path: &str) -> ApiResult<Bytes> {
        let etag = self.cache.etag(path).and_then(|etag| HeaderValue::from_str(&etag).ok());
        let headers = etag.map(|etag| HeaderMap::from_iter([(IF_NONE_MATCH, etag)]));
        let by = &self.own_client;
        let response = self.call(by, label, RetrySafety::Safe, path, Request::Get(headers)).await?;
        match response.status {
            200 => {
                if let Some(etag) = response.headers.get(ETAG).and_then(|etag| etag.to_str().ok()) {
                    self.cache.put(path, etag.to_owned(), response.body.clone());
                }
                Ok(response.body)
            }
            304 => self.cache.revalidate(path).ok_or_else(|| Failure {
                status: None,
                // The response was evicted from the cache during the request.
                error: Error::unavailable(format!(
                    "{label}: the cached response was evicted during the request"
                )),
            }),
            _ => Err(handle_error_response(&self.own_client, label, RetrySafety::Safe, &response)),
        }
    }

    /// Sends a POST with a credential. Returns the status and the body of the response.
    pub(crate) async fn post(
        &self,
        by: &AuthenticatedClient,
        label: &str,
        retry_safety: RetrySafety,
        path: &str,
        body: Option<&Value>,
    ) -> ApiResult<(u16, Bytes)> {
        let response = self.call(by, label, retry_safety, path, Request::Post(body)).await?;
        match response.status {
            200..=299 => Ok((response.status, response.body)),
            _ => Err(handle_error_response(by, label, retry_safety, &response)),
        }
    }

    /// Returns the short-lived URL of a log or an artifact, which needs no credentials.
    pub(crate) async fn link(&self, label: &str, path: &str) -> ApiResult<String> {
        let response =
            self.call(&self.own_client, label, RetrySafety::Safe, path, Request::Get(None)).await?;
        let link = response.headers.get(LOCATION).and_then(|link| link.to_str().ok());
        match (response.status, link) {
            (302 | 307, Some(link)) => Ok(link.to_owned()),
            (200..=399, _) => Err(Failure {
                status: Some(response.status),
                error: Error::unavailable(format!("{label}: GitHub returned no link")),
            }),
            _ => Err(handle_error_response(&self.own_client, label, RetrySafety::Safe, &response)),
        }
    }

    /// Sends a request, and follows redirects to a moved repository within this GitHub.
    async fn call(
        &self,
        by: &AuthenticatedClient,
        label: &str,
        retry_safety: RetrySafety,
        path: &str,
        request: Request<'_>,
    ) -> ApiResult<RawResponse> {
        by.limits.check().map_err(|error| Failure { status: None, error })?;
        let exchange = async {
            let mut path = path.to_owned();
            for _ in 0..MAX_REQUESTS {
                let response = self.send(by, label, retry_safety, &path, &request).await?;
                by.limits.update_from_headers(&response.headers);
                match redirect_path(&self.base, &response, &request) {
                    Some(next) => path = next,
                    None => return Ok(response),
                }
            }
            // The redirects had no effect but to name the next one.
            let error = Error::config(format!("{label}: GitHub redirected {MAX_REQUESTS} requests in a row"));
            Err(Failure { status: None, error })
        };
        timeout(self.call_timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(Failure::from_timeout(label, retry_safety)))
    }

    async fn send(
        &self,
        by: &AuthenticatedClient,
        label: &str,
        retry_safety: RetrySafety,
        path: &str,
        request: &Request<'_>,
    ) -> ApiResult<RawResponse> {
        let result = match request {
            Request::Get(headers) => by.crab._get_with_headers(path, headers.clone()).await,
            Request::Post(body) => by.crab._post(path, *body).await,
        };
        let (parts, body) =
            result.map_err(|e| Failure::from_client_error(label, retry_safety, e))?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await.map_err(|e| Failure {
            status: None,
            error: unknown_outcome(retry_safety, format!("{label}: the response is incomplete or too large"))
                .caused_by(e),
        })?;
        Ok(RawResponse { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() })
    }
}

/// Returns the new path of a moved repository, or of anything in it, if it is within the same API. Links to
/// logs and artifacts lead elsewhere and return `None`.
fn redirect_path(base: &Url, response: &RawResponse, request: &Request<'_>) -> Option<String> {
    let keeps_method = matches!(response.status, 307 | 308);
    let may_follow = match request {
        Request::Get(_) => keeps_method || matches!(response.status, 301 | 302),
        Request::Post(_) => keeps_method,
    };
    let location = response.headers.get(LOCATION).filter(|_| may_follow)?.to_str().ok()?;
    let target = base.join(location).ok().filter(|target| target.origin() == base.origin())?;
    let api_path = target.path().strip_prefix(base.path().trim_end_matches('/'))?;
    let is_repository_path = api_path.starts_with("/repositories/") || api_path.starts_with("/repos/");
    is_repository_path.then(|| match target.query() {
        Some(query) => format!("{}?{query}", target.path()),
        None => target.path().to_owned(),
    })
}

fn handle_error_response(
    by: &AuthenticatedClient,
    label: &str,
    retry_safety: RetrySafety,
    response: &RawResponse,
) -> Failure {
    let failure =
        Failure::from_response(label, retry_safety, response.status, &response.headers, &response.body);
    by.limits.update_from_error(&failure.error);
    failure
}

/// Parses a response.
pub(crate) fn parse_response<T: DeserializeOwned>(
    label: &str,
    retry_safety: RetrySafety,
    body: &[u8],
) -> ApiResult<T> {
    serde_json::from_slice(body).map_err(|e| Failure {
        status: None,
        error: unknown_outcome(retry_safety, format!("{label}: GitHub's response cannot be parsed: {e}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(base: &str, status: u16, location: &str, request: &Request<'_>) -> Option<String> {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]);
        redirect_path(
            &Url::parse(base).unwrap(),
            &RawResponse { status, headers, body: Bytes::new() },
            request,
        )
    }

    #[test]
    fn redirects_stay_within_api() {
        let github = "https://api.github.com";
        let moved_path = "/repositories/41/actions/runs/7?page=2";
        let get = |base: &str, status, location: &str| redirect(base, status, location, &Request::Get(None));
        for status in [301, 302, 307, 308] {
            assert_eq!(get(github, status, &format!("{github}{moved_path}")).as_deref(), Some(moved_path));
        }
        let server = "https://ghes.example.com/api/v3";
        assert_eq!(
            get(server, 301, &format!("{server}{moved_path}")).unwrap(),
            format!("/api/v3{moved_path}"),
            "the client does not change a path that starts with the API's path"
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
            "the URL is outside of the API"
        );
        let post = Request::Post(None);
        assert_eq!(
            redirect(github, 301, &format!("{github}{moved_path}"), &post),
            None,
            "a redirected POST may become a GET"
        );
        assert_eq!(
            redirect(github, 307, &format!("{github}{moved_path}"), &post).as_deref(),
            Some(moved_path)
        );
    }
}
