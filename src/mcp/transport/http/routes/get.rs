//! Handles GET: opens a listening stream, or resumes the stream that `Last-Event-ID` names.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;

use super::cross_replica;
use super::exchange::Exchange;
use crate::auth::Principal;
use crate::mcp::session::message_sink::Resume;
use crate::mcp::session::token::Caller;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::validation::{preconditions, rate_policy};
use crate::mcp::transport::http::{Http, Result};
use crate::mcp::transport::sse::StreamPosition;

/// Answers a GET.
pub(in crate::mcp::transport::http) async fn get(
    http: &Arc<Http>,
    principal: Principal,
    headers: &HeaderMap,
) -> Result<Response> {
    preconditions::check_accept(headers, &["text/event-stream"])?;
    preconditions::check_version(headers)?;
    let session = preconditions::session(http, &principal, headers).await?;
    let is_resumed = headers.contains_key("last-event-id");
    let position = match headers.get("last-event-id") {
        None => {
            let resume = Resume::Listen { lists: Some(http.bridge.context.offers.edition_for(&principal)) };
            StreamPosition::start(&session.nonce, resume, &*http.bridge.context.entropy)
        }
        Some(id) => id
            .to_str()
            .ok()
            .and_then(|id| StreamPosition::open(&http.bridge.context.seal, &session.nonce, id))
            .ok_or_else(|| Refusal::invalid("Last-Event-ID is not the id of an event of this session"))?,
    };
    // A stream that opens and closes at once would only make the client reconnect.
    if position.last || http.in_flight.was_cancelled(&position.stream) {
        return Err(Refusal::stream_over());
    }
    let permit = preconditions::acquire_permit(http, &principal)?;
    rate_policy::limit_stream(http, &principal).await?;
    let (n, since) = cross_replica::record_opened(http, &session, &position, is_resumed).await?;
    let caller = Caller { principal, session: Some(session) };
    match position.resume.clone() {
        Resume::Listen { lists } => {
            Ok(Exchange::listen(http, permit, caller, (position, n, since), (lists, is_resumed)))
        }
        Resume::Wait { id, .. } => Ok(Exchange::resume(http, permit, caller, (position, n), &id)),
    }
}
