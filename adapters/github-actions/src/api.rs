//! The calls of GitHub: each is made once and within its limits, and what has not changed is not sent again. It must not
//! decide what they mean for a job.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION};
use http_body_util::{BodyExt as _, Limited};
use octocrab::Octocrab;
use serde::de::DeserializeOwned;
use serde_json::Value;
use taskbridge_sdk::Error;
use tokio::time::timeout;

use crate::failure::{Failure, Repeat, unclear};
use crate::kept::Kept;
use crate::persons::Hand;

/// The longest answer that is read. A page of a hundred runs is about a megabyte.
const LONGEST: usize = 16 * 1024 * 1024;

/// What a call gave.
pub(crate) type Answer<T> = std::result::Result<T, Failure>;

/// GitHub, as this adapter calls it.
pub(crate) struct Api {
    /// The backend's own credential.
    pub(crate) own: Hand,
    call_timeout: Duration,
    kept: Kept,
}

/// An answer as it came.
struct Raw {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Api {
    pub(crate) fn new(crab: Octocrab, call_timeout: Duration) -> Self {
        Self { own: Hand::new(crab), call_timeout, kept: Kept::default() }
    }

    /// What lies at a path. It is asked for under the tag that it had, and not sent again if it has not changed.
    pub(crate) async fn get<T: DeserializeOwned>(&self, what: &str, path: &str) -> Answer<T> {
        self.get_within(Duration::ZERO, what, path).await
    }

    /// The same; what GitHub has said within this time is not asked for again.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        age: Duration,
        what: &str,
        path: &str,
    ) -> Answer<T> {
        let body = match self.kept.within(age, path) {
            Some(body) => body,
            None => self.get_bytes(what, path).await?,
        };
        parsed(what, Repeat::Safe, &body)
    }

    /// What lies at a path now, with the headers of the answer.
    pub(crate) async fn get_anew<T: DeserializeOwned>(
        &self,
        by: &Hand,
        what: &str,
        path: &str,
    ) -> Answer<(HeaderMap, T)> {
        let answer = self.call(by, what, Repeat::Safe, by.crab._get(path)).await?;
        match answer.status {
            200 => Ok((answer.headers, parsed(what, Repeat::Safe, &answer.body)?)),
            _ => Err(refusal(by, what, Repeat::Safe, &answer)),
        }
    }

    async fn get_bytes(&self, what: &str, path: &str) -> Answer<Bytes> {
        let tag = self.kept.tag(path).and_then(|tag| HeaderValue::from_str(&tag).ok());
        let headers = tag.map(|tag| HeaderMap::from_iter([(IF_NONE_MATCH, tag)]));
        let by = &self.own;
        let answer = self.call(by, what, Repeat::Safe, by.crab._get_with_headers(path, headers)).await?;
        match answer.status {
            200 => {
                if let Some(tag) = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) {
                    self.kept.put(path, tag.to_owned(), answer.body.clone());
                }
                Ok(answer.body)
            }
            304 => self.kept.confirmed(path).ok_or_else(|| Failure {
                status: None,
                // It was forgotten between the question and the answer.
                error: Error::unavailable(format!("{what}: the answer before was forgotten meanwhile")),
            }),
            _ => Err(refusal(&self.own, what, Repeat::Safe, &answer)),
        }
    }

    /// Asks as somebody for something to be done; what GitHub says to it, and with which status.
    pub(crate) async fn post(
        &self,
        by: &Hand,
        what: &str,
        repeat: Repeat,
        path: &str,
        body: Option<&Value>,
    ) -> Answer<(u16, Bytes)> {
        let answer = self.call(by, what, repeat, by.crab._post(path, body)).await?;
        match answer.status {
            200..=299 => Ok((answer.status, answer.body)),
            _ => Err(refusal(by, what, repeat, &answer)),
        }
    }

    /// Where a log or an artifact can be fetched without credentials, for a moment.
    pub(crate) async fn link(&self, what: &str, path: &str) -> Answer<String> {
        let answer = self.call(&self.own, what, Repeat::Safe, self.own.crab._get(path)).await?;
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

    async fn call(
        &self,
        by: &Hand,
        what: &str,
        repeat: Repeat,
        sent: impl Future<
            Output = octocrab::Result<
                http::Response<http_body_util::combinators::BoxBody<Bytes, octocrab::Error>>,
            >,
        >,
    ) -> Answer<Raw> {
        by.limits.check().map_err(|error| Failure { status: None, error })?;
        let exchange = async {
            let answer = sent.await.map_err(|e| Failure::unanswered(what, repeat, e))?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, LONGEST).collect().await.map_err(|e| Failure {
                status: None,
                error: unclear(repeat, format!("{what}: the answer broke off, or is too long")).caused_by(e),
            })?;
            Ok::<Raw, Failure>(Raw {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: body.to_bytes(),
            })
        };
        let raw = timeout(self.call_timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(Failure::late(what, repeat)))?;
        by.limits.learn(&raw.headers);
        Ok(raw)
    }
}

fn refusal(by: &Hand, what: &str, repeat: Repeat, answer: &Raw) -> Failure {
    let failure = Failure::answered(what, repeat, answer.status, &answer.headers, &answer.body);
    by.limits.refused(&failure.error);
    failure
}

/// An answer, understood.
pub(crate) fn parsed<T: DeserializeOwned>(what: &str, repeat: Repeat, body: &[u8]) -> Answer<T> {
    serde_json::from_slice(body).map_err(|e| Failure {
        status: None,
        error: unclear(repeat, format!("{what}: GitHub's answer is not understood: {e}")),
    })
}
