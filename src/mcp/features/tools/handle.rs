//! Task handles: what a plain call returns when its job takes longer than the call may wait. Contains the
//! handle, its schema, and the lines for the model. [`visible_status`] is the status that a client sees, in a
//! handle or in a task of the protocol. Every generation uses them. It must not know how a generation writes
//! a tool result.

use serde::Serialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Ask, Progress};

use crate::catalog::TaskSupport;
use crate::mcp::features::companions::Companion;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::types::{millis, without_nulls};
use crate::mcp::wire::{LINK, USUAL_DURATION};
use crate::tasks::service::View;
use crate::tasks::task::{Job, Outcome, QuestionSource, Task, TaskId, TaskQuestion, TaskState};

/// Handle of a task, for a call that the client did not make as a task. Its words are the same in every
/// generation.
#[derive(Debug, Serialize)]
pub struct Handle<'a> {
    /// Id of the task.
    pub task_id: &'a TaskId,
    /// Status: a word of [`status_word`].
    pub status: &'static str,
    /// One line about the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Progress of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// How long to wait before the next poll; absent once the task has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_after_seconds: Option<u64>,
    /// Questions that a model may answer, with `task_answer`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<OpenQuestion<'a>>,
}

/// A question that a model may answer.
#[derive(Debug, Serialize)]
pub struct OpenQuestion<'a> {
    /// Key of the question within the task.
    pub question: &'a str,
    /// Text of the question.
    pub message: &'a str,
    /// Schema of the answer.
    pub schema: &'a Value,
}

/// Status of a task, as one client sees it.
pub struct VisibleStatus {
    /// The state. It is `Working` instead of `InputRequired` if the client can answer none of the open
    /// questions.
    pub state: TaskState,
    /// One line about the state.
    pub message: Option<String>,
}

/// Returns the status of a task for a client with these capabilities. If the client can answer none of the
/// open questions, the state is `Working`, and the message contains the first question and who can answer it.
pub fn visible_status(context: &FeatureContext, view: &View, client: ClientCapabilities) -> VisibleStatus {
    let task = &view.task;
    let can_answer = task.open_questions().any(|task_question| client.can_ask(&task_question.question.ask));
    match task.open_questions().next() {
        Some(task_question) if !can_answer && task.state == TaskState::InputRequired => {
            let explanation = match client.missing(&task_question.question.ask) {
                Some(missing) if !client.barred => {
                    let options =
                        answer_options(task_question, is_answerable_by_model(context, task, task_question));
                    format!("this client cannot answer it (it has not declared {missing}). {options}")
                }
                _ => "it is not yours to answer, but somebody else's".to_owned(),
            };
            let message =
                format!("waiting for an answer to {:?}: {explanation}", task_question.question.message);
            VisibleStatus { state: TaskState::Working, message: Some(message) }
        }
        _ => VisibleStatus { state: task.state, message: view.status_message() },
    }
}

/// Returns the `_meta` of a task in answers to requests about it: its link and its tool's usual duration. They
/// are not in notifications, because the estimate changes all the time.
pub fn task_meta(view: &View) -> Value {
    let usual = view.usual.map(|usual| {
        let estimate = view.running_usual().map(|usual| usual.estimate(view.age).text());
        without_nulls(json!({
            "medianMs": millis(usual.median),
            "p90Ms": millis(usual.p90),
            "jobs": usual.jobs,
            "text": usual.text(),
            "estimate": estimate,
            "expectedEnd": view.expected_end().map(|end| end.to_string()),
        }))
    });
    without_nulls(json!({ LINK: view.task.link, USUAL_DURATION: usual }))
}

/// Returns where a question can be answered.
fn answer_options(task_question: &TaskQuestion, by_model: bool) -> String {
    let (answerer, ability) = match &task_question.question.ask {
        Ask::Form(_) => ("A person can answer it", "shows forms (elicitation)"),
        Ask::Url(_) => ("A person can answer it", "sends its user to pages (elicitation.url)"),
        Ask::Sampling(_) => ("It can be answered", "lends its model (sampling)"),
        Ask::Roots => ("It can be answered", "tells its roots (roots)"),
    };
    let model = if by_model { "Answer it with task_answer. " } else { "" };
    // The engine does not know a question that comes before the start.
    let engine = if task_question.asker == QuestionSource::Job { ", or in the engine itself" } else { "" };
    format!("{model}{answerer} in any client of the same owner that {ability}{engine}")
}

/// Returns the handle of a task, for a client with these capabilities. Its status is `input_required` also if
/// a model may answer a question.
pub fn handle<'a>(context: &FeatureContext, view: &'a View, client: ClientCapabilities) -> Handle<'a> {
    let task = &view.task;
    let status = visible_status(context, view, client);
    let questions: Vec<_> = task
        .open_questions()
        .filter(|task_question| is_answerable_by_model(context, task, task_question) && !client.barred)
        .filter_map(|task_question| {
            let schema = task_question.question.ask.form()?;
            Some(OpenQuestion {
                question: &task_question.key,
                message: &task_question.question.message,
                schema,
            })
        })
        .collect();
    let state = if questions.is_empty() { status.state } else { TaskState::InputRequired };
    Handle {
        task_id: &task.id,
        status: status_word(state),
        status_message: status.message,
        progress: task.progress,
        poll_after_seconds: (!task.has_ended()).then(|| ceil_seconds(view.poll_interval)),
        questions,
    }
}

/// Returns the word for a state.
pub fn status_word(state: TaskState) -> &'static str {
    match state {
        TaskState::Working => "working",
        TaskState::InputRequired => "input_required",
        TaskState::Ended(Outcome::Succeeded) => "completed",
        TaskState::Ended(Outcome::Failed | Outcome::Broken) => "failed",
        TaskState::Ended(Outcome::Cancelled) => "cancelled",
    }
}

/// Returns one line for a model about the state of its call and the next step. `companions` is whether the
/// companion tools are listed to its client.
pub fn next_step(handle: &Handle<'_>, task: &Task, companions: bool) -> String {
    let tool = &task.tool;
    let mut line = format!("{tool} is still running as task {}", handle.task_id);
    if let Some(message) = &handle.status_message {
        line.push_str(&format!(": {message}"));
    }
    line.push_str(". ");
    line.extend(describe_references(task).map(|sentence| format!("{sentence} ")));
    if !companions {
        line.push_str("It goes on in the background, and its result is kept under that task id.");
    } else if let Some(question) = handle.questions.first() {
        line.push_str(&format!(
            "Answer question {:?} with {} and then call {} with this task_id for the result.",
            question.question,
            Companion::Answer.name(),
            Companion::Wait.name()
        ));
    } else {
        line.push_str(&format!(
            "Call {} with this task_id to wait for the result, or {} to stop it. Do not call {tool} again for it.",
            Companion::Wait.name(),
            Companion::Cancel.name()
        ));
    }
    line
}

/// Returns the line about the tasks that the call referred to; `None` if it referred to none.
pub fn describe_references(task: &Task) -> Option<String> {
    let ids: Vec<&str> = task.refers_to.iter().map(TaskId::as_str).collect();
    (!ids.is_empty()).then(|| format!("It refers to task {}.", ids.join(" and task ")))
}

/// Returns the line for a call that was attached to the task of an equal call.
pub fn describe_attachment(task: &Task) -> String {
    format!(
        "An equal call to {} had started task {} and went away before it was answered: this answer is of that task, and \
         nothing was started a second time.",
        task.tool, task.id
    )
}

/// Describes the job of a cancelled task.
pub fn job_of_cancelled(task: &Task) -> &'static str {
    match &task.job {
        Job::Pending { .. } | Job::Closed { handle: None } => "Its job was never started.",
        Job::Starting { .. } => "Its job may have started; if so, it is stopped.",
        Job::Open { .. } if task.cannot_be_cancelled() => {
            "Its engine cannot stop the job, so it runs to its end."
        }
        Job::Open { .. } => "Its job was asked to stop and may still be running.",
        Job::Closed { handle: Some(_) } => "Its job is no longer running.",
    }
}

/// Returns the output schema that a tool publishes: the declared one and, unless the tool runs only as a
/// task, also that of a handle. Declared values that are not objects are described in their wrapped form,
/// `{"result": ...}`.
pub fn output_schema(declared: &Value, support: TaskSupport) -> Value {
    // A result that is not an object is sent as `{"result": ...}`, and the schema must describe that form.
    let declared_type = declared.get("type").and_then(Value::as_str);
    let mut forms = Vec::new();
    if matches!(declared_type, None | Some("object")) {
        forms.push((declared, false));
    }
    if declared_type != Some("object") {
        forms.push((declared, true));
    }
    let is_single = support == TaskSupport::Required && forms.len() == 1;
    let mut alternatives: Vec<Value> = Vec::new();
    for (index, (schema, wrapped)) in forms.into_iter().enumerate() {
        let pointer = if is_single { String::new() } else { format!("/anyOf/{index}") };
        alternatives.push(if wrapped {
            let inner = relocate(schema, &format!("{pointer}/properties/result"));
            json!({"type": "object", "properties": {"result": inner}, "required": ["result"]})
        } else {
            relocate(schema, &pointer)
        });
    }
    if support != TaskSupport::Required {
        alternatives.push(handle_schema());
    }
    let mut published = if is_single {
        alternatives.swap_remove(0)
    } else {
        json!({"type": "object", "anyOf": alternatives})
    };
    if let Some(dialect) = declared.get("$schema") {
        published["$schema"] = dialect.clone();
    }
    published
}

/// Returns the schema of a [`Handle`].
pub fn handle_schema() -> Value {
    json!({
        "type": "object",
        "description": "The job takes longer than a call may wait; it goes on as a task.",
        "properties": {
            "task_id": {"type": "string", "description": "Names the task."},
            "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
            "status_message": {"type": "string"},
            "progress": {
                "type": "object",
                "properties": {"done": {"type": "number"}, "total": {"type": "number"}},
                "required": ["done"]
            },
            "poll_after_seconds": {"type": "integer", "minimum": 1},
            "questions": {"type": "array", "items": {"type": "object"}}
        },
        "required": ["task_id", "status"],
        "additionalProperties": false
    })
}

/// Moves a schema from the root of its document to `pointer`, without its `$schema`. Its references into
/// itself are adjusted, unless it has an `$id`.
fn relocate(schema: &Value, pointer: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
        if !pointer.is_empty() && !root.contains_key("$id") {
            rewrite_refs(root, pointer);
        }
    }
    schema
}

/// The keywords of JSON Schema whose value maps names to schemas.
const NAMED_SCHEMAS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

fn rewrite_refs(schema: &mut Map<String, Value>, pointer: &str) {
    for (key, value) in schema {
        match value {
            // These contain values, which are not schemas.
            _ if matches!(key.as_str(), "const" | "enum" | "default" | "examples") => {}
            // These map names to schemas; the names are not keywords.
            Value::Object(schemas) if NAMED_SCHEMAS.contains(&key.as_str()) => {
                schemas
                    .values_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|inner| rewrite_refs(inner, pointer));
            }
            Value::String(reference)
                if key == "$ref" && (reference == "#" || reference.starts_with("#/")) =>
            {
                reference.insert_str(1, pointer);
            }
            Value::Object(inner) => rewrite_refs(inner, pointer),
            Value::Array(items) => {
                items
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|inner| rewrite_refs(inner, pointer));
            }
            _ => {}
        }
    }
}

/// Returns true if a model may answer this question: the tool allows it, the job asks it, and it asks for a
/// form. Only a person may give consent before a start.
pub fn is_answerable_by_model(context: &FeatureContext, task: &Task, task_question: &TaskQuestion) -> bool {
    task_question.asker == QuestionSource::Job
        && task_question.question.ask.form().is_some()
        && context.catalog().get(&task.tool).is_some_and(|tool| tool.answer_by_model)
}

fn ceil_seconds(duration: std::time::Duration) -> u64 {
    duration.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(schema: &Value, value: &Value) -> bool {
        jsonschema::options().build(schema).unwrap().is_valid(value)
    }

    fn tree() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"name": {"$ref": "#/$defs/name"}, "next": {"$ref": "#"}},
            "required": ["name"],
            "$defs": {"name": {"type": "string"}}
        })
    }

    /// A tool that may answer with a task handle publishes a schema for both.
    #[test]
    fn optional_task_schema_includes_handle() {
        let schema = output_schema(&tree(), TaskSupport::Optional);
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["$schema"], tree()["$schema"]);
        assert!(fits(&schema, &json!({"name": "a", "next": {"name": "b"}})));
        assert!(!fits(&schema, &json!({"name": "a", "next": {"name": 1}})), "references follow the move");
        assert!(fits(&schema, &json!({"task_id": "x", "status": "working", "poll_after_seconds": 1})));
        assert!(!fits(&schema, &json!({"task_id": "x", "status": "resting"})));
    }

    /// A tool that only runs as a task publishes the schema that it declares.
    #[test]
    fn required_task_schema_is_unchanged() {
        assert_eq!(output_schema(&tree(), TaskSupport::Required), tree());
    }

    /// References move with the schema; `const`, `enum`, `default` and `examples` do not change.
    #[test]
    fn schema_values_are_not_rewritten() {
        let value = json!({"$ref": "#/kept"});
        let declared = json!({
            "type": "object",
            "properties": {
                "default": {"$ref": "#/$defs/n"},
                "other": {"const": value, "enum": [value], "default": value, "examples": [value]}
            },
            "$defs": {"n": {"type": "integer"}}
        });
        let schema = output_schema(&declared, TaskSupport::Optional);
        let properties = &schema["anyOf"][0]["properties"];
        assert_eq!(properties["other"], declared["properties"]["other"]);
        assert_eq!(properties["default"]["$ref"], "#/anyOf/0/$defs/n");
    }

    /// The published schema describes the `result` member that such values get.
    #[test]
    fn non_object_results_are_wrapped() {
        let list =
            json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}});
        for support in [TaskSupport::Required, TaskSupport::Optional] {
            let schema = output_schema(&list, support);
            assert_eq!(schema["type"], "object");
            assert!(fits(&schema, &json!({"result": [1, 2]})));
            assert!(!fits(&schema, &json!({"result": ["1"]})));
        }
        let any = json!({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "integer"}]});
        let schema = output_schema(&any, TaskSupport::Required);
        assert!(fits(&schema, &json!({"result": 1})) && fits(&schema, &json!({"a": 1})));
        assert!(!fits(&schema, &json!({"b": 1})));
    }
}
