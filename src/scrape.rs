//! `/metrics`, on its own address: all metrics for Prometheus. It names every tool and backend, so it is not
//! for callers. It is not for web pages either, which must not reach it through a browser on this machine.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::config::MetricsPage;
use crate::mcp::transport::http::validation::origin::OriginPolicy;
use crate::metrics::{CONTENT_TYPE, Scraper};

/// The state of the metrics endpoint.
struct MetricsState {
    scraper: Scraper,
    origin_policy: OriginPolicy,
    token: Option<[u8; 32]>,
}

/// Returns the route `/metrics`, for a server that listens on this address.
pub fn routes(scraper: Scraper, listen_ip: IpAddr, page: &MetricsPage) -> Router {
    let origin_policy = OriginPolicy::new(listen_ip, [], []).expect("an empty list of origins is valid");
    let state = MetricsState { scraper, origin_policy, token: page.token };
    Router::new().route("/metrics", get(read)).with_state(Arc::new(state))
}

async fn read(State(state): State<Arc<MetricsState>>, headers: HeaderMap) -> Response {
    let text =
        |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default());
    // Prometheus sends neither header. A browser sends the first with the page's origin, and the second with
    // its relation to this site.
    let is_from_web_page = headers.contains_key(header::ORIGIN)
        || text("sec-fetch-site").is_some_and(|site| !matches!(site, "none" | "same-origin"));
    if is_from_web_page || !state.origin_policy.allows_host(text("host").unwrap_or_default()) {
        return (StatusCode::FORBIDDEN, "refused: web pages and foreign host names may not read metrics\n")
            .into_response();
    }
    if let Some(token) = &state.token {
        let presented =
            text("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let digest: [u8; 32] = Sha256::digest(presented.trim()).into();
        if !bool::from(digest.ct_eq(token)) {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            return (StatusCode::UNAUTHORIZED, challenge, "send the token of [metrics] as a bearer token\n")
                .into_response();
        }
    }
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    (headers, state.scraper.text().await).into_response()
}
