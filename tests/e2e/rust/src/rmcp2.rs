//! Drives crates.io `rmcp` 2.x. It has the requests of 2025-11-25's tasks, but no loop that drives them. See
//! `drive.rs`.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rmcp2::model::{
    ArgumentInfo, CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest,
    ClientCapabilities, ClientInfo, ClientRequest, CompleteRequestParams, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, GetPromptRequestParams, GetTaskParams, GetTaskPayloadParams,
    GetTaskPayloadRequest, GetTaskRequest, Implementation, ProgressNotificationParam,
    ReadResourceRequestParams, Reference, TaskMetadata,
};
use rmcp2::service::{NotificationContext, RequestContext, RunningService};
use rmcp2::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp2::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde_json::Value;

use crate::drive::{Arguments, Driven, Setup, User, has_ended};

impl ClientHandler for User {
    fn get_info(&self) -> ClientInfo {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientInfo::new(capabilities, Implementation::new("taskbridge-e2e", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("only forms are answered", None));
        };
        Ok(match self.answer(&message) {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.came_to(progress.progress);
    }
}

/// The library, connected or not.
pub struct Rmcp2 {
    setup: Setup,
    session: Option<RunningService<RoleClient, User>>,
}

impl Rmcp2 {
    pub fn new(setup: Setup) -> Self {
        Self { setup, session: None }
    }

    fn session(&self) -> Result<&RunningService<RoleClient, User>> {
        self.session.as_ref().context("not connected")
    }

    /// Sends one request, and returns the response as on the wire.
    async fn send(&self, request: ClientRequest) -> Result<Value> {
        Ok(serde_json::to_value(self.session()?.send_request(request).await?)?)
    }
}

impl Driven for Rmcp2 {
    async fn open(&mut self, user: User) -> Result<()> {
        self.session = Some(match &self.setup.url {
            Some(url) => user.serve(StreamableHttpClientTransport::from_uri(url.as_str())).await?,
            None => user.serve(TokioChildProcess::new(self.setup.server())?).await?,
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
        Ok(serde_json::to_value(self.session()?.call_tool(params).await?)?)
    }

    async fn start(&self, tool: String, arguments: Arguments) -> Result<Value> {
        let params =
            CallToolRequestParams::new(tool).with_arguments(arguments).with_task(TaskMetadata::new());
        let response = self.send(ClientRequest::CallToolRequest(CallToolRequest::new(params))).await?;
        response.get("task").cloned().with_context(|| format!("in place of a task came {response}"))
    }

    async fn look(&self, task: &str) -> Result<Value> {
        self.send(ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(task)))).await
    }

    async fn poll(&self, task: &str) -> Result<Value> {
        loop {
            let task_state = self.look(task).await?;
            if has_ended(&task_state) {
                return Ok(task_state);
            }
            let pause = task_state["pollInterval"].as_u64().unwrap_or(1000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn result(&self, task: &str) -> Result<Value> {
        let params = GetTaskPayloadParams::new(task);
        self.send(ClientRequest::GetTaskPayloadRequest(GetTaskPayloadRequest::new(params))).await
    }

    async fn cancel(&self, task: &str) -> Result<()> {
        let params = CancelTaskParams::new(task);
        let response = self.send(ClientRequest::CancelTaskRequest(CancelTaskRequest::new(params))).await?;
        if response["status"] != "cancelled" {
            bail!("the task is {response}");
        }
        Ok(())
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
