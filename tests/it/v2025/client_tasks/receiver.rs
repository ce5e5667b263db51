//! [`Receiver`]: a client that makes tasks of what it is asked, played by hand, and what such a client says. What it says is
//! held against the schema.

use std::collections::HashMap;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Ask};

use crate::support::schema;
use crate::v2025::bench::{Client, Server, Stream};

pub(super) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What a client declares that makes tasks of all that it can.
pub(super) fn able() -> Value {
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

/// How often a client wants to be asked that expects to be, and one that does not.
pub(super) const OFTEN: u64 = 500;
pub(super) const SELDOM: u64 = 3_600_000;

/// A task of the client's.
pub(super) fn task(id: &str, status: &str) -> Value {
    let unfinished = ["working", "input_required"].contains(&status);
    polled(id, status, if unfinished { OFTEN } else { SELDOM })
}

pub(super) fn polled(id: &str, status: &str, interval: u64) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let task = json!({
        "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": 60_000, "pollInterval": interval
    });
    schema::check_said("GetTaskResult", &task);
    task
}

pub(super) fn made(task: Value) -> Value {
    let made = json!({ "task": task });
    schema::check_said("CreateTaskResult", &made);
    made
}

/// Panics unless the client is asked this about that task of its own, and nothing beside.
#[track_caller]
pub(super) fn is_about(request: &Value, method: &str, id: &str) {
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
    /// How its tasks stand, as far as it was asked.
    told: HashMap<String, Value>,
}

impl Receiver {
    pub(super) async fn of(server: &Server) -> Self {
        Self::with(server, able()).await
    }

    pub(super) async fn with(server: &Server, able: Value) -> Self {
        let client = server.client_with("2025-11-25", able, None).await;
        Self::listening(client).await
    }

    pub(super) async fn listening(client: Client) -> Self {
        let stream = client.listen().await;
        Self { client, stream, told: HashMap::new() }
    }

    /// The next request of the server's; notifications are passed over.
    pub(super) async fn request(&mut self) -> Value {
        loop {
            let message = self.stream.message().await;
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    /// The next request: a question, which is answered with a task of this name. It is about to be looked at.
    pub(super) async fn hold(&mut self, id: &str) -> Value {
        self.hold_as(task(id, "working")).await
    }

    /// The same with this task.
    pub(super) async fn hold_as(&mut self, task: Value) -> Value {
        let question = loop {
            let request = self.request().await;
            if !self.told_before(&request).await {
                break request;
            }
        };
        assert!(question["params"]["task"]["ttl"].as_u64().unwrap() > 0, "{question}");
        self.reply(&question, made(task)).await;
        question
    }

    pub(super) async fn reply(&self, request: &Value, result: Value) {
        assert_eq!(self.client.reply(request, result).await, 202);
    }

    /// The next request, which must be this one about that task, and its answer.
    pub(super) async fn say(&mut self, method: &str, id: &str, result: Value) {
        let request = self.asked(method, id).await;
        if method == "tasks/get" {
            self.told.insert(id.to_owned(), result.clone());
        }
        self.reply(&request, result).await;
    }

    /// The next request, which must be this one about that task.
    pub(super) async fn asked(&mut self, method: &str, id: &str) -> Value {
        loop {
            let request = self.request().await;
            if method == "tasks/get" || !self.told_before(&request).await {
                is_about(&request, method, id);
                return request;
            }
        }
    }

    /// On a slow machine it is asked again before its answer has arrived, and answers the same.
    pub(super) async fn told_before(&self, request: &Value) -> bool {
        let id = request["params"]["taskId"].as_str().unwrap_or_default();
        match self.told.get(id).filter(|_| request["method"] == "tasks/get") {
            Some(task) => self.reply(request, task.clone()).await,
            None => return false,
        }
        true
    }

    /// Panics if the server asks anything new before this task of its own has ended.
    pub(super) async fn asks_nothing_before_the_end_of(&mut self, id: &str) {
        loop {
            let message = self.stream.message().await;
            if self.told_before(&message).await {
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
