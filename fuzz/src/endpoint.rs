//! [`Endpoint`]: the real endpoint in this process, over its own database, called without a connection. Time
//! and randomness are deterministic, so the same bytes lead to the same responses. No reconciler runs: no
//! request waits for a job to end.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use taskbridge::auth::{ApiKeys, Authenticator, Identity, Key};
use taskbridge::clock::Entropy;
use taskbridge::mcp::transport::http;
use taskbridge::mcp::transport::http::validation::origin::OriginPolicy;
use taskbridge::mcp::transport::http::{AccessControl, AccessRules, ConnectionLimits, Proxies};
use taskbridge::seal::Seal;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::bridge::{CountingEntropy, bridge};
use super::response::{HttpResponse, read_response};

/// The key of the only caller, and its digest for the config.
const KEY: (&str, &str) =
    ("ann-has-this-key", "8210d11de7103c21215fa34e4ca01feb54c1cc38464c1b8fa40200c3ed828a0a");

/// Maximum length of a response beyond the request's length with escapes.
const MAX_ADDED: usize = 64 * 1024;

/// Known tasks, for requests that refer to them.
pub(crate) struct KnownTasks {
    /// A task that has not ended.
    pub(crate) running_task: String,
    /// A cancelled task.
    pub(crate) ended_task: String,
}

/// The endpoint.
pub struct Endpoint {
    runtime: Runtime,
    router: Router,
    /// The seal that the endpoint uses.
    pub(crate) seal: Seal,
    /// Known tasks.
    pub(crate) known_tasks: KnownTasks,
    _dir: TempDir,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self::new()
    }
}

impl Endpoint {
    /// Creates an endpoint over a new database.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy::default());
        let seal = Seal::new(&[7; 32], Arc::clone(&entropy));
        let bridge = Arc::new(bridge(dir.path(), &seal, &entropy));
        let auth = Authenticator::ApiKeys(ApiKeys::new([Key::new(KEY.1, Identity::named("ann"))]).unwrap());
        let origins = ["https://app.example".to_owned()];
        let origin_policy = OriginPolicy::new(IpAddr::V4(Ipv4Addr::LOCALHOST), origins, []).unwrap();
        let access_control = Arc::new(AccessControl::new(AccessRules {
            auth,
            origin_policy,
            limits: ConnectionLimits::default(),
            tls: None,
            proxies: Proxies::default(),
        }));
        let (router, _) = http::router(bridge, access_control, CancellationToken::new());
        let known_tasks = KnownTasks { running_task: String::new(), ended_task: String::new() };
        let mut endpoint = Self { runtime, router, seal, known_tasks, _dir: dir };
        let (running_task, ended_task) = (endpoint.task(), endpoint.task());
        endpoint.send_modern("tasks/cancel", json!({"taskId": ended_task})).expect("it is cancelled");
        endpoint.known_tasks = KnownTasks { running_task, ended_task };
        endpoint
    }

    /// Calls a tool as a task, and returns the task's id.
    fn task(&self) -> String {
        let session = self.session();
        let params = json!({"name": "run", "arguments": {}, "task": {}});
        let response = self.send_in_session(&session, &request("tools/call", params)).unwrap().json();
        response["result"]["task"]["taskId"].as_str().unwrap().to_owned()
    }

    /// Opens a session, and returns its id.
    pub(crate) fn session(&self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "fuzz", "version": "1"},
        });
        let response = self.post(&[], request("initialize", params).to_string()).unwrap();
        response.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    /// Sends a message in a session.
    pub(crate) fn send_in_session(&self, session: &str, message: &Value) -> Option<HttpResponse> {
        let version = ("mcp-protocol-version", b"2025-11-25".as_slice());
        self.post(&[version, ("mcp-session-id", session.as_bytes())], message.to_string())
    }

    /// Sends a valid request of 2026-07-28, and returns its result or its error.
    pub(crate) fn send_modern(&self, method: &str, params: Value) -> Result<Value, Value> {
        let message = modern(method, params);
        let headers = repeated_headers(&message);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let mut response = self.post(&headers, message.to_string()).expect("it waits for nothing").json();
        match response.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(response["result"].take()),
        }
    }

    /// Sends a POST with the headers of every client and with these, which must be valid.
    pub(crate) fn post(&self, headers: &[(&str, &[u8])], body: impl Into<Vec<u8>>) -> Option<HttpResponse> {
        let post = self.request_builder("POST").header(header::CONTENT_TYPE, "application/json");
        let post = post.header(header::ACCEPT, "application/json, text/event-stream");
        let post = headers.iter().fold(post, |post, (name, value)| post.header(*name, *value));
        self.send(post, body.into())
    }

    /// Returns a request of the only caller.
    pub(crate) fn request_builder(&self, method: &str) -> axum::http::request::Builder {
        let request = Request::builder().method(method).uri("/mcp").header(header::HOST, "127.0.0.1:8080");
        request.header(header::AUTHORIZATION, format!("Bearer {}", KEY.0))
    }

    /// Sends a request, and checks the invariants of its response. Returns `None` if the response has to
    /// wait.
    pub(crate) fn send(&self, request: axum::http::request::Builder, body: Vec<u8>) -> Option<HttpResponse> {
        // Headers can be echoed, too: the id of an event is in that of each event after it.
        let headers = request.headers_ref().into_iter().flatten();
        let head: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
        let (sent, max_bytes) = (body.clone(), MAX_ADDED + 8 * (body.len() + head));
        let request = request.body(Body::from(body)).ok()?;
        let response = self.runtime.block_on(read_response(self.router.clone(), request, max_bytes))?;
        response.check(&sent);
        Some(response)
    }
}

/// Returns a request.
pub(crate) fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Returns a request of 2026-07-28 by a client with all capabilities.
pub(crate) fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({
        "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    });
    request(method, params)
}

/// Returns the headers that repeat fields of a 2026-07-28 request.
pub(crate) fn repeated_headers(message: &Value) -> Vec<(&'static str, Vec<u8>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let params = &message["params"];
    let method = text(&message["method"]);
    let mut headers = vec![
        (
            "mcp-protocol-version",
            text(&params["_meta"]["io.modelcontextprotocol/protocolVersion"]).into_bytes(),
        ),
        ("mcp-method", method.clone().into_bytes()),
    ];
    let mut push_encoded = |name: &'static str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => {
            headers.push((name, format!("=?base64?{}?=", STANDARD.encode(text)).into_bytes()));
        }
        other => headers.push((name, other.to_string().into_bytes())),
    };
    match method.as_str() {
        "tools/call" | "prompts/get" => push_encoded("mcp-name", &params["name"]),
        "resources/read" => push_encoded("mcp-name", &params["uri"]),
        "tasks/get" | "tasks/update" | "tasks/cancel" => push_encoded("mcp-name", &params["taskId"]),
        _ => {}
    }
    if params["name"] == "routed" {
        push_encoded("mcp-param-region", &params["arguments"]["region"]);
        push_encoded("mcp-param-count", &params["arguments"]["count"]);
        push_encoded("mcp-param-dry", &params["arguments"]["dry"]);
    }
    headers.retain(|(_, value)| axum::http::HeaderValue::from_bytes(value).is_ok());
    headers
}
