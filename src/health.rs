//! Whether the server can be sent requests, for load balancers and those who are woken at night: `/healthz` says that
//! the process serves, `/readyz` whether it should be sent anything, and how each of its parts is. An engine that is away
//! does not make the server unready: tasks can be made and looked at, and are caught up on later. A store that does not take
//! writes does. Anybody can ask, so it must not say why an engine fails (that is in the log), and says of the store what is
//! wrong only in fixed words and on this machine. It must not cost more the more often it is asked.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::Peer;
use crate::mcp::origin::is_ours;
use crate::tasks::reconciler::{Condition, Engines};
use crate::tasks::store::Store;
use crate::tasks::task::{Owner, TaskId};

/// How long the store may take to answer.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// How long it counts whether the store has answered.
const SEEN_FOR: Duration = Duration::from_secs(1);

/// The fact that is written to find out whether writes succeed.
const PROBE: &str = "write_probe";

/// What is looked at.
#[derive(Clone)]
pub struct Health(Arc<Parts>);

struct Parts {
    store: Arc<dyn Store>,
    engines: Engines,
    stopping: CancellationToken,
    /// When the store was checked, and why it cannot be used. Whoever asks meanwhile waits for the same answer: anybody may ask,
    /// and as often as they like.
    seen: Mutex<Option<(Instant, Option<&'static str>)>>,
}

/// `/healthz` and `/readyz`.
pub fn routes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { no_store(StatusCode::OK, json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .with_state(health)
}

async fn ready(State(health): State<Health>, request: Request) -> Response {
    let (is_ready, report) = health.report(is_from_here(&request)).await;
    no_store(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, report)
}

fn no_store(status: StatusCode, body: Value) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// True if somebody on this machine asks, by one of its own names, and not a proxy for somebody else.
fn is_from_here(request: &Request) -> bool {
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().and_then(|peer| peer.address);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let passed_on = ["x-forwarded-for", "forwarded", "via"].iter().any(|name| headers.contains_key(*name));
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) && is_ours(host) && !passed_on
}

impl Health {
    /// Looks at these: without the store nothing can be done; `stopping` is cancelled once the server was told to stop.
    pub fn new(store: Arc<dyn Store>, engines: Engines, stopping: CancellationToken) -> Self {
        Self(Arc::new(Parts { store, engines, stopping, seen: Mutex::default() }))
    }

    /// Why the store cannot be used, in fixed words.
    async fn store_failure(&self) -> Option<&'static str> {
        let mut seen = self.0.seen.lock().await;
        if let Some((at, failure)) = *seen
            && at.elapsed() < SEEN_FOR
        {
            return failure;
        }
        let failure = self.check_store().await;
        *seen = Some((Instant::now(), failure));
        failure
    }

    async fn check_store(&self) -> Option<&'static str> {
        // As a client looks at a task, and by the same connections. No task has this name.
        let (nothing, nobody) = (TaskId::from_wire(""), Owner::new(""));
        let look = self.0.store.get(&nothing, Some((&nobody).into()));
        if !matches!(tokio::time::timeout(STORE_PATIENCE, look).await, Ok(Ok(_))) {
            return Some("reads fail");
        }
        let failure = self.0.store.write_failure()?;
        // A server that is not ready is sent nothing, so nothing else would find out that writes succeed again. What comes of
        // it counts for the next check: on a disk that is nearly full small writes succeed, and larger ones fail.
        let probe = self.0.store.set_fact(PROBE, "");
        let _ = tokio::time::timeout(STORE_PATIENCE, probe).await;
        Some(failure)
    }

    /// Whether requests should be sent here, and how each part is. Backends are named to those on this machine only.
    async fn report(&self, names: bool) -> (bool, Value) {
        let failure = self.store_failure().await;
        let store_works = failure.is_none();
        let conditions = self.0.engines.conditions();
        let degraded = conditions.iter().any(|(_, condition)| {
            matches!(condition, Condition::Fails { .. } | Condition::Unconnected { .. })
        });
        let stopping = self.0.stopping.is_cancelled();
        let status = match (stopping, store_works, degraded) {
            (true, _, _) => "stopping",
            (_, false, _) => "down",
            (_, _, true) => "degraded",
            _ => "ready",
        };
        let now = Instant::now();
        let mut store = json!({"status": if store_works { "up" } else { "down" }});
        if let Some(failure) = failure.filter(|_| names) {
            store["reason"] = failure.into();
        }
        let mut report = json!({"status": status, "store": store});
        if names {
            let shown = conditions.into_iter().map(|(name, condition)| (name, shown(condition, now)));
            report["backends"] = shown.collect::<Map<String, Value>>().into();
        }
        (store_works && !stopping, report)
    }
}

fn shown(condition: Condition, now: Instant) -> Value {
    let seconds = |since| now.saturating_duration_since(since).as_secs();
    match condition {
        Condition::Unknown => json!({"status": "unknown"}),
        Condition::Answers => json!({"status": "up"}),
        Condition::Fails { since } => json!({"status": "down", "seconds": seconds(since)}),
        Condition::Unconnected { since } => json!({"status": "unconnected", "seconds": seconds(since)}),
    }
}
