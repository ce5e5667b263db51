//! [`SessionCall`] as a [`Dialect`]: how the revisions with sessions differ from the other generation. It
//! must not handle a method.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use taskbridge_sdk::{Content, Timestamp};

use super::questions::QuestionSender;
use super::{OFFERS_COMPANIONS, SessionCall, from_wire, logging, to_wire};
use crate::auth::Principal;
use crate::catalog::TaskSupport;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::dialect::{Cache, CallMode, CallRefusal, Dialect, WaitChannel};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::resources::EngineReads;
use crate::mcp::features::tools::progress::ProgressReport;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::log_cursor::{LogCursor, LogMessage};
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::{ClientCapabilities, Session};
use crate::mcp::wire::jsonrpc::{Error, METHOD_NOT_FOUND};
use crate::mcp::wire::params::CallParams;
use crate::mcp::wire::revision::Revision;
use crate::mcp::wire::types;
use crate::sessions::SessionChange;
use crate::sessions::streams::StreamEvent;
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// JSON-RPC error code of a task-augmented call that exceeds a limit of its tool or owner. A plain call gets
/// a tool result with the error.
const BUSY: i32 = -32000;

/// Error code for a resource that does not exist.
const RESOURCE_NOT_FOUND: i32 = -32002;

#[async_trait]
impl Dialect for SessionCall<'_> {
    fn context(&self) -> &FeatureContext {
        &self.bridge.context
    }

    fn reads(&self) -> &EngineReads {
        &self.bridge.reads
    }

    fn principal(&self) -> &Principal {
        &self.caller.principal
    }

    fn revision(&self) -> &'static str {
        self.session.revision.as_str()
    }

    fn client(&self) -> ClientCapabilities {
        self.session.client
    }

    fn session(&self) -> Option<&str> {
        Some(&self.session.nonce)
    }

    fn offers_companions(&self) -> bool {
        OFFERS_COMPANIONS
    }

    fn has_titles(&self) -> bool {
        self.session.revision >= Revision::V2025_06_18
    }

    fn resumes_streams(&self) -> bool {
        true
    }

    fn call_params(&self, params: Value) -> Result<CallParams, Error> {
        from_wire::call(params, self.has_tasks())
    }

    fn call_mode(&self, tool: &str, support: TaskSupport, params: &CallParams) -> Result<CallMode, Error> {
        let message = match (&params.task, support) {
            (Some(_), TaskSupport::Required | TaskSupport::Optional) => return Ok(CallMode::Task),
            (None, TaskSupport::Optional | TaskSupport::Forbidden) => return Ok(CallMode::Plain),
            (Some(_), TaskSupport::Forbidden) => {
                format!("tool {tool:?} cannot be called as a task: call it without `params.task`")
            }
            (None, TaskSupport::Required) => {
                format!("tool {tool:?} runs only as a task: call it with `params.task`")
            }
        };
        Err(Error::new(METHOD_NOT_FOUND, message))
    }

    fn asks_consent_in_task(&self) -> bool {
        self.session.client.elicitation_form
    }

    fn refused_call(&self, refusal: CallRefusal, mode: CallMode) -> Result<Value, Error> {
        match (refusal, mode) {
            (CallRefusal::InvalidCall(message) | CallRefusal::Busy(message), CallMode::Plain) => {
                Ok(self.tool_result(ToolResult::error(message)))
            }
            // Without a task there is no result in which a client that expects a task could read the error.
            (CallRefusal::InvalidCall(message), CallMode::Task) => Err(from_wire::invalid(message)),
            (CallRefusal::Busy(message), CallMode::Task) => Err(Error::new(BUSY, message)),
        }
    }

    fn created_task(&self, view: &View, is_new: bool) -> Value {
        to_wire::created_task(self.context(), view, is_new, self.client_for(&view.task))
    }

    fn tool_result(&self, result: ToolResult) -> Value {
        to_wire::tool_result(self.session.revision, result, None)
    }

    fn wait_channel<'a>(&'a self, task: &TaskId, sink: &'a dyn MessageSink) -> Box<dyn WaitChannel + 'a> {
        let question_sender = QuestionSender::new(self, sink, Duration::ZERO, Some(task));
        Box::new(SessionChannel { call: self, sink, question_sender })
    }

    fn tool(&self, mut tool: types::Tool<'_>, support: TaskSupport) -> Value {
        let task_support = match support {
            TaskSupport::Required => "required",
            TaskSupport::Optional => "optional",
            TaskSupport::Forbidden => "forbidden",
        };
        if self.session.revision < Revision::V2025_06_18 {
            tool.output_schema = None;
        }
        tool.execution = self.has_tasks().then(|| json!({ "taskSupport": task_support }));
        types::value(&tool)
    }

    fn result(&self, body: Value, _cache: Option<Cache>) -> Value {
        body
    }

    fn content(&self, content: Content) -> Content {
        to_wire::block(self.session.revision, content)
    }

    fn resource_not_found(&self) -> i32 {
        RESOURCE_NOT_FOUND
    }
}

/// The stream of a request that waits for a task. It also sends the task's questions.
struct SessionChannel<'a> {
    call: &'a SessionCall<'a>,
    sink: &'a dyn MessageSink,
    question_sender: QuestionSender<'a>,
}

#[async_trait]
impl WaitChannel for SessionChannel<'_> {
    fn changes(&mut self) -> Option<ChangeSubscription> {
        let SessionCall { bridge, session, .. } = self.call;
        // The task's row contains neither the state of the client's own tasks nor whether the client is
        // ready.
        let watches_session = session.client.can_run_tasks()
            || bridge.sessions.uninitialized.may_have(session, bridge.context.clock.now());
        watches_session.then(|| bridge.context.service.changes(&session.nonce))
    }

    fn has_work(&self, task: &Task) -> bool {
        self.question_sender.has_work(task)
    }

    fn follows_hints(&self) -> bool {
        self.question_sender.follows_deliveries()
    }

    async fn sync(&mut self, task: &Task) -> Result<Option<Timestamp>, StoreError> {
        let questions = self.question_sender.sync(task).await?;
        Ok(questions.into_iter().chain(self.question_sender.collect().await?).min())
    }

    /// If the client knows the task, a listening stream sends its log messages.
    fn sends_logs(&self, task: &Task) -> bool {
        task.undelivered.is_some() || !self.call.has_tasks()
    }

    async fn send_logs(&mut self, messages: Vec<LogMessage>) -> Result<(), StoreError> {
        logging::send_log_messages(self.call, messages, None, self.sink).await
    }

    async fn send_progress(&mut self, token: &Value, report: ProgressReport) {
        let ProgressReport { progress, total, message } = report;
        let params = types::progress(token, progress, total, Some(message));
        self.sink.send(to_wire::notification("notifications/progress", params)).await;
    }

    async fn finish(self: Box<Self>, task: &Task, logs: Option<LogCursor>) -> Result<(), StoreError> {
        let SessionCall { bridge, session, .. } = self.call;
        let Session { nonce, expires, .. } = session;
        if let Some(logs) = logs {
            // From here on the session's listening stream sends the log messages: in this process, or in
            // another one over the same store.
            bridge.sessions.stream_election.store_request_cursor(nonce, task, logs);
            if let Some(report) = logs.request_report(task).filter(|_| bridge.sessions.is_shared) {
                let event = SessionChange::Streams(StreamEvent::Reported(vec![report]));
                bridge.sessions.store.set(nonce, event, *expires).await?;
            }
        }
        self.question_sender.finish().await
    }
}
