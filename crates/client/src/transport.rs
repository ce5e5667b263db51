//! [`HttpTransport`]: exchanges messages with one address over Streamable HTTP. It must not know a method. It
//! owns the API key and never returns it.

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, redirect};
use sse_stream::SseByteStream;
use taskbridge_sdk::root_cause;
use taskbridge_wire::jsonrpc::{self, Bounds, Message};
use taskbridge_wire::revision::Revision;

use super::error::ServerCallError;

/// Timeout to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an idle stream, counting comments as activity. It is four of a server's usual keep-alive
/// intervals.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of bytes to read of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The error text for a connection that closes early.
pub(super) const CONNECTION_CLOSED: &str = "the server closed the connection";

const JSON_TYPE: &str = "application/json";
const EVENT_STREAM_TYPE: &str = "text/event-stream";

/// A connection to one server.
pub(super) struct HttpTransport {
    http: reqwest::Client,
    url: Url,
}

/// The session and the protocol revision of a message. Neither is known before initialization; a server
/// need not have sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionHeaders {
    pub(super) session: Option<String>,
    pub(super) revision: Option<Revision>,
}

/// An event with a message.
pub(super) struct Event {
    /// The value for `Last-Event-ID`.
    pub(super) id: Option<String>,
    /// Absent if the event has only an id.
    pub(super) message: Option<Message>,
}

impl HttpTransport {
    /// Creates a client for this address, with this API key.
    ///
    /// # Errors
    /// If the key is invalid, or if the certificates of this machine cannot be used.
    pub(super) fn new(url: Url, key: Option<&str>) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))
                .map_err(|_| "$TASKBRIDGE_KEY contains characters that are invalid in a key".to_owned())?;
            value.set_sensitive(true);
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        let name = concat!("taskbridge/", env!("CARGO_PKG_VERSION"));
        let mut http = reqwest::Client::builder()
            .user_agent(name)
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(IDLE_TIMEOUT)
            // A redirect of a POST loses its body or its key; the user must give the final address.
            .redirect(redirect::Policy::none());
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        if url.scheme() == "http" {
            // The certificates of this machine are not needed, and there may be none.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|error| root_cause(&error))?;
        Ok(Self { http, url })
    }

    /// Sends one message.
    pub(super) async fn post(
        &self,
        headers: &SessionHeaders,
        body: Vec<u8>,
    ) -> Result<Response, ServerCallError> {
        let accept = format!("{JSON_TYPE}, {EVENT_STREAM_TYPE}");
        let request = self
            .build_request(Method::POST, headers)
            .header("accept", accept)
            .header("content-type", JSON_TYPE);
        check_status(headers, request.body(body).send().await?).await
    }

    /// Opens the stream for server-initiated messages, after the event with this id.
    pub(super) async fn listen(
        &self,
        headers: &SessionHeaders,
        after: Option<&str>,
    ) -> Result<Response, ServerCallError> {
        let mut request = self.build_request(Method::GET, headers).header("accept", EVENT_STREAM_TYPE);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        check_status(headers, request.send().await?).await
    }

    /// Ends the session.
    pub(super) async fn end(&self, headers: &SessionHeaders) -> Result<(), ServerCallError> {
        self.build_request(Method::DELETE, headers).send().await?;
        Ok(())
    }

    fn build_request(&self, method: Method, headers: &SessionHeaders) -> RequestBuilder {
        let mut request = self.http.request(method, self.url.clone());
        if let Some(session) = &headers.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(revision) = headers.revision {
            request = request.header("mcp-protocol-version", revision.as_str());
        }
        request
    }
}

/// Returns true for an address of this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        None => false,
    }
}

/// Returns the response, or an error by its status.
async fn check_status(headers: &SessionHeaders, response: Response) -> Result<Response, ServerCallError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        let location = response
            .headers()
            .get("location")
            .and_then(|location| location.to_str().ok())
            .unwrap_or("another address");
        return Err(ServerCallError::InvalidResponse(format!(
            "the server redirects to {location}; use that address"
        )));
    }
    let body = read_prefix(response).await;
    let error_json = serde_json::from_slice::<serde_json::Value>(&body).ok();
    let message = error_json
        .as_ref()
        .and_then(|error_json| error_json.pointer("/error/message")?.as_str())
        .unwrap_or_default();
    let message = message.to_owned();
    Err(match status {
        StatusCode::NOT_FOUND if headers.session.is_some() => ServerCallError::SessionExpired(message),
        _ => ServerCallError::Status { status, message },
    })
}

async fn read_prefix(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    body
}

/// Returns true if the response is an event stream.
pub(super) fn is_stream(response: &Response) -> bool {
    let content_type =
        response.headers().get("content-type").and_then(|content_type| content_type.to_str().ok());
    content_type.is_some_and(|content_type| {
        content_type.trim_start().to_ascii_lowercase().starts_with(EVENT_STREAM_TYPE)
    })
}

/// Parses the only message of a response.
pub(super) async fn message(response: Response) -> Result<Message, ServerCallError> {
    let body = response.bytes().await?;
    parse_message(&body)
}

/// Returns the events of a stream until it ends.
pub(super) fn events(response: Response) -> impl Stream<Item = Result<Event, ServerCallError>> + Unpin {
    SseByteStream::new(Box::pin(response.bytes_stream())).map(|event| {
        let event = event.map_err(|error| stream_error(&error))?;
        let data = event.data.filter(|data| !data.is_empty());
        let message = data.map(|data| parse_message(data.as_bytes())).transpose()?;
        Ok(Event { id: event.id, message })
    })
}

/// Converts the error of a stream that ended early.
fn stream_error(error: &sse_stream::Error) -> ServerCallError {
    let why = match error {
        sse_stream::Error::Body(cause) => match cause.downcast_ref::<reqwest::Error>() {
            Some(cause) if cause.is_timeout() => "timeout: no data from the server".to_owned(),
            _ => CONNECTION_CLOSED.to_owned(),
        },
        other => root_cause(other),
    };
    ServerCallError::Network { why, unsent: false }
}

fn parse_message(text: &[u8]) -> Result<Message, ServerCallError> {
    jsonrpc::parse(text, Bounds::default()).map_err(|parse_error| {
        ServerCallError::InvalidResponse(format!(
            "the server sent an invalid MCP message: {}",
            parse_error.error.message
        ))
    })
}
