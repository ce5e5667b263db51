//! `POST /hooks/{backend}`: engines, or services next to them, report that jobs changed. The backend
//! authenticates each delivery, and the jobs are polled sooner. A delivery is only a hint: without any,
//! polling is slower but correct. Responses do not reveal why a delivery was rejected.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;
use taskbridge_sdk::{Backend, Delivery, HookEvent};
use tokio::time::Instant;

use crate::auth::Peer;
use crate::mcp::Bridge;
use crate::mcp::transport::http::UnauthenticatedBudget;
use crate::tasks::task_writer::{PollRequest, ReconcilerSignals};

/// Maximum size of a body, in bytes.
const MAX_BODY: usize = 1024 * 1024;
/// Maximum number of jobs of one delivery that are polled sooner; the others keep their poll schedule.
const MAX_JOBS: usize = 100;
/// Rate limit of authenticated deliveries per backend: the burst, and the interval at which one more is
/// allowed.
const BURST: u32 = 100;
const REFILL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of delivery ids that are remembered per backend.
const MAX_IDS: usize = 1024;

/// The state of the hook endpoint.
#[derive(Clone)]
pub struct Hooks {
    bridge: Arc<Bridge>,
    nudge: Arc<ReconcilerSignals>,
    /// Limits the bodies that are read before a delivery is authenticated.
    body_budget: UnauthenticatedBudget,
    recent_deliveries: Arc<Mutex<HashMap<String, RecentDeliveries>>>,
}

/// The recent deliveries of one backend.
struct RecentDeliveries {
    /// Deliveries that the rate limit still allows at `counted_at`.
    budget: u32,
    counted_at: Instant,
    ids: VecDeque<String>,
    /// When the last one was accepted.
    accepted_at: Option<Instant>,
}

impl Hooks {
    /// Accepts deliveries for the backends of the bridge, and passes hints to the loops through `nudge`.
    pub fn new(bridge: Arc<Bridge>, nudge: Arc<ReconcilerSignals>) -> Self {
        Self {
            bridge,
            nudge,
            body_budget: UnauthenticatedBudget::default(),
            recent_deliveries: Arc::default(),
        }
    }

    /// Returns how long ago this process last accepted a delivery for a backend.
    pub fn since_last(&self, backend: &str) -> Option<Duration> {
        let accepted_at = self.recent_deliveries.lock().get(backend)?.accepted_at?;
        Some(accepted_at.elapsed())
    }
}

/// Returns the route `POST /hooks/{backend}`.
pub fn routes(hooks: Hooks) -> Router {
    Router::new()
        .route("/hooks/{backend}", post(receive))
        .route("/hooks/{backend}/{*rest}", post(receive))
        .with_state(hooks)
}

async fn receive(
    State(hooks): State<Hooks>,
    Path(parameters): Path<HashMap<String, String>>,
    request: Request,
) -> Response {
    let name = parameters.get("backend").cloned().unwrap_or_default();
    let backend = hooks.bridge.reads.backend(&name).filter(|backend| backend.abilities().hooks.is_some());
    // Checked first, so that no body is read for a backend without a hook.
    let Some(backend) = backend else { return StatusCode::NOT_FOUND.into_response() };
    let (head, body) = request.into_parts();
    match hooks.body_budget.read(head.extensions.get::<Peer>(), body, MAX_BODY).await {
        Ok(body) => accept(&hooks, name, &*backend, &head, &body).into_response(),
        Err(response) => *response,
    }
}

fn accept(hooks: &Hooks, name: String, backend: &dyn Backend, head: &Parts, body: &[u8]) -> StatusCode {
    let Some(hint) = read(backend, head, body) else {
        tracing::debug!(backend = name, "delivery without a valid proof rejected");
        return StatusCode::UNAUTHORIZED;
    };
    if !hooks
        .recent_deliveries
        .lock()
        .entry(name.clone())
        .or_insert_with(RecentDeliveries::new)
        .try_acquire(Instant::now())
    {
        return StatusCode::TOO_MANY_REQUESTS;
    }
    let is_duplicate = hint.id.is_some_and(|id| {
        !hooks.recent_deliveries.lock().entry(name.clone()).or_insert_with(RecentDeliveries::new).is_new(id)
    });
    if !is_duplicate {
        for handle in hint.jobs.into_iter().take(MAX_JOBS) {
            hooks.nudge.polls.put(PollRequest::LocalHint(name.clone(), handle));
        }
        for key in hint.keys.into_iter().take(MAX_JOBS) {
            hooks.nudge.polls.put(PollRequest::KeyHint(name.clone(), key));
        }
    }
    StatusCode::ACCEPTED
}

fn read(backend: &dyn Backend, head: &Parts, body: &[u8]) -> Option<HookEvent> {
    let headers: Vec<(&str, &str)> =
        head.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    // `/hooks/NAME/` and the rest. A backend's name contains no slash, not even an encoded one.
    let path = head.uri.path().splitn(4, '/').nth(3).unwrap_or_default();
    backend.abilities().hooks?.read(&Delivery { headers: &headers, body, path })
}

impl RecentDeliveries {
    fn new() -> Self {
        Self { budget: BURST, counted_at: Instant::now(), ids: VecDeque::new(), accepted_at: None }
    }

    /// Takes one permit of the rate limit, if there is one.
    fn try_acquire(&mut self, now: Instant) -> bool {
        let refill = now.saturating_duration_since(self.counted_at).as_millis() / REFILL_INTERVAL.as_millis();
        let refill = u32::try_from(refill).unwrap_or(BURST).min(BURST);
        if refill > 0 {
            self.budget = self.budget.saturating_add(refill).min(BURST);
            self.counted_at = now;
        }
        let is_allowed = self.budget > 0;
        self.budget = self.budget.saturating_sub(1);
        self.accepted_at = if is_allowed { Some(now) } else { self.accepted_at };
        is_allowed
    }

    /// Records the id. Returns false if it is among the last `MAX_IDS` ids.
    fn is_new(&mut self, id: String) -> bool {
        if self.ids.contains(&id) {
            return false;
        }
        if self.ids.len() == MAX_IDS {
            self.ids.pop_front();
        }
        self.ids.push_back(id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of requests is accepted, and after it one per `REFILL_INTERVAL`.
    #[tokio::test(start_paused = true)]
    async fn hook_rate_allows_burst_then_drip() {
        let mut deliveries = RecentDeliveries::new();
        let count_accepted = |deliveries: &mut RecentDeliveries| {
            (0..1000).filter(|_| deliveries.try_acquire(Instant::now())).count()
        };
        assert_eq!(count_accepted(&mut deliveries), BURST as usize);
        tokio::time::advance(REFILL_INTERVAL * 3).await;
        assert_eq!(count_accepted(&mut deliveries), 3);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(count_accepted(&mut deliveries), BURST as usize);
    }

    /// A repeated id is a duplicate until `MAX_IDS` newer ids push it out.
    #[tokio::test]
    async fn hook_id_is_remembered_for_duplicates() {
        let mut deliveries = RecentDeliveries::new();
        assert!(deliveries.is_new("a".to_owned()) && !deliveries.is_new("a".to_owned()));
        for n in 0..MAX_IDS {
            assert!(deliveries.is_new(n.to_string()));
        }
        assert!(deliveries.is_new("a".to_owned()), "the id is not remembered");
        assert_eq!(deliveries.ids.len(), MAX_IDS);
    }
}
