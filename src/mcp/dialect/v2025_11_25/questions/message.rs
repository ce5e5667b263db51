//! Builds the messages that carry a question to a client, and those about the client's task for it. It must
//! not decide when one is sent.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::Ask;

use crate::mcp::dialect::v2025_11_25::to_wire;
use crate::mcp::session::deliveries::QuestionClaim;
use crate::mcp::wire::revision::Revision;
use crate::mcp::wire::types::millis;
use crate::seal::Seal;
use crate::tasks::task::TaskId;

/// Returns the complete request that asks the question. `as_task` allows the client to create a task of its
/// own for it, with this TTL.
pub(super) fn request(
    seal: &Seal,
    revision: Revision,
    claim: &QuestionClaim,
    as_task: Option<Duration>,
    id: &str,
) -> Value {
    let question = &claim.question.question;
    let message = question_text(claim);
    let (method, mut params) = match &question.ask {
        Ask::Form(schema) => {
            let mut params = json!({ "message": message, "requestedSchema": schema });
            // Earlier revisions have only one mode.
            if revision.has_tasks() {
                params["mode"] = json!("form");
            }
            ("elicitation/create", params)
        }
        Ask::Url(url) => {
            let elicitation_id = elicitation_id(seal, &claim.task, &claim.question.key);
            let params =
                json!({ "mode": "url", "message": message, "elicitationId": elicitation_id, "url": url });
            ("elicitation/create", params)
        }
        Ask::Sampling(request) => ("sampling/createMessage", json!(request)),
        Ask::Roots => ("roots/list", json!({})),
    };
    if let Some(ttl) = as_task {
        params["task"] = json!({ "ttl": millis(ttl) });
    }
    params["_meta"] = to_wire::related_meta(&claim.task);
    to_wire::request(id, method, params)
}

/// Returns the text of the question, and what was wrong with the last answer: without that, nothing could be
/// corrected.
fn question_text(claim: &QuestionClaim) -> Cow<'_, str> {
    let message = &claim.question.question.message;
    match &claim.problem {
        None => message.into(),
        Some(problem) => format!("{message}\n\nThe last answer was not taken: {problem}.").into(),
    }
}

/// Returns the notification that the visit of a page is complete.
pub(super) fn complete(seal: &Seal, task: &TaskId, key: &str) -> Value {
    let elicitation_id = elicitation_id(seal, task, key);
    let params = json!({ "elicitationId": elicitation_id, "_meta": to_wire::related_meta(task) });
    to_wire::notification("notifications/elicitation/complete", params)
}

/// Returns the notification that withdraws a question of this task.
pub(super) fn withdraw(id: &str, task: &TaskId) -> Value {
    let reason = "the answer is no longer needed";
    let params = json!({ "requestId": id, "reason": reason, "_meta": to_wire::related_meta(task) });
    to_wire::notification("notifications/cancelled", params)
}

/// Returns a request about a client's task. It has no related-task metadata, because the id is enough.
pub(super) fn about(id: &str, method: &str, task: &TaskId) -> Value {
    to_wire::request(id, method, json!({ "taskId": task }))
}

/// Returns the id of the visit of a page: the same in every message about it, from any process.
fn elicitation_id(seal: &Seal, task: &TaskId, key: &str) -> String {
    seal.digest(&["elicitation", task.as_str(), key])
}
