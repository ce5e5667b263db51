//! A notice as a CloudEvent 1.0 in JSON (structured mode). It says that something happened, of which tool, and how it came
//! out; what was asked, given or answered is told to the task's owner alone.
//!
//! The subject is the task: by the SHA-256 of its id. Where callers are not told apart, whoever holds an id may use the
//! task, and an event passes through receivers, queues and their logs. Owners know the id and can tell which task it is;
//! nobody else can get at the task by it. A receiver of the owner's own may be told the id itself (`task_id = true`).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Receiver;
use crate::tasks::notices::{Notice, What};
use crate::tasks::task::Outcome;

/// The media type of an event.
pub(super) const MEDIA_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The event of a notice, the same however often it is made.
pub(super) fn of(notice: &Notice, receiver: &Receiver) -> Vec<u8> {
    let news = &notice.news;
    let id = news.task.as_str();
    let mut data = json!({"tool": news.tool, "status": status(&news.what)});
    if let What::Asks(key) = &news.what {
        data["question"] = Value::from(key.as_str());
    }
    if receiver.tells_id {
        data["taskId"] = Value::from(id);
        data["links"] = json!({"log": format!("taskbridge://tasks/{id}/log")});
    }
    let event = json!({
        "specversion": "1.0",
        "id": notice.id,
        "source": receiver.source,
        "type": kind(&news.what),
        "subject": data_encoding::HEXLOWER.encode(&Sha256::digest(id)),
        "time": news.at.to_string(),
        "datacontenttype": "application/json",
        "data": data,
    });
    event.to_string().into_bytes()
}

fn kind(what: &What) -> &'static str {
    match what {
        What::Ended(_) => "io.taskbridge.task.ended",
        What::Asks(_) => "io.taskbridge.task.asks",
    }
}

fn status(what: &What) -> &'static str {
    match what {
        What::Ended(Outcome::Succeeded) => "succeeded",
        What::Ended(Outcome::Failed) => "failed",
        What::Ended(Outcome::Cancelled) => "cancelled",
        What::Ended(Outcome::Broken) => "broken",
        What::Asks(_) => "input_required",
    }
}
