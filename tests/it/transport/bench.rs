//! The test bench of the transport's tests: a bridge with its own store, served on a free local port.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use taskbridge::audit::{AuditDependencies, Auditor};
use taskbridge::auth::Authenticator;
use taskbridge::catalog::Catalog;
use taskbridge::clock::{Clock, System};
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
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{Generation, schema};

/// The tools: one that runs for an hour, and one that asks before it starts.
const CONFIG: &str = r#"
[backends.sim]
kind = "sim"

[tools.run]
backend = "sim"
target = { delay_ms = 3600000 }

[tools.ask]
backend = "sim"
target = {}
confirm = "Really?"
"#;

/// The largest body that the server accepts.
pub(super) const MAX_BODY: usize = 64 * 1024;

/// The limit of polls per second for one owner.
pub(super) const MAX_POLLS: u32 = 5;

/// The system clock, which a test can set forward.
#[derive(Default)]
pub(super) struct AdjustableClock(AtomicI64);

impl AdjustableClock {
    pub(super) fn set_ahead(&self, time: Duration) {
        self.0.store(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for AdjustableClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(System.now().as_millis() + self.0.load(Ordering::SeqCst))
    }
}

/// A server. Dropping it stops it.
pub(super) struct Server {
    pub(super) clock: Arc<AdjustableClock>,
    pub(super) client: Client,
    pub(super) address: SocketAddr,
    pub(super) shutdown: CancellationToken,
    server_task: Option<JoinHandle<()>>,
    dir: Arc<TempDir>,
}

/// A session, with the id from the server's response.
pub(super) struct Session {
    pub(super) id: String,
}

/// Returns a bridge over the database in this directory. Nothing runs jobs.
pub(super) fn bridge(dir: &Path, clock: Arc<dyn Clock>) -> Bridge {
    let store: Arc<dyn ServerStore> =
        Arc::new(SqliteStore::open(&dir.join("tasks.db"), Arc::clone(&clock), Mode::Threaded).unwrap());
    let seal = Seal::new(&[7; 32], System::entropy());
    let config = config::parse(Path::new("test.toml"), dir, CONFIG, &adapters::all(), Some(dir)).unwrap();
    let catalog = Arc::new(Current::new(Catalog::new(config.tools, config.slot_limits, seal.clone())));
    let writer = TaskWriter {
        store: store.clone(),
        watch: ChangeNotifier::default(),
        clock: Arc::clone(&clock),
        receivers: Arc::new(taskbridge::tasks::notices::NoReceivers),
        tools: catalog.clone(),
        nudge: Arc::new(ReconcilerSignals::default()),
        history_recorder: HistoryRecorder { replica: Holder("test".to_owned()), enabled: true },
        meter: Arc::new(taskbridge::tasks::meter::Unmetered),
        audit: Arc::new(taskbridge::tasks::audit::LogOnlyAudit),
    };
    let outbox = Outbox {
        committed_starts: mpsc::channel(16).0,
        deferred_writes: mpsc::unbounded_channel().0,
        engines: Engines::default(),
    };
    let poll_intervals =
        PollIntervals { shortest: Duration::from_millis(50), longest: Duration::from_secs(30) };
    let holder = Holder("test".to_owned());
    let settings = Settings {
        call_budget: Duration::from_secs(25),
        quick_wait: Duration::from_millis(250),
        progress_every: Duration::from_secs(5),
        companion_tools: CompanionTools::Auto,
        page_size: 50,
        session_lifetime: Duration::from_secs(3600),
        max_log_bytes: 1024,
        max_artifact_bytes: 1024,
        max_body_bytes: MAX_BODY,
        max_polls_per_second: MAX_POLLS,
        limits: taskbridge::mcp::wire::limits::Limits::default(),
        max_calls_per_minute: u32::MAX,
    };
    let replica = "test".to_owned();
    let dependencies = AuditDependencies {
        seal: seal.clone(),
        clock: Arc::clone(&clock),
        entropy: System::entropy(),
        replica,
    };
    let audit = Arc::new(Auditor::off(dependencies));
    Bridge {
        context: FeatureContext {
            service: Service::new(
                writer,
                System::entropy(),
                holder,
                Duration::from_secs(30),
                poll_intervals,
                outbox,
            ),
            offers: Offers::new(catalog, settings),
            seal,
            clock,
            entropy: System::entropy(),
            audit,
        },
        reads: EngineReads::new(BTreeMap::new()),
        sessions: SessionState::new(store),
        metrics: Arc::default(),
    }
}

impl Server {
    /// Starts a server without authentication.
    pub(super) async fn start() -> Self {
        Self::with(Authenticator::None { single_user: true }).await
    }

    /// Starts a server with this authentication.
    pub(super) async fn with(auth: Authenticator) -> Self {
        Self::start_in(Arc::new(TempDir::new().unwrap()), auth).await
    }

    /// Starts another server over the same database.
    pub(super) async fn twin(&self) -> Self {
        Self::start_in(Arc::clone(&self.dir), Authenticator::None { single_user: true }).await
    }

    #[allow(clippy::disallowed_methods, reason = "a test serves beside its own requests")]
    async fn start_in(dir: Arc<TempDir>, auth: Authenticator) -> Self {
        let clock = Arc::new(AdjustableClock::default());
        let bridge = Arc::new(bridge(dir.path(), clock.clone()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let origins = ["https://app.example".to_owned()];
        let hosts = ["tasks.internal".to_owned()];
        let origin_policy = OriginPolicy::new(address.ip(), origins, hosts).unwrap();
        let access_control = Arc::new(AccessControl::new(AccessRules {
            auth,
            origin_policy,
            limits: ConnectionLimits::default(),
            tls: None,
            proxies: Proxies::default(),
        }));
        let shutdown = CancellationToken::new();
        let (router, _) = http::router(bridge, Arc::clone(&access_control), shutdown.clone());
        let server_task = tokio::spawn(http::serve(listener, router, access_control, shutdown.clone()));
        let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { clock, client, address, shutdown, server_task: Some(server_task), dir }
    }

    /// Stops the server, and waits until it has stopped.
    pub(super) async fn stop(mut self) {
        self.shutdown.cancel();
        self.server_task.take().unwrap().await.unwrap();
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns a POST with the headers that every client sends.
    pub(super) fn post(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.client
            .post(self.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(body)
    }

    /// Returns a POST in a session.
    pub(super) fn post_message(&self, session: &Session, message: &Value) -> RequestBuilder {
        self.post(message.to_string()).header("Mcp-Session-Id", &session.id)
    }

    /// Returns a GET in a session.
    pub(super) fn listen(&self, session: &Session) -> RequestBuilder {
        self.client.get(self.url()).header(ACCEPT, "text/event-stream").header("Mcp-Session-Id", &session.id)
    }

    /// Opens a session.
    pub(super) async fn session(&self) -> Session {
        let response = self.post(initialize("2025-11-25").to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Session { id: response.headers()["mcp-session-id"].to_str().unwrap().to_owned() }
    }

    /// Opens a session of a client that can ask its user.
    pub(super) async fn session_with_elicitation(&self) -> Session {
        let mut initialize_request = initialize("2025-11-25");
        initialize_request["params"]["capabilities"]["elicitation"] = json!({});
        let response = self.post(initialize_request.to_string()).send().await.unwrap();
        let session = Session { id: response.headers()["mcp-session-id"].to_str().unwrap().to_owned() };
        let ready = notification("notifications/initialized", &json!({}));
        assert_eq!(self.post_message(&session, &ready).send().await.unwrap().status(), 202);
        session
    }

    /// Returns the result of a request that is answered without a stream.
    pub(super) async fn result(&self, session: &Session, method: &str, params: &Value) -> Value {
        let request = request("quick", method, params);
        let response = self.post_message(session, &request).send().await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json", "{method}");
        let mut answer: Value = response.json().await.unwrap();
        schema::check_answer(Generation::V2025, &request, &answer);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Calls a tool as a task, and returns the task's id.
    pub(super) async fn task(&self, session: &Session, tool: &str) -> String {
        let call = json!({ "name": tool, "arguments": {}, "task": {} });
        let created = self.result(session, "tools/call", &call).await;
        created["task"]["taskId"].as_str().unwrap().to_owned()
    }

    /// Waits for the result of a task on a stream.
    pub(super) async fn wait(&self, session: &Session, id: impl Into<Value>, task: &str) -> Events {
        let wait = request(id, "tasks/result", &json!({ "taskId": task }));
        Events::of(self.post_message(session, &wait).send().await.unwrap())
    }

    /// Ends a session.
    pub(super) async fn delete(&self, session: &Session) -> Response {
        self.client.delete(self.url()).header("Mcp-Session-Id", &session.id).send().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub(super) fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

pub(super) fn request(id: impl Into<Value>, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Returns the status, and the code and message of the JSON-RPC error in the body, which must match the
/// schema.
pub(super) async fn refusal(response: Response) -> (u16, i64, String) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json", "status {status}");
    let body: Value = response.json().await.unwrap();
    schema::check(Generation::V2025, &body);
    let code = body["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error code: {body}"));
    (status, code, body["error"]["message"].as_str().unwrap().to_owned())
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) retry: Option<u64>,
    pub(super) data: Option<String>,
    pub(super) comment: bool,
}

impl Event {
    pub(super) fn message(&self) -> Value {
        let message = serde_json::from_str(self.data.as_deref().unwrap()).unwrap();
        schema::check(Generation::V2025, &message);
        message
    }
}

/// The events of a response.
pub(super) struct Events {
    chunks: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: String,
}

impl Events {
    pub(super) fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        Self { chunks: response.bytes_stream().boxed(), buffer: String::new() }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let text: String = self.buffer.drain(..end + 2).collect();
                return Some(parse(text.trim_end()));
            }
            let chunk = self.chunks.next().await?.expect("the stream ends in order");
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn parse(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        match line.split_once(':').unwrap() {
            ("", _) => event.comment = true,
            ("id", id) => event.id = Some(id.trim_start().to_owned()),
            ("retry", retry) => event.retry = Some(retry.trim().parse().unwrap()),
            ("data", data) => event.data = Some(data.trim_start().to_owned()),
            ("event", name) => assert_eq!(name.trim(), "message"),
            (field, _) => panic!("there is no field {field:?}"),
        }
    }
    event
}
