//! The generation without sessions: 2026-07-28, with the tasks extension. Every request says for itself which revision
//! it is written in and what its client can do; nothing is remembered from one request to the next. It must not know a
//! transport or another generation.

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

pub use headers::Headers;

use std::sync::Arc;

use super::Bridge;
use super::asking;
use super::companions::Companion;
use super::generation;
use super::jsonrpc::{self, METHOD_NOT_FOUND, Outcome, Payload, Request};
use super::outlet::Outlet;
use super::permit::{Acting, Callable, Permit};
use super::session::Abilities;
use super::spans;
use taskbridge_sdk::Level;
use tracing::Instrument as _;

use crate::auth::Principal;
use crate::tasks::service::Waiting;
use crate::tasks::task::{Owner, Task};

/// Who sends a request, and what the request says of its client.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Who it is.
    pub principal: Principal,
    /// What the client can be asked for.
    client: Abilities,
    /// True if the client holds tasks by the extension.
    tasks: bool,
    /// The least level of what it wants to be told while the request is answered; nothing without one.
    log_level: Option<Level>,
}

/// Why a request is not taken: what it is answered with, and the HTTP status of that.
#[derive(Debug)]
pub struct Refused {
    /// The answer.
    pub error: jsonrpc::Error,
    /// Its HTTP status.
    pub status: u16,
}

/// Reads what every request says of itself, and holds the headers that it came with against its body. Over a transport
/// without headers there is nothing to hold.
///
/// # Errors
/// See [`Refused`].
pub fn admit(
    bridge: &Bridge,
    principal: Principal,
    request: &Request,
    headers: Option<Headers<'_>>,
) -> Result<Asker, Refused> {
    // Without these a request cannot be told from any other: whatever else is wrong with it is found later.
    let about = from_wire::about(&request.params).map_err(|error| Refused { error, status: 400 })?;
    let refused = |error: jsonrpc::Error| Refused { status: errors::status(&error), error };
    if let Some(headers) = headers {
        headers::check(request, &about.version, headers).map_err(refused)?;
    }
    if about.version != generation::MODERN {
        return Err(refused(errors::unsupported_version(&about.version)));
    }
    if let (Some(headers), "tools/call") = (headers, request.method.as_str())
        && let Some(name) = request.params["name"].as_str()
        && let Callable::Yes(tool) = Permit::of(&principal).callable(&bridge.catalog(), name)
    {
        let arguments = &request.params["arguments"];
        headers::check_parameters(&tool.mirrored, arguments, headers).map_err(refused)?;
    }
    Ok(Asker { principal, client: about.client, tasks: about.tasks, log_level: about.log_level })
}

/// Answers a request. Dropped when the client goes away or cancels the request.
pub async fn handle(
    bridge: &Bridge,
    asker: &Asker,
    request: Request,
    outlet: &dyn Outlet,
) -> Outcome<Payload> {
    let span = spans::of(&request.method, &request.params);
    let (call, asking) = (Call { bridge, asker }, Arc::new(asking::by(&asker.principal, &request)));
    let counted = bridge.metrics.request(&request.method);
    let outcome = asking.within(answer(&call, request, outlet).instrument(span)).await;
    let outcome = bridge.answers(&asking).await.and(outcome);
    counted.answered(outcome.is_ok());
    outcome
}

async fn answer(call: &Call<'_>, request: Request, outlet: &dyn Outlet) -> Outcome<Payload> {
    let Request { id, method, params } = request;
    let outcome = match method.as_str() {
        "server/discover" => Ok(lifecycle::discover(call)),
        "tools/list" => return tools::list(call, &params).map(Payload::Shared),
        "tools/call" => Box::pin(tools::call(call, params, outlet)).await,
        "tasks/get" => Box::pin(tasks::get(call, &params, outlet)).await,
        "tasks/update" => Box::pin(tasks::update(call, &params)).await,
        "tasks/cancel" => Box::pin(tasks::cancel(call, &params)).await,
        // The others are in boxes of their own so that this one, which may be open thousands of times, need not be as
        // large as they are.
        "subscriptions/listen" => listen::listen(call, &id, params, outlet).await,
        "resources/list" => Box::pin(resources::list(call, &params)).await,
        "resources/templates/list" => resources::templates(call, &params),
        "resources/read" => Box::pin(resources::read(call, &params)).await,
        "prompts/list" => prompts::list(call, &params),
        "prompts/get" => Box::pin(prompts::get(call, &params)).await,
        "completion/complete" => Box::pin(completion::complete(call, &params)).await,
        _ => Err(jsonrpc::Error::new(
            METHOD_NOT_FOUND,
            format!("there is no method {method:?} in {}", generation::MODERN),
        )),
    };
    outcome.map(Payload::Value)
}

/// The HTTP status of an error that answers a request.
pub fn status(error: &jsonrpc::Error) -> u16 {
    errors::status(error)
}

/// A request.
struct Call<'a> {
    bridge: &'a Bridge,
    asker: &'a Asker,
}

impl Call<'_> {
    fn owner(&self) -> &Owner {
        &self.asker.principal.owner
    }

    /// What the client can be asked for.
    fn client(&self) -> Abilities {
        self.asker.client
    }

    /// Who asks for tasks.
    fn actor(&self) -> Acting<'_> {
        Acting::new(self.bridge, &self.asker.principal)
    }

    /// What the client can be asked of this task.
    fn client_for(&self, task: &Task) -> Abilities {
        self.actor().answers(task, self.client())
    }

    /// True if the client holds tasks by the extension.
    fn has_tasks(&self) -> bool {
        self.asker.tasks
    }

    /// Where the config leaves it open, the tools that stand in for the protocol's own are offered to those who cannot
    /// hold tasks.
    fn offers_companions(&self) -> bool {
        !self.has_tasks()
    }

    /// Who may be given a list that says the same to everybody who may know of all that is on it.
    fn scope(&self) -> wire::CacheScope {
        if self.bridge.catalog().is_open() { wire::CacheScope::Public } else { wire::CacheScope::Private }
    }

    fn is_offered(&self, companion: Companion) -> bool {
        companion.is_offered(self.bridge, &self.asker.principal, self.offers_companions())
    }

    /// What the client is told of a fault of ours: where the operator finds it, and nothing else.
    fn fault(&self, error: &(dyn std::error::Error + 'static)) -> jsonrpc::Error {
        self.bridge.fault(error)
    }

    /// Notes that a plain call was given its answer. If that cannot be noted, an equal call may get the answer too.
    async fn note_answered(&self, waiting: Waiting) {
        if let Err(error) = waiting.answered().await {
            tracing::warn!(%error, "it could not be noted that a call was answered");
        }
    }

    /// Notes that a plain call is told to ask again. If that cannot be noted now, it is in a moment.
    async fn note_handed_on(&self, waiting: Waiting) {
        if let Err(error) = waiting.handed_on().await {
            tracing::warn!(%error, "it could not be noted that a call is to be made again");
        }
    }

    /// Notes that the owner has the result of a call of theirs that went away, if it did. Somebody else who may look at it
    /// takes nothing from them: they call again, and find it.
    async fn note_delivered(&self, task: &Task) {
        if task.undelivered.is_some() && task.owner == *self.owner() {
            self.note_answered(self.bridge.service.waiting(task, false)).await;
        }
    }
}
