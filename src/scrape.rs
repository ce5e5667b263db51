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

use crate::config::Page;
use crate::mcp::origin::OriginPolicy;
use crate::metrics::{CONTENT_TYPE, Scraper};

/// The state of the metrics endpoint.
struct Open {
    scraper: Scraper,
    doors: OriginPolicy,
    token: Option<[u8; 32]>,
}

/// Returns the route `/metrics`, for a server whose listener is `bound` to this address.
pub fn routes(scraper: Scraper, bound: IpAddr, page: &Page) -> Router {
    let doors = OriginPolicy::new(bound, [], []).expect("there is no origin that could be none");
    let open = Open { scraper, doors, token: page.token };
    Router::new().route("/metrics", get(read)).with_state(Arc::new(open))
}

async fn read(State(open): State<Arc<Open>>, headers: HeaderMap) -> Response {
    let text =
        |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default());
    // Prometheus sends neither header. A browser sends the first with the page's origin, and the second with
    // its relation to this site.
    let is_of_a_page = headers.contains_key(header::ORIGIN)
        || text("sec-fetch-site").is_some_and(|site| !matches!(site, "none" | "same-origin"));
    if is_of_a_page || !open.doors.answers_to(text("host").unwrap_or_default()) {
        return (StatusCode::FORBIDDEN, "not for web pages, and only by this machine's own names\n")
            .into_response();
    }
    if let Some(token) = &open.token {
        let shown = text("authorization").and_then(|shown| shown.strip_prefix("Bearer ")).unwrap_or_default();
        let shown: [u8; 32] = Sha256::digest(shown.trim()).into();
        if !bool::from(shown.ct_eq(token)) {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            return (StatusCode::UNAUTHORIZED, challenge, "show the token of [metrics]\n").into_response();
        }
    }
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    (headers, open.scraper.text().await).into_response()
}
