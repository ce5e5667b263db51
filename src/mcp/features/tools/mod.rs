//! Tools: their list, calls, waits, the handle of a task that takes longer than a call, and results.

pub mod call;
pub mod handle;
pub mod list;
pub mod list_cache;
pub mod plain_wait;
pub mod progress;
pub mod result;
pub mod wait;

use taskbridge_sdk::{Content, Output};

use self::result::ToolResult;
use super::apps;
use super::companions::Companion;
use super::dialect::Dialect;
use super::request::RequestExt as _;
use crate::mcp::wire::jsonrpc::Outcome;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::View;

/// Builds the answer of a call: the result if its task has ended, otherwise a handle. `preface` is its first
/// line.
fn answer(request: &dyn Dialect, view: &View, output: Option<Output>, preface: Option<&str>) -> Outcome {
    let context = request.context();
    if !view.task.has_ended() {
        let companions = request.is_offered(Companion::Wait);
        let client = request.client_for(&view.task);
        let mut result = ToolResult::handle(context, view, client, companions, preface);
        if apps::is_shown(request) {
            result.content.push(Content::text(apps::HANDLE_NOTE));
        }
        return Ok(request.tool_result(apps::for_view(request, &view.task, result)));
    }
    context.audit.record(AuditEvent::Read { task: &view.task, part: Part::Result });
    let result = ToolResult::for_ended_task(context, request.reads(), view, output, preface)?;
    Ok(request.tool_result(apps::for_view(request, &view.task, result)))
}
