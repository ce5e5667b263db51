//! [`Actor`]: the caller of a task operation, and what the caller may do with which tasks. The operations
//! query it. This module must not define access rules: implementations of the trait do.

use taskbridge_sdk::OnBehalfOf;

use super::Service;
use crate::tasks::audit::AuditEvent;
use crate::tasks::store::{AccessScope, Result};
use crate::tasks::task::{Owner, Task, TaskId};

/// An operation on a visible task that needs permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOperation {
    /// Cancel the task.
    Cancel,
    /// Answer a question of the task.
    Answer,
}

impl TaskOperation {
    /// Returns the verb.
    fn name(self) -> &'static str {
        match self {
            TaskOperation::Cancel => "cancel",
            TaskOperation::Answer => "answer",
        }
    }
}

/// A caller of task operations.
pub trait Actor: Send + Sync {
    /// Returns the caller as the owner of their own tasks.
    fn owner(&self) -> &Owner;

    /// Returns the tools whose tasks the caller can read, regardless of owner. It is called for every
    /// lookup, since rules change.
    fn tools(&self) -> Vec<String>;

    /// Returns the caller's identity for an engine that acts on their behalf; `None` for an anonymous
    /// caller.
    ///
    /// # Errors
    /// If the caller's identity cannot be passed to an engine. The text is written for the caller.
    fn person(&self) -> std::result::Result<Option<OnBehalfOf>, String>;

    /// Checks whether the caller may do this with a visible task.
    ///
    /// # Errors
    /// The reason for the refusal, written for the caller.
    fn may(&self, operation: TaskOperation, task: &Task) -> Result<(), String>;
}

/// An owner without access rules: the operator of the server acts in the owner's name.
impl Actor for Owner {
    fn owner(&self) -> &Owner {
        self
    }

    fn tools(&self) -> Vec<String> {
        Vec::new()
    }

    fn person(&self) -> std::result::Result<Option<OnBehalfOf>, String> {
        Ok(None)
    }

    fn may(&self, _: TaskOperation, _: &Task) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the person on whose behalf the engine is called; `None` if it is the person who created the task.
fn acting_person(by: &dyn Actor, task: &Task) -> Result<Option<OnBehalfOf>, String> {
    if *by.owner() == task.owner {
        return Ok(None);
    }
    match (by.person()?, &task.origin.on_behalf_of) {
        (None, Some(_)) => Err("you are not authenticated, and this task belongs to a user".to_owned()),
        (person, _) => Ok(person),
    }
}

impl Service {
    /// Returns a task by its id with one read, if it is within the caller's scope. This is the only lookup
    /// by id for callers. A task out of scope, an expired task and a missing task give the same result.
    pub(super) async fn find(&self, by: &dyn Actor, id: &TaskId) -> Result<Option<Task>> {
        let tools = by.tools();
        self.writer.store.get(id, Some(AccessScope { owner: by.owner(), tools: &tools })).await
    }

    /// Checks whether the caller may do this with a visible task. Returns the person on whose behalf the
    /// engine is called, if it is not the one who created the task. A refusal is written to the audit log.
    ///
    /// # Errors
    /// The reason for the refusal, written for the caller.
    pub fn permits(
        &self,
        by: &dyn Actor,
        operation: TaskOperation,
        task: &Task,
    ) -> Result<Option<OnBehalfOf>, String> {
        by.may(operation, task).and_then(|()| acting_person(by, task)).inspect_err(|why| {
            self.writer.audit.record(AuditEvent::Denied { task, operation: operation.name(), why })
        })
    }
}
