//! [`Session`]: an MCP 2025-11-25 client session: requests and their answers, and the server's own
//! messages. It replaces a session that the server no longer knows. It must not know what a task is.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::fault::ServerCallError;
use super::link::{self, HttpTransport, SessionHeaders};
use super::listing::Tool;
use crate::mcp::generation::Revision;
use crate::mcp::jsonrpc::{self, Error, Id, METHOD_NOT_FOUND, Message, Request};

/// Timeout of a request that is answered immediately.
const QUICK: Duration = Duration::from_secs(30);
/// Timeout of the final DELETE request.
const FAREWELL: Duration = Duration::from_secs(1);
/// Delay before the stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);

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
    Asked {
        /// The id for the answer.
        id: Id,
        /// The parameters.
        params: Value,
    },
    /// Another request of the server, whose response could not be delivered.
    Unanswered {
        /// The method of the request.
        method: String,
        /// The error.
        why: ServerCallError,
    },
}

/// One session.
pub(super) struct Session {
    link: HttpTransport,
    can_ask: bool,
    place: RefCell<SessionHeaders>,
    /// Serializes renewals; waiting requests use the renewed session.
    renewal: tokio::sync::Mutex<()>,
    next_id: Cell<i64>,
    server: RefCell<Server>,
}

/// The server's capabilities.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// True if a call can run as a task.
    pub(super) has_tasks: bool,
    /// True for a taskbridge server, which supports idempotency keys.
    pub(super) is_ours: bool,
}

impl Session {
    /// Begins a session; `can_ask` is true if the user can answer questions.
    pub(super) async fn begin(link: HttpTransport, can_ask: bool) -> Result<Self, ServerCallError> {
        let session = Self {
            link,
            can_ask,
            place: RefCell::default(),
            renewal: tokio::sync::Mutex::new(()),
            next_id: Cell::new(1),
            server: RefCell::default(),
        };
        session.initialize().await?;
        Ok(session)
    }

    /// Returns the server's capabilities.
    pub(super) fn server(&self) -> Server {
        self.server.borrow().clone()
    }

    async fn initialize(&self) -> Result<(), ServerCallError> {
        let nowhere = SessionHeaders::default();
        let asks = json!({"elicitation": {"form": {}, "url": {}}});
        let params = json!({
            "protocolVersion": Revision::V2025_11_25.as_str(),
            "capabilities": if self.can_ask { asks } else { json!({}) },
            "clientInfo": {
                "name": "taskbridge-call", "title": "taskbridge call", "version": env!("CARGO_PKG_VERSION"),
            },
        });
        let (id, body) = self.message("initialize", params);
        let response = in_time(self.link.post(&nowhere, body)).await?;
        let session = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        let result = in_time(self.answer(response, id, None)).await?;
        let named = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let revision = Revision::parse(named).ok_or_else(|| {
            ServerCallError::NotMcp(format!(
                "the server speaks revision {named:?} of MCP, and this client does not"
            ))
        })?;
        *self.server.borrow_mut() = Server {
            has_tasks: revision.has_tasks()
                && result.pointer("/capabilities/tasks/requests/tools/call").is_some(),
            is_ours: result.pointer("/serverInfo/name").is_some_and(|name| name == env!("CARGO_PKG_NAME")),
        };
        *self.place.borrow_mut() = SessionHeaders { session, revision: Some(revision) };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send(&initialized).await
    }

    /// Returns all tools, with their raw entries.
    pub(super) async fn tools(&self) -> Result<(Vec<Tool>, Vec<Value>), ServerCallError> {
        let (mut tools, mut entries, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let mut page = self.quick("tools/list", params).await?;
            let Value::Array(listed) = page["tools"].take() else {
                return Err(ServerCallError::NotMcp("the server's list of tools is no list".to_owned()));
            };
            tools.extend(listed.iter().filter_map(Tool::read));
            entries.extend(listed);
            match page.get("nextCursor") {
                Some(Value::String(cursor)) => params = json!({ "cursor": cursor }),
                _ => return Ok((tools, entries)),
            }
        }
    }

    /// Sends a request that is answered immediately, with the timeout `QUICK`.
    pub(super) async fn quick(&self, method: &str, params: Value) -> Result<Value, ServerCallError> {
        in_time(self.request(method, params, None)).await
    }

    /// Sends a request, and waits for its answer. Only the transport's idle timeout applies. If the server no
    /// longer knows the session, the request is sent once more in a new one.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
        ear: Option<&ServerMessageSender>,
    ) -> Result<Value, ServerCallError> {
        let place = self.place.borrow().clone();
        match self.attempt(&place, method, &params, ear).await {
            Err(ServerCallError::NoSession(_)) => {
                self.renew(&place).await?;
                let place = self.place.borrow().clone();
                self.attempt(&place, method, &params, ear).await
            }
            answered => answered,
        }
    }

    async fn attempt(
        &self,
        place: &SessionHeaders,
        method: &str,
        params: &Value,
        ear: Option<&ServerMessageSender>,
    ) -> Result<Value, ServerCallError> {
        let (id, body) = self.message(method, params.clone());
        let response = self.link.post(place, body).await?;
        self.answer(response, id, ear).await
    }

    /// Begins a new session, unless another request has already replaced this one.
    async fn renew(&self, gone: &SessionHeaders) -> Result<(), ServerCallError> {
        let _alone = self.renewal.lock().await;
        let is_current = self.place.borrow().session == gone.session;
        if is_current { self.initialize().await } else { Ok(()) }
    }

    /// Sends a message without an answer: a notification, or a response to a request of the server.
    pub(super) async fn send(&self, message: &Value) -> Result<(), ServerCallError> {
        let place = self.place.borrow().clone();
        let body = message.to_string().into_bytes();
        in_time(self.link.post(&place, body)).await.map(drop)
    }

    /// Receives server-initiated messages for as long as it is polled.
    pub(super) async fn listen(&self, ear: &ServerMessageSender) {
        let mut last = None;
        loop {
            let place = self.place.borrow().clone();
            match self.link.listen(&place, last.as_deref()).await {
                Ok(response) => {
                    let mut events = link::events(response);
                    while let Some(Ok(event)) = events.next().await {
                        last = event.id.or(last);
                        if let Some(message) = event.message {
                            self.hear(message, Some(ear)).await;
                        }
                    }
                }
                // The server has no such stream.
                Err(ServerCallError::Status { status, .. }) if status.as_u16() == 405 && last.is_none() => {
                    std::future::pending().await
                }
                Err(ServerCallError::NoSession(_)) => {
                    last = None;
                    // If that fails, the next request returns the error.
                    let _ = self.renew(&place).await;
                }
                Err(ServerCallError::Status { .. }) => last = None,
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the session. The server expires it anyway.
    pub(super) async fn end(&self) {
        let place = self.place.borrow().clone();
        if place.session.is_some() {
            let _ = tokio::time::timeout(FAREWELL, self.link.end(&place)).await;
        }
    }

    fn message(&self, method: &str, params: Value) -> (i64, Vec<u8>) {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, message.to_string().into_bytes())
    }

    /// Returns the answer to a request from the HTTP response.
    async fn answer(
        &self,
        response: reqwest::Response,
        id: i64,
        ear: Option<&ServerMessageSender>,
    ) -> Result<Value, ServerCallError> {
        if !link::is_stream(&response) {
            return match link::message(response).await? {
                Message::Response { outcome, .. } => outcome.map_err(ServerCallError::Refused),
                _ => Err(ServerCallError::NotMcp(
                    "the server answered with something that is no answer".to_owned(),
                )),
            };
        }
        let mut events = link::events(response);
        while let Some(event) = events.next().await {
            match event?.message {
                Some(Message::Response { id: Some(Id::Integer(of)), outcome }) if of == id => {
                    return outcome.map_err(ServerCallError::Refused);
                }
                Some(message) => self.hear(message, ear).await,
                None => {}
            }
        }
        Err(ServerCallError::Network { why: link::CLOSED.to_owned(), unsent: false })
    }

    async fn hear(&self, message: Message, ear: Option<&ServerMessageSender>) {
        let (id, method, outcome) = match (message, ear) {
            (Message::Notification { method, params }, Some(ear)) => {
                let _ = ear.send(ServerMessage::Notification { method, params });
                return;
            }
            (Message::Request(Request { id, method, params }), Some(ear))
                if method == "elicitation/create" && self.can_ask =>
            {
                let _ = ear.send(ServerMessage::Asked { id, params });
                return;
            }
            (Message::Request(Request { id, method, .. }), _) if method == "ping" => {
                (id, method, Ok(json!({})))
            }
            (Message::Request(Request { id, method, .. }), _) => {
                let message = format!("this client does not do {method:?}");
                (id, method, Err(Error::new(METHOD_NOT_FOUND, message)))
            }
            (Message::Notification { .. } | Message::Response { .. }, _) => return,
        };
        let place = self.place.borrow().clone();
        let told = in_time(self.link.post(&place, jsonrpc::response(&id, &outcome))).await;
        if let (Err(why), Some(ear)) = (told, ear) {
            // A server without this response asks again or times out: the call continues.
            let _ = ear.send(ServerMessage::Unanswered { method, why });
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, ServerCallError>>) -> Result<T, ServerCallError> {
    let late = || ServerCallError::Network { why: "the server does not answer".to_owned(), unsent: false };
    tokio::time::timeout(QUICK, work).await.unwrap_or_else(|_| Err(late()))
}
