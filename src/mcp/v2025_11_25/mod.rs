//! The generation that begins with `initialize`: 2025-11-25, and its predecessors 2025-06-18 and 2025-03-26, which
//! are the same without tasks. It must not know a transport or another generation.

mod completion;
mod from_wire;
mod lifecycle;
mod listen;
mod logging;
mod prompts;
mod questions;
mod resources;
mod tasks;
mod to_wire;
mod tools;
mod wait;
mod wire;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tracing::Instrument as _;

use self::tools::PlainWait;
use super::Bridge;
use super::asking;
use super::companions::Companion;
use super::generation::{Replied, Revision};
use super::jsonrpc::{self, INVALID_REQUEST, Id, METHOD_NOT_FOUND, Outcome, Payload, Request};
use super::offers::Edition;
use super::outlet::{Outlet, Resume};
use super::permit::Acting;
use super::session::{Abilities, Caller, Session};
use super::spans;
use crate::auth::Principal;
use crate::tasks::service::Waiting;
use crate::tasks::store::{Setting, StoreError};
use crate::tasks::task::{Owner, Task};

/// Where the config leaves it open, every session of this generation is offered the companion tools: a client that
/// could hold tasks need not do so for every call.
const OFFERS_COMPANIONS: bool = true;

/// Answers `initialize`: the session that begins, and the `InitializeResult`.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub fn initialize(
    bridge: &Bridge,
    principal: &Principal,
    params: &Value,
) -> Result<(Session, Value), jsonrpc::Error> {
    let counted = bridge.metrics.request("initialize");
    let begun = lifecycle::initialize(bridge, principal, params);
    if let Ok((session, _)) = &begun {
        bridge.initializing.begin(session);
        bridge.metrics.session_began();
    }
    counted.answered(begun.is_ok());
    begun
}

/// Answers any other request. Dropped when the client goes away or cancels the request.
pub async fn handle(
    bridge: &Bridge,
    caller: &Caller,
    request: Request,
    outlet: &dyn Outlet,
) -> Outcome<Payload> {
    let (span, asking) = (spans::of(&request.method, &request.params), asking::in_session(caller, &request));
    let counted = bridge.metrics.request(&request.method);
    let outcome = asking.within(answer(bridge, caller, request, outlet).instrument(span)).await;
    let outcome = bridge.answers(&asking).await.and(outcome);
    counted.answered(outcome.is_ok());
    outcome
}

async fn answer(bridge: &Bridge, caller: &Caller, request: Request, outlet: &dyn Outlet) -> Outcome<Payload> {
    let Request { id, method, params } = request;
    let call = match &caller.session {
        Some(session) => Call { bridge, caller, session },
        None if method == "ping" => return Ok(Payload::Value(Value::Object(serde_json::Map::new()))),
        None => {
            let message = format!("{method} came before `initialize`: a session begins with it");
            return Err(jsonrpc::Error::new(INVALID_REQUEST, message));
        }
    };
    let outcome = match method.as_str() {
        "ping" => Ok(Value::Object(serde_json::Map::new())),
        "tools/list" => return tools::list(&call, &params).map(Payload::Shared),
        "tools/call" => tools::call(&call, id, params, outlet).await,
        "tasks/get" if call.has_tasks() => tasks::get(&call, &params).await,
        "tasks/result" if call.has_tasks() => tasks::result(&call, id, &params, outlet).await,
        "tasks/list" if call.has_tasks() => tasks::list(&call, &params).await,
        "tasks/cancel" if call.has_tasks() => tasks::cancel(&call, &params).await,
        "logging/setLevel" => logging::set_level(&call, &params).await,
        "resources/list" => resources::list(&call, &params).await,
        "resources/templates/list" => resources::templates(&call, &params),
        "prompts/list" => prompts::list(&call, &params),
        "prompts/get" => prompts::get(&call, &params).await,
        "completion/complete" => completion::complete(&call, &params).await,
        "resources/subscribe" => resources::subscribe(&call, &params).await,
        "resources/unsubscribe" => resources::unsubscribe(&call, &params).await,
        "resources/read" => resources::read(&call, &params).await,
        "initialize" => Err(jsonrpc::Error::new(INVALID_REQUEST, "this session has begun already")),
        _ => Err(jsonrpc::Error::new(
            METHOD_NOT_FOUND,
            format!("there is no method {method:?} in a session of {}", call.revision().as_str()),
        )),
    };
    outcome.map(Payload::Value)
}

/// Handles a notification; the transport handles `notifications/cancelled` itself. Two matter: that a client is ready, and
/// the status of a client's own tasks. Changed roots do not: they are read when a job asks for them.
///
/// # Errors
/// If it could not be kept. The same notification can be sent again.
pub async fn notified(
    bridge: &Bridge,
    caller: &Caller,
    method: &str,
    params: &Value,
) -> Result<(), StoreError> {
    tracing::trace!(method, "notified");
    match (method, &caller.session) {
        ("notifications/initialized", Some(session)) => lifecycle::initialized(bridge, session).await,
        ("notifications/tasks/status", Some(session)) => {
            asking::of(caller, method).within(questions::told(bridge, caller, session, params)).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Takes a response to a request of ours.
pub async fn replied(bridge: &Bridge, caller: &Caller, id: Id, outcome: Outcome) -> Replied {
    asking::of(caller, "response").within(questions::replied(bridge, caller, &id, outcome)).await
}

/// Sends what is meant for the caller's session until it is dropped; it never returns before. `n` is the number under
/// which other processes know the stream, or 0, and `since` when it was opened; `lists` is the edition of that moment, or,
/// where a stream is taken up again (which is said beside it), the one that the client knows by it.
pub async fn listen(
    bridge: &Bridge,
    caller: &Caller,
    (n, since): (u64, Timestamp),
    lists: (Option<Edition>, bool),
    outlet: &dyn Outlet,
) {
    if let Some(session) = &caller.session {
        listen::listen(&Call { bridge, caller, session }, (n, since), lists, outlet).await;
    }
    std::future::pending().await
}

/// Takes up a request again whose stream broke: the id and the answer of that request, or `None` if there is
/// nothing to take up.
pub async fn resume(
    bridge: &Bridge,
    caller: &Caller,
    resume: Resume,
    outlet: &dyn Outlet,
) -> Option<(Id, Outcome)> {
    let session = caller.session.as_ref()?;
    let call = Call { bridge, caller, session };
    match resume {
        Resume::Listen { lists } => {
            listen::listen(&call, (0, bridge.clock.now()), (lists, true), outlet).await;
            None
        }
        Resume::Wait { id, task, until: None, .. } => {
            let asking = asking::of(caller, "tasks/result");
            let outcome = asking.within(tasks::wait_and_give(&call, &task, outlet)).await;
            Some((id, bridge.answers(&asking).await.and(outcome)))
        }
        Resume::Wait { id, task, began, until: Some(until), progress_token } => {
            let began = began.map_or_else(|| bridge.clock.now(), Timestamp::from_millis);
            let until = Timestamp::from_millis(until);
            // What was told before the stream broke is not known here, and not told again.
            let hears_since = bridge.clock.now();
            let wait = PlainWait {
                id: task,
                began,
                until,
                resumed: true,
                progress_token,
                preface: None,
                hears_since,
            };
            let asking = asking::of(caller, "tools/call");
            let outcome = asking.within(wait.run(&call, None, outlet)).await;
            Some((id, bridge.answers(&asking).await.and(outcome)))
        }
    }
}

/// A request within a session.
struct Call<'a> {
    bridge: &'a Bridge,
    caller: &'a Caller,
    session: &'a Session,
}

impl Call<'_> {
    fn owner(&self) -> &Owner {
        &self.caller.principal.owner
    }

    fn revision(&self) -> Revision {
        self.session.revision
    }

    fn has_tasks(&self) -> bool {
        self.revision().has_tasks()
    }

    fn has_structured_content(&self) -> bool {
        self.revision() >= Revision::V2025_06_18
    }

    /// What this client can do.
    fn client(&self) -> Abilities {
        self.session.client
    }

    /// Who asks for tasks.
    fn actor(&self) -> Acting<'_> {
        Acting::new(self.bridge, &self.caller.principal)
    }

    /// What the client can be asked of this task.
    fn client_for(&self, task: &Task) -> Abilities {
        self.actor().answers(task, self.client())
    }

    fn is_offered(&self, companion: Companion) -> bool {
        companion.is_offered(self.bridge, &self.caller.principal, OFFERS_COMPANIONS)
    }

    /// Keeps what this session sets. False if there is no room for it.
    async fn set(&self, setting: Setting) -> Result<bool, jsonrpc::Error> {
        let Session { nonce, expires, .. } = self.session;
        let kept = self.bridge.store.set(nonce, setting, *expires).await;
        let kept = kept.map_err(|error| self.fault(&error))?.is_some();
        // A session that was ended while its request was on the way has nothing to set any more.
        if !kept && self.bridge.store.has_ended(nonce).await.map_err(|error| self.fault(&error))? {
            return Err(jsonrpc::Error::new(INVALID_REQUEST, "this session has ended"));
        }
        if kept {
            self.bridge.service.session_changed(nonce);
        }
        Ok(kept)
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
