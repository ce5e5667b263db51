//! Health endpoints for load balancers and operators: `/healthz` reports that the process serves; `/readyz`
//! reports whether it should receive requests, and the state of its parts.
//!
//! An unavailable engine does not make the server unready: tasks can still be created and read, and their
//! jobs are processed later. A store that refuses writes does. Everyone can call these endpoints. So they
//! must not report why an engine fails (the log does), and they report store failures only to callers on this
//! machine, in fixed words. Frequent requests must not increase their cost.

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
use crate::mcp::transport::http::validation::origin::is_ours;
use crate::tasks::reconciler::{Condition, Engines};
use crate::tasks::store::Store;
use crate::tasks::task::{Owner, TaskId};

/// Timeout of a store check.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the result of a store check is cached.
const CHECK_TTL: Duration = Duration::from_secs(1);

/// The key that is written to test whether writes succeed.
const PROBE: &str = "write_probe";

/// The state of the health endpoints.
#[derive(Clone)]
pub struct Health(Arc<HealthState>);

struct HealthState {
    store: Arc<dyn Store>,
    engines: Engines,
    stopping: CancellationToken,
    /// Time of the last store check, and its failure. Concurrent requests wait for the same check, because
    /// everyone may send any number of them.
    last_check: Mutex<Option<(Instant, Option<&'static str>)>>,
}

/// Returns the routes `/healthz` and `/readyz`.
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

/// Returns true if the request comes from this machine, under one of its own names, and not through a proxy.
fn is_from_here(request: &Request) -> bool {
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().and_then(|peer| peer.address);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_forwarded = ["x-forwarded-for", "forwarded", "via"].iter().any(|name| headers.contains_key(*name));
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) && is_ours(host) && !is_forwarded
}

impl Health {
    /// Creates the endpoints for these parts. `stopping` is cancelled when the server starts to stop.
    pub fn new(store: Arc<dyn Store>, engines: Engines, stopping: CancellationToken) -> Self {
        Self(Arc::new(HealthState { store, engines, stopping, last_check: Mutex::default() }))
    }

    /// Returns why the store cannot be used, in fixed words. `None` if it works. The result is cached for
    /// `CHECK_TTL`.
    async fn store_failure(&self) -> Option<&'static str> {
        let mut last_check = self.0.last_check.lock().await;
        if let Some((at, failure)) = *last_check
            && at.elapsed() < CHECK_TTL
        {
            return failure;
        }
        let failure = self.check_store().await;
        *last_check = Some((Instant::now(), failure));
        failure
    }

    async fn check_store(&self) -> Option<&'static str> {
        // Reads like a client's task poll, through the same connections. No task has this id.
        let (missing_id, no_owner) = (TaskId::from_wire(""), Owner::new(""));
        let lookup = self.0.store.get(&missing_id, Some((&no_owner).into()));
        if !matches!(tokio::time::timeout(STORE_TIMEOUT, lookup).await, Ok(Ok(_))) {
            return Some("reads fail");
        }
        let failure = self.0.store.write_failure()?;
        // A server that is not ready receives no requests, so only this probe can detect that writes succeed
        // again. Its result counts for the next check. On a nearly full disk, small writes may succeed while
        // larger ones fail.
        let probe = self.0.store.set_fact(PROBE, "");
        let _ = tokio::time::timeout(STORE_TIMEOUT, probe).await;
        Some(failure)
    }

    /// Returns whether the server is ready, and the report. Only callers on this machine see backend names.
    async fn report(&self, with_names: bool) -> (bool, Value) {
        let failure = self.store_failure().await;
        let store_works = failure.is_none();
        let conditions = self.0.engines.conditions();
        let degraded = conditions.iter().any(|(_, condition)| {
            matches!(condition, Condition::Failing { .. } | Condition::Unconnected { .. })
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
        if let Some(failure) = failure.filter(|_| with_names) {
            store["reason"] = failure.into();
        }
        let mut report = json!({"status": status, "store": store});
        if with_names {
            let backends =
                conditions.into_iter().map(|(name, condition)| (name, condition_json(condition, now)));
            report["backends"] = backends.collect::<Map<String, Value>>().into();
        }
        (store_works && !stopping, report)
    }
}

fn condition_json(condition: Condition, now: Instant) -> Value {
    let seconds = |since| now.saturating_duration_since(since).as_secs();
    match condition {
        Condition::Unknown => json!({"status": "unknown"}),
        Condition::Available => json!({"status": "up"}),
        Condition::Failing { since } => json!({"status": "down", "seconds": seconds(since)}),
        Condition::Unconnected { since } => json!({"status": "unconnected", "seconds": seconds(since)}),
    }
}
