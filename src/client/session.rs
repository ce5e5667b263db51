//! [`Session`]: MCP 2025-11-25 as a client speaks it: requests and their answers, and what the server says meanwhile.
//! A session that the server no longer knows is begun anew. It must not know what a task is.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::fault::Fault;
use super::link::{self, Link, Place};
use super::listing::Tool;
use crate::mcp::generation::Revision;
use crate::mcp::jsonrpc::{self, Error, Id, METHOD_NOT_FOUND, Message, Request};

/// How long a request that does not wait for anything may take.
const QUICK: Duration = Duration::from_secs(30);
/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long to wait before listening again.
const PAUSE: Duration = Duration::from_secs(1);

/// Where what the server says unasked goes to.
pub(super) type Ear = UnboundedSender<Heard>;

/// What the server says unasked.
#[derive(Debug)]
pub(super) enum Heard {
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
    },
    /// The user is asked something (`elicitation/create`).
    Asked {
        /// The id to answer with.
        id: Id,
        /// The parameters.
        params: Value,
    },
    /// It asked for something else, and could not be answered.
    Unanswered {
        /// What it asked for.
        method: String,
        /// Why.
        why: Fault,
    },
}

/// One session.
pub(super) struct Session {
    link: Link,
    can_ask: bool,
    place: RefCell<Place>,
    /// One renewal at a time; others wait for it and use what came of it.
    renewal: tokio::sync::Mutex<()>,
    next_id: Cell<i64>,
    server: RefCell<Server>,
}

/// What the server says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// It can run a call as a task.
    pub(super) has_tasks: bool,
    /// It is taskbridge: it knows an idempotency key.
    pub(super) is_ours: bool,
}

impl Session {
    /// Begins a session, for a user that can be asked questions or not.
    pub(super) async fn begin(link: Link, can_ask: bool) -> Result<Self, Fault> {
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

    /// What the server says of itself.
    pub(super) fn server(&self) -> Server {
        self.server.borrow().clone()
    }

    async fn initialize(&self) -> Result<(), Fault> {
        let nowhere = Place::default();
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
            Fault::NotMcp(format!("the server speaks revision {named:?} of MCP, and this client does not"))
        })?;
        *self.server.borrow_mut() = Server {
            has_tasks: revision.has_tasks()
                && result.pointer("/capabilities/tasks/requests/tools/call").is_some(),
            is_ours: result.pointer("/serverInfo/name").is_some_and(|name| name == env!("CARGO_PKG_NAME")),
        };
        *self.place.borrow_mut() = Place { session, revision: Some(revision) };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send(&initialized).await
    }

    /// All tools, with the entries as they came.
    pub(super) async fn tools(&self) -> Result<(Vec<Tool>, Vec<Value>), Fault> {
        let (mut tools, mut entries, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let mut page = self.quick("tools/list", params).await?;
            let Value::Array(listed) = page["tools"].take() else {
                return Err(Fault::NotMcp("the server's list of tools is no list".to_owned()));
            };
            tools.extend(listed.iter().filter_map(Tool::read));
            entries.extend(listed);
            match page.get("nextCursor") {
                Some(Value::String(cursor)) => params = json!({ "cursor": cursor }),
                _ => return Ok((tools, entries)),
            }
        }
    }

    /// Makes a request that is answered at once.
    pub(super) async fn quick(&self, method: &str, params: Value) -> Result<Value, Fault> {
        in_time(self.request(method, params, None)).await
    }

    /// Makes a request, and waits for its answer for as long as that takes.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
        ear: Option<&Ear>,
    ) -> Result<Value, Fault> {
        let place = self.place.borrow().clone();
        match self.attempt(&place, method, &params, ear).await {
            Err(Fault::NoSession(_)) => {
                self.renew(&place).await?;
                let place = self.place.borrow().clone();
                self.attempt(&place, method, &params, ear).await
            }
            answered => answered,
        }
    }

    async fn attempt(
        &self,
        place: &Place,
        method: &str,
        params: &Value,
        ear: Option<&Ear>,
    ) -> Result<Value, Fault> {
        let (id, body) = self.message(method, params.clone());
        let response = self.link.post(place, body).await?;
        self.answer(response, id, ear).await
    }

    /// Begins a new session in place of this one, unless somebody else has.
    async fn renew(&self, gone: &Place) -> Result<(), Fault> {
        let _alone = self.renewal.lock().await;
        let is_current = self.place.borrow().session == gone.session;
        if is_current { self.initialize().await } else { Ok(()) }
    }

    /// Sends a message that has no answer: a notification, or a response to a request of the server's.
    pub(super) async fn send(&self, message: &Value) -> Result<(), Fault> {
        let place = self.place.borrow().clone();
        let body = message.to_string().into_bytes();
        in_time(self.link.post(&place, body)).await.map(drop)
    }

    /// Listens to what the server says unasked, for as long as this is polled.
    pub(super) async fn listen(&self, ear: &Ear) {
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
                // It has no such stream.
                Err(Fault::Status { status, .. }) if status.as_u16() == 405 && last.is_none() => {
                    std::future::pending().await
                }
                Err(Fault::NoSession(_)) => {
                    last = None;
                    // If that fails, the requests say so.
                    let _ = self.renew(&place).await;
                }
                Err(Fault::Status { .. }) => last = None,
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the session. The server forgets it some day anyway.
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

    /// The answer to a request in the response to its message.
    async fn answer(&self, response: reqwest::Response, id: i64, ear: Option<&Ear>) -> Result<Value, Fault> {
        if !link::is_stream(&response) {
            return match link::message(response).await? {
                Message::Response { outcome, .. } => outcome.map_err(Fault::Refused),
                _ => Err(Fault::NotMcp("the server answered with something that is no answer".to_owned())),
            };
        }
        let mut events = link::events(response);
        while let Some(event) = events.next().await {
            match event?.message {
                Some(Message::Response { id: Some(Id::Integer(of)), outcome }) if of == id => {
                    return outcome.map_err(Fault::Refused);
                }
                Some(message) => self.hear(message, ear).await,
                None => {}
            }
        }
        Err(Fault::Network { why: link::CLOSED.to_owned(), unsent: false })
    }

    async fn hear(&self, message: Message, ear: Option<&Ear>) {
        let (id, method, outcome) = match (message, ear) {
            (Message::Notification { method, params }, Some(ear)) => {
                let _ = ear.send(Heard::Notification { method, params });
                return;
            }
            (Message::Request(Request { id, method, params }), Some(ear))
                if method == "elicitation/create" && self.can_ask =>
            {
                let _ = ear.send(Heard::Asked { id, params });
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
            // A server that does not hear this asks again, or gives up by itself: the call goes on.
            let _ = ear.send(Heard::Unanswered { method, why });
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = || Fault::Network { why: "the server does not answer".to_owned(), unsent: false };
    tokio::time::timeout(QUICK, work).await.unwrap_or_else(|_| Err(late()))
}
