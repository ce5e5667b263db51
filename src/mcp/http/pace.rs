//! How often an owner may ask: of what only looks or waits so many a second, of calls of tools so many a minute. It must not
//! know how anything is answered.

use std::sync::Arc;
use std::time::Instant;

use super::refusal::Refusal;
use super::{Http, Result};
use crate::auth::Principal;
use crate::catalog::is_somebody;
use crate::mcp::asking;
use crate::mcp::companions::Companion;
use crate::mcp::jsonrpc::Request;
use crate::mcp::whose::Whose;

/// By what a request is counted.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// It looks something up, or changes something of what is there.
    Poll,
    /// It may wait for a job, or listen, and its client comes back at once where that broke.
    Wait,
    /// It calls a tool of the config.
    Call,
    /// It is answered from what the config says, and costs little.
    Free,
}

fn kind(request: &Request) -> Kind {
    match request.method.as_str() {
        "tools/call" => match request.params["name"].as_str().and_then(Companion::named) {
            None => Kind::Call,
            Some(Companion::Wait) => Kind::Wait,
            // These only look, or act on what is there.
            Some(_) => Kind::Poll,
        },
        "tasks/result" | "subscriptions/listen" => Kind::Wait,
        "ping" | "server/discover" | "tools/list" | "prompts/list" | "resources/templates/list" => Kind::Free,
        // Completions, too: clients ask for them with every key that is pressed.
        _ => Kind::Poll,
    }
}

/// Slows down, and in the end refuses, whoever asks without pause.
pub(super) async fn hold(http: &Http, principal: &Principal, request: &Request) -> Result<()> {
    let (turns, refuse): (_, fn(u32) -> Box<Refusal>) = match kind(request) {
        Kind::Poll => (&http.polls, Refusal::too_many_polls),
        Kind::Wait => (&http.waits, Refusal::too_many_waits),
        Kind::Call | Kind::Free => return Ok(()),
    };
    let most = http.bridge.settings().max_polls_per_second;
    if turns.turn(Whose::of(principal), most, Instant::now()).comes().await {
        return Ok(());
    }
    let asking = Arc::new(asking::by(principal, request));
    asking.while_doing(|| http.bridge.audit.exceeded("max_polls_per_second"));
    Err(refuse(most).to(Some(request.id.clone())))
}

/// The same for a stream that is opened by a GET.
pub(super) async fn hold_stream(http: &Http, principal: &Principal) -> Result<()> {
    let most = http.bridge.settings().max_polls_per_second;
    match http.waits.turn(Whose::of(principal), most, Instant::now()).comes().await {
        true => Ok(()),
        false => Err(Refusal::too_many_waits(most)),
    }
}

/// Refuses, for a while, whoever calls tools faster than one owner may.
pub(super) fn count_calls(http: &Http, caller: &Principal, request: &Request) -> Result<()> {
    if kind(request) != Kind::Call || !is_somebody(caller) {
        return Ok(());
    }
    let most = http.bridge.settings().max_calls_per_minute;
    http.calls.take(Whose::of(caller), most, Instant::now()).map_err(|pause| {
        let asking = Arc::new(asking::by(caller, request));
        asking.while_doing(|| http.bridge.audit.exceeded("max_calls_per_minute"));
        Refusal::too_many_calls(most, pause).to(Some(request.id.clone()))
    })
}
