//! [`Task`]: a task in the server's responses, and the requests about tasks. It must not wait for a change,
//! retry or print.

use std::time::Duration;

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use taskbridge_wire::{LINK, USUAL_DURATION};

use super::error::ServerCallError;
use super::session::Session;

/// Default poll interval if the server gives none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) message: Option<String>,
    pub(super) poll_interval: Duration,
    /// The raw JSON.
    pub(super) raw: Value,
}

impl Status {
    /// Returns true for a terminal status.
    pub(super) fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns the status as text for people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "waiting for an answer",
            Self::Completed => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Task {
    /// Parses a `Task`. `None` if it is invalid.
    pub(super) fn parse(raw: &Value) -> Option<Self> {
        let text = |name: &str| raw.get(name).and_then(Value::as_str);
        Some(Self {
            id: text("taskId")?.to_owned(),
            status: Status::deserialize(text("status")?.into_deserializer())
                .map_err(|_: serde::de::value::Error| ())
                .ok()?,
            message: text("statusMessage").map(str::to_owned),
            poll_interval: raw
                .get("pollInterval")
                .and_then(Value::as_u64)
                .map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis),
            raw: raw.clone(),
        })
    }

    /// Returns the address of the job in the engine's own pages, if the server gives a valid one.
    pub(super) fn link(&self) -> Option<&str> {
        self.meta(LINK)?.as_str().filter(|link| taskbridge_sdk::is_page_link(link))
    }

    /// Returns how long jobs of the tool usually take, as text.
    pub(super) fn usual_duration(&self) -> Option<&str> {
        self.meta(USUAL_DURATION)?.get("text")?.as_str()
    }

    /// Returns how much longer the job is expected to run, as text.
    pub(super) fn estimate(&self) -> Option<&str> {
        self.meta(USUAL_DURATION)?.get("estimate")?.as_str()
    }

    /// Returns a value of `_meta`. Only answers to requests about the task have it.
    fn meta(&self, key: &str) -> Option<&Value> {
        self.raw.get("_meta")?.get(key)
    }

    /// Returns the age of the task by this clock (milliseconds since 1970). Clocks differ, so it is an
    /// estimate, and never negative.
    pub(super) fn age(&self, now: i64) -> Duration {
        let created = self.raw.get("createdAt").and_then(Value::as_str);
        let created = created.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let millis = created.map_or(0, |created| now - created.as_millisecond());
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

/// Sends `tasks/get`.
pub(super) async fn get_task(session: &Session, id: &str) -> Result<Task, ServerCallError> {
    request_task(session, "tasks/get", id).await
}

/// Returns the tasks of `tasks/list` with this id prefix.
pub(super) async fn list_with_prefix(session: &Session, prefix: &str) -> Result<Vec<Task>, ServerCallError> {
    let (mut matching, mut params) = (Vec::new(), json!({}));
    loop {
        let page = session.request_with_timeout("tasks/list", params).await?;
        let tasks = page.get("tasks").and_then(Value::as_array).into_iter().flatten();
        matching.extend(tasks.filter_map(Task::parse).filter(|task| task.id.starts_with(prefix)));
        match page.get("nextCursor") {
            Some(cursor @ Value::String(_)) => params = json!({ "cursor": cursor }),
            _ => return Ok(matching),
        }
    }
}

/// Sends `tasks/cancel`.
pub(super) async fn cancel(session: &Session, id: &str) -> Result<Task, ServerCallError> {
    request_task(session, "tasks/cancel", id).await
}

async fn request_task(session: &Session, method: &str, id: &str) -> Result<Task, ServerCallError> {
    let response = session.request_with_timeout(method, json!({ "taskId": id })).await?;
    Task::parse(&response).ok_or_else(|| {
        ServerCallError::InvalidResponse("the server's response contains no valid task".to_owned())
    })
}
