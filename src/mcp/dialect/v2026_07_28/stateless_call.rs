//! [`StatelessCall`] as a [`Dialect`]: how the revision without sessions differs from the other generation.
//! It must not handle a method.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use taskbridge_sdk::Timestamp;

use super::rounds::{self, AskingTask, CallTarget, NextStep};
use super::{StatelessCall, errors, from_wire, prompt_input, questions, tasks, to_wire};
use crate::auth::Principal;
use crate::catalog::{TaskSupport, Tool};
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::dialect::{
    Cache, CallMode, CallRefusal, CallStart, Dialect, PromptInput, ResumedCall, WaitChannel,
};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::resources::EngineReads;
use crate::mcp::features::tools::progress::ProgressReport;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::session::log_cursor::LogMessage;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::{Error, INVALID_PARAMS};
use crate::mcp::wire::params::CallParams;
use crate::mcp::wire::{revision, types};
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};

#[async_trait]
impl Dialect for StatelessCall<'_> {
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
        revision::MODERN
    }

    fn client(&self) -> ClientCapabilities {
        self.caller.client
    }

    /// Only clients without task support need them.
    fn offers_companions(&self) -> bool {
        !self.caller.tasks
    }

    fn call_params(&self, params: Value) -> Result<CallParams, Error> {
        from_wire::call(params)
    }

    fn call_mode(&self, tool: &str, support: TaskSupport, _params: &CallParams) -> Result<CallMode, Error> {
        match (self.caller.tasks, support) {
            (true, TaskSupport::Required | TaskSupport::Optional) => Ok(CallMode::Task),
            (false, TaskSupport::Required) => Err(errors::needs_tasks(tool)),
            (_, TaskSupport::Optional | TaskSupport::Forbidden) => Ok(CallMode::Plain),
        }
    }

    async fn begin_call(&self, tool: &Arc<Tool>, params: &mut CallParams) -> Result<CallStart, Error> {
        let fingerprint = tool.fingerprint(&params.arguments, params.idempotency_key.as_deref()).await;
        let target = CallTarget { name: &tool.name, fingerprint, inquiries: tool.inquiries() };
        if let Some(asking_task) = rounds::resumed_task(self, &target, &params.retry)? {
            let AskingTask { task: id, heard: logs_since } = asking_task;
            let view = self.find_task(&id).await?;
            tasks::store_answers(self, &view.task, &params.retry.responses.take().unwrap_or_default())
                .await?;
            let fingerprint = target.fingerprint;
            return Ok(CallStart::Resume(ResumedCall { task: view.task, logs_since, fingerprint }));
        }
        match rounds::next_step(self, &target, Some(tool), &params.arguments, &params.retry).await? {
            NextStep::Ask(result) => {
                // A call that will be refused must not ask anything.
                let refusal = self.bridge.context.service.check_connected(tool.backend(), &tool.name).err();
                Ok(CallStart::Answer(
                    refusal.map_or(result, |refusal| {
                        to_wire::tool_result(ToolResult::error(refusal.to_string()))
                    }),
                ))
            }
            NextStep::Refused(reason) => {
                Ok(CallStart::Answer(to_wire::tool_result(ToolResult::error(reason))))
            }
            NextStep::Proceed(input) => Ok(CallStart::Proceed(input)),
        }
    }

    async fn begin_wait(
        &self,
        task: &Task,
        fingerprint: &str,
        params: &CallParams,
    ) -> Result<Option<Timestamp>, Error> {
        let target = CallTarget { name: &params.name, fingerprint: fingerprint.to_owned(), inquiries: &[] };
        let Some(asking_task) = rounds::resumed_task(self, &target, &params.retry)? else { return Ok(None) };
        let responses = params.retry.responses.as_ref();
        tasks::store_answers(self, task, responses.unwrap_or(&serde_json::Map::new())).await?;
        Ok(Some(asking_task.heard))
    }

    async fn prompt_input(
        &self,
        name: &str,
        arguments: BTreeMap<String, String>,
        params: &Value,
    ) -> Result<PromptInput, Error> {
        prompt_input::collect(self, name, arguments, params).await
    }

    fn refused_call(&self, refusal: CallRefusal, _mode: CallMode) -> Result<Value, Error> {
        let (CallRefusal::InvalidCall(message) | CallRefusal::Busy(message)) = refusal;
        Ok(to_wire::tool_result(ToolResult::error(message)))
    }

    fn quick_wait(&self) -> Option<Duration> {
        Some(self.bridge.context.settings().quick_wait)
    }

    fn created_task(&self, view: &View, _is_new: bool) -> Value {
        let task = to_wire::task(self.context(), view, self.client_for(&view.task));
        to_wire::created_task(task, &view.task.refers_to)
    }

    fn tool_result(&self, result: ToolResult) -> Value {
        to_wire::tool_result(result)
    }

    fn is_input_required(&self, task: &Task) -> bool {
        questions::has_questions(self, task)
    }

    fn input_required(&self, fingerprint: &str, task: &Task) -> Value {
        let input_requests = questions::input_requests(self, task);
        rounds::ask_for_task(self, fingerprint, task, input_requests)
    }

    fn wait_channel<'a>(&'a self, _task: &TaskId, sink: &'a dyn MessageSink) -> Box<dyn WaitChannel + 'a> {
        Box::new(StatelessChannel { call: self, sink })
    }

    fn tool(&self, tool: types::Tool<'_>, _support: TaskSupport) -> Value {
        types::value(&tool)
    }

    fn result(&self, mut body: Value, cache: Option<Cache>) -> Value {
        let added = match cache {
            None => to_wire::complete(json!({})),
            Some(Cache { ttl, is_public }) => to_wire::cacheable(json!({}), ttl, is_public),
        };
        // The body may be large, and is not copied.
        if let (Value::Object(body), Value::Object(added)) = (&mut body, added) {
            body.extend(added);
        }
        body
    }

    fn resource_not_found(&self) -> i32 {
        INVALID_PARAMS
    }
}

/// The stream of a request that waits for a task.
struct StatelessChannel<'a> {
    call: &'a StatelessCall<'a>,
    sink: &'a dyn MessageSink,
}

#[async_trait]
impl WaitChannel for StatelessChannel<'_> {
    /// Only a request that sets a level gets log messages.
    fn sends_logs(&self, _task: &Task) -> bool {
        self.call.caller.log_level.is_some()
    }

    async fn send_logs(&mut self, messages: Vec<LogMessage>) -> Result<(), StoreError> {
        let min_level = self.call.caller.log_level;
        for message in messages.into_iter().filter(|message| Some(message.level) >= min_level) {
            let LogMessage { level, logger, data } = message;
            let params = json!({ "level": level, "logger": logger, "data": data });
            self.sink.send(to_wire::notification("notifications/message", params)).await;
        }
        Ok(())
    }

    async fn send_progress(&mut self, token: &Value, report: ProgressReport) {
        let ProgressReport { progress, total, message } = report;
        let params = types::progress(token, progress, total, Some(message));
        self.sink.send(to_wire::notification("notifications/progress", params)).await;
    }
}
