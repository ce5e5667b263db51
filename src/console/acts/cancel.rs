//! Cancels tasks, in two phases: the request is recorded, and the engine accepts it later.

use axum::http::StatusCode;
use axum::response::Response;

use crate::console::pages::task_address;
use crate::console::request::Visitor;
use crate::console::respond::{self, Refusal};
use crate::console::{Console, Result};
use crate::mcp::features::authorization::CallerContext;
use crate::tasks::machine::CancelMode;
use crate::tasks::service::CancelResult;
use crate::tasks::task::TaskId;

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
