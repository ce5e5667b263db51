//! [`CallPath`]: how a client calls a tool and gets its result, with the means of its generation. Results
//! have one form, so that they can be compared.

use serde_json::{Map, Value, json};

use crate::support::{Client, Fault, ModernClient, text};

/// How a client calls tools.
pub(super) struct CallPath {
    name: &'static str,
    client: ProtocolClient,
}

enum ProtocolClient {
    Stateful(Client),
    Stateless(ModernClient),
}

/// A call of a tool.
#[derive(Clone)]
pub(super) struct Call {
    tool: &'static str,
    arguments: Value,
    /// Whether it is a plain call where the client has a choice.
    plain: bool,
    key: Option<&'static str>,
}

impl Call {
    /// Returns a call that is a task where the client can request one.
    pub(super) fn of(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments, plain: false, key: None }
    }

    /// Returns a call that waits for its result where the client can request that.
    pub(super) fn plain(tool: &'static str, arguments: Value) -> Self {
        Self { plain: true, ..Self::of(tool, arguments) }
    }

    /// Returns the same call with an idempotency key.
    pub(super) fn once(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    fn params(&self) -> Value {
        let mut params = json!({"name": self.tool, "arguments": self.arguments});
        if let Some(key) = self.key {
            params["_meta"]["io.taskbridge/idempotency-key"] = json!(key);
        }
        params
    }
}

/// The progress of a call.
#[derive(Debug)]
pub(super) enum CallState {
    /// The call has its result.
    Finished(Value),
    /// The call is this task. `task_wait` waits for its result, or the method of the generation.
    Task { id: String, with_tool: bool },
    /// The client is asked, and sends the request with these parameters again.
    InputRequired { params: Value, response: Value },
}

impl CallState {
    /// Returns the task id.
    pub(super) fn task(&self) -> &str {
        match self {
            CallState::Task { id, .. } => id,
            other => panic!("no task: {other:?}"),
        }
    }
}

impl CallPath {
    pub(super) const TASKS: &str = "tasks of 2025-11-25";
    pub(super) const EXTENSION: &str = "the extension of 2026-07-28";
    /// All ways. The others are compared with the first.
    pub(super) const ALL: [&str; 4] =
        [Self::TASKS, Self::EXTENSION, "plain calls of 2025-06-18", "plain calls of 2026-07-28"];

    /// Opens a client that uses this way.
    pub(super) async fn open(name: &'static str, url: &str) -> Self {
        let client = match name {
            Self::TASKS => ProtocolClient::Stateful(Client::open(url).await.unwrap()),
            Self::EXTENSION => ProtocolClient::Stateless(ModernClient::with_tasks(url)),
            "plain calls of 2025-06-18" => {
                ProtocolClient::Stateful(Client::open_revision(url, "2025-06-18").await.unwrap())
            }
            _ => ProtocolClient::Stateless(ModernClient::without_tasks(url)),
        };
        Self { name, client }
    }

    /// Calls a tool that asks nothing, and returns its result.
    pub(super) async fn run(&self, call: Call) -> Value {
        let state = self.begin(call).await;
        self.end(state, &Value::Null).await
    }

    /// Calls a tool, and answers no question.
    pub(super) async fn begin(&self, call: Call) -> CallState {
        let as_task = self.name == Self::TASKS && !call.plain;
        let mut params = call.params();
        if as_task {
            params["task"] = json!({});
        }
        let with_tool = call.plain || !matches!(self.name, Self::TASKS | Self::EXTENSION);
        self.request(params, with_tool, &Value::Null).await
    }

    /// Completes a call and returns its result. Every question gets `answer`.
    pub(super) async fn end(&self, mut state: CallState, answer: &Value) -> Value {
        loop {
            state = match state {
                CallState::Finished(result) => return result,
                CallState::InputRequired { mut params, response } => {
                    let keys = response["inputRequests"].as_object().unwrap().keys();
                    let responses: Map<_, _> = keys.map(|key| (key.clone(), answer.clone())).collect();
                    params["inputResponses"] = responses.into();
                    params["requestState"] = response["requestState"].clone();
                    self.request(params, true, answer).await
                }
                CallState::Task { id, with_tool: true } => {
                    let params = json!({"name": "task_wait", "arguments": {"task_id": id}});
                    self.request(params, true, answer).await
                }
                CallState::Task { id, with_tool: false } => self.await_task(id, answer).await,
            }
        }
    }

    /// Cancels a task.
    pub(super) async fn cancel(&self, task: &str) {
        let by_tool = json!({"name": "task_cancel", "arguments": {"task_id": task}});
        let by_method = json!({"taskId": task});
        let cancelled = match (&self.client, self.name) {
            (ProtocolClient::Stateful(client), Self::TASKS) => {
                client.request("tasks/cancel", by_method).await
            }
            (ProtocolClient::Stateless(client), Self::EXTENSION) => {
                client.request("tasks/cancel", by_method).await
            }
            (ProtocolClient::Stateful(client), _) => client.request("tools/call", by_tool).await,
            (ProtocolClient::Stateless(client), _) => client.request("tools/call", by_tool).await,
        };
        assert_ne!(cancelled.unwrap()["isError"], true);
    }

    /// Sends `tools/call`.
    async fn request(&self, params: Value, with_tool: bool, answer: &Value) -> CallState {
        let outcome = match &self.client {
            ProtocolClient::Stateful(client) => {
                client.request_with_reply("tools/call", params.clone(), answer).await
            }
            ProtocolClient::Stateless(client) => client.request("tools/call", params.clone()).await,
        };
        let result = match outcome {
            Ok(result) => result,
            Err(fault) => return CallState::Finished(comparable_error(&fault)),
        };
        let handle = &result["structuredContent"];
        let created =
            if self.name == Self::EXTENSION { &result["taskId"] } else { &result["task"]["taskId"] };
        if result["resultType"] == "input_required" {
            CallState::InputRequired { params, response: result }
        } else if let Some(id) = created.as_str() {
            CallState::Task { id: id.to_owned(), with_tool }
        } else if let (Some(id), Some("working" | "input_required")) =
            (handle["task_id"].as_str(), handle["status"].as_str())
        {
            CallState::Task { id: id.to_owned(), with_tool: true }
        } else {
            CallState::Finished(comparable_result(&result))
        }
    }

    /// Waits for a task with the method of the generation.
    async fn await_task(&self, id: String, answer: &Value) -> CallState {
        match &self.client {
            ProtocolClient::Stateful(client) => {
                let result = client.request_with_reply("tasks/result", json!({"taskId": id}), answer).await;
                CallState::Finished(
                    result.map_or_else(|fault| comparable_error(&fault), |result| comparable_result(&result)),
                )
            }
            ProtocolClient::Stateless(client) => loop {
                let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
                match task["status"].as_str().unwrap() {
                    "working" => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                    "input_required" => {
                        let keys = task["inputRequests"].as_object().unwrap().keys();
                        let responses: Map<_, _> = keys.map(|key| (key.clone(), answer.clone())).collect();
                        let params = json!({"taskId": id, "inputResponses": responses});
                        client.request("tasks/update", params).await.unwrap();
                    }
                    "completed" => return CallState::Finished(comparable_result(&task["result"])),
                    "failed" => return CallState::Finished(json!({"refused": task["error"]["message"]})),
                    _ => return CallState::Finished(json!("cancelled")),
                }
            },
        }
    }
}

/// Returns a tool result in the form that is compared.
fn comparable_result(result: &Value) -> Value {
    let text = text(result);
    let is_error = result["isError"] == true;
    if is_error && text.starts_with("Cancelled") {
        return json!("cancelled");
    }
    if is_error && text.contains("refuses calls while") {
        return json!({ "refused": text });
    }
    json!({"text": text, "structured": result["structuredContent"], "is_error": is_error})
}

/// Returns an error in the form that is compared.
fn comparable_error(fault: &Fault) -> Value {
    match fault {
        Fault::Refused { message, .. } => json!({ "refused": message }),
        other => panic!("{other:?}"),
    }
}
