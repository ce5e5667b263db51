//! HTTP requests to slurmrestd and the discovery of its API version. It must not know what the requests mean.

use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Client, Method, RequestBuilder, redirect};
use serde_json::Value;
use taskbridge_sdk::{Error, Result, root_cause};

use super::response::{RestResponse, response_error};
use crate::config;

/// A request without a response.
pub(super) struct RestFailure {
    pub(super) error: Error,
    /// Whether the request may have arrived.
    pub(super) may_have_arrived: bool,
}

/// Maximum size of a response: 100,000 jobs take 300 MB.
const MAX_RESPONSE_BYTES: usize = 512 * 1024 * 1024;
/// Size from which a response is parsed on a blocking thread. Parsing it takes some milliseconds.
const BLOCKING_PARSE_SIZE: usize = 1024 * 1024;
/// The prefix of API versions before their number.
const VERSION_PREFIX: &str = "v0.0.";

/// A client of slurmrestd.
pub(super) struct Http {
    client: Client,
    /// The base URL, without a slash at its end.
    base: String,
    /// The socket or URL, for messages.
    address: String,
    user: Option<String>,
    token: Option<taskbridge_sdk::Secret>,
    /// The discovered API.
    api: Mutex<Option<Api>>,
}

/// The API of a slurmrestd, from its OpenAPI description.
#[derive(Clone, Copy)]
pub(super) struct Api {
    /// `38` for `v0.0.38`.
    pub(super) version: u32,
    /// It has paths for the accounting database, whether the database answers or not.
    pub(super) has_accounting: bool,
}

impl Http {
    pub(super) fn new(config: &config::Rest, timeout: Duration) -> Result<Self> {
        let mut client = Client::builder().timeout(timeout).redirect(redirect::Policy::none()).no_proxy();
        let base = match (&config.socket, &config.url) {
            (Some(socket), None) => {
                client = client.unix_socket(socket.as_path());
                "http://localhost".to_owned()
            }
            (None, Some(url)) => url.trim_end_matches('/').to_owned(),
            _ => return Err(Error::config("`rest` needs `socket` or `url`, and not both")),
        };
        let client = client
            .build()
            .map_err(|e| Error::config(format!("the HTTP client cannot be created: {}", root_cause(&e))))?;
        let (user, token) = (config.user.clone(), config.token.clone());
        Ok(Self { client, base, address: config.display_address(), user, token, api: Mutex::default() })
    }

    /// Returns the API. It is discovered once, and again after a 404, for example after an upgrade.
    pub(super) async fn api(&self) -> Result<Api> {
        self.discover_api().await.map_err(|failure| failure.error)
    }

    /// Returns the API, if it was discovered already.
    pub(super) fn known_api(&self) -> Option<Api> {
        *self.api.lock()
    }

    async fn discover_api(&self) -> Result<Api, RestFailure> {
        if let Some(api) = self.known_api() {
            return Ok(api);
        }
        // The actual request was not sent, whatever the outcome of this one.
        let unsent = |error| RestFailure { error, may_have_arrived: false };
        let description = self.request(Method::GET, "/openapi");
        let response = self.send(description).await.map_err(|failure| unsent(failure.error))?;
        if response.status != 200 {
            return Err(unsent(response_error(&response, "API description")));
        }
        let version = newest_version(&response.body).ok_or_else(|| {
            unsent(Error::config(format!(
                "{} has no Slurm API; check that it is the address of slurmrestd",
                self.address
            )))
        })?;
        let api = Api { version, has_accounting: describes_accounting(&response.body, version) };
        *self.api.lock() = Some(api);
        Ok(api)
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(super) async fn get(&self, path: &str) -> Result<RestResponse> {
        self.call(Method::GET, "slurm", path, None).await.map_err(|failure| failure.error)
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<RestResponse, RestFailure> {
        self.call(Method::POST, "slurm", path, Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<RestResponse, RestFailure> {
        self.call(Method::DELETE, "slurm", path, None).await
    }

    /// Queries the accounting database, which has its own paths.
    pub(super) async fn accounting(&self, path: &str) -> Result<RestResponse> {
        self.call(Method::GET, "slurmdb", path, None).await.map_err(|failure| failure.error)
    }

    async fn call(
        &self,
        method: Method,
        namespace: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<RestResponse, RestFailure> {
        let version = self.discover_api().await?.version;
        let mut request = self.request(method, &format!("/{namespace}/{VERSION_PREFIX}{version}/{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = self.send(request).await?;
        if response.status == 404 {
            *self.api.lock() = None;
        }
        Ok(response)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(user) = &self.user {
            request = request.header("x-slurm-user-name", user);
        }
        if let Some(token) = &self.token {
            request = request.header("x-slurm-user-token", token.reveal());
        }
        request
    }

    async fn send(&self, request: RequestBuilder) -> Result<RestResponse, RestFailure> {
        let mut response = request.send().await.map_err(|error| self.request_failure(error))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.request_failure(error))? {
            if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let error = Error::unavailable("the response of slurmrestd is too large");
                return Err(RestFailure { error, may_have_arrived: true });
            }
            bytes.extend_from_slice(&chunk);
        }
        let size = bytes.len();
        let parse = move || serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(RestResponse { status, body: run_maybe_blocking(size, parse).await.unwrap_or_default() })
    }

    fn request_failure(&self, error: reqwest::Error) -> RestFailure {
        // The config contains the URL, so the cause does not repeat it.
        let error = error.without_url();
        let may_have_arrived = !error.is_connect() && !error.is_builder();
        let message = match (error.is_timeout(), may_have_arrived) {
            (true, _) => "slurmrestd did not answer in time",
            (false, true) => "the connection to slurmrestd broke",
            (false, false) => "slurmrestd cannot be reached",
        };
        RestFailure { error: Error::unavailable(message).caused_by(error), may_have_arrived }
    }
}

/// Runs work on a response. A large response uses a blocking thread, so that it does not block other tasks on
/// this one. Returns `None` if the work was aborted.
async fn run_maybe_blocking<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if size < BLOCKING_PARSE_SIZE { Some(work()) } else { tokio::task::spawn_blocking(work).await.ok() }
}

/// Returns the newest API version of an OpenAPI description that can submit jobs.
fn newest_version(description: &Value) -> Option<u32> {
    let paths = description["paths"].as_object()?;
    let version = |path: &String| {
        let rest = path.strip_prefix("/slurm/")?.strip_prefix(VERSION_PREFIX)?;
        let (version, rest) = rest.split_once('/')?;
        (rest.trim_end_matches('/') == "job/submit").then(|| version.parse().ok())?
    };
    paths.keys().filter_map(version).max()
}

/// Returns whether the description has paths for the accounting database. They are missing if Slurm has none.
fn describes_accounting(description: &Value, version: u32) -> bool {
    let paths = description["paths"].as_object();
    let start = format!("/slurmdb/{VERSION_PREFIX}{version}/");
    paths.is_some_and(|paths| paths.keys().any(|path| path.starts_with(&start)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A small response is parsed on the thread of the caller.
    #[tokio::test]
    async fn large_response_is_parsed_off_thread() {
        let test_thread = std::thread::current().id();
        let thread_for = async |size| run_maybe_blocking(size, || std::thread::current().id()).await.unwrap();
        assert_eq!(
            thread_for(BLOCKING_PARSE_SIZE - 1).await,
            test_thread,
            "a small response is parsed directly"
        );
        assert_ne!(thread_for(BLOCKING_PARSE_SIZE).await, test_thread);
    }

    /// Of the API versions that slurmrestd describes, the newest with job submission is used.
    #[test]
    fn newest_submitting_api_is_used() {
        let description = json!({"paths": {
            "/slurm/v0.0.36/job/submit": {}, "/slurm/v0.0.38/job/submit": {}, "/slurm/v0.0.40/jobs/": {}, "/openapi": {},
            "/slurmdb/v0.0.41/jobs": {}, "/slurm/v0.1/job/submit": {},
        }});
        assert_eq!(newest_version(&description), Some(38));
        assert!(describes_accounting(&description, 41) && !describes_accounting(&description, 38));
        assert_eq!(newest_version(&json!({"paths": {"/pets": {}}})), None);
        assert_eq!(newest_version(&Value::Null), None);
    }
}
