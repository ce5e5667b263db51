//! `tools/list` and `tools/call`.

use std::sync::Arc;

use serde_json::Value;
use taskbridge_sdk::{Output, Timestamp};

use super::lifecycle::LIST_CACHE_TTL;
use super::rounds::{self, AskingTask, CallInput, CallTarget, NextStep};
use super::wait::{WaitOptions, wait};
use super::{StatelessCall, errors, from_wire, logging, questions, tasks, to_wire, wire};
use crate::catalog::{CallRequest, Consent, OnAbandon, PrepareError, TaskSupport, Tool};
use crate::mcp::features::authorization;
use crate::mcp::features::companions;
use crate::mcp::features::companions::{Companion, CompanionCall, CompanionResult, WaitCall};
use crate::mcp::features::results;
use crate::mcp::features::results::ResultReadError;
use crate::mcp::features::spans;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::list;
use crate::mcp::features::tools::list::ToolEntry;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::{Error, Outcome, SharedText};
use crate::mcp::wire::revision;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::{CallError, CallGuard, CallResult, View};
use crate::tasks::task::{Origin, Task, TaskId};

/// `tools/list`: the companion tools, then the catalog by name.
pub(super) fn list(call: &StatelessCall<'_>, params: &Value) -> Outcome<SharedText> {
    let (cursor, view) = (from_wire::cursor(params)?, (revision::MODERN, call.offers_companions()));
    let page = list::page(call.bridge, &call.caller.principal, view, cursor, |entries| {
        let tools = entries.iter().map(|entry| match entry {
            ToolEntry::Tool(tool) => wire_tool(tool),
            ToolEntry::Companion(companion) => wire_companion(call, *companion),
        });
        let result = wire::ListToolsResult { tools: tools.collect() };
        // Which companion tools are listed depends on the caller and its client.
        to_wire::cacheable(result, LIST_CACHE_TTL, wire::CacheScope::Private)
    });
    page.ok_or_else(from_wire::invalid_cursor)
}

fn wire_tool(tool: &Tool) -> Value {
    let declared = tool.output_schema.as_ref();
    to_wire::value(&wire::Tool {
        name: &tool.name,
        title: tool.title.as_deref(),
        description: tool.description.as_deref(),
        input_schema: &tool.input_schema,
        output_schema: declared.map(|declared| handle::output_schema(declared, tool.task_support)),
        annotations: Some(&tool.annotations).filter(|annotations| annotations.is_object()),
    })
}

fn wire_companion(call: &StatelessCall<'_>, companion: Companion) -> Value {
    let definition = companion.definition(&call.bridge.settings());
    to_wire::value(&wire::Tool {
        name: definition.name,
        title: Some(definition.title),
        description: Some(&definition.description),
        input_schema: &definition.input_schema,
        output_schema: definition.output_schema,
        annotations: Some(&definition.annotations),
    })
}

/// `tools/call`: if the client supports tasks and the tool allows them, answers with a task, or with the
/// result if the job ends within `quick_wait`. Otherwise it answers as a plain call does. Before that, it may
/// ask for missing input.
pub(super) async fn call(call: &StatelessCall<'_>, params: Value, sink: &dyn MessageSink) -> Outcome {
    let call_params = from_wire::call(params)?;
    if let Some(companion) =
        Companion::named(&call_params.name).filter(|companion| call.is_offered(*companion))
    {
        return run_companion(call, companion, call_params, sink).await;
    }
    let catalog = call.bridge.catalog();
    let tool =
        authorization::authorized_tool(call.bridge, &call.caller.principal, &catalog, &call_params.name)?;
    if tool.task_support == TaskSupport::Required && !call.has_tasks() {
        return Err(errors::needs_tasks(&tool.name));
    }
    let target = CallTarget {
        name: &tool.name,
        fingerprint: tool.fingerprint(&call_params.arguments, call_params.idempotency_key.as_deref()).await,
        inquiries: tool.inquiries(),
    };
    if let Some(asking_task) = rounds::resumed_task(call, &target, &call_params.retry)? {
        return continue_call(call, tool, &target, asking_task, call_params, sink).await;
    }
    let input = match rounds::next_step(call, &target, Some(tool), &call_params.arguments, &call_params.retry)
        .await?
    {
        NextStep::Ask(result) => {
            // A call that will be refused must not ask anything.
            let refusal = call.bridge.service.check_connected(tool.backend(), &tool.name).err();
            return Ok(refusal
                .map_or(result, |refusal| to_wire::tool_result(ToolResult::error(refusal.to_string()))));
        }
        NextStep::Refused(reason) => return Ok(to_wire::tool_result(ToolResult::error(reason))),
        NextStep::Proceed(input) => input,
    };
    let as_task = call.has_tasks() && tool.task_support != TaskSupport::Forbidden;
    let progress_token = call_params.progress_token.clone();
    let call_result = match create_task(call, tool, call_params, input, as_task).await {
        Ok(call_result) => call_result,
        Err(TaskCreateError::InvalidCall(message)) => {
            return Ok(to_wire::tool_result(ToolResult::error(message)));
        }
        Err(TaskCreateError::Error(error)) => return Err(error),
    };
    match as_task {
        true => answer_with_task(call, call_result, sink).await,
        false => answer_plainly(call, tool, &target, call_result, progress_token, sink).await,
    }
}

/// Reason why a call created no task.
enum TaskCreateError {
    /// The model can correct the call.
    InvalidCall(String),
    /// Any other error.
    Error(Error),
}

/// Creates the task of a call.
async fn create_task(
    call: &StatelessCall<'_>,
    tool: &Arc<Tool>,
    call_params: from_wire::CallParams,
    input: CallInput,
    as_task: bool,
) -> Result<CallResult, TaskCreateError> {
    let CallInput { arguments, consented, nonce } = input;
    let by_request_state = nonce.is_some() && call_params.idempotency_key.is_none();
    let prepared = tool
        .prepare(CallRequest {
            principal: call.caller.principal.clone(),
            origin: Origin { trace: spans::task_trace(call_params.trace), ..Origin::default() },
            arguments: Value::Object(arguments),
            ttl: None,
            idempotency_key: call_params.idempotency_key,
            nonce,
            timeout: (!as_task).then_some(call.bridge.settings().call_budget),
            consent: match consented {
                true => Consent::Given,
                // Nothing was asked yet. Those who may give consent are asked once the task exists.
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
            Err(TaskCreateError::InvalidCall(limit.to_string()))
        }
        Err(error @ (CallError::Reference { .. } | CallError::Unconnected { .. })) => {
            Err(TaskCreateError::InvalidCall(error.to_string()))
        }
        Err(CallError::KeyReused { .. }) if by_request_state => {
            Err(TaskCreateError::Error(from_wire::invalid(
                "this `requestState` made a task with other answers before: send the request again without it",
            )))
        }
        Err(error @ CallError::KeyReused { .. }) => {
            Err(TaskCreateError::Error(from_wire::invalid(error.to_string())))
        }
        Err(CallError::Store(error)) => Err(TaskCreateError::Error(call.fault(&error))),
    }
}

/// Answers with the result if the job ends within `quick_wait` and there is memory for its result. Otherwise
/// answers with the task, at once if it asks something.
async fn answer_with_task(
    call: &StatelessCall<'_>,
    call_result: CallResult,
    sink: &dyn MessageSink,
) -> Outcome {
    let service = &call.bridge.service;
    let hears_since = logs_since(call, &call_result);
    let task = call_result.into_task();
    // A plain call with the same key may have created the task. With this answer its owner learns of the
    // task.
    call.note_delivered(&task).await;
    let quick_wait = Some(call.bridge.settings().quick_wait);
    let is_done = |task: &Task| task.has_ended() || questions::has_questions(call, task);
    let view = service.wait(&call.actor(), &task.id, quick_wait, is_done).await;
    let view = view.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| tasks::not_found(call, &task.id))?;
    if !view.task.has_ended() {
        let task = to_wire::task(call.bridge, &view, call.client_for(&view.task));
        return Ok(to_wire::created_task(task, &view.task.refers_to));
    }
    // The client never learns that there was a task, so only this request sends its log messages.
    logging::send_log_messages(call, LogCursor::for_request(hears_since).catch_up(&view.task), sink).await;
    match results::read(call.bridge, &view.task, sink).await {
        Ok(output) => build_answer(call, &view, output, None),
        // The client fetches the result once there is memory for it.
        Err(ResultReadError::MemoryExhausted(_)) => {
            let task = to_wire::task(call.bridge, &view, call.client_for(&view.task));
            Ok(to_wire::created_task(task, &view.task.refers_to))
        }
        Err(error) => Err(error.to_jsonrpc_error(call.bridge)),
    }
}

/// Answers within the time budget of a plain call: with the result, with the job's questions, or with a
/// handle.
async fn answer_plainly(
    call: &StatelessCall<'_>,
    tool: &Arc<Tool>,
    target: &CallTarget<'_>,
    call_result: CallResult,
    progress_token: Option<Value>,
    sink: &dyn MessageSink,
) -> Outcome {
    let hears_since = logs_since(call, &call_result);
    let preface = match &call_result {
        CallResult::Attached(task) => Some(handle::describe_attachment(task)),
        CallResult::Created(_) | CallResult::Existing(_) => None,
    };
    let is_existing = matches!(call_result, CallResult::Existing(_));
    let task = call_result.into_task();
    let guard = if is_existing {
        // A caller with the key can find the task again. The call that created it may still wait, and neither
        // of the two may stop the other's job by disconnecting.
        call.note_delivered(&task).await;
        None
    } else {
        Some(call.bridge.service.guard_call(&task, tool.on_abandon == OnAbandon::Cancel))
    };
    let deadline = call.bridge.clock.now() + call.bridge.settings().call_budget;
    let options = WaitOptions { deadline, progress_token, logs_since: hears_since };
    let wait = PlainWait { id: task.id, options, preface };
    wait.run(call, target, guard, sink).await
}

/// Returns the time from which a call is sent its task's log messages. A new task may have logged something
/// already.
fn logs_since(call: &StatelessCall<'_>, call_result: &CallResult) -> Timestamp {
    match call_result {
        CallResult::Created(_) => Timestamp::from_millis(0),
        CallResult::Attached(_) | CallResult::Existing(_) => call.bridge.clock.now(),
    }
}

/// Continues a call whose job asked something: stores the answers, and waits again.
async fn continue_call(
    call: &StatelessCall<'_>,
    tool: &Arc<Tool>,
    target: &CallTarget<'_>,
    asking_task: AskingTask,
    call_params: from_wire::CallParams,
    sink: &dyn MessageSink,
) -> Outcome {
    let AskingTask { task: id, heard: logs_since } = asking_task;
    let view = call.bridge.service.get(&call.actor(), &id).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| tasks::not_found(call, &id))?;
    tasks::store_answers(call, &view.task, &call_params.retry.responses.unwrap_or_default()).await?;
    let cancel_on_abandon = tool.on_abandon == OnAbandon::Cancel;
    let is_undelivered = view.task.undelivered.is_some();
    let guard = is_undelivered.then(|| call.bridge.service.guard_call(&view.task, cancel_on_abandon));
    let deadline = call.bridge.clock.now() + call.bridge.settings().call_budget;
    let options = WaitOptions { deadline, progress_token: call_params.progress_token, logs_since };
    let wait = PlainWait { id, options, preface: None };
    wait.run(call, target, guard, sink).await
}

/// A request that waits for a task within the time budget of a plain call.
struct PlainWait {
    id: TaskId,
    options: WaitOptions,
    preface: Option<String>,
}

impl PlainWait {
    /// Waits, then answers with the result, with the job's questions, or with a handle.
    async fn run(
        self,
        call: &StatelessCall<'_>,
        target: &CallTarget<'_>,
        guard: Option<CallGuard>,
        sink: &dyn MessageSink,
    ) -> Outcome {
        let Self { id, options, preface } = self;
        let (view, output) = match wait_and_read(call, &id, options, sink).await {
            Ok(result) => result,
            Err(error) => {
                if let Some(guard) = guard {
                    call.note_retry(guard).await;
                }
                return Err(error);
            }
        };
        if questions::has_questions(call, &view.task) {
            // The client comes back with the answers, or repeats the call and finds the task that way.
            if let Some(guard) = guard {
                guard.keep_job();
            }
            let input_requests = questions::input_requests(call, &view.task);
            return Ok(rounds::ask_for_task(call, target, &view.task, input_requests));
        }
        match guard {
            Some(guard) => call.note_answered(guard).await,
            None => call.note_delivered(&view.task).await,
        }
        build_answer(call, &view, output, preface.as_deref())
    }
}

/// Waits, then reads what the answer needs.
async fn wait_and_read(
    call: &StatelessCall<'_>,
    id: &TaskId,
    options: WaitOptions,
    sink: &dyn MessageSink,
) -> Result<(View, Option<Output>), Error> {
    let view = wait(call, id, options, sink).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| tasks::not_found(call, id))?;
    let output = match view.task.has_ended() {
        true => {
            let output = results::read(call.bridge, &view.task, sink).await;
            output.map_err(|error| error.to_jsonrpc_error(call.bridge))?
        }
        false => None,
    };
    Ok((view, output))
}

/// Builds the answer of a call: the result if its task has ended, otherwise a handle.
fn build_answer(
    call: &StatelessCall<'_>,
    view: &View,
    output: Option<Output>,
    preface: Option<&str>,
) -> Outcome {
    if !view.task.has_ended() {
        let companions = call.is_offered(Companion::Wait);
        let handle = ToolResult::handle(call.bridge, view, call.client_for(&view.task), companions, preface);
        return Ok(to_wire::tool_result(handle));
    }
    call.bridge.audit.record(AuditEvent::Read { task: &view.task, part: Part::Result });
    ToolResult::for_ended_task(call.bridge, view, output, preface).map(to_wire::tool_result)
}

async fn run_companion(
    call: &StatelessCall<'_>,
    companion: Companion,
    call_params: from_wire::CallParams,
    sink: &dyn MessageSink,
) -> Outcome {
    let arguments = Value::Object(call_params.arguments);
    let companion_result = match CompanionCall::parse(companion, &arguments) {
        Err(problem) => CompanionResult::refusal(problem),
        Ok(CompanionCall::Command(command)) => {
            let result = companions::run(call.bridge, &call.caller.principal, call.client(), command).await;
            result.map_err(|error| call.fault(&error))?
        }
        Ok(CompanionCall::Wait(WaitCall { id, timeout })) => {
            let found = call.bridge.service.get(&call.actor(), &id).await;
            if let Some(view) = found.map_err(|error| call.fault(&error))? {
                let budget = call.bridge.settings().call_budget;
                let now = call.bridge.clock.now();
                let deadline = now + timeout.map_or(budget, |timeout| timeout.min(budget));
                let mut logs_since = now;
                let fingerprint = format!("{} {id}", companion.name());
                let target = CallTarget { name: companion.name(), fingerprint, inquiries: &[] };
                if let Some(asking_task) = rounds::resumed_task(call, &target, &call_params.retry)? {
                    logs_since = asking_task.heard;
                    tasks::store_answers(call, &view.task, &call_params.retry.responses.unwrap_or_default())
                        .await?;
                }
                let options =
                    WaitOptions { deadline, progress_token: call_params.progress_token, logs_since };
                let wait = PlainWait { id, options, preface: None };
                return wait.run(call, &target, None, sink).await;
            }
            companions::no_task(call.bridge, call.owner(), &id)
        }
    };
    Ok(to_wire::tool_result(ToolResult::from_companion(companion_result)))
}
