//! Handlers and wire types of the generation without sessions: 2026-07-28, with the tasks extension. Every
//! request names its revision and the capabilities of its client; nothing is remembered between requests.
//! This module must not depend on a transport or on another generation.

mod completion;
mod errors;
mod from_wire;
mod headers;
mod lifecycle;
mod listen;
mod logging;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod tasks;
mod to_wire;
mod tools;
mod wait;
mod wire;

pub use self::headers::Headers;

use std::sync::Arc;

use crate::mcp::Bridge;
use crate::mcp::features::audit_context;
use crate::mcp::features::authorization::{CallAuthorization, CallerContext, Permit};
use crate::mcp::features::companions::Companion;
use crate::mcp::features::spans;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{METHOD_NOT_FOUND, Outcome, Payload, Request};
use crate::mcp::wire::revision;
use taskbridge_sdk::Level;
use tracing::Instrument as _;

use crate::auth::Principal;
use crate::tasks::service::CallGuard;
use crate::tasks::task::{Owner, Task};

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
            Permit::of(&principal).authorize_call(&bridge.catalog(), name)
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
    let span = spans::request_span(&request.method, &request.params);
    let (call, request_context) =
        (StatelessCall { bridge, caller }, Arc::new(audit_context::for_request(&caller.principal, &request)));
    let metric = bridge.metrics.request(&request.method);
    let outcome = request_context.scope(answer(&call, request, sink).instrument(span)).await;
    let outcome = bridge.wait_for_audit(&request_context).await.and(outcome);
    metric.finish(outcome.is_ok());
    outcome
}

async fn answer(call: &StatelessCall<'_>, request: Request, sink: &dyn MessageSink) -> Outcome<Payload> {
    let Request { id, method, params } = request;
    let outcome = match method.as_str() {
        "server/discover" => Ok(lifecycle::discover(call)),
        "tools/list" => return tools::list(call, &params).map(Payload::Shared),
        "tools/call" => Box::pin(tools::call(call, params, sink)).await,
        "tasks/get" => Box::pin(tasks::get(call, &params, sink)).await,
        "tasks/update" => Box::pin(tasks::update(call, &params)).await,
        "tasks/cancel" => Box::pin(tasks::cancel(call, &params)).await,
        // The other futures are boxed. This one may be open thousands of times, and need not be as large as
        // they are.
        "subscriptions/listen" => listen::listen(call, &id, params, sink).await,
        "resources/list" => Box::pin(resources::list(call, &params)).await,
        "resources/templates/list" => resources::templates(call, &params),
        "resources/read" => Box::pin(resources::read(call, &params)).await,
        "prompts/list" => prompts::list(call, &params),
        "prompts/get" => Box::pin(prompts::get(call, &params)).await,
        "completion/complete" => Box::pin(completion::complete(call, &params)).await,
        _ => Err(jsonrpc::Error::new(
            METHOD_NOT_FOUND,
            format!("there is no method {method:?} in {}", revision::MODERN),
        )),
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

impl StatelessCall<'_> {
    fn owner(&self) -> &Owner {
        &self.caller.principal.owner
    }

    /// Returns the capabilities of the client.
    fn client(&self) -> ClientCapabilities {
        self.caller.client
    }

    /// Returns the caller as the actor of task operations.
    fn actor(&self) -> CallerContext<'_> {
        CallerContext::new(self.bridge, &self.caller.principal)
    }

    /// Returns the client's capabilities for this task: barred if the caller may not answer its questions.
    fn client_for(&self, task: &Task) -> ClientCapabilities {
        self.actor().answers(task, self.client())
    }

    /// Returns true if the client supports the tasks extension.
    fn has_tasks(&self) -> bool {
        self.caller.tasks
    }

    /// Returns whether `companion_tools = "auto"` offers `task_wait`, `task_cancel` and `task_answer`: to
    /// clients without task support.
    fn offers_companions(&self) -> bool {
        !self.has_tasks()
    }

    /// Returns the cache scope of a list that only differs between callers by the access rules.
    fn scope(&self) -> wire::CacheScope {
        if self.bridge.catalog().is_open() { wire::CacheScope::Public } else { wire::CacheScope::Private }
    }

    fn is_offered(&self, companion: Companion) -> bool {
        companion.is_offered(self.bridge, &self.caller.principal, self.offers_companions())
    }

    /// Logs an internal error. The error for the client only contains a reference to the log entry.
    fn fault(&self, error: &(dyn std::error::Error + 'static)) -> jsonrpc::Error {
        self.bridge.fault(error)
    }

    /// Records that a plain call got its answer. If that fails, an equal call may get the answer too.
    async fn note_answered(&self, guard: CallGuard) {
        if let Err(error) = guard.mark_delivered().await {
            tracing::warn!(%error, "it could not be noted that a call was answered");
        }
    }

    /// Records that the client of a plain call was asked to retry. If that fails now, the reconciler repeats
    /// it.
    async fn note_retry(&self, guard: CallGuard) {
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "it could not be noted that a call is to be made again");
        }
    }

    /// Records that the owner has the result of an earlier call of theirs that ended unanswered, if there was
    /// one. Another caller who may see the task does not count: the owner repeats the call, and gets the
    /// result.
    async fn note_delivered(&self, task: &Task) {
        if task.undelivered.is_some() && task.owner == *self.owner() {
            self.note_answered(self.bridge.service.guard_call(task, false)).await;
        }
    }
}
