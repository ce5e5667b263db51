//! [`Poster`]: one message as one POST, and its reply as one line. A reply that is no answer becomes an error
//! that says whether the call may have taken effect. It must not decide what that means for a job.

use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::json;
use taskbridge_sdk::{find_cause, root_cause, short_line};

use super::addresses::ForbiddenAddress;
use super::proof::Proof;
use crate::driver::wire::{self, Incoming, MAX_LINE};

/// The header of the session that `initialize` began.
const SESSION: HeaderName = HeaderName::from_static("taskbridge-session");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Time beyond the longest of a call: the call ends first.
const MARGIN: Duration = Duration::from_secs(1);

/// Posts messages to one address.
pub(super) struct Poster {
    client: Client,
    url: Url,
    proof: Proof,
    limit: Duration,
}

/// What came of a request.
pub(super) struct Delivery {
    /// The answer, as a line.
    pub(super) line: Vec<u8>,
    /// The session that the service named.
    pub(super) session: Option<HeaderValue>,
    /// True if the service does not know the session any more.
    pub(super) ends_session: bool,
}

/// Why a request has no answer.
struct Fault {
    /// The kind of error on the wire. `None` if the call may have taken effect.
    kind: Option<&'static str>,
    message: String,
    after_ms: Option<u64>,
    ends_session: bool,
}

impl Fault {
    fn new(kind: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), after_ms: None, ends_session: false }
    }

    /// A failure after which nobody knows whether the call took effect.
    fn unknown(message: impl Into<String>) -> Self {
        Self::new(None, message)
    }
}

impl Poster {
    pub(super) fn new(client: Client, url: Url, proof: Proof, limit: Duration) -> Self {
        Self { client, url, proof, limit: limit + MARGIN }
    }

    /// Posts a message, and returns the line that answers it.
    pub(super) async fn post(&self, message: Vec<u8>, session: Option<HeaderValue>) -> Delivery {
        let id = wire::id_of(&message);
        match self.exchange(id, message, session).await {
            Ok((line, session)) => Delivery { line, session, ends_session: false },
            Err(Fault { kind, message, after_ms, ends_session }) => {
                let mut data = serde_json::Map::new();
                data.extend(kind.map(|kind| ("kind".to_owned(), json!(kind))));
                data.extend(after_ms.map(|ms| ("after_ms".to_owned(), json!(ms))));
                let message = format!("the service at {}: {message}", self.host());
                let error = json!({"code": -32000, "message": message, "data": data});
                let mut line = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into_bytes();
                line.push(b'\n');
                Delivery { line, session: None, ends_session }
            }
        }
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    async fn exchange(
        &self,
        id: Option<u64>,
        message: Vec<u8>,
        session: Option<HeaderValue>,
    ) -> Result<(Vec<u8>, Option<HeaderValue>), Fault> {
        let mut request = self
            .client
            .post(self.url.clone())
            .timeout(self.limit)
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, JSON)
            .header(ACCEPT_ENCODING, "identity");
        for (name, value) in self.proof.headers(&message) {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let response = request.body(message).send().await.map_err(|error| classify(&error.without_url()))?;
        check_status(&response)?;
        let session = response.headers().get(SESSION).cloned();
        let line = read(response).await?;
        match wire::read(&line) {
            Some(Incoming::Answer { id: answered, .. }) if Some(answered) == id => Ok((line, session)),
            Some(Incoming::Invalid(problem)) => Err(Fault::unknown(format!("its reply is {problem}"))),
            _ => Err(Fault::unknown("its reply is not the answer to this call")),
        }
    }
}

fn check_status(response: &Response) -> Result<(), Fault> {
    let status = response.status();
    Err(match status {
        StatusCode::OK => return Ok(()),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Fault::new(
            Some("denied"),
            format!("it answered HTTP {}: check `auth` and the clocks of both machines", status.as_u16()),
        ),
        StatusCode::NOT_FOUND => {
            let message = "it answered HTTP 404: `url` is wrong, or the service was restarted";
            Fault { ends_session: true, ..Fault::new(Some("unavailable"), message) }
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let seconds = after.and_then(|text| text.trim().parse::<u64>().ok());
            let after_ms = seconds.map(|seconds| seconds.saturating_mul(1000));
            Fault { after_ms, ..Fault::new(Some("limited"), "it answered HTTP 429") }
        }
        _ if status.is_redirection() => {
            Fault::unknown(format!("it answered HTTP {}, and redirects are not followed", status.as_u16()))
        }
        _ => Fault::unknown(format!("it answered HTTP {}", status.as_u16())),
    })
}

/// Reads a reply as one line. A newline in JSON is only white space.
async fn read(mut response: Response) -> Result<Vec<u8>, Fault> {
    let too_long = || Fault::unknown(format!("its reply has more than {MAX_LINE} bytes"));
    if response.content_length().is_some_and(|length| length > MAX_LINE as u64) {
        return Err(too_long());
    }
    let mut line = Vec::new();
    let next = async |response: &mut Response| {
        response.chunk().await.map_err(|error| {
            let error = error.without_url();
            Fault::unknown(match error.is_timeout() {
                true => "its reply did not end in time".to_owned(),
                false => format!("its reply is not complete: {}", root_cause(&error)),
            })
        })
    };
    while let Some(chunk) = next(&mut response).await? {
        if line.len() + chunk.len() > MAX_LINE {
            return Err(too_long());
        }
        line.extend_from_slice(&chunk);
    }
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    Ok(line)
}

fn classify(error: &reqwest::Error) -> Fault {
    let cause = short_line(&root_cause(error), 200);
    if let Some(forbidden) = find_cause::<ForbiddenAddress>(error) {
        return Fault::new(Some("config"), forbidden.to_string());
    }
    // DNS, TCP and TLS: the connection exists before the first byte of a request.
    if error.is_connect() || error.is_builder() {
        return Fault::new(Some("unavailable"), format!("it cannot be reached: {cause}"));
    }
    Fault::unknown(match error.is_timeout() {
        true => "it did not answer in time".to_owned(),
        false => format!("the connection was lost: {cause}"),
    })
}
