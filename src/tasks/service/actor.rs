//! [`Actor`]: who asks for a task, and what they may do with which. The verbs ask it; what it answers is decided elsewhere.

use taskbridge_sdk::OnBehalfOf;

use super::Service;
use crate::tasks::audit::Event as Told;
use crate::tasks::store::{Reach, Result};
use crate::tasks::task::{Owner, Task, TaskId};

/// What somebody wants to do with a task that they can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// To cancel it.
    Cancel,
    /// To answer what it asks.
    Answer,
}

impl Deed {
    /// The verb.
    fn name(self) -> &'static str {
        match self {
            Deed::Cancel => "cancel",
            Deed::Answer => "answer",
        }
    }
}

/// Somebody who asks for tasks.
pub trait Actor: Send + Sync {
    /// Whose tasks are theirs.
    fn owner(&self) -> &Owner;

    /// The tools whose tasks they can look at, whoever made them. It is asked anew for each look, since rules change.
    fn tools(&self) -> Vec<String>;

    /// Who they are, for an engine that is told what they do as them; `None` for nobody in particular.
    ///
    /// # Errors
    /// If they cannot be told to an engine, in words for them.
    fn person(&self) -> std::result::Result<Option<OnBehalfOf>, String>;

    /// Whether they may do this with a task that they can look at.
    ///
    /// # Errors
    /// Why not, in words for them.
    fn may(&self, wish: Deed, task: &Task) -> Result<(), String>;
}

/// An owner whom no rules bind: whoever runs the bridge, in their name.
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

    fn may(&self, _: Deed, _: &Task) -> Result<(), String> {
        Ok(())
    }
}

/// On whose behalf an engine is asked for what somebody does with a task; `None` if it is on that of whoever asked for it.
fn instead(by: &dyn Actor, task: &Task) -> Result<Option<OnBehalfOf>, String> {
    if *by.owner() == task.owner {
        return Ok(None);
    }
    match (by.person()?, &task.origin.on_behalf_of) {
        (None, Some(_)) => Err("nobody knows who you are, and this task is somebody's".to_owned()),
        (them, _) => Ok(them),
    }
}

impl Service {
    /// The one way to a task by its id, for whoever asks: one read, which finds what is within their reach. What is not
    /// theirs, what has expired and what never was come back alike.
    pub(super) async fn find(&self, by: &dyn Actor, id: &TaskId) -> Result<Option<Task>> {
        let tools = by.tools();
        self.ledger.store.get(id, Some(Reach { owner: by.owner(), tools: &tools })).await
    }

    /// Whether somebody may do this with a task that they can look at, and on whose behalf an engine is asked for it, if not on
    /// that of whoever asked for the task. That they tried to and may not is told of.
    ///
    /// # Errors
    /// Why not, in words for them.
    pub fn permits(&self, by: &dyn Actor, deed: Deed, task: &Task) -> Result<Option<OnBehalfOf>, String> {
        by.may(deed, task)
            .and_then(|()| instead(by, task))
            .inspect_err(|why| self.ledger.audit.note(Told::Denied { task, deed: deed.name(), why }))
    }
}
