//! Rate limits per owner, by the method of a request: polls, and separately waits, per second
//! (`max_polls_per_second` each), and tool calls per minute (`max_calls_per_minute`). It must not know how a
//! request is answered.

use std::sync::Arc;
use std::time::Instant;

use crate::auth::Principal;
use crate::catalog::is_authenticated;
use crate::limits::caller_key::CallerKey;
use crate::mcp::features::companions::Companion;
use crate::mcp::features::request::audit_context;
use crate::mcp::transport::http::error_response::Refusal;
use crate::mcp::transport::http::{Http, Result};
use crate::mcp::wire::jsonrpc::Request;

/// The rate limit that applies to a request.
#[derive(Debug, PartialEq, Eq)]
enum RateClass {
    /// Reads state, or changes existing state. Also every unknown method.
    Poll,
    /// May wait for a job, or listens. Its client retries at once after a broken connection.
    Wait,
    /// Calls a tool that is not a companion tool.
    Call,
    /// Is answered from the config at low cost.
    Free,
}

fn rate_class(request: &Request) -> RateClass {
    match request.method.as_str() {
        "tools/call" => match request.params["name"].as_str().and_then(Companion::named) {
            None => RateClass::Call,
            Some(Companion::Wait) => RateClass::Wait,
            // These only read existing tasks, or act on them.
            Some(_) => RateClass::Poll,
        },
        "tasks/result" | "subscriptions/listen" => RateClass::Wait,
        "ping" | "server/discover" | "tools/list" | "prompts/list" | "resources/templates/list" => {
            RateClass::Free
        }
        // Includes completions: clients request one for each key press.
        _ => RateClass::Poll,
    }
}

/// Delays polls and waits above the rate limit, and refuses those that would wait too long.
pub(in crate::mcp::transport::http) async fn limit_request(
    http: &Http,
    principal: &Principal,
    request: &Request,
) -> Result<()> {
    let (rate_limit, refuse): (_, fn(u32) -> Box<Refusal>) = match rate_class(request) {
        RateClass::Poll => (&http.access_control.usage.polls, Refusal::too_many_polls),
        RateClass::Wait => (&http.wait_rate, Refusal::too_many_waits),
        RateClass::Call | RateClass::Free => return Ok(()),
    };
    let limit = http.bridge.context.settings().max_polls_per_second;
    if rate_limit.wait(CallerKey::of(principal), limit).await {
        return Ok(());
    }
    let request_context = Arc::new(audit_context::for_request(principal, request));
    request_context.sync_scope(|| http.bridge.context.audit.limit_exceeded("max_polls_per_second"));
    Err(refuse(limit).for_request(Some(request.id.clone())))
}

/// As [`limit_request`], for a stream that a GET opens.
pub(in crate::mcp::transport::http) async fn limit_stream(http: &Http, principal: &Principal) -> Result<()> {
    let limit = http.bridge.context.settings().max_polls_per_second;
    match http.wait_rate.wait(CallerKey::of(principal), limit).await {
        true => Ok(()),
        false => Err(Refusal::too_many_waits(limit)),
    }
}

/// Refuses tool calls above the rate limit of an owner who is identified by credentials. Other callers have
/// no such limit.
pub(in crate::mcp::transport::http) fn limit_calls(
    http: &Http,
    caller: &Principal,
    request: &Request,
) -> Result<()> {
    if rate_class(request) != RateClass::Call || !is_authenticated(caller) {
        return Ok(());
    }
    let limit = http.bridge.context.settings().max_calls_per_minute;
    http.access_control.usage.calls.take(CallerKey::of(caller), limit, Instant::now()).map(drop).map_err(
        |pause| {
            let request_context = Arc::new(audit_context::for_request(caller, request));
            request_context.sync_scope(|| http.bridge.context.audit.limit_exceeded("max_calls_per_minute"));
            Refusal::too_many_calls(limit, pause).for_request(Some(request.id.clone()))
        },
    )
}
