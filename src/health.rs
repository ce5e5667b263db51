//! Whether the server can be sent requests, for load balancers and those who are woken at night: `/healthz` says that
//! the process serves, `/readyz` whether it should be sent anything, and how each of its parts is. An engine that is away
//! does not make the server unready: tasks can be made and looked at, and are caught up on later. It must not say why
//! something fails, since anybody can ask: that is in the log.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::tasks::reconciler::{Condition, Engines};
use crate::tasks::store::Store;

/// How long the store may take to answer.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// What is looked at.
#[derive(Clone)]
pub struct Health {
    /// Without it, nothing can be done.
    pub store: Arc<dyn Store>,
    /// The backends.
    pub engines: Engines,
    /// Cancelled once the server was told to stop.
    pub stopping: CancellationToken,
}

/// `/healthz` and `/readyz`.
pub fn routes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { no_store(StatusCode::OK, json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .with_state(health)
}

async fn ready(State(health): State<Health>) -> Response {
    let (is_ready, report) = health.report().await;
    no_store(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, report)
}

fn no_store(status: StatusCode, body: Value) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

impl Health {
    /// Whether requests should be sent here, and how each part is.
    async fn report(&self) -> (bool, Value) {
        let look = tokio::time::timeout(STORE_PATIENCE, self.store.next_due(&[]));
        let store_answers = matches!(look.await, Ok(Ok(_)));
        let conditions = self.engines.conditions();
        let degraded = conditions.iter().any(|(_, condition)| matches!(condition, Condition::Fails { .. }));
        let stopping = self.stopping.is_cancelled();
        let status = match (stopping, store_answers, degraded) {
            (true, _, _) => "stopping",
            (_, false, _) => "down",
            (_, _, true) => "degraded",
            _ => "ready",
        };
        let now = Instant::now();
        let backends: Map<String, Value> =
            conditions.into_iter().map(|(name, condition)| (name, shown(condition, now))).collect();
        let store = json!({"status": if store_answers { "up" } else { "down" }});
        (store_answers && !stopping, json!({"status": status, "store": store, "backends": backends}))
    }
}

fn shown(condition: Condition, now: Instant) -> Value {
    match condition {
        Condition::Unknown => json!({"status": "unknown"}),
        Condition::Answers => json!({"status": "up"}),
        Condition::Fails { since } => {
            json!({"status": "down", "seconds": now.saturating_duration_since(since).as_secs()})
        }
    }
}
