//! The companion tools, which a model uses after its call was answered with a handle. They work on the same
//! rows as the protocol's own tasks, for every generation. [`CompanionCall::parse`] parses a call. A wait
//! needs the caller's stream, and the view has a module of its own; [`run`] does everything else. This module
//! must not know how a generation writes a tool result.

mod arguments;
mod commands;
mod definitions;

use serde_json::{Value, json};

use super::tools::handle::Handle;
use crate::auth::Principal;
use crate::mcp::CompanionTools;
use crate::mcp::features::context::FeatureContext;
use crate::tasks::task::{Owner, TaskId};

pub use self::arguments::{CompanionCall, CompanionCommand, LookRequest, WaitCall};
pub use self::commands::run;
pub use self::definitions::Definition;

/// One of the companion tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Companion {
    /// Waits for a task, and returns its result.
    Wait,
    /// Cancels a task.
    Cancel,
    /// Answers a task's question.
    Answer,
    /// Lists the caller's tasks.
    List,
    /// Shows what a task's job printed.
    Logs,
    /// Shows a task to its view ([`super::apps`]).
    View,
}

/// What selects the companion tools of a client.
#[derive(Clone, Copy, Debug)]
pub struct ToolOffer {
    /// True if `companion_tools = "auto"` offers the model `task_wait`, `task_cancel` and `task_answer`.
    pub companions: bool,
    /// True if the client shows views.
    pub views: bool,
}

/// Answer of a companion tool.
#[derive(Debug)]
pub struct CompanionResult {
    /// Text for the model.
    pub text: String,
    /// The same as structured data.
    pub structured: Option<Value>,
    /// True if the request was refused.
    pub is_error: bool,
    /// True if the text is output of a job.
    pub is_job_output: bool,
}

impl Companion {
    /// All of them, in the order of the tool list.
    pub const ALL: [Companion; 6] =
        [Self::Wait, Self::Cancel, Self::Answer, Self::List, Self::Logs, Self::View];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "task_wait",
            Self::Cancel => "task_cancel",
            Self::Answer => "task_answer",
            Self::List => "task_list",
            Self::Logs => "task_logs",
            Self::View => "task_view",
        }
    }

    /// Returns the companion of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|companion| companion.name() == name)
    }

    /// Returns true if this caller is offered the tool. A view acts by `task_cancel` and `task_answer`.
    pub fn is_offered(self, context: &FeatureContext, caller: &Principal, offer: ToolOffer) -> bool {
        match (context.settings().companion_tools, self) {
            (CompanionTools::Never, _) => false,
            (_, Self::List) => caller.identified,
            (_, Self::View) => offer.views,
            (_, Self::Logs) | (CompanionTools::Always, _) => true,
            (CompanionTools::Auto, Self::Wait) => offer.companions,
            (CompanionTools::Auto, Self::Cancel | Self::Answer) => offer.companions || offer.views,
        }
    }
}

/// Returns the refusal for a task that the caller does not have.
pub fn no_task(context: &FeatureContext, caller: &Owner, id: &TaskId) -> CompanionResult {
    context.not_found(caller, id);
    CompanionResult::refusal(format!("There is no task {id}. It may have expired."))
}

impl CompanionResult {
    /// Returns a refusal with one line of text.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None, is_error: true, is_job_output: false }
    }

    /// Returns a line about a task, with its handle.
    pub fn about(text: String, handle: &Handle<'_>) -> Self {
        Self { text, structured: Some(json!(handle)), is_error: false, is_job_output: false }
    }
}
