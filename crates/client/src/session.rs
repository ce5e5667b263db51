//! [`Session`]: an MCP 2025-11-25 client session: requests and their answers, and the server's own
//! messages. It replaces a session that the server no longer knows. It must not know what a task is.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use taskbridge_wire::jsonrpc::{self, Error, Id, METHOD_NOT_FOUND, Message, Request};
use taskbridge_wire::revision::Revision;
use tokio::sync::mpsc::UnboundedSender;

use super::error::ServerCallError;
use super::listing::Tool;
use super::transport::{self, HttpTransport, SessionHeaders};

/// Timeout of a request that is answered immediately.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the final DELETE request.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay before the stream is opened again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// How long a call waits for the stream. A proxy may hold back a response without content.
const STREAM_OPENING_TIMEOUT: Duration = Duration::from_secs(3);

/// The channel for server-initiated messages.
pub(super) type ServerMessageSender = UnboundedSender<ServerMessage>;

/// A server-initiated message.
#[derive(Debug)]
pub(super) enum ServerMessage {
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
    },
    /// A question to the user (`elicitation/create`).
    Question {
        /// The id for the answer.
        id: Id,
        /// The parameters.
        params: Value,
    },
    /// Another request of the server, whose response could not be delivered.
    ResponseFailed {
        /// The method of the request.
        method: String,
        /// The error.
        error: ServerCallError,
    },
}

/// One session.
pub(super) struct Session {
    transport: HttpTransport,
    can_ask: bool,
    headers: RefCell<SessionHeaders>,
    /// Serializes renewals; waiting requests use the renewed session.
    renewal: tokio::sync::Mutex<()>,
    next_id: Cell<i64>,
    server: RefCell<ServerInfo>,
}

/// A stream of server-initiated messages that is open, or why it could not be opened.
pub(super) struct OpenedStream {
    /// Of the session that it belongs to.
    headers: SessionHeaders,
    response: Result<reqwest::Response, ServerCallError>,
}

/// The server's capabilities.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerInfo {
    /// True if a call can run as a task.
    pub(super) has_tasks: bool,
    /// True for a taskbridge server, which supports idempotency keys.
    pub(super) is_taskbridge: bool,
}

impl Session {
    /// Begins a session; `can_ask` is true if the user can answer questions.
    pub(super) async fn connect(transport: HttpTransport, can_ask: bool) -> Result<Self, ServerCallError> {
        let session = Self {
            transport,
            can_ask,
            headers: RefCell::default(),
            renewal: tokio::sync::Mutex::new(()),
            next_id: Cell::new(1),
            server: RefCell::default(),
        };
        session.initialize().await?;
        Ok(session)
    }

    /// Returns the server's capabilities.
    pub(super) fn server(&self) -> ServerInfo {
        self.server.borrow().clone()
    }

    async fn initialize(&self) -> Result<(), ServerCallError> {
        let no_headers = SessionHeaders::default();
        let elicitation = json!({"elicitation": {"form": {}, "url": {}}});
        let params = json!({
            "protocolVersion": Revision::V2025_11_25.as_str(),
            "capabilities": if self.can_ask { elicitation } else { json!({}) },
            "clientInfo": {
                "name": "taskbridge-call", "title": "taskbridge call", "version": env!("CARGO_PKG_VERSION"),
            },
        });
        let (id, body) = self.message("initialize", params);
        let response = with_timeout(self.transport.post(&no_headers, body)).await?;
        let session = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        let result = with_timeout(self.read_response(response, id, None)).await?;
        let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let revision = Revision::parse(version).ok_or_else(|| {
            ServerCallError::InvalidResponse(format!(
                "the server uses MCP revision {version:?}, which this client does not support"
            ))
        })?;
        *self.server.borrow_mut() = ServerInfo {
            has_tasks: revision.has_tasks()
                && result.pointer("/capabilities/tasks/requests/tools/call").is_some(),
            is_taskbridge: result.pointer("/serverInfo/name").is_some_and(|name| name == "taskbridge"),
        };
        *self.headers.borrow_mut() = SessionHeaders { session, revision: Some(revision) };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send(&initialized).await
    }

    /// Returns all tools, with their raw entries.
    pub(super) async fn tools(&self) -> Result<(Vec<Tool>, Vec<Value>), ServerCallError> {
        let (mut tools, mut entries, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let mut page = self.request_with_timeout("tools/list", params).await?;
            let Value::Array(page_tools) = page["tools"].take() else {
                return Err(ServerCallError::InvalidResponse(
                    "invalid tools/list response: `tools` is not a list".to_owned(),
                ));
            };
            tools.extend(page_tools.iter().filter_map(Tool::parse));
            entries.extend(page_tools);
            match page.get("nextCursor") {
                Some(Value::String(cursor)) => params = json!({ "cursor": cursor }),
                _ => return Ok((tools, entries)),
            }
        }
    }

    /// Sends a request that is answered immediately, with the timeout `REQUEST_TIMEOUT`.
    pub(super) async fn request_with_timeout(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Value, ServerCallError> {
        with_timeout(self.request(method, params, None)).await
    }

    /// Sends a request, and waits for its answer. Only the transport's idle timeout applies. If the server no
    /// longer knows the session, the request is sent once more in a new one.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
        message_sender: Option<&ServerMessageSender>,
    ) -> Result<Value, ServerCallError> {
        let headers = self.headers.borrow().clone();
        match self.send_request(&headers, method, &params, message_sender).await {
            Err(ServerCallError::SessionExpired(_)) => {
                self.renew(&headers).await?;
                let headers = self.headers.borrow().clone();
                self.send_request(&headers, method, &params, message_sender).await
            }
            result => result,
        }
    }

    async fn send_request(
        &self,
        headers: &SessionHeaders,
        method: &str,
        params: &Value,
        message_sender: Option<&ServerMessageSender>,
    ) -> Result<Value, ServerCallError> {
        let (id, body) = self.message(method, params.clone());
        let response = self.transport.post(headers, body).await?;
        self.read_response(response, id, message_sender).await
    }

    /// Begins a new session, unless another request has already replaced this one.
    async fn renew(&self, expired: &SessionHeaders) -> Result<(), ServerCallError> {
        let _guard = self.renewal.lock().await;
        let is_current = self.headers.borrow().session == expired.session;
        if is_current { self.initialize().await } else { Ok(()) }
    }

    /// Sends a message without an answer: a notification, or a response to a request of the server.
    pub(super) async fn send(&self, message: &Value) -> Result<(), ServerCallError> {
        let headers = self.headers.borrow().clone();
        let body = message.to_string().into_bytes();
        with_timeout(self.transport.post(&headers, body)).await.map(drop)
    }

    /// Opens the stream of server-initiated messages, for [`Session::listen`]. The server sends a session no
    /// message from before its first stream. `None` if it does not open in time.
    pub(super) async fn open_stream(&self) -> Option<OpenedStream> {
        let headers = self.headers.borrow().clone();
        let opening = self.transport.listen(&headers, None);
        let response = tokio::time::timeout(STREAM_OPENING_TIMEOUT, opening).await.ok()?;
        Some(OpenedStream { headers, response })
    }

    /// Receives server-initiated messages for as long as it is polled, at first from this stream.
    pub(super) async fn listen(
        &self,
        mut opened: Option<OpenedStream>,
        message_sender: &ServerMessageSender,
    ) {
        let mut last_event_id = None;
        loop {
            let OpenedStream { headers, response } = match opened.take() {
                Some(opened) => opened,
                None => {
                    let headers = self.headers.borrow().clone();
                    let response = self.transport.listen(&headers, last_event_id.as_deref()).await;
                    OpenedStream { headers, response }
                }
            };
            match response {
                Ok(response) => {
                    let mut events = transport::events(response);
                    while let Some(Ok(event)) = events.next().await {
                        last_event_id = event.id.or(last_event_id);
                        if let Some(message) = event.message {
                            self.handle_message(message, Some(message_sender)).await;
                        }
                    }
                }
                // The server has no such stream.
                Err(ServerCallError::Status { status, .. })
                    if status.as_u16() == 405 && last_event_id.is_none() =>
                {
                    std::future::pending().await
                }
                Err(ServerCallError::SessionExpired(_)) => {
                    last_event_id = None;
                    // If that fails, the next request returns the error.
                    let _ = self.renew(&headers).await;
                }
                Err(ServerCallError::Status { .. }) => last_event_id = None,
                Err(_) => {}
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Ends the session. The server expires it anyway.
    pub(super) async fn end(&self) {
        let headers = self.headers.borrow().clone();
        if headers.session.is_some() {
            let _ = tokio::time::timeout(END_TIMEOUT, self.transport.end(&headers)).await;
        }
    }

    fn message(&self, method: &str, params: Value) -> (i64, Vec<u8>) {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, message.to_string().into_bytes())
    }

    /// Returns the answer to a request from the HTTP response.
    async fn read_response(
        &self,
        response: reqwest::Response,
        id: i64,
        message_sender: Option<&ServerMessageSender>,
    ) -> Result<Value, ServerCallError> {
        if !transport::is_stream(&response) {
            return match transport::message(response).await? {
                Message::Response { outcome, .. } => outcome.map_err(ServerCallError::JsonRpc),
                _ => Err(ServerCallError::InvalidResponse(
                    "the server answered a request with another kind of message".to_owned(),
                )),
            };
        }
        let mut events = transport::events(response);
        while let Some(event) = events.next().await {
            match event?.message {
                Some(Message::Response { id: Some(Id::Integer(response_id)), outcome })
                    if response_id == id =>
                {
                    return outcome.map_err(ServerCallError::JsonRpc);
                }
                Some(message) => self.handle_message(message, message_sender).await,
                None => {}
            }
        }
        Err(ServerCallError::Network { why: transport::CONNECTION_CLOSED.to_owned(), unsent: false })
    }

    async fn handle_message(&self, message: Message, message_sender: Option<&ServerMessageSender>) {
        let (id, method, outcome) = match (message, message_sender) {
            (Message::Notification { method, params }, Some(message_sender)) => {
                let _ = message_sender.send(ServerMessage::Notification { method, params });
                return;
            }
            (Message::Request(Request { id, method, params }), Some(message_sender))
                if method == "elicitation/create" && self.can_ask =>
            {
                let _ = message_sender.send(ServerMessage::Question { id, params });
                return;
            }
            (Message::Request(Request { id, method, .. }), _) if method == "ping" => {
                (id, method, Ok(json!({})))
            }
            (Message::Request(Request { id, method, .. }), _) => {
                let message = format!("this client does not support {method:?}");
                (id, method, Err(Error::new(METHOD_NOT_FOUND, message)))
            }
            (Message::Notification { .. } | Message::Response { .. }, _) => return,
        };
        let headers = self.headers.borrow().clone();
        let result = with_timeout(self.transport.post(&headers, jsonrpc::response(&id, &outcome))).await;
        if let (Err(error), Some(message_sender)) = (result, message_sender) {
            // A server without this response asks again or times out: the call continues.
            let _ = message_sender.send(ServerMessage::ResponseFailed { method, error });
        }
    }
}

async fn with_timeout<T>(
    work: impl Future<Output = Result<T, ServerCallError>>,
) -> Result<T, ServerCallError> {
    let timeout_error =
        || ServerCallError::Network { why: "the server does not answer".to_owned(), unsent: false };
    tokio::time::timeout(REQUEST_TIMEOUT, work).await.unwrap_or_else(|_| Err(timeout_error()))
}
