//! `initialize`: which revision is spoken, what the client can do, what it is offered.

use serde_json::Value;

use super::{from_wire, to_wire, wire};
use crate::auth::Principal;
use crate::mcp::generation::Revision;
use crate::mcp::jsonrpc::Error;
use crate::mcp::session::{Abilities, Session};
use crate::mcp::{Bridge, instructions};
use crate::tasks::store::{Setting, StoreError};

/// Begins a session.
pub(super) fn initialize(
    bridge: &Bridge,
    principal: &Principal,
    params: &Value,
) -> Result<(Session, Value), Error> {
    let asked = from_wire::text(params, "protocolVersion", "the revision that the client speaks")?;
    let revision = Revision::negotiate(asked);
    let session = Session::begin(bridge, principal, revision, abilities(params, revision)?);
    let tasks = revision.has_tasks().then(|| wire::TasksCapability {
        list: principal.identified.then_some(wire::Empty {}),
        cancel: wire::Empty {},
        requests: wire::TaskRequests::default(),
    });
    let result = wire::InitializeResult {
        protocol_version: revision.as_str(),
        capabilities: wire::ServerCapabilities {
            logging: wire::Empty {},
            tools: wire::ListCapability { list_changed: true },
            resources: wire::ResourcesCapability { list_changed: true, subscribe: true },
            prompts: wire::ListCapability { list_changed: true },
            completions: wire::Empty {},
            tasks,
        },
        server_info: wire::Implementation {
            name: env!("CARGO_PKG_NAME"),
            title: "taskbridge",
            version: env!("CARGO_PKG_VERSION"),
        },
        instructions: instructions::of(bridge, principal, super::OFFERS_COMPANIONS),
    };
    Ok((session, to_wire::value(&result)))
}

/// The client is ready, and can be asked things from now on; other processes may wait for that.
///
/// # Errors
/// If that could not be kept.
pub(super) async fn initialized(bridge: &Bridge, session: &Session) -> Result<(), StoreError> {
    if bridge.store.is_shared() && bridge.initializing.may_have(session, bridge.clock.now()) {
        bridge.store.set(&session.nonce, Setting::Ready, session.expires).await?;
    }
    bridge.initializing.end(session);
    bridge.service.session_changed(&session.nonce);
    Ok(())
}

/// What the client declares that it can do, as far as it matters here.
fn abilities(params: &Value, revision: Revision) -> Result<Abilities, Error> {
    let declared = match params.get("capabilities") {
        None | Some(Value::Null | Value::Object(_)) => &params["capabilities"],
        Some(_) => return Err(from_wire::invalid("`capabilities` must be an object")),
    };
    let newest = Abilities::declared(declared);
    Ok(match revision {
        Revision::V2025_11_25 => newest,
        // Before, an elicitation was a form, whatever a client says of modes, and a message to a model one block.
        Revision::V2025_06_18 => Abilities {
            elicitation_form: newest.elicitation_form || newest.elicitation_url,
            elicitation_url: false,
            ..before_tasks(newest)
        },
        Revision::V2025_03_26 => {
            Abilities { elicitation_form: false, elicitation_url: false, ..before_tasks(newest) }
        }
    })
}

/// Without tasks, and without what came to sampling with the lists of blocks.
fn before_tasks(client: Abilities) -> Abilities {
    Abilities { sampling_tools: false, sampling_lists: false, ..client.without_tasks() }
}
