//! Streamable HTTP transport: one endpoint for POST, GET, DELETE and OPTIONS. `connections` accepts and
//! limits connections, `validation` contains the checks before a request is handled, and `routes` handles
//! the HTTP methods. The transport must not know the protocol's methods, except the few that concern it.
//! `initialize` creates a session, `notifications/cancelled` ends a request. `validation::rate_policy`
//! applies rate limits by method, and `routes::post` limits the methods that store settings and checks the
//! scopes of a tool call.

mod connections;
mod error_response;
mod routes;
pub mod validation;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub(crate) use self::connections::detached_stream::make_detachable;
pub use self::connections::forwarded::Proxies;
pub use self::connections::limits::{ConnectionLimits, PerAddress};
pub use self::connections::listener::serve;
pub use self::connections::tls::{ClientCertificates, Tls, TlsError};
use self::error_response::Refusal;
pub use self::routes::unauthenticated_body::UnauthenticatedBudget;
pub use self::validation::access_control::{AccessControl, AccessRules};
use crate::auth::{Peer, Principal, RequestCredentials};
use crate::limits::caller_key::CallerKey;
use crate::limits::in_flight_limit::InFlightLimit;
use crate::limits::memory_budget::MemoryBudget;
use crate::limits::rate::RateLimit;
use crate::mcp::Bridge;
use crate::mcp::session::in_flight::InFlight;
use crate::mcp::session::token::{Session, SessionCache};

/// How long the rate limit may delay a poll, a notification, a response or a DELETE.
const MAX_DELAY: Duration = Duration::from_secs(4);
/// How long the rate limit may delay streams and requests that may wait. The default limit of streams per
/// owner fits into it, so all clients of an owner can reconnect at once after a server restart.
const MAX_WAIT_DELAY: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

const METHODS: &str = "POST, GET, DELETE, OPTIONS";

/// Peer of a request that arrived without a socket.
static UNKNOWN_PEER: Peer = Peer { address: None, certificate: None };

/// Shared state of all requests.
struct Http {
    bridge: Arc<Bridge>,
    access_control: Arc<AccessControl>,
    session_cache: SessionCache,
    in_flight: InFlight,
    /// Rate limit of streams and of requests that wait for jobs.
    wait_rate: RateLimit,
    /// Rate limit of notifications, responses and DELETE.
    one_way_rate: RateLimit,
    /// Rate limit of ended sessions.
    session_end_rate: RateLimit,
    /// Rate limit of sessions that begin to store settings.
    stored_session_rate: RateLimit,
    /// Request bodies that are incomplete, and notifications, responses and DELETEs in progress, per owner.
    incoming_limit: InFlightLimit,
    memory_budget: MemoryBudget,
    shutdown: CancellationToken,
}

type Result<T, E = Box<Refusal>> = std::result::Result<T, E>;

/// Builds the endpoint at `/mcp` and `/mcp/`, and the metadata for clients that look for a token. When
/// `shutdown` is cancelled, the streams that a client can resume end at once. The others end with their
/// answer. The returned future applies changes made by other replicas while it is polled.
pub fn router(
    bridge: Arc<Bridge>,
    access_control: Arc<AccessControl>,
    shutdown: CancellationToken,
) -> (Router, BoxFuture<'static, Infallible>) {
    bridge.context.service.set_stop_token(shutdown.clone());
    let (session_cache, in_flight) = (SessionCache::default(), InFlight::default());
    let wait_rate = RateLimit::per_second(MAX_WAIT_DELAY);
    let one_way_rate = RateLimit::per_second(MAX_DELAY);
    let (session_end_rate, stored_session_rate) = (RateLimit::within(DAY), RateLimit::within(DAY));
    let open_sessions = in_flight.clone();
    bridge.metrics.set_session_counter(move || open_sessions.sessions());
    let (incoming_limit, memory_budget) = (InFlightLimit::default(), MemoryBudget::default());
    let http = Arc::new(Http {
        bridge,
        access_control,
        session_cache,
        in_flight,
        wait_rate,
        one_way_rate,
        session_end_rate,
        stored_session_rate,
        incoming_limit,
        memory_budget,
        shutdown,
    });
    let remote_changes = routes::cross_replica::follow_remote_changes(Arc::clone(&http)).boxed();
    let metadata = routes::well_known::routes(Arc::clone(&http.access_control));
    // Some clients append a slash to the configured address.
    let router = Router::new().route("/mcp", any(endpoint)).route("/mcp/", any(endpoint));
    (router.with_state(http).merge(metadata), remote_changes)
}

async fn endpoint(State(http): State<Arc<Http>>, request: Request) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let rules = http.access_control.rules();
    let method = request.method().clone();
    let mut response = match answer(&http, &rules, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    http.bridge.metrics.record_response(method.as_str(), response.status().as_u16());
    if let Some(origin) =
        origin.filter(|origin| validation::preconditions::is_allowed_origin(&rules.origin_policy, origin))
    {
        validation::preconditions::allow_origin(origin, &mut response);
    }
    response
}

async fn answer(http: &Arc<Http>, rules: &AccessRules, request: Request) -> Result<Response> {
    let (head, body) = request.into_parts();
    validation::preconditions::check_origin(&rules.origin_policy, &head)?;
    validation::preconditions::check_host(&rules.origin_policy, &head)?;
    if head.method == Method::OPTIONS {
        return Ok(validation::preconditions::preflight(&head));
    }
    let authorization =
        validation::preconditions::header_value(&head.headers, header::AUTHORIZATION.as_str());
    let peer = head.extensions.get::<Peer>().unwrap_or(&UNKNOWN_PEER);
    let presented = RequestCredentials { authorization: authorization.as_deref(), peer };
    let principal = rules.authenticate(&presented).await;
    let principal = principal.map_err(|error| {
        let address = peer.address.map(|address| address.ip());
        http.bridge.context.audit.auth_failed(address, &error.to_string());
        Refusal::unauthorized(&rules.auth, &error)
    })?;
    match head.method {
        Method::POST => routes::post::post(http, principal, &head.headers, body).await,
        Method::GET => routes::get::get(http, principal, &head.headers).await,
        Method::DELETE => {
            validation::preconditions::check_version(&head.headers)?;
            let _permit = validation::preconditions::admit_one_way(http, &principal).await?;
            let session = validation::preconditions::session(http, &principal, &head.headers).await?;
            end_session(http, &principal, &session).await
        }
        _ => Err(Refusal::method_not_allowed()),
    }
}

/// Ends a session on all replicas, and closes its streams and requests in this process at once. Its tasks go
/// on.
async fn end_session(http: &Http, principal: &Principal, session: &Session) -> Result<Response> {
    let limit = http.bridge.context.settings().limits.max_ended_sessions_per_day;
    let result = http.session_end_rate.take(CallerKey::of(principal), limit, Instant::now());
    result.map_err(|pause| Refusal::too_many_ended_sessions(limit, pause))?;
    http.bridge.sessions.store.end(&session.nonce, session.expires).await.map_err(Refusal::store)?;
    http.in_flight.end(&session.nonce);
    Ok(StatusCode::NO_CONTENT.into_response())
}
