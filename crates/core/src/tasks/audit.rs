//! The audit events of tasks: creations, starts, ends, cancellations, answers, reads, refusals and failed
//! lookups. This module defines the events. An implementation of [`Audit`] adds the caller and stores them.
//! With [`LogOnlyAudit`] they are only lines of the server log with the target `audit`, which show only the
//! beginning of a task id.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::store::StoreError;
use super::task::{Outcome, Owner, Task, TaskId};

/// An audit event.
#[derive(Clone, Copy, Debug)]
pub enum AuditEvent<'a> {
    /// A task was created.
    Created(&'a Task),
    /// The engine accepted a task's job.
    Started(&'a Task),
    /// A task has ended.
    Ended(&'a Task),
    /// A caller requested the cancellation of a task.
    CancelRequested(&'a Task),
    /// A question was answered.
    Answered {
        /// The task that asked.
        task: &'a Task,
        /// The question's key.
        question: &'a str,
    },
    /// A caller read data of a task.
    Read {
        /// The task.
        task: &'a Task,
        /// The data that was read.
        part: Part<'a>,
    },
    /// A caller asked for a task that they do not have. Many of these suggest guessing.
    NotFound {
        /// The caller.
        owner: &'a Owner,
        /// The requested id.
        id: &'a TaskId,
    },
    /// A caller may read a task, and tried an operation that they may not do.
    Denied {
        /// The task.
        task: &'a Task,
        /// The name of the operation.
        operation: &'static str,
        /// The reason for the refusal.
        why: &'a str,
    },
    /// A client created a task of its own for a question, or reported a new stage of it.
    ClientTask {
        /// The owner that the client acts for.
        owner: &'a Owner,
        /// The task that asks.
        task: &'a TaskId,
        /// The question's key.
        question: &'a str,
        /// The client's id of its own task.
        theirs: &'a TaskId,
        /// The stage of that task.
        stage: &'a str,
    },
}

/// A readable part of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Its state and its history, as another person than its owner sees them in the console.
    State,
    /// Its result.
    Result,
    /// The output that its job printed.
    Log,
    /// A file that its job left, by name.
    Artifact(&'a str),
}

/// An operation that is about to be done.
#[derive(Clone, Copy, Debug)]
pub enum AuditedOperation<'a> {
    /// A task will be created.
    Call {
        /// The tool.
        tool: &'a str,
        /// Its arguments, which may be recorded only as a digest.
        arguments: &'a serde_json::Value,
    },
    /// A task will be cancelled.
    Cancel(&'a TaskId),
    /// A question of a task will be answered.
    Answer(&'a TaskId),
}

/// A receiver of audit events.
#[async_trait]
pub trait Audit: Send + Sync {
    /// Records an event. It never blocks and cannot fail: an implementation counts the events that it cannot
    /// store.
    fn record(&self, event: AuditEvent<'_>);

    /// Announces an operation that must not happen without a record. If the config requires it, it returns
    /// once the record is written. After an error the operation must not happen.
    ///
    /// # Errors
    /// If the record cannot be written.
    async fn announce(&self, operation: AuditedOperation<'_>) -> Result<(), StoreError>;
}

/// A store for the lines of the audit log. It must not depend on their content.
#[async_trait]
pub trait AuditLineStore: Send + Sync {
    /// Returns the last line and its number.
    async fn last_line(&self) -> Result<Option<(u64, String)>, StoreError>;

    /// Appends lines with consecutive numbers from `first` on: all of them, or none. Returns false if one of
    /// the numbers is already in use, because another process was faster.
    async fn add_lines(&self, first: u64, lines: Vec<String>) -> Result<bool, StoreError>;

    /// Returns at most `limit` lines after this number, in order.
    async fn lines_after(&self, n: u64, limit: usize) -> Result<Vec<(u64, String)>, StoreError>;

    /// Deletes lines from before this time. It starts with the oldest, stops at the first later one, and
    /// never deletes the last line. Returns their number, at most `limit`.
    async fn delete_lines(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// An audit that only writes to the server log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOnlyAudit;

#[async_trait]
impl Audit for LogOnlyAudit {
    fn record(&self, event: AuditEvent<'_>) {
        log(event);
    }

    async fn announce(&self, _operation: AuditedOperation<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Writes the event to the server log.
pub fn log(event: AuditEvent<'_>) {
    match event {
        AuditEvent::Created(task) => {
            let traceparent = traceparent(task);
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, tool = task.tool, traceparent, "task created");
        }
        AuditEvent::Started(task) => {
            tracing::info!(target: "audit", task = ?task.id, backend = task.backend, job = task.handle().map(taskbridge_sdk::JobHandle::as_str), "job started");
        }
        AuditEvent::Ended(task) => {
            let (outcome, traceparent) = (task.outcome().map(Outcome::as_str), traceparent(task));
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, tool = task.tool, outcome, traceparent, "task ended");
        }
        AuditEvent::CancelRequested(task) => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, "cancellation requested");
        }
        AuditEvent::Answered { task, question } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, question, "question answered");
        }
        AuditEvent::Read { task, part: Part::Result } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, "result retrieved");
        }
        AuditEvent::Read { task, part } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, ?part, "read");
        }
        AuditEvent::NotFound { owner, id } => {
            tracing::info!(target: "audit", task = ?id, ?owner, "task not found");
        }
        AuditEvent::Denied { task, operation: deed, why } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, deed, why, "denied");
        }
        AuditEvent::ClientTask { owner, task, question, theirs, stage } => {
            tracing::info!(target: "audit", ?task, ?owner, question, ?theirs, %stage, "client's task");
        }
    }
}

fn traceparent(task: &Task) -> Option<&str> {
    task.origin.trace.as_ref().map(|trace| trace.parent.as_str())
}
