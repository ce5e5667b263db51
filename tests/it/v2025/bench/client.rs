//! A client that checks every message against the official schema.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use super::Server;
use crate::support::{Events, Generation, schema};

/// Timeout for anything in these tests, so that a test that hangs ends.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A client in a session.
pub(crate) struct Client {
    url: String,
    http: reqwest::Client,
    session: String,
    key: Option<String>,
    /// The `InitializeResult`.
    pub(crate) initialize_result: Value,
    ids: AtomicI64,
}

/// The code and the message of an error.
pub(crate) type Failure = (i64, String);

impl Client {
    /// Opens a session of this revision without `notifications/initialized`.
    pub(super) async fn initialize(
        server: &Server,
        revision: &str,
        capabilities: Value,
        key: Option<&str>,
    ) -> Self {
        let mut client = Client {
            url: server.url.clone(),
            http: server.http.clone(),
            session: String::new(),
            key: key.map(str::to_owned),
            initialize_result: Value::Null,
            ids: AtomicI64::new(1),
        };
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}
        });
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = client.post(&request).send().await.unwrap();
        let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let answer: Value = response.json().await.unwrap();
        schema::check_answer(Generation::V2025, &request, &answer);
        client.session = session.unwrap_or_else(|| panic!("no session: {answer}"));
        client.initialize_result = answer["result"].clone();
        client
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let post = self.with_key(self.http.post(&self.url).header(CONTENT_TYPE, "application/json"));
        let post = post.header(ACCEPT, "application/json, text/event-stream").body(message.to_string());
        if self.session.is_empty() { post } else { post.header("Mcp-Session-Id", &self.session) }
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Returns the session id.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Returns the same session at another server.
    pub(crate) fn at(&self, server: &Server) -> Client {
        self.at_url(&server.url)
    }

    /// Returns the same session at the server with this URL.
    pub(crate) fn at_url(&self, url: &str) -> Client {
        Client {
            url: url.to_owned(),
            http: self.http.clone(),
            session: self.session.clone(),
            key: self.key.clone(),
            initialize_result: self.initialize_result.clone(),
            ids: AtomicI64::new(1000),
        }
    }

    /// Sends a request, and reads its answer message by message.
    pub(crate) async fn open(&self, method: &str, params: Value) -> Exchange {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(&request).send().await.unwrap();
        Exchange::of(request, response).await
    }

    /// Sends a request and waits for its result. No other message may come before it.
    pub(crate) async fn try_get(&self, method: &str, params: Value) -> Result<Value, Failure> {
        self.open(method, params).await.end().await
    }

    /// Sends a request that must succeed. See [`Client::try_get`].
    pub(crate) async fn get(&self, method: &str, params: Value) -> Value {
        let answer = self.try_get(method, params).await;
        answer.unwrap_or_else(|(code, message)| panic!("{method}: {code} {message}"))
    }

    /// Sends a request that must fail. See [`Client::try_get`].
    pub(crate) async fn expect_error(&self, method: &str, params: Value) -> Failure {
        self.try_get(method, params).await.expect_err(method)
    }

    /// Calls a tool as a task, and returns the task's id.
    pub(crate) async fn start(&self, tool: &str, arguments: Value) -> String {
        let created = self.get("tools/call", json!({"name": tool, "arguments": arguments, "task": {}})).await;
        created["task"]["taskId"].as_str().unwrap().to_owned()
    }

    /// Sends `tasks/get`.
    pub(crate) async fn task(&self, id: &str) -> Value {
        self.get("tasks/get", json!({ "taskId": id })).await
    }

    /// Sends `tasks/result`.
    pub(crate) async fn result(&self, id: &str) -> Result<Value, Failure> {
        self.try_get("tasks/result", json!({ "taskId": id })).await
    }

    /// Polls until the task has this status.
    pub(crate) async fn wait_for_status(&self, id: &str, status: &str) -> Value {
        self.poll(id, |task| task["status"] == status).await
    }

    /// Polls until the task has this status message.
    pub(crate) async fn wait_for_message(&self, id: &str, message: &str) -> Value {
        self.poll(id, |task| task["statusMessage"] == message).await
    }

    async fn poll(&self, id: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let polling = async {
            loop {
                let task = self.task(id).await;
                if condition(&task) {
                    return task;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, polling).await.expect("the task never comes to that")
    }

    /// Opens a GET stream.
    pub(crate) async fn listen(&self) -> Stream {
        self.stream(None).await
    }

    /// Resumes a stream after this event.
    pub(crate) async fn resume(&self, last_event: &str) -> Stream {
        self.stream(Some(last_event)).await
    }

    /// Tries to resume a stream, and returns the response in any case.
    pub(crate) async fn try_resume(&self, last_event: &str) -> Response {
        self.send_get(Some(last_event)).await
    }

    async fn stream(&self, last_event: Option<&str>) -> Stream {
        Stream::of(self.send_get(last_event).await)
    }

    async fn send_get(&self, last_event: Option<&str>) -> Response {
        let get = self.with_key(self.http.get(&self.url).header(ACCEPT, "text/event-stream"));
        let mut get = get.header("Mcp-Session-Id", &self.session);
        if let Some(id) = last_event {
            get = get.header("Last-Event-ID", id);
        }
        get.send().await.unwrap()
    }

    /// Answers a request of the server, and returns the HTTP status.
    pub(crate) async fn reply(&self, question: &Value, result: Value) -> u16 {
        let message = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        self.post(&message).send().await.unwrap().status().as_u16()
    }

    /// Answers a request of the server with an error.
    pub(crate) async fn reply_error(&self, question: &Value) -> u16 {
        self.reply_with_error(question, -32603).await
    }

    /// Answers a request of the server with an error of this code.
    pub(crate) async fn reply_with_error(&self, question: &Value, code: i64) -> u16 {
        let error = json!({"code": code, "message": "the dialog broke"});
        let message = json!({"jsonrpc": "2.0", "id": question["id"], "error": error});
        self.post(&message).send().await.unwrap().status().as_u16()
    }

    /// Ends the session, and returns the HTTP status.
    pub(crate) async fn end(&self) -> u16 {
        let delete = self.with_key(self.http.delete(&self.url)).header("Mcp-Session-Id", &self.session);
        delete.send().await.unwrap().status().as_u16()
    }

    /// Sends a request, and returns the HTTP status of its response.
    pub(crate) async fn status(&self, method: &str, params: Value) -> u16 {
        let request = json!({"jsonrpc": "2.0", "id": "status", "method": method, "params": params});
        self.post(&request).send().await.unwrap().status().as_u16()
    }

    /// Sends this message unchanged.
    pub(crate) async fn send(&self, text: &Value) -> Response {
        self.post(text).send().await.unwrap()
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&message).send().await.unwrap().status(), 202);
    }
}

/// A request and the answer so far.
pub(crate) struct Exchange {
    pub(crate) request: Value,
    answer: Option<Value>,
    /// The stream, if it was answered with one.
    pub(crate) stream: Option<Stream>,
}

impl Exchange {
    async fn of(request: Value, response: Response) -> Self {
        if response.headers()[CONTENT_TYPE] == "application/json" {
            let answer = Some(response.json().await.unwrap());
            return Self { request, answer, stream: None };
        }
        Self { request, answer: None, stream: Some(Stream::of(response)) }
    }

    /// Returns the next message before the answer.
    pub(crate) async fn message(&mut self) -> Value {
        self.stream.as_mut().expect("the answer came at once").message().await
    }

    /// Returns the answer. No other message may come before or after it.
    pub(crate) async fn end(self) -> Result<Value, Failure> {
        let (messages, answer) = self.all().await;
        assert_eq!(messages, Vec::<Value>::new());
        answer
    }

    /// Returns all messages before the answer, and the answer.
    pub(crate) async fn all(mut self) -> (Vec<Value>, Result<Value, Failure>) {
        let mut messages = Vec::new();
        while self.answer.is_none() {
            let message = self.stream.as_mut().unwrap().any().await.expect("the stream ended early");
            if message.get("method").is_some() {
                messages.push(message);
            } else {
                self.answer = Some(message);
            }
        }
        if let Some(mut stream) = self.stream {
            assert_eq!(stream.any().await, None, "nothing comes after the answer");
        }
        let answer = self.answer.unwrap();
        (messages, read(&self.request, answer))
    }
}

/// Reads an answer to a request.
pub(crate) fn read(request: &Value, answer: Value) -> Result<Value, Failure> {
    schema::check_answer(Generation::V2025, request, &answer);
    assert_eq!(answer["id"], request["id"]);
    match answer.get("error") {
        Some(error) => Err((error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())),
        None => Ok(answer["result"].clone()),
    }
}

/// A stream of messages.
pub(crate) struct Stream(Events);

impl Stream {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Self(Events::new(Generation::V2025, response))
    }

    /// Returns the id of the last event.
    pub(crate) fn last(&self) -> String {
        self.0.last_id.clone().unwrap()
    }

    /// Returns the next message; `None` at the end of the stream.
    pub(crate) async fn any(&mut self) -> Option<Value> {
        let next = tokio::time::timeout(TIMEOUT, self.0.next()).await.expect("nothing comes");
        next.expect("the stream ends in order")
    }

    /// Returns the next message, if one comes within this time.
    pub(crate) async fn any_within(&mut self, time: Duration) -> Option<Value> {
        let next = tokio::time::timeout(time, self.0.next()).await.ok()?;
        Some(next.expect("the stream ends in order").expect("the stream ended"))
    }

    /// Returns the next message, which must be a request or a notification.
    pub(crate) async fn message(&mut self) -> Value {
        let message = self.any().await.expect("the stream ended");
        assert!(message.get("method").is_some(), "an answer: {message}");
        message
    }

    /// Returns the next message of this method, and skips the others.
    pub(crate) async fn next(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }
}
