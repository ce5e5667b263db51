//! The companion tools: what a model goes on with when its call was answered with a handle. They work on the same
//! rows as the protocol's own tasks, for any generation. [`Order::read`] says what is wanted; to wait needs the
//! caller's stream, so a generation does that itself, and hands all else to [`run`]. It must not know how a generation
//! writes a tool result.

mod definitions;
mod errands;
mod orders;

use serde_json::{Value, json};

use super::fallback::Handle;
use super::{Bridge, CompanionTools};
use crate::auth::Principal;
use crate::tasks::task::{Owner, TaskId};

pub use definitions::Definition;
pub use errands::run;
pub use orders::{Errand, Order, WaitOrder};

/// One of the companion tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Companion {
    /// Waits for a task, and gives its result.
    Wait,
    /// Stops a task.
    Cancel,
    /// Answers what a task asks.
    Answer,
    /// Lists the caller's tasks.
    List,
    /// Shows what a task's job printed.
    Logs,
}

/// What a companion tool says.
#[derive(Debug)]
pub struct Said {
    /// For the model.
    pub text: String,
    /// The same as data.
    pub structured: Option<Value>,
    /// True if it could not do what was asked.
    pub is_error: bool,
    /// True if the text is what a job printed.
    pub of_job: bool,
}

impl Companion {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Companion; 5] = [Self::Wait, Self::Cancel, Self::Answer, Self::List, Self::Logs];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "task_wait",
            Self::Cancel => "task_cancel",
            Self::Answer => "task_answer",
            Self::List => "task_list",
            Self::Logs => "task_logs",
        }
    }

    /// The companion of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|companion| companion.name() == name)
    }

    /// True if this caller is offered the tool. `automatic` says whether its generation offers the tools that stand
    /// in for the protocol's own to it where the config leaves that open.
    pub fn is_offered(self, bridge: &Bridge, caller: &Principal, automatic: bool) -> bool {
        match (bridge.settings().companion_tools, self) {
            (CompanionTools::Never, _) => false,
            (_, Self::List) => caller.identified,
            (_, Self::Logs) | (CompanionTools::Always, _) => true,
            (CompanionTools::Auto, Self::Wait | Self::Cancel | Self::Answer) => automatic,
        }
    }
}

/// What somebody hears who asks for a task that they do not have.
pub fn no_task(bridge: &Bridge, caller: &Owner, id: &TaskId) -> Said {
    bridge.not_found(caller, id);
    Said::refusal(format!("There is no task {id}. It may have expired."))
}

impl Said {
    /// A line on why it could not be done.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None, is_error: true, of_job: false }
    }

    /// A line on a task, with its handle.
    pub fn about(text: String, handle: &Handle<'_>) -> Self {
        Self { text, structured: Some(json!(handle)), is_error: false, of_job: false }
    }
}
