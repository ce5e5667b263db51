//! Fetches logs and artifacts from where GitHub's links lead: other hosts, which must never be sent a credential. What is
//! fetched is bounded, or given on as it comes.

use std::time::Duration;

use bytes::Bytes;
use http::header::RANGE;
use taskbridge_sdk::{Error, Result};

use crate::api::Api;
use crate::failure::{Failure, innermost};

/// How long a link may take in all.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Links {
    client: reqwest::Client,
}

impl Links {
    pub(crate) fn new() -> Result<Self> {
        let client = reqwest::Client::builder().timeout(TIMEOUT).user_agent("taskbridge").build();
        let client =
            client.map_err(|e| Error::config(format!("no client can be made: {}", innermost(&e))))?;
        Ok(Self { client })
    }

    /// What the link at a path of the API leads to; an error's status is GitHub's. A link that has expired meanwhile is asked
    /// for once more.
    pub(crate) async fn open(&self, api: &Api, what: &str, path: &str) -> Result<Body, Failure> {
        self.open_from(api, what, path, None).await
    }

    /// The same, and of what is long only about the last so many bytes, where the host says how long it is.
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
                // What was not read of the whole is not sent either.
                drop(whole);
                self.open_from(api, what, path, Some(length - most)).await
            }
            _ => Ok(whole),
        }
    }

    async fn open_from(&self, api: &Api, what: &str, path: &str, from: Option<u64>) -> Result<Body, Failure> {
        for fresh in [true, false] {
            let link = api.link(what, path).await?;
            let mut request = self.client.get(link);
            if let Some(from) = from {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let answer = request.send().await.map_err(|e| broken(what, &e))?;
            match answer.status().as_u16() {
                status @ (200 | 206) => {
                    return Ok(Body { answer, is_part: status == 206, what: what.to_owned() });
                }
                400..=499 if fresh => {}
                status => {
                    return Err(unavailable(format!(
                        "{what}: the link is answered with the status {status}"
                    )));
                }
            }
        }
        Err(unavailable(format!("{what}: every link has expired")))
    }
}

/// What a link leads to, as it comes.
pub(crate) struct Body {
    answer: reqwest::Response,
    /// True if it does not begin at the beginning.
    pub(crate) is_part: bool,
    what: String,
}

impl Body {
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.answer.chunk().await.map_err(|e| broken(&self.what, &e))
    }

    /// All of it; `None` if there is more than this.
    pub(crate) async fn all(mut self, most: u64) -> Result<Option<Vec<u8>>, Failure> {
        // What the host says of its length is worth the memory only as far as it may be true.
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

/// The link itself is a secret for a moment, so it is in no message.
fn broken(what: &str, error: &reqwest::Error) -> Failure {
    unavailable(format!("{what}: the link cannot be followed: {}", innermost(error)))
}

fn unavailable(message: String) -> Failure {
    Failure { status: None, error: Error::unavailable(message) }
}
