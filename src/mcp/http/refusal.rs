//! [`Refusal`]: why the transport does not take a message. It becomes an HTTP error status with a JSON-RPC error as
//! its body, which says what to do about it.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::auth::{Authenticator, Unauthorized};
use crate::mcp::jsonrpc::{self, Error, INTERNAL_ERROR, INVALID_REQUEST, Id, Malformed};
use crate::tasks::store::StoreError;

/// The session is not there. The code that the official SDKs give it.
const NO_SESSION: i32 = -32001;

/// Why a message is not taken.
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

    /// The transport refuses, and JSON-RPC has no code of its own for it: it gets that of HTTP. Codes near -32000 are
    /// the protocol's, or were taken before it had a rule for them (MCP 2026-07-28, "Error Codes").
    fn refused(status: StatusCode, message: impl Into<String>) -> Box<Self> {
        Self::new(status, i32::from(status.as_u16()), message)
    }

    fn with(mut self: Box<Self>, name: HeaderName, value: &'static str) -> Box<Self> {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    fn after(mut self: Box<Self>, pause: Duration) -> Box<Self> {
        self.header = Some((header::RETRY_AFTER, HeaderValue::from(whole_seconds(pause))));
        self
    }

    /// The same as an answer to the request of this id.
    pub(super) fn to(mut self: Box<Self>, id: Option<Id>) -> Box<Self> {
        // A request that is well formed is answered as one: to some clients any other status is the end of the session.
        if id.is_some() && self.status == StatusCode::SERVICE_UNAVAILABLE {
            self.status = StatusCode::OK;
            self.header = None;
        }
        self.id = id;
        self
    }

    /// The same to somebody who is told no reason.
    pub(super) fn wordless(self) -> Response {
        let mut response = self.status.into_response();
        response.headers_mut().extend(self.header);
        response
    }

    /// The same as an answer to an entry of a batch.
    pub(super) fn answer(self) -> Value {
        jsonrpc::answer(self.id, Err(self.error))
    }

    /// The same as a message on a stream.
    pub(super) fn message(&self) -> Vec<u8> {
        jsonrpc::failure(self.id.as_ref(), &self.error)
    }

    /// 400: a message or a header that cannot be acted on.
    pub(super) fn invalid(message: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    /// 400: a body that is no message.
    pub(super) fn malformed(malformed: Malformed) -> Box<Self> {
        let Malformed { id, error } = malformed;
        Box::new(Self { status: StatusCode::BAD_REQUEST, id, error, header: None })
    }

    /// 401 to somebody who is not let in; 403 if no header would change that, or if their token is good and grants too little;
    /// 503 if it cannot be told now.
    pub(super) fn unauthorized(auth: &Authenticator, why: &Unauthorized) -> Box<Self> {
        let status = match why {
            Unauthorized::Scope(_) => StatusCode::FORBIDDEN,
            // There is no challenge for certificates. They belong to the connection, and the next one can show another.
            Unauthorized::NoCertificate
            | Unauthorized::UnknownCertificate
            | Unauthorized::CertificateOver => {
                return Self::forbidden(why.to_string()).with(header::CONNECTION, "close");
            }
            Unauthorized::Unavailable => {
                return Self::refused(StatusCode::SERVICE_UNAVAILABLE, why.to_string())
                    .with(header::RETRY_AFTER, "5");
            }
            _ => StatusCode::UNAUTHORIZED,
        };
        Self::refused(status, why.to_string()).challenging(&auth.challenge(why))
    }

    /// 403: the token is good, and all of these scopes are needed for what is asked, beside those that every token needs.
    pub(super) fn insufficient_scope(auth: &Authenticator, needed: &[String]) -> Box<Self> {
        Self::unauthorized(auth, &Unauthorized::Scope(auth.scopes_for(needed)))
    }

    fn challenging(mut self: Box<Self>, challenge: &str) -> Box<Self> {
        let value = HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Bearer"));
        self.header = Some((header::WWW_AUTHENTICATE, value));
        self
    }

    /// 403.
    pub(super) fn forbidden(message: impl Into<String>) -> Box<Self> {
        Self::refused(StatusCode::FORBIDDEN, message)
    }

    /// 404: the session cannot be used, and the client begins a new one.
    pub(super) fn no_session(message: &str) -> Box<Self> {
        Self::new(StatusCode::NOT_FOUND, NO_SESSION, message)
    }

    /// 405: another HTTP method.
    pub(super) fn method_not_allowed() -> Box<Self> {
        let message = format!("this endpoint serves {}", super::METHODS);
        Self::refused(StatusCode::METHOD_NOT_ALLOWED, message).with(header::ALLOW, super::METHODS)
    }

    /// 405: a stream that is over. The status that tells a client not to come back.
    pub(super) fn stream_over() -> Box<Self> {
        let message = "this stream is over: its request was answered or cancelled";
        Self::refused(StatusCode::METHOD_NOT_ALLOWED, message).with(header::ALLOW, super::METHODS)
    }

    /// 406.
    pub(super) fn not_acceptable(message: &str) -> Box<Self> {
        Self::refused(StatusCode::NOT_ACCEPTABLE, message)
    }

    /// 408: the body came too slowly.
    pub(super) fn too_slow() -> Box<Self> {
        Self::refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")
            .with(header::CONNECTION, "close")
    }

    /// 413.
    pub(super) fn too_large(limit: usize) -> Box<Self> {
        let message = format!("the message is larger than the {limit} bytes that this server takes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, message)
    }

    /// 415.
    pub(super) fn media_type() -> Box<Self> {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            INVALID_REQUEST,
            "send the message with Content-Type: application/json",
        )
    }

    /// 429.
    pub(super) fn too_many_polls(most: u32) -> Box<Self> {
        let message = format!(
            "more than {most} polls a second: poll at the task's pollInterval, complete when the user pauses, subscribe once"
        );
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).with(header::RETRY_AFTER, "1")
    }

    /// 429: streams and requests that wait.
    pub(super) fn too_many_waits(most: u32) -> Box<Self> {
        let message = format!(
            "more than {most} streams and requests that wait were begun in a second, and many more: keep one open while it lasts"
        );
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).with(header::RETRY_AFTER, "1")
    }

    /// 429: messages that are no requests.
    pub(super) fn too_many_messages(most: u32) -> Box<Self> {
        let message = format!("more than {most} notifications, responses and ends of sessions a second");
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).with(header::RETRY_AFTER, "1")
    }

    /// 429: sessions ended in a day.
    pub(super) fn too_many_ends(most: u32, pause: Duration) -> Box<Self> {
        let message = format!(
            "more than {most} sessions were ended here within a day: use one session for many requests; this one ends when its \
             time is over"
        );
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).after(pause)
    }

    /// 429: sessions of which something began to be kept in a day.
    pub(super) fn too_many_kept(most: u32, pause: Duration) -> Box<Self> {
        let message = format!(
            "more than {most} sessions of yours had something kept here within a day (max_kept_sessions_per_day in [limits]): \
             use one session for many requests"
        );
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).after(pause)
    }

    /// 429: streams and requests in hand.
    pub(super) fn too_many_streams(most: usize) -> Box<Self> {
        let message = format!(
            "{most} streams and requests of yours are open here already, and there may be no more: close some, or wait"
        );
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).with(header::RETRY_AFTER, "1")
    }

    /// 503, or 200 as an answer to a request: too much is on its way in or out.
    pub(super) fn no_room() -> Box<Self> {
        let message = "too much is on its way between you and this server, or between others and it: read what was answered, \
                       and send this again in a moment";
        Self::refused(StatusCode::SERVICE_UNAVAILABLE, message).with(header::RETRY_AFTER, "1")
    }

    /// 503: the request was done, and what it is answered with finds no room.
    pub(super) fn no_room_for_answer() -> Box<Self> {
        let message = "it was done, and there is no room for the answer: too much is on its way between you and this server, or \
                       between others and it. Read what was answered, and then ask for it: of a call, for its task";
        Self::refused(StatusCode::SERVICE_UNAVAILABLE, message).with(header::RETRY_AFTER, "1")
    }

    /// 429: calls in a minute.
    pub(super) fn too_many_calls(most: u32, pause: Duration) -> Box<Self> {
        let seconds = whole_seconds(pause);
        let message =
            format!("more than {most} calls a minute: call again in {seconds} s; nothing was started");
        Self::refused(StatusCode::TOO_MANY_REQUESTS, message).after(pause)
    }

    /// 503, or 200 as an answer to a request: the store does not work. The reason is the operator's.
    pub(super) fn store(error: StoreError) -> Box<Self> {
        tracing::error!(%error, "a session cannot be looked up");
        Self::not_kept()
    }

    /// The same, where the log has the reason already.
    pub(super) fn not_kept() -> Box<Self> {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            INTERNAL_ERROR,
            "the server's database does not answer; its log says why",
        )
        .with(header::RETRY_AFTER, "1")
    }
}

fn whole_seconds(pause: Duration) -> u64 {
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
