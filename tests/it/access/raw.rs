//! A client that returns answers unchanged: status, challenge and body. It must not correct what a test makes
//! it send.

#![allow(dead_code, reason = "a kit: not every test needs every tool")]

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

const MODERN: &str = "2026-07-28";

/// A generation of the protocol, which decides the form of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// 2025-11-25, in a session.
    Stateful,
    /// 2026-07-28, without a session.
    Stateless,
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// `WWW-Authenticate` and `Retry-After`.
    pub(crate) headers: Vec<(String, String)>,
    /// The last message, without its id.
    pub(crate) body: Value,
}

/// A caller with an API key and a session.
#[derive(Clone)]
pub(crate) struct RawClient {
    http: reqwest::Client,
    url: String,
    key: String,
    capabilities: Value,
    session: String,
}

impl RawClient {
    /// Opens a session with the key of `name`.
    pub(crate) async fn open(url: &str, name: &str) -> Self {
        let capabilities =
            json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        Self::open_with(url, name, capabilities).await
    }

    /// Opens a session with the key of `name`, for a client with these capabilities.
    pub(crate) async fn open_with(url: &str, name: &str, capabilities: Value) -> Self {
        let http = reqwest::Client::new();
        let (url, key) = (url.to_owned(), format!("key-of-{name}"));
        let mut raw = Self { http, url, key, capabilities, session: String::new() };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": raw.capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let response = raw.builder().json(&hello).send().await.unwrap();
        raw.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let response =
            raw.builder().header("mcp-session-id", &raw.session).json(&ready).send().await.unwrap();
        assert_eq!(response.status(), 202);
        raw
    }

    /// Returns its session id.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Returns the same caller with the session id of another.
    pub(crate) fn in_session(&self, session: &str) -> Self {
        Self { session: session.to_owned(), ..self.clone() }
    }

    fn builder(&self) -> reqwest::RequestBuilder {
        self.http
            .post(&self.url)
            .bearer_auth(&self.key)
            .header("accept", "application/json, text/event-stream")
    }

    fn request(&self, protocol: Protocol, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        let mut builder = self.builder();
        match protocol {
            Protocol::Stateful => {
                builder = builder
                    .header("mcp-session-id", &self.session)
                    .header("mcp-protocol-version", "2025-11-25");
            }
            Protocol::Stateless => {
                builder = builder.header("mcp-protocol-version", MODERN).header("mcp-method", method);
                let name = match method {
                    "tools/call" | "prompts/get" => &params["name"],
                    "resources/read" => &params["uri"],
                    "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
                    _ => &Value::Null,
                };
                if let Some(name) = name.as_str() {
                    builder = builder.header("mcp-name", name);
                }
                params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
                params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            }
        }
        builder.json(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))
    }

    /// Sends a request and returns its response.
    pub(crate) async fn send(&self, protocol: Protocol, method: &str, params: Value) -> HttpResponse {
        read(self.request(protocol, method, params).send().await.unwrap()).await
    }

    /// Returns the first message of the stream that answers a request.
    pub(crate) async fn first_message(&self, protocol: Protocol, method: &str, params: Value) -> Value {
        read_first_message(self.request(protocol, method, params).send().await.unwrap()).await
    }

    /// Sends the client's response to a request of the server, and returns the HTTP response.
    pub(crate) async fn reply(&self, id: &str, result: Value) -> HttpResponse {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        let request = self.builder().header("mcp-session-id", &self.session).json(&message);
        read(request.send().await.unwrap()).await
    }

    /// Sends another HTTP method in the session, with `event` as `Last-Event-ID` unless it is empty.
    pub(crate) async fn send_method(&self, method: reqwest::Method, last_event_id: &str) -> HttpResponse {
        let mut request = self.http.request(method, &self.url).bearer_auth(&self.key);
        request = request.header("accept", "text/event-stream").header("mcp-session-id", &self.session);
        if !last_event_id.is_empty() {
            request = request.header("last-event-id", last_event_id);
        }
        read(request.send().await.unwrap()).await
    }

    /// Opens a listening stream and returns its first event id.
    pub(crate) async fn first_event_id(&self) -> String {
        let mut request = self.http.get(&self.url).bearer_auth(&self.key);
        request = request.header("accept", "text/event-stream").header("mcp-session-id", &self.session);
        let (mut response, mut text) = (request.send().await.unwrap(), String::new());
        loop {
            let chunk = response.chunk().await.unwrap().expect("the stream ended without an event");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            let complete_lines = text.lines().filter(|_| text.ends_with("\n\n"));
            if let Some(id) = complete_lines.filter_map(|line| line.strip_prefix("id: ")).next() {
                return id.to_owned();
            }
        }
    }

    /// Sends a request that must succeed, and returns its result.
    pub(crate) async fn expect_result(&self, protocol: Protocol, method: &str, params: Value) -> Value {
        let HttpResponse { mut body, .. } = self.send(protocol, method, params).await;
        assert!(body.get("result").is_some(), "{method}: {body}");
        body["result"].take()
    }

    /// Returns the names of the listed tools, without the server's own.
    pub(crate) async fn tools(&self, protocol: Protocol) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.expect_result(protocol, "tools/list", params).await;
            let on_page = page["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned());
            names.extend(on_page.filter(|name| !name.starts_with("task_")));
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return names,
            }
        }
    }

    /// Starts a task and returns its id.
    pub(crate) async fn start(&self, protocol: Protocol, tool: &str, arguments: Value) -> String {
        let (params, id_pointer) = match protocol {
            Protocol::Stateful => (json!({"name": tool, "arguments": arguments, "task": {}}), "/task/taskId"),
            Protocol::Stateless => (json!({"name": tool, "arguments": arguments}), "/taskId"),
        };
        let created = self.expect_result(protocol, "tools/call", params).await;
        created
            .pointer(id_pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no task: {created}"))
            .to_owned()
    }
}

async fn read(response: reqwest::Response) -> HttpResponse {
    let status = response.status().as_u16();
    let headers = selected_headers(response.headers());
    let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let text = response.text().await.unwrap();
    let message = match is_stream {
        true => text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or_default(),
        false => &text,
    };
    let mut body: Value = serde_json::from_str(message).unwrap_or_else(|_| Value::from(message));
    if let Some(body) = body.as_object_mut() {
        body.remove("id");
    }
    HttpResponse { status, headers, body }
}

async fn read_first_message(mut response: reqwest::Response) -> Value {
    let mut text = String::new();
    loop {
        let chunk = response.chunk().await.unwrap().expect("the stream ended without a message");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let first_data =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| !data.is_empty());
        if let Some(message) = first_data.and_then(|data| serde_json::from_str(data).ok()) {
            return message;
        }
    }
}

fn selected_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let header = |name: &str| Some((name.to_owned(), headers.get(name)?.to_str().unwrap().to_owned()));
    ["www-authenticate", "retry-after"].into_iter().filter_map(header).collect()
}
