//! The console: pages in the browser over the same operations and access rules as the protocol, in process.
//! [`routes`] builds its endpoint. [`session`] signs people in and derives the caller of each request
//! again, [`pages`] renders what a caller may see, [`acts`] handles forms, and [`live`] sends changed
//! pages. It has no JSON API of its own, and must show nothing that an operation of the protocol would not.
//!
//! Text of engines and callers is escaped by `maud`, without exception. A GET changes nothing.

mod acts;
mod assets;
mod html;
mod live;
mod pages;
mod request;
mod respond;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use self::pages::Route;
use self::request::{Head, Visitor};
use self::respond::Refusal;
use self::session::one_time::OneTimeAddress;
use crate::audit::RequestContext;
use crate::limits::rate::RateLimit;
use crate::mcp::Bridge;
use crate::mcp::transport::http::{AccessControl, UnauthenticatedBudget};
use crate::tasks::reconciler::Engines;
use crate::tasks::store::Store;

/// Path of the console. All of its addresses begin with it.
const BASE: &str = "/console";

/// Window in which failed and successful sign-ins of one address are counted.
const SIGN_IN_WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of open pages that are rendered at the same time.
const MAX_UPDATES: usize = 8;

/// The settings of the console.
#[derive(Clone, Debug)]
pub struct Settings {
    /// True if browsers reach it over TLS, so that cookies are sent over TLS only.
    pub is_secure: bool,
    /// The address of its own, if it has one.
    pub listen: Option<SocketAddr>,
    /// The origin at which browsers reach it, if it differs from the listen address.
    pub url: Option<String>,
    /// How long a session lasts without a request.
    pub idle: Duration,
    /// How long a session lasts at most.
    pub lifetime: Duration,
}

/// Returns how long ago this process last accepted a hook for the backend of this name.
pub type SinceLastHook = Box<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

/// What the console is built from.
pub struct Parts {
    /// The operations, and the reads of logs and artifacts.
    pub bridge: Arc<Bridge>,
    /// The access rules in force.
    pub access_control: Arc<AccessControl>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The connected backends.
    pub engines: Engines,
    /// How long ago this process last accepted a hook for a backend.
    pub since_last_hook: SinceLastHook,
    /// The settings.
    pub settings: Settings,
    /// Cancelled when the server stops.
    pub shutdown: CancellationToken,
    /// Prints one line for the operator at the terminal.
    pub print: Box<dyn Fn(&str) + Send + Sync>,
}

/// The state of all requests.
struct Console {
    parts: Parts,
    one_time: OneTimeAddress,
    sign_in_rate: RateLimit,
    /// Bodies of people who have not signed in.
    body_budget: UnauthenticatedBudget,
    /// Limits how many open pages are rendered at the same time: one write can change all of them.
    updates: Semaphore,
    /// Changes when a session of this process ends, so that open pages check theirs.
    session_ends: watch::Sender<u64>,
}

type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Builds the routes at `/console`, and a redirect from `/`. If the server has a single user, prints the
/// address for signing in: with the origin of the settings, or the address that the server listens on.
pub fn routes(parts: Parts, listens_on: Option<SocketAddr>) -> Router {
    let scheme = if parts.settings.is_secure { "https" } else { "http" };
    let own_origin = || listens_on.map(|address| format!("{scheme}://{address}")).unwrap_or_default();
    let origin = parts.settings.url.clone().unwrap_or_else(own_origin);
    let is_known =
        parts.settings.url.is_some() || listens_on.is_some_and(|address| address.ip().is_loopback());
    if is_known {
        let url = format!("{}{BASE}", origin.trim_end_matches('/'));
        parts.bridge.context.offers.set_console_url(url);
    }
    let one_time = OneTimeAddress::new(&*parts.bridge.context.entropy, origin);
    let console = Console {
        one_time,
        sign_in_rate: RateLimit::within(SIGN_IN_WINDOW),
        body_budget: UnauthenticatedBudget::default(),
        updates: Semaphore::new(MAX_UPDATES),
        session_ends: watch::Sender::new(0),
        parts,
    };
    console.print_address();
    let console = Arc::new(console);
    Router::new()
        .route("/", get(|| async { respond::redirect(BASE) }))
        .route(BASE, any(answer))
        .route("/console/", any(answer))
        .route("/console/{*path}", any(answer))
        .with_state(console)
}

async fn answer(State(console): State<Arc<Console>>, request: Request) -> Response {
    let response = match dispatch(&console, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    respond::with_security_headers(response)
}

async fn dispatch(console: &Arc<Console>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let head = Head::of(parts);
    let rules = console.parts.access_control.rules();
    if !head.hosts().all(|host| rules.origin_policy.allows_host(host)) {
        return Err(Refusal::plain(StatusCode::FORBIDDEN, "this server does not answer to this host name"));
    }
    let is_post = match head.method {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => return Err(Refusal::plain(StatusCode::METHOD_NOT_ALLOWED, "the console takes GET and POST")),
    };
    if let Some(name) = head.path.strip_prefix("/console/assets/") {
        return assets::serve(name).ok_or_else(Refusal::not_found);
    }
    if is_post {
        session::same_origin::check(&head)?;
    }
    if head.path == "/console/login" {
        return match is_post {
            true => session::sign_in::post(console, &head, body).await,
            false => Ok(session::sign_in::page(console, &head.query, None)),
        };
    }
    if !is_post && let Some(step) = session::issuer::Step::parse(&head) {
        return session::issuer::serve(console, &head, step).await;
    }
    let Some((visitor, renewed)) = session::visitor(console, &head).await? else {
        return session::sign_in::redirect(&head, is_post);
    };
    let context = Arc::new(RequestContext::of_console(&visitor.principal, &head.audit_method()));
    let served = context.scope(serve(console, &head, &visitor, body, is_post)).await;
    if console.parts.bridge.context.wait_for_audit(&context).await.is_err() {
        return Err(Refusal::plain(StatusCode::SERVICE_UNAVAILABLE, "the audit log is unavailable"));
    }
    let response = served.unwrap_or_else(|refusal| refusal.page(&visitor));
    Ok(match renewed {
        // The response of a sign-out removes the cookie: it must not be set again.
        Some(cookie) if !response.headers().contains_key("set-cookie") => {
            respond::set_cookie(response, cookie)
        }
        _ => response,
    })
}

/// Serves a request of a person who is signed in.
async fn serve(
    console: &Arc<Console>,
    head: &Head,
    visitor: &Visitor,
    body: axum::body::Body,
    is_post: bool,
) -> Result<Response> {
    console.limit_request(visitor).await?;
    if is_post {
        let form = request::read_form(console, visitor, head, body).await?;
        return acts::act(console, head, visitor, &form).await;
    }
    if let Some(response) = pages::download(console, visitor, head).await? {
        return Ok(response);
    }
    let route = Route::parse(head).ok_or_else(Refusal::not_found)?;
    if head.query.get("live").is_some() {
        return live::stream(console, head, visitor, route);
    }
    let page = pages::render(console, visitor, &route, head, pages::Occasion::Visit).await?;
    Ok(respond::html(StatusCode::OK, &html::layout::page(console, visitor, &page, head)))
}

impl Console {
    /// Delays or refuses requests beyond the owner's limit of polls, which the protocol shares.
    async fn limit_request(&self, visitor: &Visitor) -> Result<()> {
        let limit = self.parts.bridge.context.settings().max_polls_per_second;
        let polls = &self.parts.access_control.usage.polls;
        if polls.wait(visitor.caller_key(), limit).await {
            return Ok(());
        }
        self.parts.bridge.context.audit.limit_exceeded("max_polls_per_second");
        Err(Refusal::plain(StatusCode::TOO_MANY_REQUESTS, "too many requests in a second: try again"))
    }

    /// Prints the address at which the single user signs in, if the server has one.
    fn print_address(&self) {
        if self.parts.access_control.rules().auth.sign_in_methods().printed_address {
            let address = self.one_time.address();
            (self.parts.print)(&format!("console at {address} (it signs in one browser)\n"));
        }
    }
}
