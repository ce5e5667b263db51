//! Drives crates.io `rmcp` 3.x. It has the requests of 2026-07-28's tasks, but no loop that drives them. See
//! `drive.rs`.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rmcp3::model::{
    ArgumentInfo, CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities,
    ClientConfig, CompleteRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, GetPromptRequestParams, GetTaskParams, Implementation, InputRequest,
    InputRequests, InputResponses, JsonObject, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams, Reference, TASKS_EXTENSION_ID, TaskPayload, UpdateTaskParams,
};
use rmcp3::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
};
use rmcp3::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp3::{ClientHandler, ErrorData, RoleClient};
use serde_json::Value;

use crate::drive::{Arguments, Driven, Setup, User, has_ended};

/// The user behind the library's handler, and the client's capabilities.
#[derive(Clone)]
struct Handler {
    user: User,
    tasks: bool,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        if self.tasks {
            capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
        }
        ClientConfig::new(capabilities, Implementation::new("taskbridge-e2e", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("only forms are answered", None));
        };
        Ok(self.answer(&message))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.user.came_to(progress.progress);
    }
}

impl Handler {
    fn answer(&self, message: &str) -> ElicitResult {
        match self.user.answer(message) {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            None => ElicitResult::new(ElicitationAction::Decline),
        }
    }

    /// Answers the questions of a call or a task.
    fn answers(&self, requests: &InputRequests) -> Result<InputResponses> {
        let answer = |request: &InputRequest| match request {
            InputRequest::Elicitation(request) => match &request.params {
                ElicitRequestParams::FormElicitationParams { message, .. } => {
                    Ok(serde_json::to_value(self.answer(message))?)
                }
                other => bail!("not a form: {other:?}"),
            },
            other => bail!("not an elicitation: {other:?}"),
        };
        requests.iter().map(|(key, request)| Ok((key.clone(), answer(request)?))).collect()
    }
}

/// The library, connected or not.
pub struct Rmcp3 {
    setup: Setup,
    session: Option<RunningService<RoleClient, Handler>>,
}

impl Rmcp3 {
    pub fn new(setup: Setup) -> Self {
        Self { setup, session: None }
    }

    fn session(&self) -> Result<&RunningService<RoleClient, Handler>> {
        self.session.as_ref().context("not connected")
    }

    /// Calls a tool, and answers the questions before its start. The library's own loop for this does not
    /// support tasks.
    async fn answered(&self, mut params: CallToolRequestParams) -> Result<CallToolResponse> {
        let session = self.session()?;
        loop {
            match session.call_tool_once(params.clone()).await? {
                CallToolResponse::InputRequired(input_request) => {
                    let answers =
                        session.service().answers(&input_request.input_requests.unwrap_or_default())?;
                    params.input_responses = Some(answers);
                    params.request_state = input_request.request_state;
                }
                response => return Ok(response),
            }
        }
    }
}

impl Driven for Rmcp3 {
    async fn open(&mut self, user: User) -> Result<()> {
        let handler = Handler { user, tasks: self.setup.tasks };
        let lifecycle = if self.setup.modern {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        } else {
            ClientLifecycleMode::Initialize
        };
        self.session = Some(match &self.setup.url {
            Some(url) => {
                let transport = StreamableHttpClientTransport::from_uri(url.as_str());
                handler.serve_with_lifecycle(transport, lifecycle).await?
            }
            None => {
                let transport = TokioChildProcess::new(self.setup.server())?;
                handler.serve_with_lifecycle(transport, lifecycle).await?
            }
        });
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        self.session.take().context("not connected")?.cancel().await?;
        Ok(())
    }

    async fn tools(&self) -> Result<Vec<String>> {
        let tools = self.session()?.list_all_tools().await?;
        Ok(tools.into_iter().map(|tool| tool.name.into_owned()).collect())
    }

    async fn call(&self, tool: String, arguments: Arguments) -> Result<Value> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        if !self.setup.tasks {
            return Ok(serde_json::to_value(self.session()?.call_tool(params).await?)?);
        }
        match self.answered(params).await? {
            CallToolResponse::Task(created) => self.result(&created.task.task_id).await,
            CallToolResponse::Complete(result) => Ok(serde_json::to_value(result)?),
            other => bail!("in place of a result came {other:?}"),
        }
    }

    async fn start(&self, tool: String, arguments: Arguments) -> Result<Value> {
        match self.answered(CallToolRequestParams::new(tool).with_arguments(arguments)).await? {
            CallToolResponse::Task(created) => Ok(serde_json::to_value(created.task)?),
            other => bail!("in place of a task came {other:?}"),
        }
    }

    async fn look(&self, task: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.session()?.get_task(GetTaskParams::new(task)).await?.task)?)
    }

    async fn poll(&self, task: &str) -> Result<Value> {
        let session = self.session()?;
        loop {
            let task_state = session.get_task(GetTaskParams::new(task)).await?.task;
            if let TaskPayload::InputRequired { input_requests } = &task_state.payload {
                let answers = session.service().answers(input_requests)?;
                session.update_task(UpdateTaskParams::new(task, answers)).await?;
                continue;
            }
            let pause = Duration::from_millis(task_state.task.poll_interval_ms.unwrap_or(1000));
            let task_state = serde_json::to_value(task_state)?;
            if has_ended(&task_state) {
                return Ok(task_state);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn result(&self, task: &str) -> Result<Value> {
        let task_state = self.poll(task).await?;
        task_state.get("result").cloned().with_context(|| format!("there is no result in {task_state}"))
    }

    async fn cancel(&self, task: &str) -> Result<()> {
        Ok(self.session()?.cancel_task(CancelTaskParams::new(task)).await?)
    }

    async fn resources(&self) -> Result<Vec<String>> {
        let resources = self.session()?.list_all_resources().await?;
        Ok(resources.into_iter().map(|resource| resource.uri.clone()).collect())
    }

    async fn read(&self, uri: &str) -> Result<Value> {
        let params = ReadResourceRequestParams::new(uri);
        Ok(serde_json::to_value(self.session()?.read_resource(params).await?)?)
    }

    async fn prompt(&self, name: &str, arguments: Arguments) -> Result<Value> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        Ok(serde_json::to_value(self.session()?.get_prompt(params).await?)?)
    }

    async fn complete(&self, prompt: &str, argument: &str, value: &str) -> Result<Value> {
        let params =
            CompleteRequestParams::new(Reference::for_prompt(prompt), ArgumentInfo::new(argument, value));
        Ok(serde_json::to_value(self.session()?.complete(params).await?)?)
    }
}
