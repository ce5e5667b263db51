//! [`Way`]: how a client calls a tool and gets its result, with the means of its generation. Results have one
//! form, so that they can be compared.

use serde_json::{Map, Value, json};

use crate::support::{Client, Fault, Modern, text};

/// A way to call a tool.
pub(super) struct Way {
    name: &'static str,
    client: Both,
}

enum Both {
    Sessions(Client),
    Stateless(Modern),
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
pub(super) enum Begun {
    /// The call has its result.
    Ended(Value),
    /// The call is this task. `task_wait` waits for its result, or the method of the generation.
    Task { id: String, with_tool: bool },
    /// The client is asked, and sends the request with these parameters again.
    Asks { params: Value, asked: Value },
}

impl Begun {
    /// Returns the task id.
    pub(super) fn task(&self) -> &str {
        match self {
            Begun::Task { id, .. } => id,
            other => panic!("no task: {other:?}"),
        }
    }
}

impl Way {
    pub(super) const TASKS: &str = "tasks of 2025-11-25";
    pub(super) const EXTENSION: &str = "the extension of 2026-07-28";
    /// All ways. The others are compared with the first.
    pub(super) const ALL: [&str; 4] =
        [Self::TASKS, Self::EXTENSION, "plain calls of 2025-06-18", "plain calls of 2026-07-28"];

    /// Opens a client that uses this way.
    pub(super) async fn open(name: &'static str, url: &str) -> Self {
        let client = match name {
            Self::TASKS => Both::Sessions(Client::open(url).await.unwrap()),
            Self::EXTENSION => Both::Stateless(Modern::with_tasks(url)),
            "plain calls of 2025-06-18" => Both::Sessions(Client::open_of(url, "2025-06-18").await.unwrap()),
            _ => Both::Stateless(Modern::without_tasks(url)),
        };
        Self { name, client }
    }

    /// Calls a tool that asks nothing, and returns its result.
    pub(super) async fn run(&self, call: Call) -> Value {
        let begun = self.begin(call).await;
        self.end(begun, &Value::Null).await
    }

    /// Calls a tool, and answers no question.
    pub(super) async fn begin(&self, call: Call) -> Begun {
        let as_task = self.name == Self::TASKS && !call.plain;
        let mut params = call.params();
        if as_task {
            params["task"] = json!({});
        }
        let with_tool = call.plain || !matches!(self.name, Self::TASKS | Self::EXTENSION);
        self.request(params, with_tool, &Value::Null).await
    }

    /// Completes a call and returns its result. Every question gets `answer`.
    pub(super) async fn end(&self, mut begun: Begun, answer: &Value) -> Value {
        loop {
            begun = match begun {
                Begun::Ended(told) => return told,
                Begun::Asks { mut params, asked } => {
                    let keys = asked["inputRequests"].as_object().unwrap().keys();
                    let responses: Map<_, _> = keys.map(|key| (key.clone(), answer.clone())).collect();
                    params["inputResponses"] = responses.into();
                    params["requestState"] = asked["requestState"].clone();
                    self.request(params, true, answer).await
                }
                Begun::Task { id, with_tool: true } => {
                    let params = json!({"name": "task_wait", "arguments": {"task_id": id}});
                    self.request(params, true, answer).await
                }
                Begun::Task { id, with_tool: false } => self.look(id, answer).await,
            }
        }
    }

    /// Cancels a task.
    pub(super) async fn cancel(&self, task: &str) {
        let by_tool = json!({"name": "task_cancel", "arguments": {"task_id": task}});
        let by_method = json!({"taskId": task});
        let cancelled = match (&self.client, self.name) {
            (Both::Sessions(client), Self::TASKS) => client.request("tasks/cancel", by_method).await,
            (Both::Stateless(client), Self::EXTENSION) => client.request("tasks/cancel", by_method).await,
            (Both::Sessions(client), _) => client.request("tools/call", by_tool).await,
            (Both::Stateless(client), _) => client.request("tools/call", by_tool).await,
        };
        assert_ne!(cancelled.unwrap()["isError"], true);
    }

    /// Sends `tools/call`.
    async fn request(&self, params: Value, with_tool: bool, answer: &Value) -> Begun {
        let answered = match &self.client {
            Both::Sessions(client) => client.converse("tools/call", params.clone(), answer).await,
            Both::Stateless(client) => client.request("tools/call", params.clone()).await,
        };
        let result = match answered {
            Ok(result) => result,
            Err(fault) => return Begun::Ended(refused(&fault)),
        };
        let handle = &result["structuredContent"];
        let created =
            if self.name == Self::EXTENSION { &result["taskId"] } else { &result["task"]["taskId"] };
        if result["resultType"] == "input_required" {
            Begun::Asks { params, asked: result }
        } else if let Some(id) = created.as_str() {
            Begun::Task { id: id.to_owned(), with_tool }
        } else if let (Some(id), Some("working" | "input_required")) =
            (handle["task_id"].as_str(), handle["status"].as_str())
        {
            Begun::Task { id: id.to_owned(), with_tool: true }
        } else {
            Begun::Ended(told(&result))
        }
    }

    /// Waits for a task with the method of the generation.
    async fn look(&self, id: String, answer: &Value) -> Begun {
        match &self.client {
            Both::Sessions(client) => {
                let result = client.converse("tasks/result", json!({"taskId": id}), answer).await;
                Begun::Ended(result.map_or_else(|fault| refused(&fault), |result| told(&result)))
            }
            Both::Stateless(client) => loop {
                let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
                match task["status"].as_str().unwrap() {
                    "working" => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                    "input_required" => {
                        let keys = task["inputRequests"].as_object().unwrap().keys();
                        let responses: Map<_, _> = keys.map(|key| (key.clone(), answer.clone())).collect();
                        let params = json!({"taskId": id, "inputResponses": responses});
                        client.request("tasks/update", params).await.unwrap();
                    }
                    "completed" => return Begun::Ended(told(&task["result"])),
                    "failed" => return Begun::Ended(json!({"refused": task["error"]["message"]})),
                    _ => return Begun::Ended(json!("cancelled")),
                }
            },
        }
    }
}

/// Returns a tool result in the form that is compared.
fn told(result: &Value) -> Value {
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
fn refused(fault: &Fault) -> Value {
    match fault {
        Fault::Refused { message, .. } => json!({ "refused": message }),
        other => panic!("{other:?}"),
    }
}
