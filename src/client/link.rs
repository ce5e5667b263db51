//! [`HttpTransport`]: exchanges messages with one address over Streamable HTTP. It must not know a method. It
//! owns the API key and never returns it.

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, redirect};
use sse_stream::SseByteStream;
use taskbridge_sdk::innermost;

use super::fault::ServerCallError;
use crate::mcp::generation::Revision;
use crate::mcp::jsonrpc::{self, Bounds, Message};

/// Timeout to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout of an idle stream, counting comments as activity. It is four of a server's usual keep-alive
/// intervals.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum number of bytes to read of an error response.
const MOST_READ: usize = 64 * 1024;

/// The error text for a connection that closes early.
pub(super) const CLOSED: &str = "the server closed the connection";

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

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
                .map_err(|_| "$TASKBRIDGE_KEY holds characters that no key has".to_owned())?;
            value.set_sensitive(true);
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        let name = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        let mut http = reqwest::Client::builder()
            .user_agent(name)
            .default_headers(headers)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            // A redirect of a POST loses its body or its key; the user must give the final address.
            .redirect(redirect::Policy::none());
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        if url.scheme() == "http" {
            // The certificates of this machine are not needed, and there may be none.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|error| innermost(&error))?;
        Ok(Self { http, url })
    }

    /// Sends one message.
    pub(super) async fn post(
        &self,
        place: &SessionHeaders,
        body: Vec<u8>,
    ) -> Result<Response, ServerCallError> {
        let accept = format!("{JSON}, {EVENTS}");
        let request =
            self.prepared(Method::POST, place).header("accept", accept).header("content-type", JSON);
        accepted(place, request.body(body).send().await?).await
    }

    /// Opens the stream for server-initiated messages, after the event with this id.
    pub(super) async fn listen(
        &self,
        place: &SessionHeaders,
        after: Option<&str>,
    ) -> Result<Response, ServerCallError> {
        let mut request = self.prepared(Method::GET, place).header("accept", EVENTS);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        accepted(place, request.send().await?).await
    }

    /// Ends the session.
    pub(super) async fn end(&self, place: &SessionHeaders) -> Result<(), ServerCallError> {
        self.prepared(Method::DELETE, place).send().await?;
        Ok(())
    }

    fn prepared(&self, method: Method, place: &SessionHeaders) -> RequestBuilder {
        let mut request = self.http.request(method, self.url.clone());
        if let Some(session) = &place.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(revision) = place.revision {
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
async fn accepted(place: &SessionHeaders, response: Response) -> Result<Response, ServerCallError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        let to = response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
        return Err(ServerCallError::NotMcp(format!("the server redirects to {to}: give that address")));
    }
    let body = start_of(response).await;
    let told = serde_json::from_slice::<serde_json::Value>(&body).ok();
    let message = told.as_ref().and_then(|told| told.pointer("/error/message")?.as_str()).unwrap_or_default();
    let message = message.to_owned();
    Err(match status {
        StatusCode::NOT_FOUND if place.session.is_some() => ServerCallError::NoSession(message),
        _ => ServerCallError::Status { status, message },
    })
}

async fn start_of(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() >= MOST_READ {
            break;
        }
    }
    body
}

/// Returns true if the response is an event stream.
pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with(EVENTS))
}

/// Parses the only message of a response.
pub(super) async fn message(response: Response) -> Result<Message, ServerCallError> {
    let body = response.bytes().await?;
    read(&body)
}

/// Returns the events of a stream until it ends.
pub(super) fn events(response: Response) -> impl Stream<Item = Result<Event, ServerCallError>> + Unpin {
    SseByteStream::new(Box::pin(response.bytes_stream())).map(|event| {
        let event = event.map_err(|error| broken(&error))?;
        let data = event.data.filter(|data| !data.is_empty());
        let message = data.map(|data| read(data.as_bytes())).transpose()?;
        Ok(Event { id: event.id, message })
    })
}

/// Converts the error of a stream that ended early.
fn broken(error: &sse_stream::Error) -> ServerCallError {
    let why = match error {
        sse_stream::Error::Body(cause) => match cause.downcast_ref::<reqwest::Error>() {
            Some(cause) if cause.is_timeout() => "no sign of life from the server".to_owned(),
            _ => CLOSED.to_owned(),
        },
        other => innermost(other),
    };
    ServerCallError::Network { why, unsent: false }
}

fn read(text: &[u8]) -> Result<Message, ServerCallError> {
    jsonrpc::parse(text, Bounds::default()).map_err(|bad| {
        ServerCallError::NotMcp(format!("what the server sent is no MCP message: {}", bad.error.message))
    })
}
