//! Cancels tasks, in two phases: the request is recorded, and the engine accepts it later.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use axum::response::Response;

use crate::console::pages::task_address;
use crate::console::request::{Fields, Visitor};
use crate::console::respond::{self, Refusal};
use crate::console::session::sign_in::next_page;
use crate::console::{Console, Result};
use crate::mcp::features::authorization::CallerContext;
use crate::tasks::machine::CancelMode;
use crate::tasks::service::CancelResult;
use crate::tasks::task::TaskId;

/// Maximum number of tasks that one form cancels: those of a page.
const MAX_TASKS: usize = 50;

/// Cancels the chosen tasks, each by itself. Tasks that have ended meanwhile are no error.
pub(super) async fn many(console: &Console, visitor: &Visitor, form: &Fields) -> Result<Response> {
    let context = &console.parts.bridge.context;
    let by = CallerContext::new(context, &visitor.principal);
    let chosen: BTreeSet<&str> = form.all("task").take(MAX_TASKS).collect();
    let mut refused = 0;
    for id in &chosen {
        let id = TaskId::from_wire(*id);
        match context.service.cancel(&by, &id, CancelMode::Request).await? {
            CancelResult::Done(_) | CancelResult::AlreadyEnded(_) => {}
            CancelResult::Refused(_) => refused += 1,
            CancelResult::NotFound => {
                context.not_found(&visitor.principal.owner, &id);
                refused += 1;
            }
        }
    }
    if refused > 0 {
        let message =
            format!("{refused} of {} tasks were not cancelled: you may not cancel them", chosen.len());
        return Err(Refusal::plain(StatusCode::FORBIDDEN, message));
    }
    Ok(respond::redirect(&next_page(form.get("next"))))
}

/// Cancels one task.
pub(super) async fn one(console: &Console, visitor: &Visitor, id: &TaskId) -> Result<Response> {
    let context = &console.parts.bridge.context;
    let by = CallerContext::new(context, &visitor.principal);
    match context.service.cancel(&by, id, CancelMode::Request).await? {
        CancelResult::Done(_) | CancelResult::AlreadyEnded(_) => Ok(respond::redirect(&task_address(id))),
        CancelResult::Refused(why) => Err(Refusal::plain(StatusCode::FORBIDDEN, format!("{why}."))),
        CancelResult::NotFound => {
            context.not_found(&visitor.principal.owner, id);
            Err(Refusal::not_found())
        }
    }
}
