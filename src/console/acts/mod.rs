//! What forms do: each act is one operation of the protocol, under the same access rules, and leads back to a
//! page. The caller has checked the origin and the form token. An act must not do what no operation does.

mod answer;
mod cancel;
mod start;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use taskbridge_sdk::Timestamp;

use super::pages::segments;
use super::request::{Fields, Head, Visitor};
use super::respond::{self, Refusal};
use super::session::sign_out;
use super::{BASE, Console, Result};
use crate::tasks::task::TaskId;

/// Does what a form asks for.
pub(super) async fn act(
    console: &Arc<Console>,
    head: &Head,
    visitor: &Visitor,
    form: &Fields,
) -> Result<Response> {
    let segments = segments(&head.path).ok_or_else(Refusal::not_found)?;
    match segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["logout"] => sign_out::post(console, head, visitor, form).await,
        ["seen"] => seen(console, head, visitor, form),
        ["tasks", "cancel"] => cancel::many(console, visitor, form).await,
        ["tasks", id, "cancel"] => cancel::one(console, visitor, &TaskId::from_wire(*id)).await,
        ["tasks", id, "answer"] => answer::answer(console, visitor, &TaskId::from_wire(*id), form).await,
        ["tools", name, "start"] => start::start(console, head, visitor, name, form).await,
        _ => Err(Refusal::plain(StatusCode::NOT_FOUND, "there is no such form")),
    }
}

/// Remembers in the session that the failures of a page were seen, up to the end of the last one.
fn seen(console: &Console, head: &Head, visitor: &Visitor, form: &Fields) -> Result<Response> {
    let until = form.get("until").and_then(|until| until.parse().ok()).map(Timestamp::from_millis);
    let until = until.ok_or_else(|| {
        let message =
            "the field `until` must be the time of the last failure that was seen: open the inbox again";
        Refusal::plain(StatusCode::BAD_REQUEST, message)
    })?;
    let session = visitor.session.with_failures_seen(until, console.now());
    Ok(respond::set_cookie(respond::redirect(BASE), session.cookie(console, head)?))
}
