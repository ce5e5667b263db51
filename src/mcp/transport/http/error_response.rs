//! [`Refusal`]: an error of the transport. It becomes an HTTP error status with a JSON-RPC error as its body,
//! which states what to do about it. Only a 503 in response to a request becomes a 200 with that error. This
//! module must not decide what is refused.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::auth::{Authenticator, Unauthorized};
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_REQUEST, Id, Malformed};
use crate::tasks::store::StoreError;

/// The session does not exist. The official SDKs use this code.
const NO_SESSION: i32 = -32001;

/// Why the transport refuses a message.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    id: Option<Id>,
    error: Error,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    fn new(status: StatusCode, code: i32, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { status, id: None, error: Error::new(code, message), header: None })
    }

    /// Builds a refusal of the transport for which JSON-RPC has no code. Its code is the HTTP status. Codes
    /// near -32000 belong to the protocol, or were in use before the protocol had a rule for them (MCP
    /// 2026-07-28, "Error Codes").
    fn with_status(status: StatusCode, message: impl Into<String>) -> Box<Self> {
        Self::new(status, i32::from(status.as_u16()), message)
    }

    fn with_header(mut self: Box<Self>, name: HeaderName, value: &'static str) -> Box<Self> {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    fn with_retry_after(mut self: Box<Self>, pause: Duration) -> Box<Self> {
        self.header = Some((header::RETRY_AFTER, HeaderValue::from(ceil_seconds(pause))));
        self
    }

    /// Turns the refusal into a response to the request with this id.
    pub(super) fn for_request(mut self: Box<Self>, id: Option<Id>) -> Box<Self> {
        // Some clients end the session on a 503, so a well-formed request gets a 200 with the JSON-RPC error.
        if id.is_some() && self.status == StatusCode::SERVICE_UNAVAILABLE {
            self.status = StatusCode::OK;
            self.header = None;
        }
        self.id = id;
        self
    }

    /// Returns a response without a body, for senders who must not learn the reason.
    pub(super) fn into_empty_response(self) -> Response {
        let mut response = self.status.into_response();
        response.headers_mut().extend(self.header);
        response
    }

    /// Returns the JSON-RPC error response as a value, for a message on a stream.
    pub(super) fn into_value(self) -> Value {
        jsonrpc::answer(self.id, Err(self.error))
    }

    /// Returns the JSON-RPC error response as text, for a response body, a batch or an event.
    pub(super) fn message(&self) -> Vec<u8> {
        jsonrpc::failure(self.id.as_ref(), &self.error)
    }

    /// Returns 400: a message or a header cannot be acted on.
    pub(super) fn invalid(message: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    /// Returns 400: the body is not a message.
    pub(super) fn malformed(malformed: Malformed) -> Box<Self> {
        let Malformed { id, error } = malformed;
        Box::new(Self { status: StatusCode::BAD_REQUEST, id, error, header: None })
    }

    /// Returns 401 if credentials are missing or invalid. Returns 403 if the token grants too little or only
    /// another client certificate could help, and 503 if the token cannot be checked now.
    pub(super) fn unauthorized(auth: &Authenticator, error: &Unauthorized) -> Box<Self> {
        let status = match error {
            Unauthorized::InsufficientScope(_) => StatusCode::FORBIDDEN,
            // Certificates have no challenge. They belong to the connection, and the next connection can
            // present another one.
            Unauthorized::NoCertificate
            | Unauthorized::UnknownCertificate
            | Unauthorized::CertificateExpired => {
                return Self::forbidden(error.to_string()).with_header(header::CONNECTION, "close");
            }
            Unauthorized::Unavailable => {
                return Self::with_status(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
                    .with_header(header::RETRY_AFTER, "5");
            }
            _ => StatusCode::UNAUTHORIZED,
        };
        Self::with_status(status, error.to_string()).with_challenge(&auth.challenge(error))
    }

    /// Returns 403: the token is valid, but the request needs these scopes in addition to those that every
    /// token needs.
    pub(super) fn insufficient_scope(auth: &Authenticator, scopes: &[String]) -> Box<Self> {
        Self::unauthorized(auth, &Unauthorized::InsufficientScope(auth.scopes_for(scopes)))
    }

    fn with_challenge(mut self: Box<Self>, challenge: &str) -> Box<Self> {
        let value = HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Bearer"));
        self.header = Some((header::WWW_AUTHENTICATE, value));
        self
    }

    /// Returns 403.
    pub(super) fn forbidden(message: impl Into<String>) -> Box<Self> {
        Self::with_status(StatusCode::FORBIDDEN, message)
    }

    /// Returns 404: the session cannot be used, and the client must begin a new one.
    pub(super) fn no_session(message: &str) -> Box<Self> {
        Self::new(StatusCode::NOT_FOUND, NO_SESSION, message)
    }

    /// Returns 405: the HTTP method is not supported.
    pub(super) fn method_not_allowed() -> Box<Self> {
        let message = format!("this endpoint serves {}", super::METHODS);
        Self::with_status(StatusCode::METHOD_NOT_ALLOWED, message).with_header(header::ALLOW, super::METHODS)
    }

    /// Returns 405: the stream is over. This status stops clients from reconnecting.
    pub(super) fn stream_over() -> Box<Self> {
        let message = "this stream is over: its request was answered or cancelled";
        Self::with_status(StatusCode::METHOD_NOT_ALLOWED, message).with_header(header::ALLOW, super::METHODS)
    }

    /// Returns 406.
    pub(super) fn not_acceptable(message: &str) -> Box<Self> {
        Self::with_status(StatusCode::NOT_ACCEPTABLE, message)
    }

    /// Returns 408: the body arrived too slowly.
    pub(super) fn too_slow() -> Box<Self> {
        Self::with_status(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")
            .with_header(header::CONNECTION, "close")
    }

    /// Returns 413.
    pub(super) fn too_large(limit: usize) -> Box<Self> {
        let message = format!("the message is larger than the {limit} bytes that this server takes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, message)
    }

    /// Returns 415.
    pub(super) fn unsupported_media_type() -> Box<Self> {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            INVALID_REQUEST,
            "send the message with Content-Type: application/json",
        )
    }

    /// Returns 429: rate limit of polls.
    pub(super) fn too_many_polls(limit: u32) -> Box<Self> {
        let message = format!(
            "more than {limit} polls a second: poll at the task's pollInterval, complete when the user pauses, subscribe once"
        );
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_header(header::RETRY_AFTER, "1")
    }

    /// Returns 429: rate limit of streams and of requests that wait.
    pub(super) fn too_many_waits(limit: u32) -> Box<Self> {
        let message = format!(
            "more than {limit} streams and requests that wait were begun in a second, and many more: keep one open while it lasts"
        );
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_header(header::RETRY_AFTER, "1")
    }

    /// Returns 429: rate limit of notifications, responses and DELETE.
    pub(super) fn too_many_messages(limit: u32) -> Box<Self> {
        let message = format!("more than {limit} notifications, responses and ends of sessions a second");
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_header(header::RETRY_AFTER, "1")
    }

    /// Returns 429: daily limit of ended sessions.
    pub(super) fn too_many_ended_sessions(limit: u32, pause: Duration) -> Box<Self> {
        let message = format!(
            "more than {limit} sessions were ended here within a day: use one session for many requests; this one ends when its \
             time is over"
        );
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_retry_after(pause)
    }

    /// Returns 429: daily limit of sessions that store settings.
    pub(super) fn too_many_stored_sessions(limit: u32, pause: Duration) -> Box<Self> {
        let message = format!(
            "more than {limit} sessions of yours had something kept here within a day (max_kept_sessions_per_day in [limits]): \
             use one session for many requests"
        );
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_retry_after(pause)
    }

    /// Returns 429: limit of open streams and pending requests.
    pub(super) fn too_many_streams(limit: usize) -> Box<Self> {
        let message = format!(
            "{limit} streams and requests of yours are open here already, and there may be no more: close some, or wait"
        );
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_header(header::RETRY_AFTER, "1")
    }

    /// Returns 503, or 200 as the response to a request: the memory budget is exhausted.
    pub(super) fn memory_exhausted() -> Box<Self> {
        let message = "too much is on its way between you and this server, or between others and it: read what was answered, \
                       and send this again in a moment";
        Self::with_status(StatusCode::SERVICE_UNAVAILABLE, message).with_header(header::RETRY_AFTER, "1")
    }

    /// Returns 503, or 200 as the response to a request: the request was executed, but the memory budget has
    /// no space for its answer.
    pub(super) fn no_memory_for_answer() -> Box<Self> {
        let message = "it was done, and there is no room for the answer: too much is on its way between you and this server, or \
                       between others and it. Read what was answered, and then ask for it: of a call, for its task";
        Self::with_status(StatusCode::SERVICE_UNAVAILABLE, message).with_header(header::RETRY_AFTER, "1")
    }

    /// Returns 429: rate limit of calls per minute.
    pub(super) fn too_many_calls(limit: u32, pause: Duration) -> Box<Self> {
        let seconds = ceil_seconds(pause);
        let message =
            format!("more than {limit} calls a minute: call again in {seconds} s; nothing was started");
        Self::with_status(StatusCode::TOO_MANY_REQUESTS, message).with_retry_after(pause)
    }

    /// Returns 503, or 200 as the response to a request: the store failed. Only the log contains the reason.
    pub(super) fn store(error: StoreError) -> Box<Self> {
        tracing::error!(%error, "a session cannot be looked up");
        Self::store_unavailable()
    }

    /// As [`Self::store`], for a failure that is already in the log.
    pub(super) fn store_unavailable() -> Box<Self> {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            INTERNAL_ERROR,
            "the server's database does not answer; its log says why",
        )
        .with_header(header::RETRY_AFTER, "1")
    }
}

fn ceil_seconds(pause: Duration) -> u64 {
    pause.as_secs() + u64::from(pause.subsec_nanos() > 0)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        tracing::debug!(status = self.status.as_u16(), message = self.error.message, "refused");
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status, [(header::CONTENT_TYPE, json)], self.message()).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
