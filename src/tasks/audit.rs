//! What is logged of tasks for whoever must account for them: who made, ended, fetched or looked in vain for which. All
//! under the target `audit`, so that it can be kept apart or turned off. Of a task id only the beginning is shown.

use super::store::Held;
use super::task::{Owner, Task, TaskId};

/// A task was made.
pub fn created(task: &Task) {
    let traceparent = task.origin.trace.as_ref().map(|trace| trace.parent.as_str());
    tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, tool = task.tool, traceparent, "task created");
}

/// A task has ended.
pub fn ended(task: &Task) {
    let outcome = task.outcome();
    let traceparent = task.origin.trace.as_ref().map(|trace| trace.parent.as_str());
    tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, tool = task.tool, ?outcome, traceparent, "task ended");
}

/// Somebody was given the result of a task.
pub fn retrieved(task: &Task) {
    tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, "result retrieved");
}

/// Somebody asked for a task that they do not have. Many of these are somebody who guesses.
pub fn not_found(caller: &Owner, id: &TaskId) {
    tracing::info!(target: "audit", task = ?id, owner = ?caller, "task not found");
}

/// A client has made a task of its own of a question, or has said that it stands elsewhere now.
pub fn client_task(owner: &Owner, held: &Held) {
    let Held { of, id, stage, .. } = held;
    tracing::info!(target: "audit", task = ?of.task, owner = ?owner, question = of.key, theirs = ?id, ?stage, "client's task");
}
