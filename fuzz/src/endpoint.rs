//! [`Endpoint`]: the real endpoint in this process, over its own database, called without a connection. Time
//! and randomness are deterministic, so the same bytes lead to the same responses. No reconciler runs: no
//! request waits for a job to end. This file checks the invariants of every response.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, poll};
use serde_json::{Value, json};
use taskbridge::audit::{AuditDependencies, Auditor};
use taskbridge::auth::{ApiKeys, Authenticator, Identity, Key};
use taskbridge::catalog::Catalog;
use taskbridge::clock::{Clock, Entropy};
use taskbridge::current::Current;
use taskbridge::mcp::features::context::FeatureContext;
use taskbridge::mcp::features::offers::Offers;
use taskbridge::mcp::features::resources::EngineReads;
use taskbridge::mcp::session::SessionState;
use taskbridge::mcp::transport::http;
use taskbridge::mcp::transport::http::validation::origin::OriginPolicy;
use taskbridge::mcp::transport::http::{AccessControl, AccessRules, ConnectionLimits, Proxies};
use taskbridge::mcp::{Bridge, CompanionTools, Settings};
use taskbridge::seal::Seal;
use taskbridge::sessions::ServerStore;
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::Engines;
use taskbridge::tasks::service::{Outbox, Service};
use taskbridge::tasks::store::Holder;
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge::{adapters, config};
use taskbridge_sdk::Timestamp;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// A config with one example of everything that parses client input.
const CONFIG: &str = r#"
[backends.sim]
kind = "sim"

[tools.run]
backend = "sim"
target = {}
parameters.n = { type = "integer", required = false }

[tools.careful]
backend = "sim"
target = {}
confirm = "Really?"

[tools.deploy]
backend = "sim"
target = {}
confirm = "Deploy to {{ env }}?"
parameters.env = { type = "string", enum = ["staging", "production"], ask = "Where to?" }
parameters.note = { type = "string", required = false }

[tools.routed]
backend = "sim"
target = {}
parameters.region = { type = "string", header = "Region" }
parameters.count = { type = "integer", required = false, header = "Count" }
parameters.dry = { type = "boolean", required = false, header = "Dry" }

[resources.runbook]
uri = "runbook://deploy"
text = "Roll back."

[resources.service]
uri = "service://{id}/data"
text = "about {{ id }}"
places.id = { suggest = ["api", "web"] }

[resources.region]
uri = "region://{name}"
text = "about {{ name }}"
places.name = {}

[prompts.release]
arguments = [{ name = "env", same_as = "deploy.env" }, { name = "notes", required = false }]
messages = [{ text = "Release to {{ env }}." }]

[prompts.plain]
messages = [{ text = "Hello." }]
"#;

/// The key of the only caller, and its digest for the config.
const KEY: (&str, &str) =
    ("ann-has-this-key", "8210d11de7103c21215fa34e4ca01feb54c1cc38464c1b8fa40200c3ed828a0a");

/// Maximum size of a request body.
const MAX_BODY: usize = 64 * 1024;
/// Maximum length of a response beyond the request's length with escapes.
const MAX_ADDED: usize = 64 * 1024;
/// Maximum number of bytes to read from a stream.
const MAX_STREAMED: usize = 256 * 1024;

/// Number of polls for a response. Nothing here waits for another thread, so a response that is not ready by
/// then waits for a job or an event.
const MAX_POLLS: usize = 64;

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

/// The response to a request, as far as it arrived.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Vec<u8>,
}

/// A stopped clock.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }
}

/// Numbers that depend only on how many were drawn before.
#[derive(Default)]
struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mixed = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&mixed.to_be_bytes()[..chunk.len()]);
        }
    }
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

/// Sends a request, and reads the response until no more bytes arrive.
async fn read_response(router: Router, request: Request<Body>, max_bytes: usize) -> Option<HttpResponse> {
    let mut response_future = std::pin::pin!(router.oneshot(request));
    let response = poll_ready(&mut response_future).await?.unwrap_or_else(|never| match never {});
    let (head, body) = response.into_parts();
    let is_stream = head.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "text/event-stream");
    let mut chunks = body.into_data_stream();
    let mut body = Vec::new();
    while let Some(Some(chunk)) = poll_ready(&mut chunks.next()).await {
        let chunk = chunk.expect("no answer breaks off");
        body.extend_from_slice(&chunk);
        // A stream has events of any number of tasks, and each event is a response of its own.
        let length = if is_stream { chunk.len() } else { body.len() };
        assert!(length <= max_bytes, "an answer of more than {max_bytes} bytes");
        if body.len() > MAX_STREAMED {
            break;
        }
    }
    Some(HttpResponse { status: head.status.as_u16(), headers: head.headers, body })
}

/// Returns the future's output if it is ready without waiting.
async fn poll_ready<T>(mut work: impl Future<Output = T> + Unpin) -> Option<T> {
    for _ in 0..MAX_POLLS {
        if let std::task::Poll::Ready(output) = poll!(&mut work) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

impl HttpResponse {
    /// Parses the JSON of a response.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    fn has_content_type(&self, kind: &str) -> bool {
        self.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == kind)
    }

    fn check(&self, sent: &[u8]) {
        let text = String::from_utf8_lossy(&self.body);
        // The database and the engine have no faults, so the client caused every error.
        assert!(self.status < 500, "status {}: {text}", self.status);
        if self.body.is_empty() {
            return assert!(self.status < 400, "status {} and no reason", self.status);
        }
        if self.has_content_type("text/event-stream") {
            let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
            return events.for_each(|data| check_message(&serde_json::from_str(data).expect(data), sent));
        }
        assert!(
            self.has_content_type("application/json"),
            "status {} with {:?}: {text}",
            self.status,
            self.headers
        );
        check_message(&self.json(), sent);
    }
}

/// Checks the invariants of every message from the server.
fn check_message(message: &Value, sent: &[u8]) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    if message.get("method").is_some() {
        return;
    }
    let (result, error) = (message.get("result"), message.get("error"));
    assert!(result.is_some() != error.is_some(), "{message}");
    if let Some(error) = error {
        let reason = error["message"].as_str().unwrap_or_default();
        assert!(error["code"].is_i64() && !reason.is_empty(), "{message}");
        assert_ne!(error["code"], -32603, "{message}");
    }
    if let (Ok(sent), Some(id)) = (serde_json::from_slice::<Value>(sent), message.get("id"))
        && !id.is_null()
    {
        assert_eq!(*id, sent["id"], "an answer to another request");
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

/// Creates a bridge over a database in this folder.
fn bridge(dir: &Path, seal: &Seal, entropy: &Arc<dyn Entropy>) -> Bridge {
    let clock: Arc<dyn Clock> = Arc::new(FixedClock);
    let store = SqliteStore::open(&dir.join("tasks.db"), Arc::clone(&clock), Mode::Inline).unwrap();
    let store: Arc<dyn ServerStore> = Arc::new(store);
    let config = config::parse(Path::new("fuzz.toml"), dir, CONFIG, &adapters::all(), Some(dir)).unwrap();
    let catalog = Catalog::new(config.tools, config.slot_limits, seal.clone())
        .with_content(config.resources, config.prompts);
    let catalog = Arc::new(Current::new(catalog));
    let writer = TaskWriter {
        store: store.clone(),
        watch: ChangeNotifier::default(),
        clock: Arc::clone(&clock),
        receivers: Arc::new(taskbridge::tasks::notices::NoReceivers),
        tools: Arc::clone(&catalog) as _,
        nudge: Arc::new(ReconcilerSignals::default()),
        history_recorder: HistoryRecorder { replica: Holder("fuzz".to_owned()), enabled: true },
        meter: Arc::new(taskbridge::tasks::meter::Unmetered),
        audit: Arc::new(taskbridge::tasks::audit::LogOnlyAudit),
    };
    let outbox = Outbox {
        committed_starts: mpsc::channel(1).0,
        deferred_writes: mpsc::unbounded_channel().0,
        engines: Engines::default(),
    };
    let poll_intervals =
        PollIntervals { shortest: Duration::from_millis(50), longest: Duration::from_secs(30) };
    let holder = Holder("fuzz".to_owned());
    // A call returns a handle at once, and lists have pages.
    let settings = Settings {
        call_budget: Duration::ZERO,
        quick_wait: Duration::ZERO,
        progress_every: Duration::from_secs(5),
        companion_tools: CompanionTools::Always,
        page_size: 1,
        session_lifetime: Duration::from_secs(3600),
        max_log_bytes: 1024,
        max_artifact_bytes: 1024,
        max_body_bytes: MAX_BODY,
        max_polls_per_second: u32::MAX,
        limits: taskbridge::mcp::wire::limits::Limits::default(),
        max_calls_per_minute: u32::MAX,
    };
    let service =
        Service::new(writer, Arc::clone(entropy), holder, Duration::from_secs(30), poll_intervals, outbox);
    let replica = "fuzz".to_owned();
    let dependencies = AuditDependencies {
        seal: seal.clone(),
        clock: Arc::clone(&clock),
        entropy: Arc::clone(entropy),
        replica,
    };
    let audit = Arc::new(Auditor::off(dependencies));
    Bridge {
        context: FeatureContext {
            service,
            offers: Offers::new(catalog, settings),
            seal: seal.clone(),
            clock,
            entropy: Arc::clone(entropy),
            audit,
        },
        reads: EngineReads::new(BTreeMap::new()),
        sessions: SessionState::new(store),
        metrics: Arc::default(),
    }
}
