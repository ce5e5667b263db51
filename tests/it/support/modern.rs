//! [`ModernClient`]: a minimal client of MCP 2026-07-28 over HTTP. It keeps no state between requests; each
//! request declares the client's capabilities.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Response;
use serde_json::{Value, json};

use super::client::{http_client, is_stream, json_of, read, send};
use super::{Events, Fault, Generation};

const VERSION: &str = "2026-07-28";

/// A client that can be asked. Clones share its connections.
#[derive(Clone)]
pub(crate) struct ModernClient {
    http: reqwest::Client,
    url: String,
    capabilities: Value,
    key: Option<String>,
    header: Option<(&'static str, String)>,
    next_id: Arc<AtomicU64>,
}

impl ModernClient {
    /// Returns a client with the tasks extension.
    pub(crate) fn with_tasks(url: &str) -> Self {
        let tasks = json!({"io.modelcontextprotocol/tasks": {}});
        Self::with_capabilities(url, json!({"elicitation": {"form": {}}, "extensions": tasks}))
    }

    /// Returns a client without the tasks extension.
    pub(crate) fn without_tasks(url: &str) -> Self {
        Self::with_capabilities(url, json!({"elicitation": {"form": {}}}))
    }

    /// Returns a client with these capabilities.
    pub(crate) fn with_capabilities(url: &str, able: Value) -> Self {
        Self {
            http: http_client(),
            url: url.to_owned(),
            capabilities: able,
            key: None,
            header: None,
            next_id: Arc::default(),
        }
    }

    /// Returns the same client at another address.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// Returns the same client with an API key.
    pub(crate) fn with_key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// Returns the same client over these connections.
    pub(crate) fn with_http(self, http: reqwest::Client) -> Self {
        Self { http, ..self }
    }

    /// Returns the same client with one more header.
    pub(crate) fn with_header(self, name: &'static str, value: &str) -> Self {
        Self { header: Some((name, value.to_owned())), ..self }
    }

    /// Sends a request and returns its result. Skips the messages before it.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, Fault> {
        let (request, response) = self.post(method, params).await?;
        if !is_stream(&response) {
            return read(Generation::V2026, &request, json_of(response).await?);
        }
        let mut events = Events::new(Generation::V2026, response);
        while let Some(message) = events.next().await? {
            if message.get("method").is_none() {
                return read(Generation::V2026, &request, message);
            }
        }
        Err(Fault::Lost("the stream ended without an answer".to_owned()))
    }

    /// Opens a subscription to these tasks, which must all be granted.
    pub(crate) async fn subscribe_to_tasks(&self, tasks: &[String]) -> Result<Events, Fault> {
        let params = json!({"notifications": {"taskIds": tasks}});
        let (_, response) = self.post("subscriptions/listen", params).await?;
        let mut events = Events::new(Generation::V2026, response);
        let first = events.next().await?.expect("a subscription is acknowledged first");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["notifications"]["taskIds"], json!(tasks));
        Ok(events)
    }

    /// Opens a subscription with this filter, and returns it with the granted filter.
    pub(crate) async fn subscribe(&self, filter: Value) -> Result<(Events, Value), Fault> {
        let (_, response) = self.post("subscriptions/listen", json!({"notifications": filter})).await?;
        let mut events = Events::new(Generation::V2026, response);
        let mut first = events.next().await?.expect("a subscription is acknowledged first");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        Ok((events, first["params"]["notifications"].take()))
    }

    /// Sends `tools/call` with the additional parameters of this round.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value, more: Value) -> Result<Value, Fault> {
        let mut params = json!({"name": tool, "arguments": arguments});
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        self.request("tools/call", params).await
    }

    async fn post(&self, method: &str, mut params: Value) -> Result<(Value, Response), Fault> {
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
            _ => None,
        };
        let mut post = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        post = post.header("mcp-protocol-version", VERSION).header("mcp-method", method);
        if let Some(key) = &self.key {
            post = post.bearer_auth(key);
        }
        if let Some((name, value)) = &self.header {
            post = post.header(*name, value);
        }
        if let Some(name) = name {
            post = post.header("mcp-name", name);
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        // A refusal is a JSON-RPC error with an HTTP status of its own.
        let response = send(post.json(&request)).await?;
        Ok((request, response))
    }
}
