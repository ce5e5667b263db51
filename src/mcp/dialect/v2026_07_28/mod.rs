//! Handlers and wire types of the generation without sessions: 2026-07-28, with the tasks extension. Every
//! request names its revision and the capabilities of its client; nothing is remembered between requests.
//! This module must not depend on a transport or on another generation.

mod errors;
mod from_wire;
mod headers;
mod lifecycle;
mod listen;
mod prompt_input;
mod questions;
mod rounds;
mod stateless_call;
mod tasks;
mod to_wire;
mod wire;

pub use self::headers::Headers;

use std::sync::Arc;

use crate::mcp::Bridge;
use crate::mcp::features;
use crate::mcp::features::authorization::{CallAuthorization, Permit};
use crate::mcp::features::request::audit_context;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{METHOD_NOT_FOUND, Outcome, Payload, Request};
use crate::mcp::wire::revision;
use taskbridge_sdk::Level;

use crate::auth::Principal;

/// The caller of a request, and what the request declares about its client.
#[derive(Clone, Debug)]
pub struct StatelessCaller {
    /// The caller.
    pub principal: Principal,
    /// Capabilities of the client.
    client: ClientCapabilities,
    /// True if the client supports the tasks extension.
    tasks: bool,
    /// Minimum level of the log messages to send while the request is answered; `None` sends none.
    log_level: Option<Level>,
}

/// Why a request is refused: the error, and its HTTP status.
#[derive(Debug)]
pub struct RejectedRequest {
    /// The JSON-RPC error to answer with.
    pub error: jsonrpc::Error,
    /// Its HTTP status.
    pub status: u16,
}

/// Reads the metadata that every request has, and checks the request's headers against its body and the
/// revision. `headers` is `None` for a transport without headers.
///
/// # Errors
/// See [`RejectedRequest`].
pub fn admit(
    bridge: &Bridge,
    principal: Principal,
    request: &Request,
    headers: Option<Headers<'_>>,
) -> Result<StatelessCaller, RejectedRequest> {
    // Without this metadata nothing else can be checked, so the HTTP status is always 400.
    let meta =
        from_wire::request_meta(&request.params).map_err(|error| RejectedRequest { error, status: 400 })?;
    let reject = |error: jsonrpc::Error| RejectedRequest { status: errors::status(&error), error };
    if let Some(headers) = headers {
        headers::check(request, &meta.version, headers).map_err(reject)?;
    }
    if meta.version != revision::MODERN {
        return Err(reject(errors::unsupported_version(&meta.version)));
    }
    if let (Some(headers), "tools/call") = (headers, request.method.as_str())
        && let Some(name) = request.params["name"].as_str()
        && let CallAuthorization::Allowed(tool) =
            Permit::of(&principal).authorize_call(&bridge.context.catalog(), name)
    {
        let arguments = &request.params["arguments"];
        headers::check_parameters(&tool.mirrored, arguments, headers).map_err(reject)?;
    }
    Ok(StatelessCaller { principal, client: meta.client, tasks: meta.tasks, log_level: meta.log_level })
}

/// Handles a request. The caller drops this future when the client disconnects or cancels the request.
pub async fn handle(
    bridge: &Bridge,
    caller: &StatelessCaller,
    request: Request,
    sink: &dyn MessageSink,
) -> Outcome<Payload> {
    let context = Arc::new(audit_context::for_request(&caller.principal, &request));
    let call = StatelessCall { bridge, caller };
    features::observe((&bridge.context, &bridge.metrics), context, request, |request| {
        answer(&call, request, sink)
    })
    .await
}

async fn answer(call: &StatelessCall<'_>, request: Request, sink: &dyn MessageSink) -> Outcome<Payload> {
    let Request { id, method, params } = request;
    let outcome = match method.as_str() {
        "server/discover" => Ok(lifecycle::discover(call)),
        "tasks/get" => Box::pin(tasks::get(call, &params, sink)).await,
        "tasks/update" => Box::pin(tasks::update(call, &params)).await,
        "tasks/cancel" => Box::pin(tasks::cancel(call, &params)).await,
        // The other futures are boxed. This one may be open thousands of times, and need not be as large as
        // they are.
        "subscriptions/listen" => listen::listen(call, &id, params, sink).await,
        _ => {
            let outcome = Box::pin(features::serve(call, (&id, &method), params, sink)).await;
            return outcome.unwrap_or_else(|| {
                let message = format!("there is no method {method:?} in {}", revision::MODERN);
                Err(jsonrpc::Error::new(METHOD_NOT_FOUND, message))
            });
        }
    };
    outcome.map(Payload::Value)
}

/// Returns the HTTP status of an error that answers a request.
pub fn status(error: &jsonrpc::Error) -> u16 {
    errors::status(error)
}

/// A request.
struct StatelessCall<'a> {
    bridge: &'a Bridge,
    caller: &'a StatelessCaller,
}
