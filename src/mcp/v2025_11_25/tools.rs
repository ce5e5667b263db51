//! `tools/list` and `tools/call`.

use std::sync::Arc;

use serde_json::Value;
use taskbridge_sdk::{Output, Timestamp};

use super::from_wire::TaskAugmentation;
use super::wait::{WaitOptions, wait};
use super::{OFFERS_COMPANIONS, SessionCall, from_wire, tasks, to_wire, wire};
use crate::catalog::{Consent, OnAbandon, PrepareError, Request, TaskSupport, Tool};
use crate::mcp::authorization;
use crate::mcp::companions::{self, Companion, CompanionCall, CompanionResult, WaitCall};
use crate::mcp::fallback;
use crate::mcp::jsonrpc::{Error, Id, METHOD_NOT_FOUND, Outcome, SharedText};
use crate::mcp::log_cursor::LogCursor;
use crate::mcp::message_sink::{MessageSink, Resume};
use crate::mcp::progress::Reports;
use crate::mcp::results;
use crate::mcp::spans;
use crate::mcp::tool_list::{self, Entry};
use crate::mcp::tool_result::ToolResult;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::{CallError, CallGuard, CallResult, View};
use crate::tasks::task::{Origin, TaskId};

/// JSON-RPC error code of a task-augmented call that exceeds a limit of its tool or owner. A plain call gets
/// a tool result with the error.
const BUSY: i32 = -32000;

/// `tools/list`: the companion tools, then the catalog by name.
pub(super) fn list(call: &SessionCall<'_>, params: &Value) -> Outcome<SharedText> {
    let (at, shown) = (from_wire::cursor(params)?, (call.revision().as_str(), OFFERS_COMPANIONS));
    let page = tool_list::page(call.bridge, &call.caller.principal, shown, at, |entries| {
        let tools = entries.iter().map(|entry| match entry {
            Entry::Tool(tool) => listed(call, tool),
            Entry::Companion(companion) => listed_companion(call, *companion),
        });
        to_wire::value(&wire::ListToolsResult { tools: tools.collect() })
    });
    page.ok_or_else(from_wire::bad_cursor)
}

fn listed(call: &SessionCall<'_>, tool: &Tool) -> Value {
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
        output_schema: declared.map(|declared| fallback::output_schema(declared, tool.task_support)),
        annotations: Some(&tool.annotations).filter(|annotations| annotations.is_object()),
        execution: call.has_tasks().then_some(wire::ToolExecution { task_support }),
    })
}

fn listed_companion(call: &SessionCall<'_>, companion: Companion) -> Value {
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
    outlet: &dyn MessageSink,
) -> Outcome {
    let wanted = from_wire::call(params, call.has_tasks())?;
    if let Some(companion) = Companion::named(&wanted.name).filter(|companion| call.is_offered(*companion)) {
        if wanted.task.is_some() {
            return Err(not_as_task(&wanted.name));
        }
        return run_companion(call, request, companion, wanted, outlet).await;
    }
    let catalog = call.bridge.catalog();
    let tool = authorization::called(call.bridge, &call.caller.principal, &catalog, &wanted.name)?;
    match (&wanted.task, tool.task_support) {
        (Some(_), TaskSupport::Forbidden) => Err(not_as_task(&tool.name)),
        (None, TaskSupport::Required) => Err(Error::new(
            METHOD_NOT_FOUND,
            format!("tool {:?} runs only as a task: call it with `params.task`", tool.name),
        )),
        (Some(_), _) => call_as_task(call, tool, wanted).await,
        (None, _) => call_plain(call, request, tool, wanted, outlet).await,
    }
}

fn not_as_task(tool: &str) -> Error {
    let message = format!("tool {tool:?} cannot be called as a task: call it without `params.task`");
    Error::new(METHOD_NOT_FOUND, message)
}

async fn call_as_task(call: &SessionCall<'_>, tool: &Arc<Tool>, wanted: from_wire::Call) -> Outcome {
    match make(call, tool, wanted).await {
        Ok(called) => {
            let is_new = matches!(called, CallResult::Created(_));
            let task = called.into_task();
            // A plain call with the same key may have created the task. With this answer its owner learns of
            // the task.
            call.note_delivered(&task).await;
            let view = call.bridge.service.view(task).await;
            let view = view.map_err(|error| call.fault(&error))?;
            Ok(to_wire::created(call.bridge, &view, is_new, call.client_for(&view.task)))
        }
        // Without a task there is no result in which a client that expects a task could read the error.
        Err(TaskCreateError::ForTheModel(message)) => Err(from_wire::invalid(message)),
        Err(TaskCreateError::Busy(message)) => Err(Error::new(BUSY, message)),
        Err(TaskCreateError::Error(error)) => Err(error),
    }
}

async fn call_plain(
    call: &SessionCall<'_>,
    request: Id,
    tool: &Arc<Tool>,
    wanted: from_wire::Call,
    outlet: &dyn MessageSink,
) -> Outcome {
    let progress_token = wanted.progress_token.clone();
    let called = match make(call, tool, wanted).await {
        Ok(called) => called,
        Err(TaskCreateError::ForTheModel(message) | TaskCreateError::Busy(message)) => {
            return Ok(to_wire::tool_result(call.revision(), ToolResult::error(message), None));
        }
        Err(TaskCreateError::Error(error)) => return Err(error),
    };
    let (attached, existing) =
        (matches!(called, CallResult::Attached(_)), matches!(called, CallResult::Existing(_)));
    let created = matches!(called, CallResult::Created(_));
    let task = called.into_task();
    let waiting = if existing {
        // A caller with the key can find the task again. The call that created it may still wait, and neither
        // of the two may stop the other's job by disconnecting.
        call.note_delivered(&task).await;
        None
    } else {
        Some(call.bridge.service.waiting(&task, tool.on_abandon == OnAbandon::Cancel))
    };
    let preface = attached.then(|| fallback::attached(&task));
    let began = call.bridge.clock.now();
    let until = began + call.bridge.settings().call_budget;
    // A new task may have logged something already.
    let hears_since = if created { Timestamp::from_millis(0) } else { began };
    let wait = PlainWait { id: task.id, began, until, resumed: false, progress_token, preface, hears_since };
    wait.announce(request, outlet);
    wait.run(call, waiting, outlet).await
}

/// Reason why a call created no task.
enum TaskCreateError {
    /// The model can correct the call.
    ForTheModel(String),
    /// A limit is reached; a retry later can succeed.
    Busy(String),
    /// Any other error.
    Error(Error),
}

/// Creates the task of a call.
async fn make(
    call: &SessionCall<'_>,
    tool: &Arc<Tool>,
    wanted: from_wire::Call,
) -> Result<CallResult, TaskCreateError> {
    let from_wire::Call { arguments, task, progress_token, idempotency_key, trace, .. } = wanted;
    let waits = task.is_none().then_some(call.bridge.settings().call_budget);
    // Progress of a plain call ends with its answer. Progress of a task continues until the task ends.
    let origin = Origin {
        session: call.caller.session.as_ref().map(|session| session.nonce.clone()),
        progress_token: progress_token.filter(|_| task.is_some()),
        trace: spans::carry(trace),
        ..Origin::default()
    };
    let prepared = tool
        .prepare(Request {
            principal: call.caller.principal.clone(),
            origin,
            arguments,
            ttl: task.and_then(|TaskAugmentation { ttl }| ttl),
            idempotency_key,
            nonce: None,
            waits,
            consent: match call.client().elicitation_form {
                true => Consent::Ask,
                // Another caller is asked, not this client.
                false if !authorization::may_consent(&call.caller.principal, tool) => Consent::Ask,
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
            Err(TaskCreateError::Busy(over.to_string()))
        }
        Err(wrong @ (CallError::Reference { .. } | CallError::Unconnected { .. })) => {
            Err(TaskCreateError::ForTheModel(wrong.to_string()))
        }
        Err(reused @ CallError::KeyReused { .. }) => {
            Err(TaskCreateError::Error(from_wire::invalid(reused.to_string())))
        }
        Err(CallError::Store(error)) => Err(TaskCreateError::Error(call.fault(&error))),
    }
}

/// A request that waits for a task within the time budget of a plain call.
pub(super) struct PlainWait {
    pub(super) id: TaskId,
    pub(super) began: Timestamp,
    pub(super) until: Timestamp,
    /// True if another stream may have reported progress before.
    pub(super) resumed: bool,
    pub(super) progress_token: Option<Value>,
    pub(super) preface: Option<String>,
    /// Log messages up to this time count as sent.
    pub(super) hears_since: Timestamp,
}

impl PlainWait {
    /// Sets on the stream how the wait can be resumed.
    fn announce(&self, request: Id, outlet: &dyn MessageSink) {
        outlet.resumable(Resume::Wait {
            id: request,
            task: self.id.clone(),
            began: Some(self.began.as_millis()),
            until: Some(self.until.as_millis()),
            progress_token: self.progress_token.clone(),
        });
    }

    /// Waits, then answers with the result, or with a handle if there is none yet.
    pub(super) async fn run(
        self,
        call: &SessionCall<'_>,
        waiting: Option<CallGuard>,
        outlet: &dyn MessageSink,
    ) -> Outcome {
        let waiting = waiting.map(|waiting| PlainWaitGuard { waiting: Some(waiting), outlet });
        let (view, output) = match self.reach(call, outlet).await {
            Ok(reached) => reached,
            Err(error) => {
                if let Some(waiting) = waiting {
                    call.note_handed_on(waiting.take()).await;
                }
                return Err(error);
            }
        };
        match waiting {
            Some(waiting) => call.note_answered(waiting.take()).await,
            None => call.note_delivered(&view.task).await,
        }
        answer(call, &view, output, self.preface.as_deref())
    }

    /// Waits, then reads what the answer needs.
    async fn reach(
        &self,
        call: &SessionCall<'_>,
        outlet: &dyn MessageSink,
    ) -> Result<(View, Option<Output>), Error> {
        let reports = self.progress_token.clone().map(|token| Reports {
            token,
            began: self.began,
            resumed: self.resumed,
        });
        let heard = Some(LogCursor::by_request(self.hears_since));
        let patience = WaitOptions { until: Some(self.until), reports, heard };
        let view = wait(call, &self.id, patience, outlet).await.map_err(|error| call.fault(&error))?;
        let view = view.ok_or_else(|| tasks::not_found(call, &self.id))?;
        let output = match view.task.has_ended() {
            true => {
                let output = results::read(call.bridge, &view.task, outlet).await;
                output.map_err(|unread| unread.to_jsonrpc_error(call.bridge))?
            }
            false => None,
        };
        Ok((view, output))
    }
}

/// Guard of a plain call while its stream is open. If a newer stream of the same call replaces this one, the
/// client has not abandoned the call.
struct PlainWaitGuard<'a> {
    waiting: Option<CallGuard>,
    outlet: &'a dyn MessageSink,
}

impl PlainWaitGuard<'_> {
    fn take(mut self) -> CallGuard {
        self.waiting.take().expect("only this takes it, and it takes the whole")
    }
}

impl Drop for PlainWaitGuard<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take()
            && self.outlet.is_superseded()
        {
            waiting.spare();
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
    call.bridge.audit.note(AuditEvent::Read { task: &view.task, part: Part::Result });
    to_wire::ended(call.bridge, view, output, style)
}

async fn run_companion(
    call: &SessionCall<'_>,
    request: Id,
    companion: Companion,
    wanted: from_wire::Call,
    outlet: &dyn MessageSink,
) -> Outcome {
    let said = match CompanionCall::read(companion, &wanted.arguments) {
        Err(problem) => CompanionResult::refusal(problem),
        Ok(CompanionCall::Errand(errand)) => {
            let done = companions::run(call.bridge, &call.caller.principal, call.client(), errand).await;
            done.map_err(|error| call.fault(&error))?
        }
        Ok(CompanionCall::Wait(WaitCall { id, patience })) => {
            let found = call.bridge.service.get(&call.actor(), &id).await;
            if found.map_err(|error| call.fault(&error))?.is_none() {
                companions::no_task(call.bridge, call.owner(), &id)
            } else {
                let budget = call.bridge.settings().call_budget;
                let began = call.bridge.clock.now();
                let until = began + patience.map_or(budget, |patience| patience.min(budget));
                let progress_token = wanted.progress_token;
                let wait = PlainWait {
                    id,
                    began,
                    until,
                    resumed: false,
                    progress_token,
                    preface: None,
                    hears_since: began,
                };
                wait.announce(request, outlet);
                return wait.run(call, None, outlet).await;
            }
        }
    };
    Ok(to_wire::tool_result(call.revision(), ToolResult::said(said), None))
}
