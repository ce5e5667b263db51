//! The test bench: a 2026-07-28 client for the server of `v2025::bench`. It checks every message against the
//! official schemas, and every HTTP status against its error.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::{Events, Generation, schema};
use crate::v2025::bench::Server;

/// The revision.
pub(super) const VERSION: &str = "2026-07-28";
/// The name of the tasks extension.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The metadata field that names the subscription of a message.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Timeout for anything in these tests, so that a test that hangs ends.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a server with one owner for all callers and more config. It waits only briefly before a call
/// becomes a task.
pub(super) async fn server(more: &str) -> Server {
    configured(&[], &format!("[auth]\nsingle_user = true\n{more}")).await
}

/// Starts a server with replacements in the common config.
pub(super) async fn configured(changes: &[(&str, &str)], more: &str) -> Server {
    let quick = ("progress_every", "quick_wait = \"50ms\"\nprogress_every");
    let changes: Vec<_> = [quick].into_iter().chain(changes.iter().copied()).collect();
    Server::configured(&changes, more).await
}

/// Starts a server that waits this long for a job before its call becomes a task.
pub(super) async fn with_quick_wait(quick_wait: &str, more: &str) -> Server {
    let quick = format!("quick_wait = \"{quick_wait}\"");
    configured(&[("quick_wait = \"50ms\"", &quick)], &format!("[auth]\nsingle_user = true\n{more}")).await
}

/// Returns the capabilities of a client that can be asked for everything.
pub(super) fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// A client. It keeps its own capabilities, but nothing that the server sent.
pub(super) struct Client {
    pub(super) url: String,
    pub(super) http: reqwest::Client,
    key: Option<String>,
    capabilities: Value,
    meta: Value,
    ids: AtomicI64,
}

/// An error, with its HTTP status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Value,
}

impl Client {
    /// Returns a client that supports tasks and can be asked for everything.
    pub(super) fn new(server: &Server) -> Self {
        Self::with_capabilities(server, all_capabilities()).with_tasks()
    }

    /// Returns a client that does not support tasks, and can be asked for everything.
    pub(super) fn plain(server: &Server) -> Self {
        Self::with_capabilities(server, all_capabilities())
    }

    /// Returns a client with these capabilities.
    pub(super) fn with_capabilities(server: &Server, able: Value) -> Self {
        Self::at(&server.url, able)
    }

    /// Returns a client with these capabilities, of the server at this URL.
    pub(super) fn at(url: &str, capabilities: Value) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url: url.to_owned(), http, key: None, capabilities, meta: json!({}), ids: AtomicI64::new(1) }
    }

    /// Adds the tasks extension.
    pub(super) fn with_tasks(mut self) -> Self {
        self.capabilities["extensions"][TASKS] = json!({});
        self
    }

    /// Adds an API key.
    pub(super) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Adds a field to the metadata of every request.
    pub(super) fn with_meta(mut self, name: &str, value: Value) -> Self {
        self.meta[name] = value;
        self
    }

    /// Returns a complete request.
    pub(super) fn request(&self, method: &str, mut params: Value) -> Value {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        for (name, value) in self.meta.as_object().unwrap() {
            meta[name] = value.clone();
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Returns a POST of this body, without the headers that repeat it.
    pub(super) fn bare(&self, body: &Value) -> RequestBuilder {
        let post = self.http.post(&self.url).header(CONTENT_TYPE, "application/json");
        let post = post.header(ACCEPT, "application/json, text/event-stream").body(body.to_string());
        match &self.key {
            Some(key) => post.bearer_auth(key),
            None => post,
        }
    }

    /// Returns a POST of this request with the headers that repeat it.
    pub(super) fn post(&self, request: &Value) -> RequestBuilder {
        let (method, params) = (request["method"].as_str().unwrap(), &request["params"]);
        let post = self.bare(request).header("MCP-Protocol-Version", VERSION).header("Mcp-Method", method);
        let name = match method {
            "tools/call" | "prompts/get" => &params["name"],
            "resources/read" => &params["uri"],
            "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
            _ => &Value::Null,
        };
        match name.as_str() {
            Some(name) => post.header("Mcp-Name", encode_header(name)),
            None => post,
        }
    }

    /// Sends a request, and reads its answer message by message.
    pub(super) async fn open(&self, method: &str, params: Value) -> Exchange {
        let request = self.request(method, params);
        let post = self.post(&request);
        Exchange::of(request, post.send().await.unwrap()).await
    }

    /// Sends a request and waits for its result. No other message may come before it.
    pub(super) async fn try_get(&self, method: &str, params: Value) -> Result<Value, Failure> {
        self.open(method, params).await.end().await
    }

    /// Sends a request that must succeed. See [`Client::try_get`].
    pub(super) async fn get(&self, method: &str, params: Value) -> Value {
        let answer = self.try_get(method, params).await;
        answer.unwrap_or_else(|failure| panic!("{method}: {failure:?}"))
    }

    /// Sends a request that must fail. See [`Client::try_get`].
    pub(super) async fn expect_error(&self, method: &str, params: Value) -> Failure {
        self.try_get(method, params).await.expect_err(method)
    }

    /// Sends `tools/call`.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.get("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool whose job takes a while, and returns the task's id.
    pub(super) async fn start(&self, tool: &str, arguments: Value) -> String {
        id_of(&self.call(tool, arguments).await)
    }

    /// Sends `tasks/get`.
    pub(super) async fn task(&self, id: &str) -> Value {
        self.get("tasks/get", json!({ "taskId": id })).await
    }

    /// Sends `tasks/update`, which must be acknowledged.
    pub(super) async fn update(&self, id: &str, responses: Value) {
        let params = json!({"taskId": id, "inputResponses": responses});
        assert_acknowledged(&self.get("tasks/update", params).await);
    }

    /// Polls until the task has this status.
    pub(super) async fn wait_for_status(&self, id: &str, status: &str) -> Value {
        self.poll(id, |task| task["status"] == status).await
    }

    /// Polls until the task satisfies a condition.
    pub(super) async fn poll(&self, id: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let polling = async {
            loop {
                last = self.task(id).await;
                if condition(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let polled = tokio::time::timeout(TIMEOUT, polling).await;
        assert!(polled.is_ok(), "the task never comes to that: {last}");
        last
    }

    /// Sends `subscriptions/listen`.
    pub(super) async fn listen(&self, filter: Value) -> Subscription {
        let mut exchange = self.open("subscriptions/listen", json!({ "notifications": filter })).await;
        let id = exchange.request["id"].clone();
        let first = exchange.message().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "it comes first");
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION], id);
        Subscription { granted: first["params"]["notifications"].clone(), id, exchange }
    }
}

/// Returns the id of the task in a call's answer.
pub(super) fn id_of(created: &Value) -> String {
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created.get("requestState"), None, "nothing of the rounds before is left in a task");
    created["taskId"].as_str().unwrap().to_owned()
}

/// Panics unless the result is an empty acknowledgement.
pub(super) fn assert_acknowledged(result: &Value) {
    let names: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| *name == "resultType" || *name == "_meta"), "{result}");
    assert_eq!(result["resultType"], "complete");
}

/// Returns the text of a tool's result, its first block.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// Returns a value as it is encoded in a header.
pub(super) fn encode_header(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && value.trim() == value;
    let is_marked = value.starts_with("=?base64?") && value.ends_with("?=");
    match is_plain && !is_marked {
        true => value.to_owned(),
        false => format!("=?base64?{}?=", data_encoding::BASE64.encode(value.as_bytes())),
    }
}

/// A request and the answer so far.
pub(super) struct Exchange {
    pub(super) request: Value,
    pub(super) status: u16,
    answer: Option<Value>,
    /// The stream, if it was answered with one.
    stream: Option<Events>,
}

impl Exchange {
    /// Starts to read a response.
    pub(super) async fn of(request: Value, response: Response) -> Self {
        let status = response.status().as_u16();
        assert_eq!(response.headers().get("mcp-session-id"), None, "there are no sessions");
        if response.headers()[CONTENT_TYPE] == "application/json" {
            let answer = Some(response.json().await.unwrap());
            return Self { request, status, answer, stream: None };
        }
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(status, 200);
        Self { request, status, answer: None, stream: Some(Events::new(Generation::V2026, response)) }
    }

    /// Returns true if the response is a stream.
    pub(super) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the next message; `None` at the end of the stream.
    pub(super) async fn any(&mut self) -> Option<Value> {
        let stream = self.stream.as_mut().expect("the answer came at once");
        let next = tokio::time::timeout(TIMEOUT, stream.next()).await.expect("nothing comes");
        let message = next.expect("the stream ends in order");
        assert_eq!(stream.last_id, None, "no stream of this generation can be taken up again");
        message
    }

    /// Returns the next message before the answer.
    pub(super) async fn message(&mut self) -> Value {
        if let Some(answer) = &self.answer {
            panic!("answered at once: {answer}");
        }
        let message = self.any().await.expect("the stream ended");
        assert!(message.get("method").is_some(), "an answer: {message}");
        message
    }

    /// Returns the answer. No other message may come before or after it.
    pub(super) async fn end(self) -> Result<Value, Failure> {
        let (messages, answer) = self.all().await;
        assert_eq!(messages, Vec::<Value>::new());
        answer
    }

    /// Returns all messages before the answer, and the answer.
    pub(super) async fn all(mut self) -> (Vec<Value>, Result<Value, Failure>) {
        let mut messages = Vec::new();
        while self.answer.is_none() {
            let message = self.any().await.expect("the stream ended early");
            if message.get("method").is_some() {
                messages.push(message);
            } else {
                self.answer = Some(message);
            }
        }
        if self.is_stream() {
            assert_eq!(self.any().await, None, "the answer ends the stream");
        }
        let answer = read(&self.request, self.answer.unwrap());
        let answer = answer.map_err(|failure| Failure { status: self.status, ..failure });
        if self.stream.is_none() {
            let expected = match &answer {
                Ok(_) => vec![200],
                Err(failure) => match failure.code {
                    -32601 => vec![404],
                    -32022..=-32020 => vec![400],
                    _ => vec![200, 400],
                },
            };
            assert!(expected.contains(&self.status), "status {} with {answer:?}", self.status);
        }
        (messages, answer)
    }
}

/// Reads an answer to a request. Every result must name the server.
pub(super) fn read(request: &Value, answer: Value) -> Result<Value, Failure> {
    schema::check_answer(Generation::V2026, request, &answer);
    assert_eq!(answer["id"], request["id"]);
    let Some(error) = answer.get("error") else {
        let info = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "taskbridge", "{answer}");
        return Ok(answer["result"].clone());
    };
    let (code, data) = (error["code"].as_i64().unwrap(), error["data"].clone());
    Err(Failure { status: 0, code, message: error["message"].as_str().unwrap().to_owned(), data })
}

/// An open subscription.
pub(super) struct Subscription {
    /// The granted filter.
    pub(super) granted: Value,
    pub(super) id: Value,
    pub(super) exchange: Exchange,
}

impl Subscription {
    /// Returns the next notification: its method, and its parameters without the subscription id.
    pub(super) async fn next(&mut self) -> (String, Value) {
        let mut message = self.exchange.message().await;
        let mut params = message["params"].take();
        let meta = params.as_object_mut().unwrap().remove("_meta").unwrap();
        assert_eq!(meta, json!({SUBSCRIPTION: self.id}));
        (message["method"].as_str().unwrap().to_owned(), params)
    }

    /// Returns the next task notification; no other message may come.
    pub(super) async fn task(&mut self) -> Value {
        let (method, task) = self.next().await;
        assert_eq!(method, "notifications/tasks", "{task}");
        task
    }

    /// Returns the next notification of a task in this status.
    pub(super) async fn wait_for_status(&mut self, status: &str) -> Value {
        loop {
            let task = self.task().await;
            if task["status"] == status {
                return task;
            }
        }
    }
}
