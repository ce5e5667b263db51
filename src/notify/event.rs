//! The conversion of a notice into a CloudEvent 1.0 in JSON (structured mode). It contains the kind of event,
//! the tool, and the outcome or the key of a question. It must not contain the text of a question, an answer
//! or a result: these are visible to the task's owner only.
//!
//! The subject is the SHA-256 of the task's id. Where callers are not distinguished, anyone with the id may
//! use the task, and an event passes through receivers, queues and their logs. Owners know the id and can
//! match the digest; others cannot access the task with it. A receiver of the owner's own may get the id
//! itself (`task_id = true`).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Receiver;
use crate::tasks::notices::{Notice, NoticeCause};
use crate::tasks::task::Outcome;

/// The media type of an event.
pub(super) const MEDIA_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// Returns the event of a notice. The result depends on nothing else, so that a repeated POST has the same
/// body.
pub(super) fn encode(notice: &Notice, receiver: &Receiver) -> Vec<u8> {
    let content = &notice.content;
    let id = content.task.as_str();
    let mut data = json!({"tool": content.tool, "status": status(&content.what)});
    if let NoticeCause::Asks(key) = &content.what {
        data["question"] = Value::from(key.as_str());
    }
    if receiver.includes_task_id {
        data["taskId"] = Value::from(id);
        data["links"] = json!({"log": format!("taskbridge://tasks/{id}/log")});
    }
    let event = json!({
        "specversion": "1.0",
        "id": notice.id,
        "source": receiver.source,
        "type": kind(&content.what),
        "subject": data_encoding::HEXLOWER.encode(&Sha256::digest(id)),
        "time": content.at.to_string(),
        "datacontenttype": "application/json",
        "data": data,
    });
    event.to_string().into_bytes()
}

fn kind(what: &NoticeCause) -> &'static str {
    match what {
        NoticeCause::Ended(_) => "io.taskbridge.task.ended",
        NoticeCause::Asks(_) => "io.taskbridge.task.asks",
    }
}

fn status(what: &NoticeCause) -> &'static str {
    match what {
        NoticeCause::Ended(Outcome::Succeeded) => "succeeded",
        NoticeCause::Ended(Outcome::Failed) => "failed",
        NoticeCause::Ended(Outcome::Cancelled) => "cancelled",
        NoticeCause::Ended(Outcome::Broken) => "broken",
        NoticeCause::Asks(_) => "input_required",
    }
}
