//! What is told of tasks to whoever must account for them: who made, ended, read or looked in vain for which. Here it says what
//! there is to tell; where it is kept, and who asked, is the business of whoever implements [`Audit`]. Without that it is lines
//! of the log, under the target `audit`. Of a task id only the beginning is shown.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::store::{Held, StoreError};
use super::task::{Outcome, Owner, Task, TaskId};

/// Something to be told of.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A task was made.
    Created(&'a Task),
    /// The engine has a task's job.
    Started(&'a Task),
    /// A task has ended.
    Ended(&'a Task),
    /// Somebody wants a task cancelled.
    CancelAsked(&'a Task),
    /// A question was answered.
    Answered {
        /// The task that asked.
        task: &'a Task,
        /// The question's key.
        question: &'a str,
    },
    /// Somebody was given something of a task.
    Read {
        /// The task.
        task: &'a Task,
        /// What they were given.
        part: Part<'a>,
    },
    /// Somebody asked for a task that they do not have. Many of these are somebody who guesses.
    NotFound {
        /// Who asked.
        owner: &'a Owner,
        /// For which.
        id: &'a TaskId,
    },
    /// Somebody may look at a task, and tried what they may not.
    Denied {
        /// The task.
        task: &'a Task,
        /// The verb.
        deed: &'static str,
        /// Why not.
        why: &'a str,
    },
    /// A client has made a task of its own of a question, or has said that it stands elsewhere now.
    ClientTask {
        /// Whose client.
        owner: &'a Owner,
        /// The task, and where it stands.
        held: &'a Held,
    },
}

/// What can be read of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Its result.
    Result,
    /// What its job printed.
    Log,
    /// A file that its job left, by its name.
    Artifact(&'a str),
}

/// Something that is about to be done.
#[derive(Clone, Copy, Debug)]
pub enum Wish<'a> {
    /// A task is to be made.
    Call {
        /// The tool.
        tool: &'a str,
        /// Its arguments, of which no more than a digest may be told.
        arguments: &'a serde_json::Value,
    },
    /// A task is to be cancelled.
    Cancel(&'a TaskId),
    /// A question of a task is to be answered.
    Answer(&'a TaskId),
}

/// Whoever is told.
#[async_trait]
pub trait Audit: Send + Sync {
    /// Tells of something. It waits for nothing and cannot fail: what cannot be kept is counted.
    fn note(&self, event: Event<'_>);

    /// Comes before something that must not be done untold. Where the config says so, it returns once that is on
    /// record, and with an error if it cannot be: then nothing is done.
    ///
    /// # Errors
    /// If it cannot be put on record.
    async fn announce(&self, wish: Wish<'_>) -> Result<(), StoreError>;
}

/// A store that keeps the lines of the audit log. What they say is not its business.
#[async_trait]
pub trait Lines: Send + Sync {
    /// The last line, and its number.
    async fn last_line(&self) -> Result<Option<(u64, String)>, StoreError>;

    /// Adds lines under this number and those that follow it: all of them, or none. False if there is a line under one
    /// of these numbers already, since somebody else was quicker.
    async fn add_lines(&self, first: u64, lines: Vec<String>) -> Result<bool, StoreError>;

    /// Lines after this number in their order, `limit` at most.
    async fn lines_after(&self, n: u64, limit: usize) -> Result<Vec<(u64, String)>, StoreError>;

    /// Deletes lines from before this moment, the oldest first up to the first that is from later, but never the last.
    /// Returns how many, at most `limit`.
    async fn forget_lines(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// Tells the log alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTheLog;

#[async_trait]
impl Audit for InTheLog {
    fn note(&self, event: Event<'_>) {
        log(event);
    }

    async fn announce(&self, _wish: Wish<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The line of the log.
pub fn log(event: Event<'_>) {
    match event {
        Event::Created(task) => {
            let traceparent = traceparent(task);
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, tool = task.tool, traceparent, "task created");
        }
        Event::Started(task) => {
            tracing::info!(target: "audit", task = ?task.id, backend = task.backend, job = task.handle().map(taskbridge_sdk::JobHandle::as_str), "job started");
        }
        Event::Ended(task) => {
            let (outcome, traceparent) = (task.outcome().map(Outcome::as_str), traceparent(task));
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, tool = task.tool, outcome, traceparent, "task ended");
        }
        Event::CancelAsked(task) => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, "cancellation asked for");
        }
        Event::Answered { task, question } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, question, "question answered");
        }
        Event::Read { task, part: Part::Result } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, "result retrieved");
        }
        Event::Read { task, part } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, ?part, "read");
        }
        Event::NotFound { owner, id } => {
            tracing::info!(target: "audit", task = ?id, ?owner, "task not found");
        }
        Event::Denied { task, deed, why } => {
            tracing::info!(target: "audit", task = ?task.id, owner = ?task.owner, deed, why, "denied");
        }
        Event::ClientTask { owner, held: Held { of, id, stage, .. } } => {
            tracing::info!(target: "audit", task = ?of.task, ?owner, question = of.key, theirs = ?id, ?stage, "client's task");
        }
    }
}

fn traceparent(task: &Task) -> Option<&str> {
    task.origin.trace.as_ref().map(|trace| trace.parent.as_str())
}
