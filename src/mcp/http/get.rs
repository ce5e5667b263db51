//! Handles GET: opens a listening stream, or resumes the stream that `Last-Event-ID` names.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;

use super::exchange::Exchange;
use super::refusal::Refusal;
use super::{Http, Result, cross_replica, preconditions, rate_policy};
use crate::auth::Principal;
use crate::mcp::message_sink::Resume;
use crate::mcp::session::Caller;
use crate::mcp::sse::StreamPosition;

/// Answers a GET.
pub(super) async fn get(http: &Arc<Http>, principal: Principal, headers: &HeaderMap) -> Result<Response> {
    preconditions::check_accept(headers, &["text/event-stream"])?;
    preconditions::check_version(headers)?;
    let session = preconditions::session(http, &principal, headers).await?;
    let taken_up = headers.contains_key("last-event-id");
    let place = match headers.get("last-event-id") {
        None => {
            let resume = Resume::Listen { lists: Some(http.bridge.offers.edition_for(&principal)) };
            StreamPosition::start(&session.nonce, resume, &*http.bridge.entropy)
        }
        Some(id) => id
            .to_str()
            .ok()
            .and_then(|id| StreamPosition::open(&http.bridge.seal, &session.nonce, id))
            .ok_or_else(|| Refusal::invalid("Last-Event-ID is not the id of an event of this session"))?,
    };
    // A stream that opens and closes at once would only make the client reconnect.
    if place.last || http.live.was_cancelled(&place.stream) {
        return Err(Refusal::stream_over());
    }
    let share = preconditions::share(http, &principal)?;
    rate_policy::hold_stream(http, &principal).await?;
    let (n, since) = cross_replica::opened(http, &session, &place, taken_up).await?;
    let caller = Caller { principal, session: Some(session) };
    match place.resume.clone() {
        Resume::Listen { lists } => {
            Ok(Exchange::listen(http, share, caller, (place, n, since), (lists, taken_up)))
        }
        Resume::Wait { id, .. } => Ok(Exchange::resume(http, share, caller, (place, n), &id)),
    }
}
