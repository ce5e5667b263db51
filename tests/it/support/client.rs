//! [`Client`]: a minimal client with one session of MCP 2025-11-25 over HTTP. It sends what a test specifies
//! and returns what arrives; [`Fault`] distinguishes network errors, HTTP errors and JSON-RPC errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::{Events, Generation, schema};

const VERSION: &str = "2025-11-25";

/// Timeout for a response, streams included.
const TIMEOUT: Duration = Duration::from_secs(300);

/// One session. Clones share it.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    revision: String,
    session: String,
    key: Option<String>,
    next_id: Arc<AtomicU64>,
}

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A JSON-RPC error.
    Refused { code: i64, message: String },
    /// An HTTP status without a JSON-RPC response to the request.
    Status(StatusCode, String),
    /// A network error: it is unknown whether the request arrived.
    Lost(String),
}

impl Client {
    /// Opens a session for a client that can be asked.
    pub(crate) async fn open(url: &str) -> Result<Self, Fault> {
        Self::open_revision(url, VERSION).await
    }

    /// Opens a session for a client with these capabilities.
    pub(crate) async fn open_with_capabilities(url: &str, capabilities: Value) -> Result<Self, Fault> {
        Self::create(http_client(), url, VERSION, capabilities, None).await
    }

    /// Opens a session of this revision.
    pub(crate) async fn open_revision(url: &str, revision: &str) -> Result<Self, Fault> {
        Self::create(http_client(), url, revision, form_capabilities(), None).await
    }

    /// Opens a session with an API key.
    pub(crate) async fn open_with_key(url: &str, key: &str) -> Result<Self, Fault> {
        Self::create(http_client(), url, VERSION, form_capabilities(), Some(key.to_owned())).await
    }

    /// Opens a session over these connections.
    pub(crate) async fn open_over(
        http: reqwest::Client,
        url: &str,
        key: Option<&str>,
    ) -> Result<Self, Fault> {
        Self::create(http, url, VERSION, form_capabilities(), key.map(str::to_owned)).await
    }

    async fn create(
        http: reqwest::Client,
        url: &str,
        revision: &str,
        capabilities: Value,
        key: Option<String>,
    ) -> Result<Self, Fault> {
        let (url, revision) = (url.to_owned(), revision.to_owned());
        let client = Self { http, url, revision, session: String::new(), key, next_id: Arc::default() };
        client.initialize(capabilities).await
    }

    /// Initializes the session.
    async fn initialize(mut self, capabilities: Value) -> Result<Self, Fault> {
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "taskbridge-tests", "version": "1.0.0"},
        });
        let request = self.message("initialize", params);
        let response = self.post(&request).await?;
        let session = response.headers().get("mcp-session-id").expect("initialize gives a session id");
        self.session = session.to_str().unwrap().to_owned();
        self.answer(response, &request, &Value::Null).await?;
        self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(self)
    }

    /// Opens another session of the same client, over the same connections.
    pub(crate) async fn another(&self) -> Result<Self, Fault> {
        Self { session: String::new(), ..self.clone() }.initialize(form_capabilities()).await
    }

    /// Returns the same session at another address: that of a later server.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// Returns the same session over these connections.
    pub(crate) fn with_http(&self, http: reqwest::Client) -> Self {
        Self { http, ..self.clone() }
    }

    /// Returns the session id.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Sends a request and returns its result.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, Fault> {
        self.request_with_reply(method, params, &Value::Null).await
    }

    /// Sends a request and returns its result. Questions of the server get `reply`, unless it is null.
    pub(crate) async fn request_with_reply(
        &self,
        method: &str,
        params: Value,
        reply: &Value,
    ) -> Result<Value, Fault> {
        self.request_with_reply_via(self, method, params, reply).await
    }

    /// Does the same, but sends the replies to another address of the session.
    pub(crate) async fn request_with_reply_via(
        &self,
        other: &Self,
        method: &str,
        params: Value,
        reply: &Value,
    ) -> Result<Value, Fault> {
        let message = self.message(method, params);
        let response = self.post(&message).await?;
        other.answer(response, &message, reply).await
    }

    /// Sends a request that is answered with an event stream, and returns the stream.
    pub(crate) async fn stream(&self, method: &str, params: Value) -> Result<Events, Fault> {
        Ok(Events::new(Generation::V2025, self.post(&self.message(method, params)).await?))
    }

    /// Opens the GET stream.
    pub(crate) async fn listen(&self) -> Result<Events, Fault> {
        let request = self.request_builder(Method::GET).header("accept", "text/event-stream");
        Ok(Events::new(Generation::V2025, require_success(send(request).await?).await?))
    }

    /// Opens the GET stream after the event with this id.
    pub(crate) async fn listen_after(&self, id: &str) -> Result<Events, Fault> {
        let request = self.request_builder(Method::GET).header("accept", "text/event-stream");
        let response = send(request.header("last-event-id", id)).await?;
        Ok(Events::new(Generation::V2025, require_success(response).await?))
    }

    /// Sends a notification, or the response to a request of the server.
    pub(crate) async fn send_message(&self, message: &Value) -> Result<(), Fault> {
        self.post(message).await.map(drop)
    }

    /// Sends a plain call.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Fault> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Starts a task and returns its id.
    pub(crate) async fn start(&self, tool: &str, arguments: Value) -> Result<String, Fault> {
        let params = json!({"name": tool, "arguments": arguments, "task": {}});
        self.request("tools/call", params).await.map(|result| task_id(&result))
    }

    /// Starts a task with an idempotency key and returns its id.
    pub(crate) async fn start_once(&self, key: &str, tool: &str, arguments: Value) -> Result<String, Fault> {
        let meta = json!({"io.taskbridge/idempotency-key": key});
        let params = json!({"name": tool, "arguments": arguments, "task": {}, "_meta": meta});
        self.request("tools/call", params).await.map(|result| task_id(&result))
    }

    /// Sends `tasks/get`.
    pub(crate) async fn get(&self, task: &str) -> Result<Value, Fault> {
        self.request("tasks/get", json!({"taskId": task})).await
    }

    /// Sends `tasks/result`, which waits until the task has ended.
    pub(crate) async fn result(&self, task: &str) -> Result<Value, Fault> {
        self.request("tasks/result", json!({"taskId": task})).await
    }

    /// Sends `tasks/cancel`.
    pub(crate) async fn cancel(&self, task: &str) -> Result<Value, Fault> {
        self.request("tasks/cancel", json!({"taskId": task})).await
    }

    /// Returns all tasks, with `tasks/list`.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, Fault> {
        let (mut tasks, mut params) = (Vec::new(), json!({}));
        loop {
            let mut page = self.request("tasks/list", params).await?;
            let Value::Array(found) = page["tasks"].take() else { panic!("a page has tasks: {page}") };
            tasks.extend(found);
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(tasks),
            }
        }
    }

    fn message(&self, method: &str, params: Value) -> Value {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    fn request_builder(&self, method: Method) -> RequestBuilder {
        let mut request = self.http.request(method, &self.url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if self.session.is_empty() {
            return request;
        }
        request.header("mcp-session-id", &self.session).header("mcp-protocol-version", &self.revision)
    }

    async fn post(&self, message: &Value) -> Result<Response, Fault> {
        let request =
            self.request_builder(Method::POST).header("accept", "application/json, text/event-stream");
        require_success(send(request.json(message)).await?).await
    }

    async fn answer(&self, response: Response, request: &Value, reply: &Value) -> Result<Value, Fault> {
        if !is_stream(&response) {
            return read(Generation::V2025, request, json_of(response).await?);
        }
        let mut events = Events::new(Generation::V2025, response);
        while let Some(message) = events.next().await? {
            match (message.get("method"), message.get("id")) {
                (None, Some(id)) if *id == request["id"] => {
                    return read(Generation::V2025, request, message);
                }
                (Some(_), Some(id)) if !reply.is_null() => {
                    self.send_message(&json!({"jsonrpc": "2.0", "id": id, "result": reply})).await?;
                }
                _ => {}
            }
        }
        Err(Fault::Lost("the stream ended without an answer".to_owned()))
    }
}

/// Returns the capabilities of a client that can show forms.
fn form_capabilities() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// Returns an HTTP client with persistent connections and a timeout of [`TIMEOUT`].
pub(super) fn http_client() -> reqwest::Client {
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).pool_idle_timeout(None);
    http.build().unwrap()
}

pub(super) fn is_stream(response: &Response) -> bool {
    let content_type =
        response.headers().get("content-type").and_then(|content_type| content_type.to_str().ok());
    content_type.is_some_and(|content_type| content_type.starts_with("text/event-stream"))
}

pub(super) async fn json_of(response: Response) -> Result<Value, Fault> {
    response.json().await.map_err(|e| Fault::Lost(e.to_string()))
}

/// Returns the result in an answer, after a check against the schema.
pub(super) fn read(generation: Generation, request: &Value, answer: Value) -> Result<Value, Fault> {
    schema::check_answer(generation, request, &answer);
    outcome(answer)
}

fn outcome(mut answer: Value) -> Result<Value, Fault> {
    if let Some(error) = answer.get("error") {
        let code = error["code"].as_i64().unwrap();
        return Err(Fault::Refused { code, message: error["message"].as_str().unwrap().to_owned() });
    }
    Ok(answer["result"].take())
}

pub(super) async fn send(request: RequestBuilder) -> Result<Response, Fault> {
    request.send().await.map_err(|e| Fault::Lost(e.to_string()))
}

/// Returns the response if its status is a success.
async fn require_success(response: Response) -> Result<Response, Fault> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.text().await.unwrap_or_default();
    Err(Fault::Status(status, body))
}

fn task_id(result: &Value) -> String {
    let id = result["task"]["taskId"].as_str();
    id.unwrap_or_else(|| panic!("no task was made: {result}")).to_owned()
}

/// Returns the text blocks of a tool's result.
pub(crate) fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}
