//! Parses the arguments of a call of a companion tool. An error names the argument and the expected value. It
//! must not access a task.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Answer;

use super::Companion;
use crate::tasks::task::TaskId;

/// A parsed call.
#[derive(Debug, PartialEq)]
pub enum CompanionCall {
    /// Waits for a task.
    Wait(WaitCall),
    /// Looks at a task, for its view.
    View(LookRequest),
    /// Any command that completes at once.
    Command(CompanionCommand),
}

/// A look of a view at its task.
#[derive(Debug, PartialEq)]
pub struct LookRequest {
    /// The task.
    pub id: TaskId,
    /// The `mark` of the previous answer: what the view shows already. One that cannot be read counts as none.
    pub since: Option<String>,
    /// True if the end of the log is shown, too.
    pub log: bool,
}

/// A call that waits for a task.
#[derive(Debug, PartialEq)]
pub struct WaitCall {
    /// The task.
    pub id: TaskId,
    /// Maximum wait. `None`, or more than `call_budget`, waits for `call_budget`.
    pub timeout: Option<Duration>,
}

/// A command that completes at once.
#[derive(Debug, PartialEq)]
pub enum CompanionCommand {
    /// Cancels a task.
    Cancel(TaskId),
    /// Answers a question.
    Answer {
        /// The task that asks.
        id: TaskId,
        /// Key of the question; `None` means the only open one.
        question: Option<String>,
        /// The answer.
        answer: Answer,
    },
    /// Lists tasks.
    List {
        /// Cursor of the next page.
        cursor: Option<String>,
    },
    /// Shows a log.
    Logs {
        /// The task.
        id: TaskId,
        /// Text that the shown lines contain.
        search: Option<String>,
        /// Maximum size of the log text in bytes.
        max_bytes: Option<usize>,
    },
}

impl CompanionCall {
    /// Parses the arguments of a call of this companion.
    ///
    /// # Errors
    /// The problem, in words for the model.
    pub fn parse(companion: Companion, arguments: &Value) -> Result<Self, String> {
        let id = || task_id(arguments);
        Ok(match companion {
            Companion::Wait => CompanionCall::Wait(WaitCall {
                id: id()?,
                timeout: seconds(arguments)?.map(Duration::from_secs_f64),
            }),
            Companion::Cancel => CompanionCall::Command(CompanionCommand::Cancel(id()?)),
            Companion::Answer => CompanionCall::Command(CompanionCommand::Answer {
                id: id()?,
                question: text(arguments, "question")?,
                answer: answer(arguments)?,
            }),
            Companion::List => {
                CompanionCall::Command(CompanionCommand::List { cursor: text(arguments, "cursor")? })
            }
            Companion::View => CompanionCall::View(LookRequest {
                id: id()?,
                since: text(arguments, "since")?,
                log: flag(arguments, "log")?,
            }),
            Companion::Logs => CompanionCall::Command(CompanionCommand::Logs {
                id: id()?,
                search: text(arguments, "search")?.filter(|search| !search.is_empty()),
                max_bytes: max_bytes(arguments)?,
            }),
        })
    }
}

fn task_id(arguments: &Value) -> Result<TaskId, String> {
    match text(arguments, "task_id")? {
        Some(id) => Ok(TaskId::from_wire(id)),
        None => {
            Err("`task_id` is missing: give the one from the handle that the call answered with".to_owned())
        }
    }
}

fn answer(arguments: &Value) -> Result<Answer, String> {
    match (text(arguments, "action")?.as_deref(), arguments.get("content")) {
        (Some("decline"), _) => Ok(Answer::Decline),
        (None | Some("accept"), Some(Value::Object(content))) => Ok(Answer::Accept(content.clone())),
        (None | Some("accept"), None | Some(Value::Null)) => Ok(Answer::Accept(serde_json::Map::new())),
        (None | Some("accept"), Some(_)) => Err("`content` must be an object".to_owned()),
        (Some(other), _) => Err(format!("`action` is {other:?}, and must be \"accept\" or \"decline\"")),
    }
}

/// Parses `seconds`. A value above a day counts as a day, so that any number is a valid duration.
fn seconds(arguments: &Value) -> Result<Option<f64>, String> {
    match arguments.get("seconds") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds >= 0.0 => Ok(Some(seconds.min(86_400.0))),
            _ => Err(format!("`seconds` is {value}, and must be a number from 0 on")),
        },
    }
}

fn max_bytes(arguments: &Value) -> Result<Option<usize>, String> {
    match arguments.get("max_bytes") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(bytes) if bytes > 0 => Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX))),
            _ => Err(format!("`max_bytes` is {value}, and must be a whole number from 1 on")),
        },
    }
}

fn flag(arguments: &Value, name: &str) -> Result<bool, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(format!("`{name}` is {other}, and must be true or false")),
    }
}

fn text(arguments: &Value, name: &str) -> Result<Option<String>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{name}` is {other}, and must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn companion_arguments_are_read() {
        let parsed = CompanionCall::parse(Companion::Wait, &json!({"task_id": "x", "seconds": 1.5}));
        let wait = WaitCall { id: TaskId::from_wire("x"), timeout: Some(Duration::from_millis(1500)) };
        assert_eq!(parsed, Ok(CompanionCall::Wait(wait)));
        let parsed = CompanionCall::parse(Companion::Answer, &json!({"task_id": "x", "action": "decline"}));
        let answer =
            CompanionCommand::Answer { id: TaskId::from_wire("x"), question: None, answer: Answer::Decline };
        assert_eq!(parsed, Ok(CompanionCall::Command(answer)));
        assert_eq!(
            CompanionCall::parse(Companion::List, &json!({})),
            Ok(CompanionCall::Command(CompanionCommand::List { cursor: None }))
        );
    }

    #[test]
    fn companion_argument_error_names_argument() {
        for (companion, arguments, expected) in [
            (Companion::Wait, json!({}), "`task_id` is missing"),
            (Companion::Cancel, json!({"task_id": 5}), "`task_id` is 5"),
            (Companion::Wait, json!({"task_id": "x", "seconds": -1}), "`seconds` is -1"),
            (Companion::Wait, json!({"task_id": "x", "seconds": "1"}), "`seconds` is \"1\""),
            (Companion::Answer, json!({"task_id": "x", "action": "yes"}), "`action` is \"yes\""),
            (Companion::Answer, json!({"task_id": "x", "content": [1]}), "`content` must be"),
            (Companion::Logs, json!({"task_id": "x", "max_bytes": 0}), "`max_bytes` is 0"),
            (Companion::List, json!({"cursor": {}}), "`cursor` is {}"),
            (Companion::View, json!({"task_id": "x", "log": 1}), "`log` is 1"),
        ] {
            let problem = CompanionCall::parse(companion, &arguments).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert!(CompanionCall::parse(Companion::Wait, &json!({"task_id": "x", "seconds": 1e300})).is_ok());
    }
}
