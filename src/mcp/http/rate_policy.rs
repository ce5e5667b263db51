//! Rate limits per owner, by the method of a request: polls, and separately waits, per second
//! (`max_polls_per_second` each), and tool calls per minute (`max_calls_per_minute`). It must not know how a
//! request is answered.

use std::sync::Arc;
use std::time::Instant;

use super::refusal::Refusal;
use super::{Http, Result};
use crate::auth::Principal;
use crate::catalog::is_somebody;
use crate::mcp::audit_context;
use crate::mcp::caller_key::CallerKey;
use crate::mcp::companions::Companion;
use crate::mcp::jsonrpc::Request;

/// The rate limit that applies to a request.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Reads state, or changes existing state. Also every unknown method.
    Poll,
    /// May wait for a job, or listens. Its client retries at once after a broken connection.
    Wait,
    /// Calls a tool that is not a companion tool.
    Call,
    /// Is answered from the config at low cost.
    Free,
}

fn kind(request: &Request) -> Kind {
    match request.method.as_str() {
        "tools/call" => match request.params["name"].as_str().and_then(Companion::named) {
            None => Kind::Call,
            Some(Companion::Wait) => Kind::Wait,
            // These only read existing tasks, or act on them.
            Some(_) => Kind::Poll,
        },
        "tasks/result" | "subscriptions/listen" => Kind::Wait,
        "ping" | "server/discover" | "tools/list" | "prompts/list" | "resources/templates/list" => Kind::Free,
        // Includes completions: clients request one for each key press.
        _ => Kind::Poll,
    }
}

/// Delays polls and waits above the rate limit, and refuses those that would wait too long.
pub(super) async fn hold(http: &Http, principal: &Principal, request: &Request) -> Result<()> {
    let (turns, refuse): (_, fn(u32) -> Box<Refusal>) = match kind(request) {
        Kind::Poll => (&http.polls, Refusal::too_many_polls),
        Kind::Wait => (&http.waits, Refusal::too_many_waits),
        Kind::Call | Kind::Free => return Ok(()),
    };
    let most = http.bridge.settings().max_polls_per_second;
    if turns.check_rate(CallerKey::of(principal), most, Instant::now()).comes().await {
        return Ok(());
    }
    let asking = Arc::new(audit_context::by(principal, request));
    asking.while_doing(|| http.bridge.audit.exceeded("max_polls_per_second"));
    Err(refuse(most).to(Some(request.id.clone())))
}

/// As [`hold`], for a stream that a GET opens.
pub(super) async fn hold_stream(http: &Http, principal: &Principal) -> Result<()> {
    let most = http.bridge.settings().max_polls_per_second;
    match http.waits.check_rate(CallerKey::of(principal), most, Instant::now()).comes().await {
        true => Ok(()),
        false => Err(Refusal::too_many_waits(most)),
    }
}

/// Refuses tool calls above the rate limit of an owner who is identified by credentials. Other callers have
/// no such limit.
pub(super) fn count_calls(http: &Http, caller: &Principal, request: &Request) -> Result<()> {
    if kind(request) != Kind::Call || !is_somebody(caller) {
        return Ok(());
    }
    let most = http.bridge.settings().max_calls_per_minute;
    http.calls.take(CallerKey::of(caller), most, Instant::now()).map_err(|pause| {
        let asking = Arc::new(audit_context::by(caller, request));
        asking.while_doing(|| http.bridge.audit.exceeded("max_calls_per_minute"));
        Refusal::too_many_calls(most, pause).to(Some(request.id.clone()))
    })
}
