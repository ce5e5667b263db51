//! `tools/call` in every generation: find the tool, create its task, and answer with the result, the task, or
//! a handle. It must not know how a generation writes an answer.

use std::sync::Arc;

use serde_json::Value;
use taskbridge_sdk::Timestamp;

use super::plain_wait::PlainWait;
use super::result::ToolResult;
use crate::catalog::{CallRequest, Consent, OnAbandon, Tool};
use crate::mcp::features::companions::{self, Companion, CompanionCall, CompanionResult, WaitCall};
use crate::mcp::features::dialect::{CallInput, CallMode, CallRefusal, CallStart, Dialect, ResumedCall};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::request::spans;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::features::results::{self, ResultReadError};
use crate::mcp::features::tools::handle;
use crate::mcp::features::{apps, authorization};
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::progress_token;
use crate::mcp::wire::jsonrpc::{Error, Id, Outcome};
use crate::mcp::wire::params::{self, CallParams};
use crate::tasks::service::{CallError, CallResult};
use crate::tasks::task::{Origin, Task};

/// `tools/call`. `id` is the id of the request.
pub async fn call(request: &dyn Dialect, id: &Id, params: Value, sink: &dyn MessageSink) -> Outcome {
    let mut params = request.call_params(params)?;
    let companion = Companion::named(&params.name).filter(|companion| request.is_offered(*companion));
    if let Some(companion) = companion {
        request.call_mode(&params.name, crate::catalog::TaskSupport::Forbidden, &params)?;
        return run_companion(request, id, companion, params, sink).await;
    }
    let catalog = request.context().catalog();
    let tool =
        authorization::authorized_tool(request.context(), request.principal(), &catalog, &params.name)?;
    let mode = request.call_mode(&tool.name, tool.task_support, &params)?;
    let mut input = match request.begin_call(tool, &mut params).await? {
        CallStart::Proceed(input) => input,
        CallStart::Answer(result) => return Ok(result),
        CallStart::Resume(resumed) => {
            return resume_call(request, id, tool, resumed, params.progress_token, sink).await;
        }
    };
    let (progress_token, fingerprint) =
        (params.progress_token.clone(), std::mem::take(&mut input.fingerprint));
    let result = match create_task(request, tool, params, input, mode).await? {
        Ok(result) => result,
        Err(refusal) => return request.refused_call(refusal, mode),
    };
    match mode {
        CallMode::Task => answer_with_task(request, result, sink).await,
        CallMode::Plain => {
            answer_plainly(request, id, tool, result, (progress_token, fingerprint), sink).await
        }
    }
}

/// Creates the task of a call, or returns why there is none.
async fn create_task(
    request: &dyn Dialect,
    tool: &Arc<Tool>,
    params: CallParams,
    input: CallInput,
    mode: CallMode,
) -> Result<Result<CallResult, CallRefusal>, Error> {
    let CallParams { task, progress_token: token, idempotency_key, trace, .. } = params;
    let is_task = mode == CallMode::Task;
    // Progress of a plain call ends with its answer. Progress of a task continues until the task ends, on a
    // stream of the session.
    let origin = Origin {
        channel: request.session().map(str::to_owned),
        front_end: progress_token::encode(token.filter(|_| is_task && request.session().is_some())),
        trace: spans::task_trace(trace),
        ..Origin::default()
    };
    let by_request_state = input.nonce.is_some() && idempotency_key.is_none();
    let prepared = tool
        .prepare(CallRequest {
            principal: request.principal().clone(),
            origin,
            arguments: Value::Object(input.arguments),
            ttl: task.and_then(|task| task.ttl),
            idempotency_key,
            nonce: input.nonce,
            timeout: (!is_task).then_some(request.context().settings().call_budget),
            consent: consent(request, tool, input.consented),
        })
        .await;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Err(CallRefusal::InvalidCall(error.to_string()))),
    };
    match request.context().service.call(prepared).await {
        Ok(result) => Ok(Ok(result)),
        Err(CallError::LimitExceeded(limit)) => {
            request.context().audit.limit_exceeded(limit.setting());
            Ok(Err(CallRefusal::Busy(limit.to_string())))
        }
        Err(error @ (CallError::Reference { .. } | CallError::Unconnected { .. })) => {
            Ok(Err(CallRefusal::InvalidCall(error.to_string())))
        }
        Err(CallError::KeyReused { .. }) if by_request_state => Err(params::invalid(
            "this `requestState` made a task with other answers before: send the request again without it",
        )),
        Err(error @ CallError::KeyReused { .. }) => Err(params::invalid(error.to_string())),
        Err(CallError::Store(error)) => Err(store_error(error)),
    }
}

/// Returns how the consent that a tool may require is obtained.
fn consent(request: &dyn Dialect, tool: &Tool, is_given: bool) -> Consent {
    match is_given {
        true => Consent::Given,
        false if request.asks_consent_in_task() => Consent::Ask,
        // Another caller is asked, not this client.
        false if !authorization::may_consent(request.principal(), tool) => Consent::Ask,
        false => Consent::Impossible,
    }
}

/// Answers with the task. Where the generation waits first: with the result if the job ends in that time and
/// there is memory for it, and with the task at once if it needs input.
async fn answer_with_task(request: &dyn Dialect, result: CallResult, sink: &dyn MessageSink) -> Outcome {
    let service = &request.context().service;
    let is_new = matches!(result, CallResult::Created(_));
    let logs_since = logs_since(request, &result);
    let task = result.into_task();
    // A plain call with the same key may have created the task. With this answer its owner learns of the
    // task.
    request.note_delivered(&task).await;
    let Some(quick_wait) = request.quick_wait() else {
        let view = service.view(task).await.map_err(store_error)?;
        return Ok(request.created_task(&view, is_new));
    };
    let is_done = |task: &Task| task.has_ended() || request.is_input_required(task);
    let view =
        service.wait(&request.actor(), &task.id, Some(quick_wait), is_done).await.map_err(store_error)?;
    let view = view.ok_or_else(|| request.task_not_found(&task.id))?;
    if !view.task.has_ended() {
        return Ok(request.created_task(&view, is_new));
    }
    // The client never learns that there was a task, so only this request sends its log messages.
    let mut channel = request.wait_channel(&view.task.id, sink);
    if channel.sends_logs(&view.task) {
        let messages = LogCursor::for_request(logs_since).catch_up(&view.task);
        channel.send_logs(messages).await.map_err(store_error)?;
    }
    match results::read(request, &view.task, sink).await {
        Ok(output) => super::answer(request, &view, output, None),
        // The client fetches the result once there is memory for it.
        Err(ResultReadError::MemoryExhausted(_)) => Ok(request.created_task(&view, is_new)),
        Err(error) => Err(error.into()),
    }
}

/// Answers within the time budget of a plain call: with the result, with the job's questions, or with a
/// handle.
async fn answer_plainly(
    request: &dyn Dialect,
    id: &Id,
    tool: &Arc<Tool>,
    result: CallResult,
    (progress_token, fingerprint): (Option<Value>, String),
    sink: &dyn MessageSink,
) -> Outcome {
    let context = request.context();
    let logs_since = logs_since(request, &result);
    let preface = match &result {
        CallResult::Attached(task) => Some(handle::describe_attachment(task)),
        CallResult::Created(_) | CallResult::Existing(_) => None,
    };
    let is_existing = matches!(result, CallResult::Existing(_));
    let task = result.into_task();
    let guard = if is_existing {
        // A caller with the key can find the task again. The call that created it may still wait, and neither
        // of the two may stop the other's job by disconnecting.
        request.note_delivered(&task).await;
        None
    } else {
        Some(context.service.guard_call(&task, tool.on_abandon == OnAbandon::Cancel))
    };
    let wait = PlainWait::begin(request, task.id, fingerprint);
    let mut wait = PlainWait { progress_token, preface, logs_since, ..wait };
    if apps::is_shown(request) {
        wait.deadline = wait.deadline.min(wait.started_at + apps::VIEW_WAIT);
    }
    wait.make_resumable(request, id, sink);
    wait.run(request, guard, sink).await
}

/// Returns the time from which a call is sent its task's log messages. A new task may have logged something
/// already.
fn logs_since(request: &dyn Dialect, result: &CallResult) -> Timestamp {
    match result {
        CallResult::Created(_) => Timestamp::from_millis(0),
        CallResult::Attached(_) | CallResult::Existing(_) => request.context().clock.now(),
    }
}

/// Continues a call whose job asked something, after its answers were stored.
async fn resume_call(
    request: &dyn Dialect,
    id: &Id,
    tool: &Arc<Tool>,
    resumed: ResumedCall,
    progress_token: Option<Value>,
    sink: &dyn MessageSink,
) -> Outcome {
    let context = request.context();
    let ResumedCall { task, logs_since, fingerprint } = resumed;
    let cancel_on_abandon = tool.on_abandon == OnAbandon::Cancel;
    let guard = task.undelivered.is_some().then(|| context.service.guard_call(&task, cancel_on_abandon));
    let wait = PlainWait::begin(request, task.id, fingerprint);
    let wait = PlainWait { progress_token, logs_since, ..wait };
    wait.make_resumable(request, id, sink);
    wait.run(request, guard, sink).await
}

/// Runs a call of a companion tool. Only `task_wait` needs the caller's stream.
async fn run_companion(
    request: &dyn Dialect,
    id: &Id,
    companion: Companion,
    mut params: CallParams,
    sink: &dyn MessageSink,
) -> Outcome {
    let context = request.context();
    let arguments = Value::Object(std::mem::take(&mut params.arguments));
    let result = match CompanionCall::parse(companion, &arguments) {
        Err(problem) => CompanionResult::refusal(problem),
        Ok(CompanionCall::Command(command)) => {
            companions::run(context, request.reads(), request.principal(), request.client(), command)
                .await
                .map_err(store_error)?
        }
        Ok(CompanionCall::View(look)) => apps::look(request, &look).await.map_err(store_error)?,
        Ok(CompanionCall::Wait(WaitCall { id: task, timeout })) => {
            if let Some(view) = context.service.get(&request.actor(), &task).await.map_err(store_error)? {
                let fingerprint = format!("{} {task}", companion.name());
                let mut wait = PlainWait::begin(request, task, fingerprint);
                if let Some(since) = request.begin_wait(&view.task, &wait.fingerprint, &params).await? {
                    wait.logs_since = since;
                }
                wait.progress_token = params.progress_token;
                if let Some(timeout) = timeout {
                    wait.deadline = wait.deadline.min(wait.started_at + timeout);
                }
                wait.make_resumable(request, id, sink);
                return wait.run(request, None, sink).await;
            }
            companions::no_task(context, request.owner(), &task)
        }
    };
    Ok(request.tool_result(ToolResult::from_companion(result)))
}
