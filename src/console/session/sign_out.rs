//! Sign-out: of one browser by a record about its session, or everywhere by a time in the store before which
//! all sessions of an owner count as ended. Both apply to all processes of the store. It must not end the
//! sessions of clients of the protocol.

use axum::response::Response;
use serde_json::json;
use taskbridge_sdk::Timestamp;

use super::cookie::Cookie;
use super::sign_in;
use crate::audit::record::Kind;
use crate::console::request::{Fields, Head, Visitor};
use crate::console::{Console, Result};
use crate::tasks::store::StoreError;
use crate::tasks::task::Owner;

/// Signs out this browser, or all browsers of the owner.
pub(in crate::console) async fn post(
    console: &Console,
    head: &Head,
    visitor: &Visitor,
    form: &Fields,
) -> Result<Response> {
    let is_everywhere = form.get("everywhere").is_some();
    let session = &visitor.session;
    let forget_after = session.issued + console.parts.settings.lifetime;
    console.parts.bridge.sessions.store.end(&session.stored_name(), forget_after).await?;
    if is_everywhere {
        end_everywhere(console, &visitor.principal.owner).await?;
    }
    console.session_ends.send_modify(|count| *count = count.wrapping_add(1));
    let place = if is_everywhere { "everywhere" } else { "one browser" };
    let audit = &console.parts.bridge.context.audit;
    audit.server_event(Kind::ConsoleSignedOut, "ok", json!({"where": place}));
    Ok(sign_in::signed_out(Cookie::Session.remove(head, console.parts.settings.is_secure)?))
}

/// Returns when all sessions of an owner were last ended.
pub(super) async fn everywhere_at(console: &Console, owner: &Owner) -> Result<Option<Timestamp>, StoreError> {
    let millis = console.parts.store.fact(&fact(console, owner)).await?;
    Ok(millis.and_then(|millis| millis.parse().ok()).map(Timestamp::from_millis))
}

/// Ends all sessions of an owner. The time only grows, whatever two of these do at once.
async fn end_everywhere(console: &Console, owner: &Owner) -> Result<(), StoreError> {
    let (name, now) = (fact(console, owner), console.now().as_millis());
    loop {
        let before = console.parts.store.fact(&name).await?;
        let known = before.as_deref().and_then(|millis| millis.parse::<i64>().ok()).unwrap_or(0);
        let after = known.max(now).to_string();
        if console.parts.store.replace_fact(&name, before.as_deref(), &after).await? {
            return Ok(());
        }
    }
}

fn fact(console: &Console, owner: &Owner) -> String {
    format!("console_ended.{}", console.parts.bridge.context.seal.digest(&["console owner", owner.as_str()]))
}
