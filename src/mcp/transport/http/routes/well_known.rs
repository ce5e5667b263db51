//! Metadata of the protected resource (RFC 9728): lists the issuers whose tokens this server accepts. The
//! metadata is public, also for web pages of any origin: a client that looks for a token has no credentials
//! yet.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};

use crate::auth::oauth::WELL_KNOWN;
use crate::mcp::transport::http::AccessControl;

const METHODS: &str = "GET, HEAD, OPTIONS";

/// Routes for `/.well-known/oauth-protected-resource` and every path below it. Paths that do not belong to
/// the configured resource get 404.
pub(in crate::mcp::transport::http) fn routes(access_control: Arc<AccessControl>) -> Router {
    let wildcard_path = format!("{WELL_KNOWN}/{{*path}}");
    Router::new()
        .route(WELL_KNOWN, any(metadata))
        .route(&wildcard_path, any(metadata))
        .with_state(access_control)
}

async fn metadata(State(access_control): State<Arc<AccessControl>>, method: Method, uri: Uri) -> Response {
    let rules = access_control.rules();
    let suffix = uri.path().strip_prefix(WELL_KNOWN).unwrap_or_default();
    let is_known = rules.auth.resource().is_some_and(|resource| resource.is_metadata_path(suffix));
    let cors_headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        // Clients send the protocol version header here too.
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "MCP-Protocol-Version"),
        (header::CACHE_CONTROL, "max-age=60"),
    ];
    match (method, rules.auth.metadata().filter(|_| is_known)) {
        (_, None) => StatusCode::NOT_FOUND.into_response(),
        (Method::GET | Method::HEAD, Some(metadata)) => (cors_headers, Json(metadata)).into_response(),
        (Method::OPTIONS, Some(_)) => (StatusCode::NO_CONTENT, cors_headers).into_response(),
        _ => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, METHODS)]).into_response(),
    }
}
