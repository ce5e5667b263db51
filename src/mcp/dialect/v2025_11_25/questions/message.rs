//! Builds the messages that carry a question to a client, and those about the client's task for it. It must
//! not decide when one is sent.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Ask;

use crate::mcp::dialect::v2025_11_25::{to_wire, wire};
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
    let task = as_task.map(|ttl| wire::TaskMetadata { ttl: millis(ttl) });
    let question = &claim.question.question;
    let meta = to_wire::related_meta(&claim.task);
    let message = question_text(claim);
    match &question.ask {
        Ask::Form(schema) => {
            let mode = revision.has_tasks().then_some("form");
            let params = wire::ElicitForm { mode, message: &message, requested_schema: schema, task, meta };
            to_wire::request(id, "elicitation/create", params)
        }
        Ask::Url(url) => {
            let elicitation_id = elicitation_id(seal, &claim.task, &claim.question.key);
            let params = wire::ElicitUrl { mode: "url", message: &message, elicitation_id, url, task, meta };
            to_wire::request(id, "elicitation/create", params)
        }
        Ask::Sampling(request) => {
            to_wire::request(id, "sampling/createMessage", wire::CreateMessage { request, task, meta })
        }
        Ask::Roots => to_wire::request(id, "roots/list", wire::ListRoots { meta }),
    }
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
    let params = wire::ElicitationComplete { elicitation_id, meta: to_wire::related_meta(task) };
    to_wire::notification("notifications/elicitation/complete", params)
}

/// Returns the notification that withdraws a question of this task.
pub(super) fn withdraw(id: &str, task: &TaskId) -> Value {
    let reason = "the answer is no longer needed";
    let params = wire::Cancelled { request_id: id, reason, meta: to_wire::related_meta(task) };
    to_wire::notification("notifications/cancelled", params)
}

/// Returns a request about a client's task.
pub(super) fn about(id: &str, method: &'static str, task: &TaskId) -> Value {
    to_wire::request(id, method, wire::OfTask { task_id: task.as_str() })
}

/// Returns the id of the visit of a page: the same in every message about it, from any process.
fn elicitation_id(seal: &Seal, task: &TaskId, key: &str) -> String {
    seal.digest(&["elicitation", task.as_str(), key])
}
