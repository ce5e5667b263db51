//! `tools/list` and `tools/call`.

use std::sync::Arc;

use serde_json::Value;
use taskbridge_sdk::{Output, Timestamp};

use super::lifecycle::FRESH;
use super::rounds::{self, AskingTask, CallInput, CallTarget, Next};
use super::wait::{WaitOptions, wait};
use super::{StatelessCall, errors, from_wire, logging, questions, tasks, to_wire, wire};
use crate::catalog::{Consent, OnAbandon, PrepareError, Request, TaskSupport, Tool};
use crate::mcp::authorization;
use crate::mcp::companions::{self, Companion, CompanionCall, CompanionResult, WaitCall};
use crate::mcp::fallback;
use crate::mcp::generation;
use crate::mcp::jsonrpc::{Error, Outcome, SharedText};
use crate::mcp::log_cursor::LogCursor;
use crate::mcp::message_sink::MessageSink;
use crate::mcp::results::{self, ResultReadError};
use crate::mcp::spans;
use crate::mcp::tool_list::{self, Entry};
use crate::mcp::tool_result::ToolResult;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::{CallError, CallGuard, CallResult, View};
use crate::tasks::task::{Origin, Task, TaskId};

/// `tools/list`: the companion tools, then the catalog by name.
pub(super) fn list(call: &StatelessCall<'_>, params: &Value) -> Outcome<SharedText> {
    let (at, shown) = (from_wire::cursor(params)?, (generation::MODERN, call.offers_companions()));
    let page = tool_list::page(call.bridge, &call.asker.principal, shown, at, |entries| {
        let tools = entries.iter().map(|entry| match entry {
            Entry::Tool(tool) => listed(tool),
            Entry::Companion(companion) => listed_companion(call, *companion),
        });
        let result = wire::ListToolsResult { tools: tools.collect() };
        // Which companion tools are listed depends on the caller and its client.
        to_wire::cacheable(result, FRESH, wire::CacheScope::Private)
    });
    page.ok_or_else(from_wire::bad_cursor)
}

fn listed(tool: &Tool) -> Value {
    let declared = tool.output_schema.as_ref();
    to_wire::value(&wire::Tool {
        name: &tool.name,
        title: tool.title.as_deref(),
        description: tool.description.as_deref(),
        input_schema: &tool.input_schema,
        output_schema: declared.map(|declared| fallback::output_schema(declared, tool.task_support)),
        annotations: Some(&tool.annotations).filter(|annotations| annotations.is_object()),
    })
}

fn listed_companion(call: &StatelessCall<'_>, companion: Companion) -> Value {
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
pub(super) async fn call(call: &StatelessCall<'_>, params: Value, outlet: &dyn MessageSink) -> Outcome {
    let wanted = from_wire::call(params)?;
    if let Some(companion) = Companion::named(&wanted.name).filter(|companion| call.is_offered(*companion)) {
        return run_companion(call, companion, wanted, outlet).await;
    }
    let catalog = call.bridge.catalog();
    let tool = authorization::called(call.bridge, &call.asker.principal, &catalog, &wanted.name)?;
    if tool.task_support == TaskSupport::Required && !call.has_tasks() {
        return Err(errors::needs_tasks(&tool.name));
    }
    let target = CallTarget {
        name: &tool.name,
        fingerprint: tool.fingerprint(&wanted.arguments, wanted.idempotency_key.as_deref()).await,
        inquiries: tool.inquiries(),
    };
    if let Some(begun) = rounds::resumed(call, &target, &wanted.retry)? {
        return go_on(call, tool, &target, begun, wanted, outlet).await;
    }
    let gathered = match rounds::next(call, &target, Some(tool), &wanted.arguments, &wanted.retry).await? {
        Next::Ask(result) => {
            // A call that will be refused must not ask anything.
            let refused = call.bridge.service.check_connected(tool.backend(), &tool.name).err();
            return Ok(refused
                .map_or(result, |refused| to_wire::tool_result(ToolResult::error(refused.to_string()))));
        }
        Next::Refused(why) => return Ok(to_wire::tool_result(ToolResult::error(why))),
        Next::Go(gathered) => gathered,
    };
    let as_task = call.has_tasks() && tool.task_support != TaskSupport::Forbidden;
    let progress_token = wanted.progress_token.clone();
    let called = match make(call, tool, wanted, gathered, as_task).await {
        Ok(called) => called,
        Err(TaskCreateError::ForTheModel(message)) => {
            return Ok(to_wire::tool_result(ToolResult::error(message)));
        }
        Err(TaskCreateError::Error(error)) => return Err(error),
    };
    match as_task {
        true => answer_with_task(call, called, outlet).await,
        false => answer_plainly(call, tool, &target, called, progress_token, outlet).await,
    }
}

/// Reason why a call created no task.
enum TaskCreateError {
    /// The model can correct the call.
    ForTheModel(String),
    /// Any other error.
    Error(Error),
}

/// Creates the task of a call.
async fn make(
    call: &StatelessCall<'_>,
    tool: &Arc<Tool>,
    wanted: from_wire::Call,
    gathered: CallInput,
    as_task: bool,
) -> Result<CallResult, TaskCreateError> {
    let CallInput { arguments, consented, nonce } = gathered;
    let by_state = nonce.is_some() && wanted.idempotency_key.is_none();
    let prepared = tool
        .prepare(Request {
            principal: call.asker.principal.clone(),
            origin: Origin { trace: spans::carry(wanted.trace), ..Origin::default() },
            arguments: Value::Object(arguments),
            ttl: None,
            idempotency_key: wanted.idempotency_key,
            nonce,
            waits: (!as_task).then_some(call.bridge.settings().call_budget),
            consent: match consented {
                true => Consent::Given,
                // Nothing was asked yet. Those who may give consent are asked once the task exists.
                false if !authorization::may_consent(&call.asker.principal, tool) => Consent::Ask,
                false => Consent::Impossible,
            },
        })
        .await;
    let prepared = prepared.map_err(|refused| match refused {
        refused @ (PrepareError::Arguments(_) | PrepareError::CannotAsk(_) | PrepareError::Caller(_)) => {
            TaskCreateError::ForTheModel(refused.to_string())
        }
    })?;
    match call.bridge.service.call(prepared).await {
        Ok(called) => Ok(called),
        Err(CallError::Over(over)) => {
            call.bridge.audit.exceeded(over.setting());
            Err(TaskCreateError::ForTheModel(over.to_string()))
        }
        Err(wrong @ (CallError::Reference { .. } | CallError::Unconnected { .. })) => {
            Err(TaskCreateError::ForTheModel(wrong.to_string()))
        }
        Err(CallError::KeyReused { .. }) if by_state => Err(TaskCreateError::Error(from_wire::invalid(
            "this `requestState` made a task with other answers before: send the request again without it",
        ))),
        Err(reused @ CallError::KeyReused { .. }) => {
            Err(TaskCreateError::Error(from_wire::invalid(reused.to_string())))
        }
        Err(CallError::Store(error)) => Err(TaskCreateError::Error(call.fault(&error))),
    }
}

/// Answers with the result if the job ends within `quick_wait` and there is memory for its result. Otherwise
/// answers with the task, at once if it asks something.
async fn answer_with_task(call: &StatelessCall<'_>, called: CallResult, outlet: &dyn MessageSink) -> Outcome {
    let service = &call.bridge.service;
    let hears_since = hears_since(call, &called);
    let task = called.into_task();
    // A plain call with the same key may have created the task. With this answer its owner learns of the
    // task.
    call.note_delivered(&task).await;
    let patience = Some(call.bridge.settings().quick_wait);
    let enough = |task: &Task| task.has_ended() || questions::asks(call, task);
    let view = service.wait(&call.actor(), &task.id, patience, enough).await;
    let view = view.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| tasks::not_found(call, &task.id))?;
    if !view.task.has_ended() {
        let task = to_wire::task(call.bridge, &view, call.client_for(&view.task));
        return Ok(to_wire::created(task, &view.task.refers_to));
    }
    // The client never learns that there was a task, so only this request sends its log messages.
    logging::send_log_messages(call, LogCursor::by_request(hears_since).catch_up(&view.task), outlet).await;
    match results::read(call.bridge, &view.task, outlet).await {
        Ok(output) => finished(call, &view, output, None),
        // The client fetches the result once there is memory for it.
        Err(ResultReadError::NoRoom(_)) => {
            let task = to_wire::task(call.bridge, &view, call.client_for(&view.task));
            Ok(to_wire::created(task, &view.task.refers_to))
        }
        Err(unread) => Err(unread.to_jsonrpc_error(call.bridge)),
    }
}

/// Answers within the time budget of a plain call: with the result, with the job's questions, or with a
/// handle.
async fn answer_plainly(
    call: &StatelessCall<'_>,
    tool: &Arc<Tool>,
    target: &CallTarget<'_>,
    called: CallResult,
    progress_token: Option<Value>,
    outlet: &dyn MessageSink,
) -> Outcome {
    let hears_since = hears_since(call, &called);
    let preface = match &called {
        CallResult::Attached(task) => Some(fallback::attached(task)),
        CallResult::Created(_) | CallResult::Existing(_) => None,
    };
    let existing = matches!(called, CallResult::Existing(_));
    let task = called.into_task();
    let waiting = if existing {
        // A caller with the key can find the task again. The call that created it may still wait, and neither
        // of the two may stop the other's job by disconnecting.
        call.note_delivered(&task).await;
        None
    } else {
        Some(call.bridge.service.waiting(&task, tool.on_abandon == OnAbandon::Cancel))
    };
    let until = call.bridge.clock.now() + call.bridge.settings().call_budget;
    let patience = WaitOptions { until, progress_token, hears_since };
    let wait = PlainWait { id: task.id, patience, preface };
    wait.run(call, target, waiting, outlet).await
}

/// Returns the time from which a call is sent its task's log messages. A new task may have logged something
/// already.
fn hears_since(call: &StatelessCall<'_>, called: &CallResult) -> Timestamp {
    match called {
        CallResult::Created(_) => Timestamp::from_millis(0),
        CallResult::Attached(_) | CallResult::Existing(_) => call.bridge.clock.now(),
    }
}

/// Continues a call whose job asked something: stores the answers, and waits again.
async fn go_on(
    call: &StatelessCall<'_>,
    tool: &Arc<Tool>,
    target: &CallTarget<'_>,
    begun: AskingTask,
    wanted: from_wire::Call,
    outlet: &dyn MessageSink,
) -> Outcome {
    let AskingTask { task: id, heard: hears_since } = begun;
    let view = call.bridge.service.get(&call.actor(), &id).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| tasks::not_found(call, &id))?;
    tasks::give(call, &view.task, &wanted.retry.responses.unwrap_or_default()).await?;
    let cancels = tool.on_abandon == OnAbandon::Cancel;
    let waits = view.task.undelivered.is_some();
    let waiting = waits.then(|| call.bridge.service.waiting(&view.task, cancels));
    let until = call.bridge.clock.now() + call.bridge.settings().call_budget;
    let patience = WaitOptions { until, progress_token: wanted.progress_token, hears_since };
    let wait = PlainWait { id, patience, preface: None };
    wait.run(call, target, waiting, outlet).await
}

/// A request that waits for a task within the time budget of a plain call.
struct PlainWait {
    id: TaskId,
    patience: WaitOptions,
    preface: Option<String>,
}

impl PlainWait {
    /// Waits, then answers with the result, with the job's questions, or with a handle.
    async fn run(
        self,
        call: &StatelessCall<'_>,
        target: &CallTarget<'_>,
        waiting: Option<CallGuard>,
        outlet: &dyn MessageSink,
    ) -> Outcome {
        let Self { id, patience, preface } = self;
        let (view, output) = match reach(call, &id, patience, outlet).await {
            Ok(reached) => reached,
            Err(error) => {
                if let Some(waiting) = waiting {
                    call.note_handed_on(waiting).await;
                }
                return Err(error);
            }
        };
        if questions::asks(call, &view.task) {
            // The client comes back with the answers, or repeats the call and finds the task that way.
            if let Some(waiting) = waiting {
                waiting.spare();
            }
            let asked = questions::of_task(call, &view.task);
            return Ok(rounds::ask_for_task(call, target, &view.task, asked));
        }
        match waiting {
            Some(waiting) => call.note_answered(waiting).await,
            None => call.note_delivered(&view.task).await,
        }
        finished(call, &view, output, preface.as_deref())
    }
}

/// Waits, then reads what the answer needs.
async fn reach(
    call: &StatelessCall<'_>,
    id: &TaskId,
    patience: WaitOptions,
    outlet: &dyn MessageSink,
) -> Result<(View, Option<Output>), Error> {
    let view = wait(call, id, patience, outlet).await.map_err(|error| call.fault(&error))?;
    let view = view.ok_or_else(|| tasks::not_found(call, id))?;
    let output = match view.task.has_ended() {
        true => {
            let output = results::read(call.bridge, &view.task, outlet).await;
            output.map_err(|unread| unread.to_jsonrpc_error(call.bridge))?
        }
        false => None,
    };
    Ok((view, output))
}

/// Builds the answer of a call: the result if its task has ended, otherwise a handle.
fn finished(call: &StatelessCall<'_>, view: &View, output: Option<Output>, preface: Option<&str>) -> Outcome {
    if !view.task.has_ended() {
        let companions = call.is_offered(Companion::Wait);
        let handle = ToolResult::handle(call.bridge, view, call.client_for(&view.task), companions, preface);
        return Ok(to_wire::tool_result(handle));
    }
    call.bridge.audit.note(AuditEvent::Read { task: &view.task, part: Part::Result });
    ToolResult::ended(call.bridge, view, output, preface).map(to_wire::tool_result)
}

async fn run_companion(
    call: &StatelessCall<'_>,
    companion: Companion,
    wanted: from_wire::Call,
    outlet: &dyn MessageSink,
) -> Outcome {
    let arguments = Value::Object(wanted.arguments);
    let said = match CompanionCall::read(companion, &arguments) {
        Err(problem) => CompanionResult::refusal(problem),
        Ok(CompanionCall::Errand(errand)) => {
            let done = companions::run(call.bridge, &call.asker.principal, call.client(), errand).await;
            done.map_err(|error| call.fault(&error))?
        }
        Ok(CompanionCall::Wait(WaitCall { id, patience })) => {
            let found = call.bridge.service.get(&call.actor(), &id).await;
            if let Some(view) = found.map_err(|error| call.fault(&error))? {
                let budget = call.bridge.settings().call_budget;
                let now = call.bridge.clock.now();
                let until = now + patience.map_or(budget, |patience| patience.min(budget));
                let mut hears_since = now;
                let fingerprint = format!("{} {id}", companion.name());
                let target = CallTarget { name: companion.name(), fingerprint, inquiries: &[] };
                if let Some(begun) = rounds::resumed(call, &target, &wanted.retry)? {
                    hears_since = begun.heard;
                    tasks::give(call, &view.task, &wanted.retry.responses.unwrap_or_default()).await?;
                }
                let patience = WaitOptions { until, progress_token: wanted.progress_token, hears_since };
                let wait = PlainWait { id, patience, preface: None };
                return wait.run(call, &target, None, outlet).await;
            }
            companions::no_task(call.bridge, call.owner(), &id)
        }
    };
    Ok(to_wire::tool_result(ToolResult::said(said)))
}
