//! Definitions of the companion tools: names, descriptions and schemas. It must not run one.

use serde_json::{Value, json};

use super::Companion;
use crate::mcp::Settings;
use crate::mcp::features::tools::handle::handle_schema;

/// Entry of a companion tool in the tool list.
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Its title, for people.
    pub title: &'static str,
    /// Description, for models.
    pub description: String,
    /// Annotations, in the form of MCP.
    pub annotations: Value,
    /// Schema of its arguments.
    pub input_schema: Value,
    /// Schema of its result. `None` where the answer is another tool's result, or plain text.
    pub output_schema: Option<Value>,
}

impl Companion {
    /// Returns the tool's entry in the tool list.
    pub fn definition(self, settings: &Settings) -> Definition {
        let task_id = json!({"type": "string", "description": "The task_id of the handle that the call answered with."});
        let read_only = json!({"readOnlyHint": true, "openWorldHint": false});
        let mutating = |destructive: bool| {
            json!({
                "readOnlyHint": false, "destructiveHint": destructive, "idempotentHint": true, "openWorldHint": false
            })
        };
        let (title, description, annotations, properties, required, output_schema) = match self {
            Self::Wait => (
                "Wait for a task",
                format!(
                    "Waits for a task that an earlier call started, for up to {} seconds, and gives that call's \
                     result once it is there. Call it again if the task is still running then.",
                    settings.call_budget.as_secs()
                ),
                read_only,
                json!({
                    "task_id": task_id,
                    "seconds": {
                        "type": "number",
                        "minimum": 0,
                        "description": "Wait for less than that; 0 only looks."
                    }
                }),
                json!(["task_id"]),
                None,
            ),
            Self::Cancel => (
                "Cancel a task",
                "Stops a task that an earlier call started. What its job has done until then stays done.".to_owned(),
                mutating(true),
                json!({"task_id": task_id}),
                json!(["task_id"]),
                Some(handle_schema()),
            ),
            Self::Answer => (
                "Answer a task's question",
                "Answers what a task asks, where its tool lets a model answer. Everything else is for a person to \
                 answer."
                    .to_owned(),
                mutating(false),
                json!({
                    "task_id": task_id,
                    "question": {
                        "type": "string",
                        "description": "Which question, by its name in the handle. Needed only if several are open."
                    },
                    "action": {
                        "enum": ["accept", "decline"],
                        "default": "accept",
                        "description": "decline: refuse to answer."
                    },
                    "content": {
                        "type": "object",
                        "description": "The answer, in the form that the question's schema describes."
                    }
                }),
                json!(["task_id"]),
                Some(handle_schema()),
            ),
            Self::List => (
                "List tasks",
                "Lists your tasks, newest first, with where they stand.".to_owned(),
                read_only,
                json!({
                    "cursor": {"type": "string", "description": "The next_cursor of the list before."}
                }),
                json!([]),
                Some(list_schema()),
            ),
            Self::Logs => (
                "Show a task's log",
                format!(
                    "Shows the end of what a task's job has printed so far, up to {} bytes, and says where it was \
                     cut.",
                    settings.max_log_bytes
                ),
                read_only,
                json!({
                    "task_id": task_id,
                    "search": {"type": "string", "description": "Show only the lines that contain this."},
                    "max_bytes": {"type": "integer", "minimum": 1, "description": "Show less than that."}
                }),
                json!(["task_id"]),
                None,
            ),
            Self::View => (
                "Show a task's card",
                "What the card of a task shows: for the card, not for a model.".to_owned(),
                read_only,
                json!({
                    "task_id": task_id,
                    "since": {"type": "string", "description": "The mark of the answer before."},
                    "log": {"type": "boolean", "description": "With the end of the log."}
                }),
                json!(["task_id"]),
                None,
            ),
        };
        let input_schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        });
        Definition { name: self.name(), title, description, annotations, input_schema, output_schema }
    }
}

fn list_schema() -> Value {
    let mut task = handle_schema();
    task["properties"]["tool"] = json!({"type": "string"});
    task["properties"]["created_at"] = json!({"type": "string", "format": "date-time"});
    task["required"] = json!(["task_id", "status", "tool", "created_at"]);
    task["description"] = json!("One of your tasks.");
    json!({
        "type": "object",
        "properties": {
            "tasks": {"type": "array", "items": task},
            "next_cursor": {"type": "string", "description": "Present if there are more."}
        },
        "required": ["tasks"]
    })
}
