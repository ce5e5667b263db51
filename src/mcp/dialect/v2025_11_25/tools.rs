//! `tools/list` and `tools/call`.

use std::sync::Arc;

use serde_json::Value;
use taskbridge_sdk::{Output, Timestamp};

use super::from_wire::TaskAugmentation;
use super::wait::{WaitOptions, wait};
use super::{OFFERS_COMPANIONS, SessionCall, from_wire, tasks, to_wire, wire};
use crate::catalog::{CallRequest, Consent, OnAbandon, PrepareError, TaskSupport, Tool};
use crate::mcp::features::authorization;
use crate::mcp::features::companions;
use crate::mcp::features::companions::{Companion, CompanionCall, CompanionResult, WaitCall};
use crate::mcp::features::results;
use crate::mcp::features::spans;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::list;
use crate::mcp::features::tools::list::ToolEntry;
use crate::mcp::features::tools::progress::ProgressParams;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::wire::jsonrpc::{Error, Id, METHOD_NOT_FOUND, Outcome, SharedText};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::{CallError, CallGuard, CallResult, View};
use crate::tasks::task::{Origin, TaskId};

/// JSON-RPC error code of a task-augmented call that exceeds a limit of its tool or owner. A plain call gets
/// a tool result with the error.
const BUSY: i32 = -32000;

/// `tools/list`: the companion tools, then the catalog by name.
pub(super) fn list(call: &SessionCall<'_>, params: &Value) -> Outcome<SharedText> {
    let (cursor, view) = (from_wire::cursor(params)?, (call.revision().as_str(), OFFERS_COMPANIONS));
    let page = list::page(call.bridge, &call.caller.principal, view, cursor, |entries| {
        let tools = entries.iter().map(|entry| match entry {
            ToolEntry::Tool(tool) => wire_tool(call, tool),
            ToolEntry::Companion(companion) => wire_companion(call, *companion),
        });
        to_wire::value(&wire::ListToolsResult { tools: tools.collect() })
    });
    page.ok_or_else(from_wire::invalid_cursor)
}

fn wire_tool(call: &SessionCall<'_>, tool: &Tool) -> Value {
    let declared = tool.output_schema.as_ref().filter(|_| call.has_structured_content());
    let task_support = match tool.task_support {
        TaskSupport::Required => "required",
        TaskSupport::Optional => "optional",
        TaskSupport::Forbidden => "forbidden",
    };
    to_wire::value(&wire::Tool {
        name: &tool.name,
        title: tool.title.as_deref(),
        description: tool.description.as_deref(),
        input_schema: &tool.input_schema,
        output_schema: declared.map(|declared| handle::output_schema(declared, tool.task_support)),
        annotations: Some(&tool.annotations).filter(|annotations| annotations.is_object()),
        execution: call.has_tasks().then_some(wire::ToolExecution { task_support }),
    })
}

fn wire_companion(call: &SessionCall<'_>, companion: Companion) -> Value {
    let definition = companion.definition(&call.bridge.settings());
    to_wire::value(&wire::Tool {
        name: definition.name,
        title: Some(definition.title),
        description: Some(&definition.description),
        input_schema: &definition.input_schema,
        output_schema: definition.output_schema.filter(|_| call.has_structured_content()),
        annotations: Some(&definition.annotations),
        execution: call.has_tasks().then_some(wire::ToolExecution { task_support: "forbidden" }),
    })
}

/// `tools/call`.
pub(super) async fn call(
    call: &SessionCall<'_>,
    request: Id,
    params: Value,
    sink: &dyn MessageSink,
) -> Outcome {
    let call_params = from_wire::call(params, call.has_tasks())?;
    if let Some(companion) =
        Companion::named(&call_params.name).filter(|companion| call.is_offered(*companion))
    {
        if call_params.task.is_some() {
            return Err(not_as_task(&call_params.name));
        }
        return run_companion(call, request, companion, call_params, sink).await;
    }
    let catalog = call.bridge.catalog();
    let tool =
        authorization::authorized_tool(call.bridge, &call.caller.principal, &catalog, &call_params.name)?;
    match (&call_params.task, tool.task_support) {
        (Some(_), TaskSupport::Forbidden) => Err(not_as_task(&tool.name)),
        (None, TaskSupport::Required) => Err(Error::new(
            METHOD_NOT_FOUND,
            format!("tool {:?} runs only as a task: call it with `params.task`", tool.name),
        )),
        (Some(_), _) => call_as_task(call, tool, call_params).await,
        (None, _) => call_plain(call, request, tool, call_params, sink).await,
    }
}

fn not_as_task(tool: &str) -> Error {
    let message = format!("tool {tool:?} cannot be called as a task: call it without `params.task`");
    Error::new(METHOD_NOT_FOUND, message)
}

async fn call_as_task(
    call: &SessionCall<'_>,
    tool: &Arc<Tool>,
    call_params: from_wire::CallParams,
) -> Outcome {
    match create_task(call, tool, call_params).await {
        Ok(call_result) => {
            let is_new = matches!(call_result, CallResult::Created(_));
            let task = call_result.into_task();
            // A plain call with the same key may have created the task. With this answer its owner learns of
            // the task.
            call.note_delivered(&task).await;
            let view = call.bridge.service.view(task).await;
            let view = view.map_err(|error| call.fault(&error))?;
            Ok(to_wire::created_task(call.bridge, &view, is_new, call.client_for(&view.task)))
        }
        // Without a task there is no result in which a client that expects a task could read the error.
        Err(TaskCreateError::InvalidCall(message)) => Err(from_wire::invalid(message)),
        Err(TaskCreateError::Busy(message)) => Err(Error::new(BUSY, message)),
        Err(TaskCreateError::Error(error)) => Err(error),
    }
}

async fn call_plain(
    call: &SessionCall<'_>,
    request: Id,
    tool: &Arc<Tool>,
    call_params: from_wire::CallParams,
    sink: &dyn MessageSink,
) -> Outcome {
    let progress_token = call_params.progress_token.clone();
    let call_result = match create_task(call, tool, call_params).await {
        Ok(call_result) => call_result,
        Err(TaskCreateError::InvalidCall(message) | TaskCreateError::Busy(message)) => {
            return Ok(to_wire::tool_result(call.revision(), ToolResult::error(message), None));
        }
        Err(TaskCreateError::Error(error)) => return Err(error),
    };
    let (is_attached, is_existing) =
        (matches!(call_result, CallResult::Attached(_)), matches!(call_result, CallResult::Existing(_)));
    let is_created = matches!(call_result, CallResult::Created(_));
    let task = call_result.into_task();
    let guard = if is_existing {
        // A caller with the key can find the task again. The call that created it may still wait, and neither
        // of the two may stop the other's job by disconnecting.
        call.note_delivered(&task).await;
        None
    } else {
        Some(call.bridge.service.guard_call(&task, tool.on_abandon == OnAbandon::Cancel))
    };
    let preface = is_attached.then(|| handle::describe_attachment(&task));
    let started_at = call.bridge.clock.now();
    let deadline = started_at + call.bridge.settings().call_budget;
    // A new task may have logged something already.
    let logs_since = if is_created { Timestamp::from_millis(0) } else { started_at };
    let wait =
        PlainWait { id: task.id, started_at, deadline, resumed: false, progress_token, preface, logs_since };
    wait.make_resumable(request, sink);
    wait.run(call, guard, sink).await
}

/// Reason why a call created no task.
enum TaskCreateError {
    /// The model can correct the call.
    InvalidCall(String),
    /// A limit is reached; a retry later can succeed.
    Busy(String),
    /// Any other error.
    Error(Error),
}

/// Creates the task of a call.
async fn create_task(
    call: &SessionCall<'_>,
    tool: &Arc<Tool>,
    call_params: from_wire::CallParams,
) -> Result<CallResult, TaskCreateError> {
    let from_wire::CallParams { arguments, task, progress_token, idempotency_key, trace, .. } = call_params;
    let waits = task.is_none().then_some(call.bridge.settings().call_budget);
    // Progress of a plain call ends with its answer. Progress of a task continues until the task ends.
    let origin = Origin {
        session: call.caller.session.as_ref().map(|session| session.nonce.clone()),
        progress_token: progress_token.filter(|_| task.is_some()),
        trace: spans::task_trace(trace),
        ..Origin::default()
    };
    let prepared = tool
        .prepare(CallRequest {
            principal: call.caller.principal.clone(),
            origin,
            arguments,
            ttl: task.and_then(|TaskAugmentation { ttl }| ttl),
            idempotency_key,
            nonce: None,
            timeout: waits,
            consent: match call.client().elicitation_form {
                true => Consent::Ask,
                // Another caller is asked, not this client.
                false if !authorization::may_consent(&call.caller.principal, tool) => Consent::Ask,
                false => Consent::Impossible,
            },
        })
        .await;
    let prepared = prepared.map_err(|error| match error {
        error @ (PrepareError::Arguments(_) | PrepareError::CannotAsk(_) | PrepareError::Caller(_)) => {
            TaskCreateError::InvalidCall(error.to_string())
        }
    })?;
    match call.bridge.service.call(prepared).await {
        Ok(call_result) => Ok(call_result),
        Err(CallError::LimitExceeded(limit)) => {
            call.bridge.audit.limit_exceeded(limit.setting());
            Err(TaskCreateError::Busy(limit.to_string()))
        }
        Err(error @ (CallError::Reference { .. } | CallError::Unconnected { .. })) => {
            Err(TaskCreateError::InvalidCall(error.to_string()))
        }
        Err(error @ CallError::KeyReused { .. }) => {
            Err(TaskCreateError::Error(from_wire::invalid(error.to_string())))
        }
        Err(CallError::Store(error)) => Err(TaskCreateError::Error(call.fault(&error))),
    }
}

/// A request that waits for a task within the time budget of a plain call.
pub(super) struct PlainWait {
    pub(super) id: TaskId,
    pub(super) started_at: Timestamp,
    pub(super) deadline: Timestamp,
    /// True if another stream may have reported progress before.
    pub(super) resumed: bool,
    pub(super) progress_token: Option<Value>,
    pub(super) preface: Option<String>,
    /// Log messages up to this time count as sent.
    pub(super) logs_since: Timestamp,
}

impl PlainWait {
    /// Sets on the stream how the wait can be resumed.
    fn make_resumable(&self, request: Id, sink: &dyn MessageSink) {
        sink.set_resume(Resume::Wait {
            id: request,
            task: self.id.clone(),
            began: Some(self.started_at.as_millis()),
            until: Some(self.deadline.as_millis()),
            progress_token: self.progress_token.clone(),
        });
    }

    /// Waits, then answers with the result, or with a handle if there is none yet.
    pub(super) async fn run(
        self,
        call: &SessionCall<'_>,
        guard: Option<CallGuard>,
        sink: &dyn MessageSink,
    ) -> Outcome {
        let guard = guard.map(|guard| PlainWaitGuard { guard: Some(guard), sink });
        let (view, output) = match self.wait_and_read(call, sink).await {
            Ok(result) => result,
            Err(error) => {
                if let Some(guard) = guard {
                    call.note_retry(guard.take()).await;
                }
                return Err(error);
            }
        };
        match guard {
            Some(guard) => call.note_answered(guard.take()).await,
            None => call.note_delivered(&view.task).await,
        }
        answer(call, &view, output, self.preface.as_deref())
    }

    /// Waits, then reads what the answer needs.
    async fn wait_and_read(
        &self,
        call: &SessionCall<'_>,
        sink: &dyn MessageSink,
    ) -> Result<(View, Option<Output>), Error> {
        let progress = self.progress_token.clone().map(|token| ProgressParams {
            token,
            started_at: self.started_at,
            resumed: self.resumed,
        });
        let log_cursor = Some(LogCursor::for_request(self.logs_since));
        let options = WaitOptions { deadline: Some(self.deadline), progress, log_cursor };
        let view = wait(call, &self.id, options, sink).await.map_err(|error| call.fault(&error))?;
        let view = view.ok_or_else(|| tasks::not_found(call, &self.id))?;
        let output = match view.task.has_ended() {
            true => {
                let output = results::read(call.bridge, &view.task, sink).await;
                output.map_err(|error| error.to_jsonrpc_error(call.bridge))?
            }
            false => None,
        };
        Ok((view, output))
    }
}

/// Guard of a plain call while its stream is open. If a newer stream of the same call replaces this one, the
/// client has not abandoned the call.
struct PlainWaitGuard<'a> {
    guard: Option<CallGuard>,
    sink: &'a dyn MessageSink,
}

impl PlainWaitGuard<'_> {
    fn take(mut self) -> CallGuard {
        self.guard.take().expect("only this takes it, and it takes the whole")
    }
}

impl Drop for PlainWaitGuard<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take()
            && self.sink.is_superseded()
        {
            guard.keep_job();
        }
    }
}

/// Builds the answer of a call: the result if its task has ended, otherwise a handle.
fn answer(call: &SessionCall<'_>, view: &View, output: Option<Output>, preface: Option<&str>) -> Outcome {
    let style = to_wire::Style { revision: call.revision(), related: false, preface };
    if !view.task.has_ended() {
        let companions = call.is_offered(Companion::Wait);
        let handle = ToolResult::handle(call.bridge, view, call.client_for(&view.task), companions, preface);
        return Ok(to_wire::tool_result(call.revision(), handle, None));
    }
    call.bridge.audit.record(AuditEvent::Read { task: &view.task, part: Part::Result });
    to_wire::ended_task(call.bridge, view, output, style)
}

async fn run_companion(
    call: &SessionCall<'_>,
    request: Id,
    companion: Companion,
    call_params: from_wire::CallParams,
    sink: &dyn MessageSink,
) -> Outcome {
    let companion_result = match CompanionCall::parse(companion, &call_params.arguments) {
        Err(problem) => CompanionResult::refusal(problem),
        Ok(CompanionCall::Command(command)) => {
            let result = companions::run(call.bridge, &call.caller.principal, call.client(), command).await;
            result.map_err(|error| call.fault(&error))?
        }
        Ok(CompanionCall::Wait(WaitCall { id, timeout })) => {
            let found = call.bridge.service.get(&call.actor(), &id).await;
            if found.map_err(|error| call.fault(&error))?.is_none() {
                companions::no_task(call.bridge, call.owner(), &id)
            } else {
                let budget = call.bridge.settings().call_budget;
                let started_at = call.bridge.clock.now();
                let deadline = started_at + timeout.map_or(budget, |timeout| timeout.min(budget));
                let progress_token = call_params.progress_token;
                let wait = PlainWait {
                    id,
                    started_at,
                    deadline,
                    resumed: false,
                    progress_token,
                    preface: None,
                    logs_since: started_at,
                };
                wait.make_resumable(request, sink);
                return wait.run(call, None, sink).await;
            }
        }
    };
    Ok(to_wire::tool_result(call.revision(), ToolResult::from_companion(companion_result), None))
}
