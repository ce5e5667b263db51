//! `initialize` and `notifications/initialized`: negotiates the revision and exchanges capabilities.

use serde_json::{Value, json};

use super::from_wire;
use crate::auth::Principal;
use crate::mcp::Bridge;
use crate::mcp::features::companions::{Companion, ToolOffer};
use crate::mcp::features::{apps, instructions};
use crate::mcp::session::token::{ClientCapabilities, Session};
use crate::mcp::wire::jsonrpc::Error;
use crate::mcp::wire::revision::Revision;
use crate::mcp::wire::types;
use crate::sessions::SessionChange;
use crate::tasks::store::StoreError;

/// Creates a session and its `InitializeResult`.
pub(super) fn initialize(
    bridge: &Bridge,
    principal: &Principal,
    params: &Value,
) -> Result<(Session, Value), Error> {
    let requested = from_wire::text(params, "protocolVersion", "the revision that the client speaks")?;
    let revision = Revision::negotiate(requested);
    let context = &bridge.context;
    let validity = (context.clock.now(), context.settings().session_lifetime);
    let client = client_capabilities(params, revision)?;
    let session = Session::begin(&*context.entropy, validity, principal.owner.clone(), (revision, client));
    let mut capabilities = json!({
        "logging": {},
        "tools": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "prompts": { "listChanged": true },
        "completions": {},
    });
    if revision.has_tasks() {
        capabilities["tasks"] = types::without_nulls(json!({
            "list": principal.identified.then(|| json!({})),
            "cancel": {},
            "requests": { "tools": { "call": {} } },
        }));
    }
    let offer = ToolOffer { companions: super::OFFERS_COMPANIONS, views: client.views };
    let shows_view = Companion::View.is_offered(context, principal, offer);
    apps::add_extension(shows_view, &mut capabilities);
    let result = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": capabilities,
        "serverInfo": types::SERVER_INFO,
        "instructions": instructions::for_caller(&bridge.context, principal, offer),
    });
    Ok((session, result))
}

/// Records that the client is ready: from now on it can be asked questions. Other processes may wait for
/// this.
///
/// # Errors
/// If the store fails.
pub(super) async fn initialized(bridge: &Bridge, session: &Session) -> Result<(), StoreError> {
    if bridge.sessions.is_shared
        && bridge.sessions.uninitialized.may_have(session, bridge.context.clock.now())
    {
        bridge.sessions.store.set(&session.nonce, SessionChange::Ready, session.expires).await?;
    }
    bridge.sessions.uninitialized.set_ready(session);
    bridge.context.service.channel_changed(&session.nonce);
    Ok(())
}

/// Returns the capabilities that the client declares, as far as this server uses them.
fn client_capabilities(params: &Value, revision: Revision) -> Result<ClientCapabilities, Error> {
    let declared = match params.get("capabilities") {
        None | Some(Value::Null | Value::Object(_)) => &params["capabilities"],
        Some(_) => return Err(from_wire::invalid("`capabilities` must be an object")),
    };
    let newest = ClientCapabilities::parse(declared);
    Ok(match revision {
        Revision::V2025_11_25 => newest,
        // 2025-06-18 knows one elicitation mode, the form, whatever modes a client declares. 2025-03-26 has
        // no elicitation. Both allow one content block in a sampling message.
        Revision::V2025_06_18 => ClientCapabilities {
            elicitation_form: newest.elicitation_form || newest.elicitation_url,
            elicitation_url: false,
            ..before_tasks(newest)
        },
        Revision::V2025_03_26 => {
            // Without structured content the view would get nothing.
            ClientCapabilities {
                elicitation_form: false,
                elicitation_url: false,
                views: false,
                ..before_tasks(newest)
            }
        }
    })
}

/// Removes what 2025-11-25 added: tasks, and tools and lists of content blocks in sampling.
fn before_tasks(client: ClientCapabilities) -> ClientCapabilities {
    ClientCapabilities { sampling_tools: false, sampling_lists: false, ..client.without_tasks() }
}
