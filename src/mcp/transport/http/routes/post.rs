//! Handles POST: reads the body, and handles a single message. [`batch`] handles a batch.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::{batch, body, cross_replica};
use crate::auth::Principal;
use crate::limits::caller_key::CallerKey;
use crate::limits::in_flight_limit::InFlightPermit;
use crate::limits::memory_budget::SMALL;
use crate::mcp::dialect::v2026_07_28::RejectedRequest;
use crate::mcp::dialect::{v2025_11_25, v2026_07_28};
use crate::mcp::features::authorization;
use crate::mcp::features::request::audit_context;
use crate::mcp::session::token::Caller;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::validation::{preconditions, rate_policy};
use crate::mcp::transport::http::{Http, Result};
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{Id, Message, Outcome, Request};
use crate::mcp::wire::limits::Limits;
use crate::mcp::wire::revision::{Generation, ResponseOutcome};
use crate::offload::offload;
use crate::sessions::SessionSettings;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// Answers a POST.
pub(in crate::mcp::transport::http) async fn post(
    http: &Arc<Http>,
    principal: Principal,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response> {
    if !is_json(headers) {
        return Err(Refusal::unsupported_media_type());
    }
    preconditions::check_accept(headers, &[JSON, EVENT_STREAM])?;
    let body = body::read(http, &principal, body, http.bridge.context.settings().max_body_bytes).await?;
    if jsonrpc::batch::is_batch(&body) {
        return batch::post(http, principal, headers, body).await;
    }
    let message = read(http, &principal, body, Limits::read).await?;
    let mut message = message.map_err(Refusal::malformed)?;
    if let Message::Request(request) = &mut message {
        continue_trace(&mut request.params, headers);
    }
    let to_request = |refusal: Box<Refusal>| refusal.for_request(id_of(&message).cloned());
    if preconditions::generation(headers, &message) == Generation::Stateless {
        return handle_stateless(http, principal, headers, message).await;
    }
    preconditions::check_version(headers).map_err(to_request)?;
    if let Message::Request(request) = &message
        && request.method == "initialize"
    {
        return Ok(initialize(http, &principal, request));
    }
    let session = preconditions::session(http, &principal, headers).await.map_err(to_request)?;
    let caller = Caller { principal, session: Some(session) };
    match message {
        Message::Request(request) => {
            let permit = admit(http, &caller, &request).await?;
            Ok(Exchange::handle(http, permit, caller, request).await)
        }
        message => {
            handle_one_way(http, &caller, message).await?;
            Ok(StatusCode::ACCEPTED.into_response())
        }
    }
}

/// Parses a body. A large body is parsed on another thread. It reserves memory budget until it is parsed.
pub(in crate::mcp::transport::http) async fn read<T: Send + 'static>(
    http: &Http,
    principal: &Principal,
    body: Bytes,
    parse: impl FnOnce(&Limits, &[u8]) -> T + Send + 'static,
) -> Result<T> {
    let settings = http.bridge.context.settings();
    if body.len() <= SMALL {
        return Ok(parse(&settings.limits, &body));
    }
    let reservation =
        http.memory_budget.take(CallerKey::of(principal), body.len(), settings.limits.max_bytes_in_hand);
    let reservation = reservation.ok_or_else(Refusal::memory_exhausted)?;
    let parse_body = move || {
        let result = parse(&settings.limits, &body);
        drop(reservation);
        result
    };
    Ok(offload(false, parse_body).await)
}

/// Handles a message that needs no JSON-RPC response.
pub(in crate::mcp::transport::http) async fn handle_one_way(
    http: &Http,
    caller: &Caller,
    message: Message,
) -> Result<()> {
    let _permit = preconditions::admit_one_way(http, &caller.principal).await?;
    match message {
        Message::Notification { method, params } => handle_notification(http, caller, &method, &params).await,
        Message::Response { id, outcome } => handle_response(http, caller, id, outcome).await,
        Message::Request(_) => Ok(()),
    }
}

/// Copies the trace context from the HTTP headers into `_meta`, unless the message has one. Libraries that
/// trace a client's requests set these headers.
pub(in crate::mcp::transport::http) fn continue_trace(params: &mut Value, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(parent) = text("traceparent") else { return };
    let Some(params) = params.as_object_mut() else { return };
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    let Some(meta) = meta.as_object_mut().filter(|meta| !meta.contains_key("traceparent")) else { return };
    meta.insert("traceparent".to_owned(), parent.into());
    if let Some(state) = text("tracestate") {
        meta.insert("tracestate".to_owned(), state.into());
    }
}

/// Handles a message of the stateless generation, which contains everything that the server needs.
async fn handle_stateless(
    http: &Arc<Http>,
    principal: Principal,
    headers: &HeaderMap,
    message: Message,
) -> Result<Response> {
    let request = match message {
        Message::Request(request) => request,
        // A client cancels a request by closing its stream, and this generation has no other notification.
        Message::Notification { .. } => return Ok(StatusCode::ACCEPTED.into_response()),
        Message::Response { .. } => return Err(Refusal::invalid("no request with this id was sent to you")),
    };
    let get_header = |name: &str| preconditions::header_value(headers, name);
    let caller = match v2026_07_28::admit(&http.bridge, principal, &request, Some(&get_header)) {
        Ok(caller) => caller,
        Err(RejectedRequest { error, status }) => return Ok(json(status, &request.id, &Err(error))),
    };
    let permit = preconditions::acquire_permit(http, &caller.principal)
        .map_err(|refusal| refusal.for_request(Some(request.id.clone())))?;
    rate_policy::limit_request(http, &caller.principal, &request).await?;
    check_scopes(http, &caller.principal, &request)?;
    rate_policy::limit_calls(http, &caller.principal, &request)?;
    Ok(Exchange::handle_stateless(http, permit, caller, request).await)
}

/// Returns the id of a request. The other kinds of message get no response.
fn id_of(message: &Message) -> Option<&Id> {
    match message {
        Message::Request(request) => Some(&request.id),
        Message::Notification { .. } | Message::Response { .. } => None,
    }
}

fn initialize(http: &Http, principal: &Principal, request: &Request) -> Response {
    match v2025_11_25::initialize(&http.bridge, principal, &request.params) {
        Ok((session, result)) => {
            let mut response = json(200, &request.id, &Ok(result));
            let token = session.token(&http.bridge.context.seal);
            let token = HeaderValue::try_from(token).expect("a sealed token is visible ASCII");
            response.headers_mut().insert(&preconditions::SESSION_ID, token);
            response
        }
        Err(error) => json(200, &request.id, &Err(error)),
    }
}

/// Admits a request of a session, within the limits of its owner, if no scope is missing. The returned
/// [`InFlightPermit`] counts the request until it is dropped.
pub(in crate::mcp::transport::http) async fn admit(
    http: &Http,
    caller: &Caller,
    request: &Request,
) -> Result<InFlightPermit> {
    let permit = preconditions::acquire_permit(http, &caller.principal)
        .map_err(|refusal| refusal.for_request(Some(request.id.clone())))?;
    rate_policy::limit_request(http, &caller.principal, request).await?;
    check_scopes(http, &caller.principal, request)?;
    rate_policy::limit_calls(http, &caller.principal, request)?;
    limit_stored_sessions(http, caller, request).await?;
    Ok(permit)
}

/// Methods that store settings of a session at the client's request.
const SETTINGS_METHODS: [&str; 3] = ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Refuses a caller who lacks only scopes, and names the scopes to request.
fn check_scopes(http: &Http, caller: &Principal, request: &Request) -> Result<()> {
    match authorization::missing_scopes(&http.bridge.context, caller, request) {
        None => Ok(()),
        Some(scopes) => {
            let request_context = Arc::new(audit_context::for_request(caller, request));
            let tool = request.params["name"].as_str();
            request_context
                .sync_scope(|| http.bridge.context.audit.call_denied(tool, "the access token lacks scopes"));
            let refusal = Refusal::insufficient_scope(&http.access_control.rules().auth, &scopes);
            Err(refusal.for_request(Some(request.id.clone())))
        }
    }
}

/// Applies the daily limit of sessions that begin to store settings. The store keeps the settings until the
/// session expires.
async fn limit_stored_sessions(http: &Http, caller: &Caller, request: &Request) -> Result<()> {
    let Some(session) =
        caller.session.as_ref().filter(|_| SETTINGS_METHODS.contains(&request.method.as_str()))
    else {
        return Ok(());
    };
    let bridge = &http.bridge;
    let settings = bridge.sessions.store.settings(&session.nonce).await;
    let settings = settings.map_err(|error| Refusal::store(error).for_request(Some(request.id.clone())))?;
    if settings != Some(SessionSettings::default()) {
        // The session has settings already, or it has ended. If it has ended, the handler reports that.
        return Ok(());
    }
    let limit = bridge.context.settings().limits.max_kept_sessions_per_day;
    http.stored_session_rate.take(CallerKey::of(&caller.principal), limit, Instant::now()).map(drop).map_err(
        |pause| {
            let request_context = Arc::new(audit_context::for_request(&caller.principal, request));
            request_context.sync_scope(|| bridge.context.audit.limit_exceeded("max_kept_sessions_per_day"));
            Refusal::too_many_stored_sessions(limit, pause).for_request(Some(request.id.clone()))
        },
    )
}

async fn handle_notification(http: &Http, caller: &Caller, method: &str, params: &Value) -> Result<()> {
    if method != "notifications/cancelled" {
        return v2025_11_25::handle_notification(&http.bridge, caller, method, params)
            .await
            .map_err(Refusal::store);
    }
    if let (Some(session), Ok(id)) = (&caller.session, Id::deserialize(&params["requestId"])) {
        tracing::debug!(?id, reason = params["reason"].as_str(), "a request was cancelled");
        http.in_flight.cancel(&session.nonce, &id);
        cross_replica::record_cancelled(http, session, &id).await;
    }
    Ok(())
}

async fn handle_response(http: &Http, caller: &Caller, id: Option<Id>, outcome: Outcome) -> Result<()> {
    let Some(id) = id else {
        let code = outcome.err().map(|error| error.code);
        tracing::debug!(code, "the client could not read a message");
        return Ok(());
    };
    match v2025_11_25::handle_response(&http.bridge, caller, id, outcome).await {
        ResponseOutcome::Accepted | ResponseOutcome::Late => Ok(()),
        ResponseOutcome::Rejected(reason) => {
            Err(Refusal::invalid(format!("the answer was not taken: {reason}")))
        }
        ResponseOutcome::Unknown => Err(Refusal::invalid("no request with this id was sent to you")),
        // A 202 would mean that the response was accepted, and the client would not send it again.
        ResponseOutcome::NotStored => Err(Refusal::store_unavailable()),
    }
}

/// Renders one JSON-RPC response as a complete HTTP response.
fn json(status: u16, id: &Id, outcome: &Outcome) -> Response {
    complete_response(status, jsonrpc::response(id, outcome).into())
}

/// Wraps the text of a JSON-RPC response in a complete HTTP response.
pub(in crate::mcp::transport::http) fn complete_response(status: u16, text: Bytes) -> Response {
    let json = HeaderValue::from_static(JSON);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    (status, [(header::CONTENT_TYPE, json)], text).into_response()
}

/// As [`complete_response`], for text in pieces. Other responses may share some of the pieces.
pub(in crate::mcp::transport::http) fn response_in_pieces(status: u16, pieces: Vec<Bytes>) -> Response {
    let length = pieces.iter().map(Bytes::len).sum::<usize>();
    let pieces = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, Infallible>));
    let mut response = complete_response(status, Bytes::new());
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    *response.body_mut() = Body::from_stream(pieces);
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON))
}
