//! What is wanted of a companion tool, read from its arguments. A problem names the argument and what it must be.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Answer;

use super::Companion;
use crate::tasks::task::TaskId;

/// What is wanted.
#[derive(Debug, PartialEq)]
pub enum Order {
    /// To wait for a task.
    Wait(WaitOrder),
    /// Anything that is done at once.
    Errand(Errand),
}

/// To wait for a task.
#[derive(Debug, PartialEq)]
pub struct WaitOrder {
    /// Which.
    pub id: TaskId,
    /// For how long at most; absent for as long as a call may wait.
    pub patience: Option<Duration>,
}

/// What is done at once.
#[derive(Debug, PartialEq)]
pub enum Errand {
    /// To stop a task.
    Cancel(TaskId),
    /// To answer a question.
    Answer {
        /// The task that asks.
        id: TaskId,
        /// Which question; absent if only one is open.
        question: Option<String>,
        /// The answer.
        answer: Answer,
    },
    /// To list tasks.
    List {
        /// Where to go on.
        cursor: Option<String>,
    },
    /// To show a log.
    Logs {
        /// The task.
        id: TaskId,
        /// The lines to show.
        search: Option<String>,
        /// How much of it at most.
        max_bytes: Option<usize>,
    },
}

impl Order {
    /// Reads the arguments of a call to this companion.
    ///
    /// # Errors
    /// What is wrong with them, for the model.
    pub fn read(companion: Companion, arguments: &Value) -> Result<Self, String> {
        let id = || task_id(arguments);
        Ok(match companion {
            Companion::Wait => Order::Wait(WaitOrder {
                id: id()?,
                patience: seconds(arguments)?.map(Duration::from_secs_f64),
            }),
            Companion::Cancel => Order::Errand(Errand::Cancel(id()?)),
            Companion::Answer => Order::Errand(Errand::Answer {
                id: id()?,
                question: text(arguments, "question")?,
                answer: answer(arguments)?,
            }),
            Companion::List => Order::Errand(Errand::List { cursor: text(arguments, "cursor")? }),
            Companion::Logs => Order::Errand(Errand::Logs {
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

/// At most a day, so that any number makes a duration; a call waits for much less.
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
    fn reads_what_is_wanted() {
        let order = Order::read(Companion::Wait, &json!({"task_id": "x", "seconds": 1.5}));
        let wait = WaitOrder { id: TaskId::from_wire("x"), patience: Some(Duration::from_millis(1500)) };
        assert_eq!(order, Ok(Order::Wait(wait)));
        let order = Order::read(Companion::Answer, &json!({"task_id": "x", "action": "decline"}));
        let answer = Errand::Answer { id: TaskId::from_wire("x"), question: None, answer: Answer::Decline };
        assert_eq!(order, Ok(Order::Errand(answer)));
        assert_eq!(
            Order::read(Companion::List, &json!({})),
            Ok(Order::Errand(Errand::List { cursor: None }))
        );
    }

    #[test]
    fn a_problem_names_the_argument() {
        for (companion, arguments, named) in [
            (Companion::Wait, json!({}), "`task_id` is missing"),
            (Companion::Cancel, json!({"task_id": 5}), "`task_id` is 5"),
            (Companion::Wait, json!({"task_id": "x", "seconds": -1}), "`seconds` is -1"),
            (Companion::Wait, json!({"task_id": "x", "seconds": "1"}), "`seconds` is \"1\""),
            (Companion::Answer, json!({"task_id": "x", "action": "yes"}), "`action` is \"yes\""),
            (Companion::Answer, json!({"task_id": "x", "content": [1]}), "`content` must be"),
            (Companion::Logs, json!({"task_id": "x", "max_bytes": 0}), "`max_bytes` is 0"),
            (Companion::List, json!({"cursor": {}}), "`cursor` is {}"),
        ] {
            let problem = Order::read(companion, &arguments).unwrap_err();
            assert!(problem.starts_with(named), "{problem}");
        }
        assert!(Order::read(Companion::Wait, &json!({"task_id": "x", "seconds": 1e300})).is_ok());
    }
}
