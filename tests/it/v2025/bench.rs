//! The test bench: the whole server with its own database and scripted backend, and its client.

mod client;

pub(crate) use client::{Client, Failure, Stream, read};

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge::app::{self, App};
use taskbridge::{adapters, config};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stage::{ScriptedAdapter, ScriptedEngine};
use crate::support::{LoadBalancer, knob, postgres};

/// `call_budget`, with a margin.
pub(crate) const BUDGET: Duration = Duration::from_millis(2050);

/// The config of every server: short poll intervals, a short call budget, small pages.
const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
call_budget = "2s"
progress_every = "100ms"
page_size = 3
max_polls_per_second = 10000
max_log_bytes = 200
max_artifact_bytes = 100

[reconciler]
quickest_look = "20ms"
slowest_look = "100ms"

[backends.stage]
kind = "stage"
name = "NAME"

[tools.work]
description = "Does what the test says."
backend = "stage"
target = {}
input_schema = { type = "object" }
"#;

/// A server. Dropping it stops it. With $TASKBRIDGE_TEST_REPLICAS each test uses this many replicas instead,
/// on PostgreSQL and behind a [`LoadBalancer`].
pub(crate) struct Server {
    pub(crate) engine: ScriptedEngine,
    config: String,
    dir: Arc<TempDir>,
    pub(crate) url: String,
    /// The URL of each replica.
    pub(crate) replicas: Vec<String>,
    _load_balancer: Option<LoadBalancer>,
    stop: CancellationToken,
    server_tasks: Vec<JoinHandle<()>>,
    http: reqwest::Client,
}

impl Server {
    /// Starts a server with one owner for all callers.
    pub(crate) async fn start() -> Self {
        Self::with("[auth]\nsingle_user = true\n").await
    }

    /// Starts a server for one owner with a longer call budget. Even on a busy machine, plain calls see what
    /// a job does before they are answered with a handle.
    pub(crate) async fn with_long_budget() -> Self {
        Self::with_long_budget_and("[auth]\nsingle_user = true\n").await
    }

    /// Like [`Server::with_long_budget`], with more config.
    pub(crate) async fn with_long_budget_and(more: &str) -> Self {
        Self::configured(&[("call_budget = \"2s\"", "call_budget = \"10s\"")], more).await
    }

    /// Starts a server with more config: tables that the common config does not have.
    pub(crate) async fn with(more: &str) -> Self {
        Self::configured(&[], more).await
    }

    /// Starts a server with replacements in the common config.
    pub(crate) async fn configured(changes: &[(&str, &str)], more: &str) -> Self {
        match knob("TASKBRIDGE_TEST_REPLICAS", 1) {
            1 => Self::replicated(1, "", changes, more).await,
            replicas => Self::replicated(replicas, &postgres::shared().url(), changes, more).await,
        }
    }

    /// Starts this many servers on a schema of this database; on SQLite if `database` is empty.
    pub(crate) async fn replicated(
        replicas: usize,
        database: &str,
        changes: &[(&str, &str)],
        more: &str,
    ) -> Self {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let name = format!("v2025-{}", NAMES.fetch_add(1, Ordering::Relaxed));
        let mut common = CONFIG.replace("NAME", &name);
        for (from, to) in changes {
            assert!(common.contains(from), "the common config has no {from}");
            common = common.replace(from, to);
        }
        let mut config = format!("{common}\n{more}");
        if !database.is_empty() {
            let schema = postgres::schema();
            config.push_str(&format!(
                "\n[store]\nkind = \"postgres\"\nurl = \"{database}\"\nschema = \"{schema}\"\nmax_connections = 4\n"
            ));
        }
        Self::start_replicas(
            ScriptedEngine::named(&name),
            config,
            Arc::new(TempDir::new().unwrap()),
            replicas,
        )
        .await
    }

    /// Starts another server over the same database and engine.
    pub(crate) async fn twin(&self) -> Self {
        Self::start_replicas(
            self.engine.clone(),
            self.config.clone(),
            Arc::clone(&self.dir),
            self.replicas.len(),
        )
        .await
    }

    /// Returns its data directory.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Stops it without waiting.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops it, and restarts it over the same data.
    pub(crate) async fn restart(mut self) -> Self {
        self.stop.cancel();
        for server_task in self.server_tasks.drain(..) {
            server_task.await.unwrap();
        }
        self.twin().await
    }

    async fn start_replicas(
        engine: ScriptedEngine,
        config: String,
        dir: Arc<TempDir>,
        replicas: usize,
    ) -> Self {
        let (stop, mut addresses, mut server_tasks) = (CancellationToken::new(), Vec::new(), Vec::new());
        for _ in 0..replicas {
            let (address, replica) = replica(&config, &dir, stop.clone()).await;
            addresses.push(address);
            server_tasks.push(replica);
        }
        let load_balancer =
            if replicas > 1 { Some(LoadBalancer::start(addresses.clone()).await) } else { None };
        let url = |address: SocketAddr| format!("http://{address}/mcp");
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self {
            engine,
            config,
            dir,
            url: url(load_balancer.as_ref().map_or(addresses[0], |load_balancer| load_balancer.address)),
            replicas: addresses.into_iter().map(url).collect(),
            _load_balancer: load_balancer,
            stop,
            server_tasks,
            http,
        }
    }

    /// Returns a client that can show forms.
    pub(crate) async fn client(&self) -> Client {
        self.client_with("2025-11-25", json!({"elicitation": {}}), None).await
    }

    /// Returns a client that cannot be asked anything.
    pub(crate) async fn client_without_capabilities(&self) -> Client {
        self.client_with("2025-11-25", json!({}), None).await
    }

    /// Returns a client with this API key.
    pub(crate) async fn client_with_key(&self, key: &str) -> Client {
        self.client_with("2025-11-25", json!({"elicitation": {}}), Some(key)).await
    }

    /// Returns a client of this revision with these capabilities.
    pub(crate) async fn client_with(&self, revision: &str, capabilities: Value, key: Option<&str>) -> Client {
        let client = self.uninitialized_client(revision, capabilities, key).await;
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    /// Returns a client of this revision that has not sent `notifications/initialized`.
    pub(crate) async fn uninitialized_client(
        &self,
        revision: &str,
        capabilities: Value,
        key: Option<&str>,
    ) -> Client {
        Client::initialize(self, revision, capabilities, key).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts one server, and returns its address.
#[allow(clippy::disallowed_methods, reason = "a test serves beside its own requests")]
async fn replica(config: &str, dir: &TempDir, stop: CancellationToken) -> (SocketAddr, JoinHandle<()>) {
    let registry = adapters::all().with::<ScriptedAdapter>();
    let file = dir.path().join("taskbridge.toml");
    let parsed = config::parse(&file, dir.path(), config, &registry, Some(dir.path())).unwrap();
    let listener = app::listen(&parsed).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = App::build(parsed, &registry, PathBuf::new(), false).await.unwrap();
    (address, tokio::spawn(async move { app.serve_http(listener, stop).await.unwrap() }))
}
