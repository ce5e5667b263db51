//! Handlers and wire types of the generation that begins with `initialize`: 2025-11-25, and its predecessors
//! 2025-06-18 and 2025-03-26. The predecessors have the same wire shape, without tasks. This module must not
//! depend on a transport or on another generation.

mod from_wire;
mod lifecycle;
mod listen;
mod logging;
mod questions;
mod session_call;
mod subscriptions;
mod tasks;
mod to_wire;
mod wire;

use serde_json::Value;
use taskbridge_sdk::Timestamp;

use crate::auth::Principal;
use crate::mcp::Bridge;
use crate::mcp::features;
use crate::mcp::features::request::audit_context;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::features::tools::plain_wait::PlainWait;
use crate::mcp::session::edition::Edition;
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::session::token::{Caller, Session};
use crate::mcp::wire::jsonrpc;
use crate::mcp::wire::jsonrpc::{INVALID_REQUEST, Id, METHOD_NOT_FOUND, Outcome, Payload, Request};
use crate::mcp::wire::revision::ResponseOutcome;
use crate::sessions::SessionChange;
use crate::tasks::store::StoreError;

/// `companion_tools = "auto"` offers `task_wait`, `task_cancel` and `task_answer` to every session, because a
/// client with task support need not use a task for every call.
const OFFERS_COMPANIONS: bool = true;

/// Handles `initialize`. Returns the new session and the `InitializeResult`.
///
/// # Errors
/// Returns the JSON-RPC error to answer with.
pub fn initialize(
    bridge: &Bridge,
    principal: &Principal,
    params: &Value,
) -> Result<(Session, Value), jsonrpc::Error> {
    let metric = bridge.metrics.request("initialize");
    let result = lifecycle::initialize(bridge, principal, params);
    if let Ok((session, _)) = &result {
        bridge.sessions.uninitialized.insert(session);
        bridge.metrics.record_session();
    }
    metric.finish(result.is_ok());
    result
}

/// Handles any other request. The caller drops this future when the client disconnects or cancels the
/// request.
pub async fn handle(
    bridge: &Bridge,
    caller: &Caller,
    request: Request,
    sink: &dyn MessageSink,
) -> Outcome<Payload> {
    let context = audit_context::for_session_request(caller, &request);
    features::observe((&bridge.context, &bridge.metrics), context, request, |request| {
        answer(bridge, caller, request, sink)
    })
    .await
}

async fn answer(
    bridge: &Bridge,
    caller: &Caller,
    request: Request,
    sink: &dyn MessageSink,
) -> Outcome<Payload> {
    let Request { id, method, params } = request;
    let call = match &caller.session {
        Some(session) => SessionCall { bridge, caller, session },
        None if method == "ping" => return Ok(Payload::Value(Value::Object(serde_json::Map::new()))),
        None => {
            let message = format!("{method} came before `initialize`: a session begins with it");
            return Err(jsonrpc::Error::new(INVALID_REQUEST, message));
        }
    };
    let outcome = match method.as_str() {
        "ping" => Ok(Value::Object(serde_json::Map::new())),
        "tasks/get" if call.has_tasks() => tasks::get(&call, &params).await,
        "tasks/result" if call.has_tasks() => tasks::result(&call, id, &params, sink).await,
        "tasks/list" if call.has_tasks() => tasks::list(&call, &params).await,
        "tasks/cancel" if call.has_tasks() => tasks::cancel(&call, &params).await,
        "logging/setLevel" => logging::set_level(&call, &params).await,
        "resources/subscribe" => subscriptions::subscribe(&call, &params).await,
        "resources/unsubscribe" => subscriptions::unsubscribe(&call, &params).await,
        "initialize" => Err(jsonrpc::Error::new(INVALID_REQUEST, "this session has begun already")),
        _ => {
            // Boxed, so that the futures of the other methods need not be as large.
            let outcome = Box::pin(features::serve(&call, (&id, &method), params, sink)).await;
            return outcome.unwrap_or_else(|| {
                let revision = call.session.revision.as_str();
                let message = format!("there is no method {method:?} in a session of {revision}");
                Err(jsonrpc::Error::new(METHOD_NOT_FOUND, message))
            });
        }
    };
    outcome.map(Payload::Value)
}

/// Handles a notification. The transport handles `notifications/cancelled` itself. Two notifications have an
/// effect: that the client is ready, and the status of a client's own task. Changed roots have none: roots
/// are read when a job asks for them.
///
/// # Errors
/// If the store fails. The client can send the same notification again.
pub async fn handle_notification(
    bridge: &Bridge,
    caller: &Caller,
    method: &str,
    params: &Value,
) -> Result<(), StoreError> {
    tracing::trace!(method, "notified");
    match (method, &caller.session) {
        ("notifications/initialized", Some(session)) => lifecycle::initialized(bridge, session).await,
        ("notifications/tasks/status", Some(session)) => {
            audit_context::for_method(caller, method)
                .scope(questions::handle_task_status(bridge, caller, session, params))
                .await;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Handles a response to a request of this server.
pub async fn handle_response(bridge: &Bridge, caller: &Caller, id: Id, outcome: Outcome) -> ResponseOutcome {
    audit_context::for_method(caller, "response")
        .scope(questions::handle_response(bridge, caller, &id, outcome))
        .await
}

/// Sends messages to the caller's session until it is dropped; it never returns. `n` is the number under
/// which other processes know the stream, or 0 if they do not. `since` is about when it was opened: it sends
/// no log messages from before. `lists` is the edition of the lists at that moment, or, for a resumed stream
/// (`true`), the edition that its client knows.
pub async fn listen(
    bridge: &Bridge,
    caller: &Caller,
    (n, since): (u64, Timestamp),
    lists: (Option<Edition>, bool),
    sink: &dyn MessageSink,
) {
    if let Some(session) = &caller.session {
        listen::listen(&SessionCall { bridge, caller, session }, (n, since), lists, sink).await;
    }
    std::future::pending().await
}

/// Resumes a request whose stream broke. Returns the id and the answer of that request, or `None` if there is
/// nothing to resume.
pub async fn resume(
    bridge: &Bridge,
    caller: &Caller,
    resume: Resume,
    sink: &dyn MessageSink,
) -> Option<(Id, Outcome)> {
    let session = caller.session.as_ref()?;
    let call = SessionCall { bridge, caller, session };
    match resume {
        Resume::Listen { lists } => {
            listen::listen(&call, (0, bridge.context.clock.now()), (lists, true), sink).await;
            None
        }
        Resume::Wait { id, task, until: None, .. } => {
            let request_context = audit_context::for_method(caller, "tasks/result");
            let outcome = request_context.scope(tasks::wait_for_result(&call, &task, sink)).await;
            Some((id, bridge.context.wait_for_audit(&request_context).await.and(outcome)))
        }
        Resume::Wait { id, task, began: started_at, until: Some(deadline), progress_token } => {
            let started_at = started_at.map_or_else(|| bridge.context.clock.now(), Timestamp::from_millis);
            let deadline = Timestamp::from_millis(deadline);
            // Log messages sent before the stream broke are not known here, and are not repeated.
            let logs_since = bridge.context.clock.now();
            let wait = PlainWait {
                task,
                started_at,
                deadline,
                is_resumed: true,
                progress_token,
                preface: None,
                logs_since,
                fingerprint: String::new(),
            };
            let request_context = audit_context::for_method(caller, "tools/call");
            let outcome = request_context.scope(wait.run(&call, None, sink)).await;
            Some((id, bridge.context.wait_for_audit(&request_context).await.and(outcome)))
        }
    }
}

/// A request within a session.
struct SessionCall<'a> {
    bridge: &'a Bridge,
    caller: &'a Caller,
    session: &'a Session,
}

impl SessionCall<'_> {
    fn has_tasks(&self) -> bool {
        self.session.revision.has_tasks()
    }

    /// Stores a setting of this session. Returns false if the session may store no more of them. It is an
    /// error if the session has ended.
    async fn set(&self, setting: SessionChange) -> Result<bool, jsonrpc::Error> {
        let Session { nonce, expires, .. } = self.session;
        let is_stored =
            self.bridge.sessions.store.set(nonce, setting, *expires).await.map_err(store_error)?.is_some();
        // A session that ended while its request was in flight can no longer store settings.
        if !is_stored && self.bridge.sessions.store.has_ended(nonce).await.map_err(store_error)? {
            return Err(jsonrpc::Error::new(INVALID_REQUEST, "this session has ended"));
        }
        if is_stored {
            self.bridge.context.service.channel_changed(nonce);
        }
        Ok(is_stored)
    }
}
