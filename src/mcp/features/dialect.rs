//! [`Dialect`]: one request, and what its generation of the protocol does differently. The features are
//! written once over it; each generation implements it. A new generation must need no change in a feature.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use taskbridge_sdk::{Content, Timestamp};

use super::context::FeatureContext;
use super::resources::EngineReads;
use super::tools::progress::ProgressReport;
use super::tools::result::ToolResult;
use crate::auth::Principal;
use crate::catalog::{TaskSupport, Tool};
use crate::mcp::session::log_cursor::{LogCursor, LogMessage};
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::Error;
use crate::mcp::wire::params::CallParams;
use crate::mcp::wire::types;
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// A request in its generation. See [`super::request::RequestExt`] for what all of them share.
#[async_trait]
pub trait Dialect: Send + Sync {
    /// What the features share.
    fn context(&self) -> &FeatureContext;

    /// Reads logs and artifacts from engines.
    fn reads(&self) -> &EngineReads;

    /// The authenticated caller.
    fn principal(&self) -> &Principal;

    /// Name of the revision. Cached pages differ by it.
    fn revision(&self) -> &'static str;

    /// Capabilities of the client.
    fn client(&self) -> ClientCapabilities;

    /// Nonce of the session, which names the channel of its tasks; `None` for a request outside of a session.
    fn session(&self) -> Option<&str> {
        None
    }

    /// Whether `companion_tools = "auto"` offers `task_wait`, `task_cancel` and `task_answer`.
    fn offers_companions(&self) -> bool;

    /// Whether prompts and resources can have a title, and annotations a modification time. Tools always can
    /// have a title.
    fn has_titles(&self) -> bool {
        true
    }

    /// Whether a client can continue a broken stream on a new connection. Otherwise a request that waits is
    /// answered with the current state when the server stops.
    fn resumes_streams(&self) -> bool {
        false
    }

    /// Parses the parameters of `tools/call`.
    fn call_params(&self, params: Value) -> Result<CallParams, Error>;

    /// Selects whether a call of a tool with this support for tasks is answered with a task.
    ///
    /// # Errors
    /// If the tool does not support what the call requests, or requires what the client lacks.
    fn call_mode(&self, tool: &str, support: TaskSupport, params: &CallParams) -> Result<CallMode, Error>;

    /// Runs before the task of a call is created, for a generation that asks for missing input first.
    ///
    /// # Errors
    /// The error to answer with.
    async fn begin_call(&self, _tool: &Arc<Tool>, params: &mut CallParams) -> Result<CallStart, Error> {
        let input = CallInput { arguments: std::mem::take(&mut params.arguments), ..CallInput::default() };
        Ok(CallStart::Proceed(input))
    }

    /// As [`Self::begin_call`], for a call of `task_wait`. Returns the time up to which log messages were
    /// sent, if the call repeats an earlier one.
    ///
    /// # Errors
    /// The error to answer with.
    async fn begin_wait(
        &self,
        _task: &Task,
        _fingerprint: &str,
        _params: &CallParams,
    ) -> Result<Option<Timestamp>, Error> {
        Ok(None)
    }

    /// As [`Self::begin_call`], for the arguments of a prompt.
    ///
    /// # Errors
    /// The error to answer with.
    async fn prompt_input(
        &self,
        _name: &str,
        arguments: BTreeMap<String, String>,
        _params: &Value,
    ) -> Result<PromptInput, Error> {
        Ok(PromptInput::Complete(arguments))
    }

    /// Whether a tool's question for consent can be sent once the task exists.
    fn asks_consent_in_task(&self) -> bool {
        false
    }

    /// Returns the answer to a call that created no task.
    ///
    /// # Errors
    /// The error to answer with, where the client expects no tool result.
    fn refused_call(&self, refusal: CallRefusal, mode: CallMode) -> Result<Value, Error>;

    /// How long a call that is answered with a task first waits for the result; `None` answers at once.
    fn quick_wait(&self) -> Option<Duration> {
        None
    }

    /// Returns the answer to a call that became a task.
    fn created_task(&self, view: &View, is_new: bool) -> Value;

    /// Writes a tool result.
    fn tool_result(&self, result: ToolResult) -> Value;

    /// Whether this client answers the open questions of a task by repeating its request.
    fn is_input_required(&self, _task: &Task) -> bool {
        false
    }

    /// Returns the answer that asks these questions ([`Self::is_input_required`]).
    fn input_required(&self, _fingerprint: &str, _task: &Task) -> Value {
        Value::Null
    }

    /// Opens what a request sends while it waits for a task.
    fn wait_channel<'a>(&'a self, task: &TaskId, sink: &'a dyn MessageSink) -> Box<dyn WaitChannel + 'a>;

    /// Writes an entry of `tools/list`.
    fn tool(&self, tool: types::Tool<'_>, support: TaskSupport) -> Value;

    /// Adds to a result what this generation adds to each. Tool results and created tasks have methods of
    /// their own.
    fn result(&self, body: Value, cache: Option<Cache>) -> Value;

    /// Converts a content block of a prompt.
    fn content(&self, content: Content) -> Content {
        content
    }

    /// Error code for a resource that does not exist.
    fn resource_not_found(&self) -> i32;
}

/// What a request sends on its own stream while it waits for a task.
#[async_trait]
pub trait WaitChannel: Send + Sync {
    /// Returns a subscription to changes outside of the task's row, after which [`Self::sync`] has work.
    fn changes(&mut self) -> Option<ChangeSubscription> {
        None
    }

    /// Whether [`Self::sync`] has work for this state of the task.
    fn has_work(&self, _task: &Task) -> bool {
        false
    }

    /// Whether [`Self::sync`] may have work after a hint about the task, although its row is unchanged.
    fn follows_hints(&self) -> bool {
        false
    }

    /// Sends what is due, except progress and log messages. Returns when it has work again, at the latest.
    ///
    /// # Errors
    /// If the store fails.
    async fn sync(&mut self, _task: &Task) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    /// Whether the task's log messages are sent here.
    fn sends_logs(&self, task: &Task) -> bool;

    /// Sends log messages, except those below the client's level.
    ///
    /// # Errors
    /// If the store fails.
    async fn send_logs(&mut self, messages: Vec<LogMessage>) -> Result<(), StoreError>;

    /// Sends a progress report.
    async fn send_progress(&mut self, token: &Value, report: ProgressReport);

    /// Ends the wait, before the request is answered.
    ///
    /// # Errors
    /// If the store fails.
    async fn finish(self: Box<Self>, _task: &Task, _logs: Option<LogCursor>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// How a call of a tool is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// With a task.
    Task,
    /// With the result or, after the time budget, with a handle.
    Plain,
}

/// Next step of a call.
pub enum CallStart {
    /// All input is complete: the task is created.
    Proceed(CallInput),
    /// The call is answered with this result. Nothing was started.
    Answer(Value),
    /// The call continues with the task of an earlier call.
    Resume(ResumedCall),
}

/// The input of a call.
#[derive(Debug, Default)]
pub struct CallInput {
    /// The arguments, including those that the client was asked for.
    pub arguments: Map<String, Value>,
    /// True if the consent that a tool requires was given.
    pub consented: bool,
    /// Nonce of the call, if it took more than one round.
    pub nonce: Option<String>,
    /// Digest of the call, by which a repeated call is recognized. Empty in a generation without repeated
    /// calls.
    pub fingerprint: String,
}

/// A call that continues with an existing task.
pub struct ResumedCall {
    /// The task.
    pub task: Task,
    /// Log messages up to this time count as sent.
    pub logs_since: Timestamp,
    /// As in [`CallInput`].
    pub fingerprint: String,
}

/// The arguments of a prompt, or the result that asks for missing ones.
pub enum PromptInput {
    /// All arguments.
    Complete(BTreeMap<String, String>),
    /// The request is answered with this result.
    InputRequired(Value),
}

/// Why a call created no task.
#[derive(Debug)]
pub enum CallRefusal {
    /// The model can correct the call.
    InvalidCall(String),
    /// A limit is reached; a retry later can succeed.
    Busy(String),
}

/// How long a client may cache a result, and whether callers can share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// How long.
    pub ttl: Duration,
    /// True if the result is the same for all callers.
    pub is_public: bool,
}
