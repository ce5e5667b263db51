//! [`Receiver`]: a client that creates tasks for requests of the server, played by hand, and the messages of
//! such a client. They are checked against the schema.

use std::collections::HashMap;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Ask};

use crate::support::schema;
use crate::v2025::bench::{Client, Server, Stream};

pub(super) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Returns the capabilities of a client that can create tasks for all requests.
pub(super) fn all_capabilities() -> Value {
    json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "tasks": {
            "cancel": {},
            "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}
        }
    })
}

pub(super) fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]})
}

pub(super) fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

pub(super) fn accepted(content: &Value) -> Answer {
    Answer::Accept(content.as_object().unwrap().clone())
}

pub(super) fn sampling() -> Ask {
    let request =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}], "maxTokens": 9});
    Ask::Sampling(request.as_object().unwrap().clone())
}

/// Poll intervals of client tasks in milliseconds: for a task that expects polls, and for one that does not.
pub(super) const SHORT_INTERVAL_MS: u64 = 500;
pub(super) const LONG_INTERVAL_MS: u64 = 3_600_000;

/// Returns a client task.
pub(super) fn task(id: &str, status: &str) -> Value {
    let unfinished = ["working", "input_required"].contains(&status);
    task_with_interval(id, status, if unfinished { SHORT_INTERVAL_MS } else { LONG_INTERVAL_MS })
}

pub(super) fn task_with_interval(id: &str, status: &str, interval: u64) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let task = json!({
        "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": 60_000, "pollInterval": interval
    });
    schema::check_client_message("GetTaskResult", &task);
    task
}

pub(super) fn task_created(task: Value) -> Value {
    let result = json!({ "task": task });
    schema::check_client_message("CreateTaskResult", &result);
    result
}

/// Panics unless the request is this method with only the id of that client task.
#[track_caller]
pub(super) fn assert_about(request: &Value, method: &str, id: &str) {
    assert_eq!(
        (&request["method"], &request["params"]),
        (&json!(method), &json!({ "taskId": id })),
        "{request}"
    );
}

/// A client with its listening stream.
pub(super) struct Receiver {
    pub(super) client: Client,
    pub(super) stream: Stream,
    /// The status of its tasks, as last returned to the server.
    task_statuses: HashMap<String, Value>,
}

impl Receiver {
    pub(super) async fn of(server: &Server) -> Self {
        Self::with(server, all_capabilities()).await
    }

    pub(super) async fn with(server: &Server, capabilities: Value) -> Self {
        let client = server.client_with("2025-11-25", capabilities, None).await;
        Self::listening(client).await
    }

    pub(super) async fn listening(client: Client) -> Self {
        let stream = client.listen().await;
        Self { client, stream, task_statuses: HashMap::new() }
    }

    /// Returns the next request of the server, and skips notifications.
    pub(super) async fn request(&mut self) -> Value {
        loop {
            let message = self.stream.message().await;
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    /// Waits for the next request, a question, and answers it with a task of this id that expects to be
    /// polled soon.
    pub(super) async fn accept_as_task(&mut self, id: &str) -> Value {
        self.accept_with_task(task(id, "working")).await
    }

    /// Waits for the next question and answers it with this task.
    pub(super) async fn accept_with_task(&mut self, task: Value) -> Value {
        let question = loop {
            let request = self.request().await;
            if !self.repeat_status(&request).await {
                break request;
            }
        };
        assert!(question["params"]["task"]["ttl"].as_u64().unwrap() > 0, "{question}");
        self.reply(&question, task_created(task)).await;
        question
    }

    pub(super) async fn reply(&self, request: &Value, result: Value) {
        assert_eq!(self.client.reply(request, result).await, 202);
    }

    /// Waits for the next request, which must be this method for that task, and answers it.
    pub(super) async fn answer_next(&mut self, method: &str, id: &str, result: Value) {
        let request = self.expect_request(method, id).await;
        if method == "tasks/get" {
            self.task_statuses.insert(id.to_owned(), result.clone());
        }
        self.reply(&request, result).await;
    }

    /// Returns the next request, which must be this method for that task.
    pub(super) async fn expect_request(&mut self, method: &str, id: &str) -> Value {
        loop {
            let request = self.request().await;
            if method == "tasks/get" || !self.repeat_status(&request).await {
                assert_about(&request, method, id);
                return request;
            }
        }
    }

    /// Answers a repeated `tasks/get` with the previous status; returns false for any other request. On a
    /// slow machine the server polls again before an answer has arrived.
    pub(super) async fn repeat_status(&self, request: &Value) -> bool {
        let id = request["params"]["taskId"].as_str().unwrap_or_default();
        match self.task_statuses.get(id).filter(|_| request["method"] == "tasks/get") {
            Some(task) => self.reply(request, task.clone()).await,
            None => return false,
        }
        true
    }

    /// Panics if the server asks anything new before this task of the server has ended.
    pub(super) async fn assert_no_request_before_end(&mut self, id: &str) {
        loop {
            let message = self.stream.message().await;
            if self.repeat_status(&message).await {
                continue;
            }
            assert_eq!(message["method"], "notifications/tasks/status", "{message}");
            let task = &message["params"];
            if task["taskId"] == id && ["completed", "cancelled"].contains(&task["status"].as_str().unwrap())
            {
                return;
            }
        }
    }
}
