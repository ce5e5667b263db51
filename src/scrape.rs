//! `/metrics`, at an address of its own: all that is counted, for Prometheus. It names every tool and backend, so that it is no
//! page for callers; and none for web pages, which must not reach it through a browser on this machine.

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
use crate::mcp::origin::Doors;
use crate::metrics::{CONTENT_TYPE, Scraper};

/// What the page is made of.
struct Open {
    scraper: Scraper,
    doors: Doors,
    token: Option<[u8; 32]>,
}

/// `/metrics`, for who may read it where the server is `bound` to this address.
pub fn routes(scraper: Scraper, bound: IpAddr, page: &Page) -> Router {
    let doors = Doors::new(bound, [], []).expect("there is no origin that could be none");
    let open = Open { scraper, doors, token: page.token };
    Router::new().route("/metrics", get(read)).with_state(Arc::new(open))
}

async fn read(State(open): State<Arc<Open>>, headers: HeaderMap) -> Response {
    let text =
        |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default());
    // Prometheus sends neither. A browser says with the first whose page asks, and with the second that one does.
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
