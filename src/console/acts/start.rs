//! Starts a task from the form of a tool: validated, limited and sealed as the call of a client that asks
//! for a task. A form that is sent twice starts one task.

use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use crate::catalog::{CallRequest, Consent, TaskSupport, Tool, is_authenticated};
use crate::console::html::{form, layout};
use crate::console::pages::{task_address, tool};
use crate::console::request::{Fields, Head, Visitor};
use crate::console::respond::{self, Refusal};
use crate::console::{Console, Result};
use crate::mcp::features::authorization;
use crate::tasks::service::CallError;
use crate::tasks::task::Origin;

/// Length of the nonce of a form.
const NONCE_CHARS: usize = 48;

/// Starts a task of the tool with this name.
pub(super) async fn start(
    console: &Arc<Console>,
    head: &Head,
    visitor: &Visitor,
    name: &str,
    typed: &Fields,
) -> Result<Response> {
    let context = &console.parts.bridge.context;
    let catalog = context.catalog();
    let tool = authorization::authorized_tool(context, &visitor.principal, &catalog, name);
    let tool = tool.map_err(|_| Refusal::not_found())?;
    if tool.task_support == TaskSupport::Forbidden {
        return Err(Refusal::plain(StatusCode::FORBIDDEN, "this tool cannot run as a task"));
    }
    limit_calls(console, visitor)?;
    let arguments = match form::read(&tool.input_schema, typed) {
        Ok(arguments) => arguments,
        Err(problem) => return refuse(console, head, visitor, tool, (Map::new(), problem)).await,
    };
    let nonce = typed
        .get("nonce")
        .filter(|nonce| nonce.len() == NONCE_CHARS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let values = arguments.clone();
    let prepared = tool
        .prepare(CallRequest {
            principal: visitor.principal.clone(),
            origin: Origin::default(),
            arguments: Value::Object(arguments),
            ttl: None,
            idempotency_key: None,
            nonce: nonce.map(str::to_owned),
            timeout: None,
            // The task asks, and its page shows the question.
            consent: Consent::Ask,
        })
        .await;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return refuse(console, head, visitor, tool, (values, error.to_string())).await,
    };
    match context.service.call(prepared).await {
        Ok(result) => Ok(respond::redirect(&task_address(&result.into_task().id))),
        Err(CallError::Store(error)) => Err(error.into()),
        Err(error) => {
            if let CallError::LimitExceeded(limit) = &error {
                context.audit.limit_exceeded(limit.setting());
            }
            refuse(console, head, visitor, tool, (values, error.to_string())).await
        }
    }
}

/// Refuses calls beyond the owner's limit per minute, which the protocol shares.
fn limit_calls(console: &Console, visitor: &Visitor) -> Result<()> {
    let context = &console.parts.bridge.context;
    if !is_authenticated(&visitor.principal) {
        return Ok(());
    }
    let limit = context.settings().max_calls_per_minute;
    let calls = &console.parts.access_control.usage.calls;
    calls.take(visitor.caller_key(), limit, Instant::now()).map(drop).map_err(|_| {
        context.audit.limit_exceeded("max_calls_per_minute");
        Refusal::plain(StatusCode::TOO_MANY_REQUESTS, "too many tool calls in a minute: wait, and try again")
    })
}

/// Returns the form again with the problem, and with what was typed except for secrets.
async fn refuse(
    console: &Console,
    head: &Head,
    visitor: &Visitor,
    tool: &Tool,
    (values, problem): (Map<String, Value>, String),
) -> Result<Response> {
    let refused = tool::Refused { values, problem };
    let page = tool::refused_page(console, visitor, head, &tool.name, &refused).await?;
    Ok(respond::html(tool::REFUSED, &layout::page(console, visitor, &page, head)))
}
