//! Checks before a request is handled: `Origin` and `Host` for every request, and `Accept`, the version
//! header, the session and the number of open requests where an HTTP method needs them. Also the CORS headers
//! for browsers. It must not read the parameters of a message.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::origin::OriginPolicy;
use crate::auth::Principal;
use crate::limits::caller_key::CallerKey;
use crate::limits::in_flight_limit::InFlightPermit;
use crate::mcp::session::token::Session;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::{Http, METHODS, Result};
use crate::mcp::wire::jsonrpc::{Message, Request};
use crate::mcp::wire::revision;
use crate::mcp::wire::revision::{Generation, Revision};

pub(in crate::mcp::transport::http) static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Name prefix of headers that repeat a tool's parameters.
const PARAMETER_PREFIX: &str = "mcp-param-";
const REQUEST_HEADERS: &str = "Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name";
const RESPONSE_HEADERS: &str = "Mcp-Session-Id, WWW-Authenticate, Retry-After";

/// Refuses web pages of origins that are not allowed. A client that is no browser sends no `Origin`.
pub(in crate::mcp::transport::http) fn check_origin(
    origin_policy: &OriginPolicy,
    head: &Parts,
) -> Result<()> {
    match head.headers.get(header::ORIGIN) {
        Some(origin) if !is_allowed_origin(origin_policy, origin) => Err(Refusal::forbidden(format!(
            "pages of {:?} may not use this server; its config can allow them (allowed_origins)",
            String::from_utf8_lossy(origin.as_bytes())
        ))),
        _ => Ok(()),
    }
}

/// Returns true if web pages of this origin are allowed.
pub(in crate::mcp::transport::http) fn is_allowed_origin(
    origin_policy: &OriginPolicy,
    origin: &HeaderValue,
) -> bool {
    origin.to_str().is_ok_and(|origin| origin_policy.allows_origin(origin))
}

/// Refuses requests whose `Host` is not a name of this server.
pub(in crate::mcp::transport::http) fn check_host(origin_policy: &OriginPolicy, head: &Parts) -> Result<()> {
    let target_host = head.uri.authority().map(|authority| authority.as_str());
    let header_host = head.headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    for host in [target_host, Some(header_host.unwrap_or_default())].into_iter().flatten() {
        if !origin_policy.allows_host(host) {
            return Err(Refusal::forbidden(format!(
                "this server does not answer to the Host {host:?}; call it localhost or 127.0.0.1, or name it in \
                 its config (allowed_hosts)"
            )));
        }
    }
    Ok(())
}

/// Answers a CORS preflight request.
pub(in crate::mcp::transport::http) fn preflight(head: &Parts) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    if head.headers.contains_key(header::ORIGIN) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(&head.headers));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    }
    response
}

/// Returns the headers that a web page may send: those of the protocol, and those that repeat a tool's
/// parameters. The tool determines the names of the latter.
fn allowed_headers(headers: &HeaderMap) -> HeaderValue {
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let is_parameter = |name: &&str| name.to_ascii_lowercase().starts_with(PARAMETER_PREFIX);
    let parameters = requested.unwrap_or_default().split(',').map(str::trim).filter(is_parameter);
    let allowed = std::iter::once(REQUEST_HEADERS).chain(parameters).collect::<Vec<_>>().join(", ");
    HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static(REQUEST_HEADERS))
}

/// Allows web pages of this origin to read the response.
pub(in crate::mcp::transport::http) fn allow_origin(origin: HeaderValue, response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Returns the generation of a message.
pub(in crate::mcp::transport::http) fn generation(headers: &HeaderMap, message: &Message) -> Generation {
    let version = headers.get(&PROTOCOL_VERSION).map(|version| String::from_utf8_lossy(version.as_bytes()));
    let in_session = headers.contains_key(&SESSION_ID);
    match message {
        Message::Request(Request { method, params, .. }) | Message::Notification { method, params } => {
            Generation::of(method, params, version.as_deref(), in_session)
        }
        // Only sessions send requests to the client.
        Message::Response { .. } => Generation::Sessions,
    }
}

/// Returns the value of a header. Repeated values are joined with a comma, so that they equal no valid single
/// value.
pub(in crate::mcp::transport::http) fn header_value(headers: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    (!values.is_empty()).then(|| values.join(&b','))
}

/// Refuses an unsupported version. A supported version that differs from the session's passes: the session
/// decides.
pub(in crate::mcp::transport::http) fn check_version(headers: &HeaderMap) -> Result<()> {
    let Some(version) = headers.get(&PROTOCOL_VERSION) else { return Ok(()) };
    let text = String::from_utf8_lossy(version.as_bytes());
    match Revision::parse(&text) {
        Some(_) => Ok(()),
        // A client that asks for the newest revision may send it before it knows the supported revisions.
        None if text == revision::MODERN && !headers.contains_key(&SESSION_ID) => Ok(()),
        None => Err(Refusal::invalid(format!(
            "MCP-Protocol-Version {text:?} is not supported; this server speaks {}",
            revision::SUPPORTED.join(", ")
        ))),
    }
}

/// Refuses a client that does not accept the media types of the response. A missing `Accept` header accepts
/// anything.
pub(in crate::mcp::transport::http) fn check_accept(headers: &HeaderMap, media_types: &[&str]) -> Result<()> {
    if !headers.contains_key(header::ACCEPT) {
        return Ok(());
    }
    let missing: Vec<&str> = media_types.iter().copied().filter(|kind| !accepts(headers, kind)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::not_acceptable(&format!("the Accept header must list {}", missing.join(" and "))))
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .any(|range| match range.split_once('/') {
            Some(("*", "*")) => true,
            Some((main, "*")) => {
                kind.split_once('/').is_some_and(|(main_type, _)| main_type.eq_ignore_ascii_case(main))
            }
            _ => range.eq_ignore_ascii_case(kind),
        })
}

/// Counts one more open stream or pending request of this caller.
pub(in crate::mcp::transport::http) fn acquire_permit(
    http: &Http,
    principal: &Principal,
) -> Result<InFlightPermit> {
    let limit = http.bridge.context.settings().limits.max_streams_per_owner;
    http.access_control.usage.in_flight.take(principal, limit).ok_or_else(|| Refusal::too_many_streams(limit))
}

/// Applies the limits of notifications, responses and DELETE: each may write to the store, so a fast sender
/// is delayed and then refused. They are counted apart from streams and requests. A client at the limit of
/// the latter can therefore still cancel or answer a request.
pub(in crate::mcp::transport::http) async fn admit_one_way(
    http: &Http,
    principal: &Principal,
) -> Result<InFlightPermit> {
    let settings = http.bridge.context.settings();
    let limit = settings.limits.max_streams_per_owner;
    let permit =
        http.incoming_limit.take(principal, limit).ok_or_else(|| Refusal::too_many_streams(limit))?;
    let limit = settings.max_polls_per_second;
    match http.one_way_rate.wait(CallerKey::of(principal), limit).await {
        true => Ok(permit),
        false => Err(Refusal::too_many_messages(limit)),
    }
}

/// Returns the session of a request. It must belong to the caller, and must not have expired or ended.
pub(in crate::mcp::transport::http) async fn session(
    http: &Http,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Session> {
    let Some(token) = headers.get(&SESSION_ID) else {
        return Err(Refusal::invalid(
            "the header Mcp-Session-Id is missing: begin with initialize and send the id of its answer",
        ));
    };
    let bridge = &http.bridge;
    let session = token
        .to_str()
        .ok()
        .and_then(|token| http.session_cache.open(&bridge.context.seal, token, bridge.context.clock.now()))
        // A caller must not learn whether another caller's session exists.
        .filter(|session| session.owner == principal.owner)
        .ok_or_else(|| {
            Refusal::no_session("there is no such session, or it has expired: begin with initialize")
        })?;
    if bridge.sessions.store.has_ended(&session.nonce).await.map_err(Refusal::store)? {
        return Err(Refusal::no_session("this session was ended: begin with initialize"));
    }
    Ok(session)
}
