//! The end of an execution as text and as data. It must not decide what a status means. Pure.

use serde_json::{Map, Value};
use taskbridge_sdk::{Content, JobState, Observation, Output, excerpt, one_line, short_line};

use crate::driver::execution::ExecutionDescription;
use crate::identity::handle::execution_console;
use crate::store::history::Origin;

/// Error with which the cancellation of a task stops an execution.
pub(crate) const STOPPED_ERROR: &str = "taskbridge.Cancelled";
/// Cause with which the cancellation of a task stops an execution.
pub(crate) const STOPPED_CAUSE: &str = "The task of this execution was cancelled.";

/// Maximum size of a failed state's input that is shown as text, in bytes. The data always contains it.
const MAX_INPUT_SHOWN: usize = 400;

/// Maximum length of a cause and of a stack that are shown as text, in bytes. The data contains the cause in
/// full, which includes the stack.
const MAX_CAUSE_SHOWN: usize = 600;

/// Returns the observation of an end other than success: the reason in one line, as text, and as data.
/// Only the data has a long cause in full. An end that the cancellation of a task caused has only a
/// message.
pub(crate) fn end_observation(
    description: &ExecutionDescription,
    verb: &str,
    origin: Option<&Origin>,
    state: fn(Output) -> JobState,
) -> Observation {
    let error = description.error.as_deref().filter(|error| !error.is_empty());
    let cause = description.cause.as_deref().filter(|cause| !cause.is_empty());
    if error == Some(STOPPED_ERROR) {
        let message = "the execution was stopped, because its task was cancelled";
        return Observation::new(state(Output::text(message))).with_message(message);
    }
    let location = origin.map(|origin| format!(" in state `{}`", origin.state)).unwrap_or_default();
    let details = |cause: Option<String>| match (error, cause) {
        (Some(error), Some(cause)) => format!(": {error}: {cause}"),
        (Some(one), None) => format!(": {one}"),
        (None, Some(one)) => format!(": {one}"),
        (None, None) => String::new(),
    };
    let message = one_line(&format!(
        "the execution {verb}{location}{}",
        details(cause.map(cause_message).map(shorten_to_line))
    ));
    let mut text =
        format!("The execution {verb}{location}{}", details(cause.map(cause_message).map(shorten)));
    if let Some(stack) = cause.and_then(stack_trace) {
        text.push_str(&format!("\nThe stack:\n{}", shorten(stack)));
    }
    let mut data = Map::new();
    data.insert("status".to_owned(), description.status.as_str().into());
    let members = [
        ("error", error.map(Value::from)),
        ("cause", cause.map(Value::from)),
        ("state", origin.map(|origin| origin.state.as_str().into())),
        ("input", origin.and_then(|origin| origin.input.as_deref()).map(parse_json)),
    ];
    for (name, value) in members {
        data.extend(value.map(|value| (name.to_owned(), value)));
    }
    match origin.and_then(|origin| origin.input.as_deref()) {
        Some(input) if input.len() <= MAX_INPUT_SHOWN => {
            text.push_str(&format!("\nInput of the state: {input}"))
        }
        Some(input) => text.push_str(&format!("\nInput of the state: {} bytes.", input.len())),
        None => {}
    }
    if description.status == "TIMED_OUT" {
        text.push_str("\nIf it needs longer, raise `TimeoutSeconds` of the state machine.");
    }
    if let Some(page) = cause.and_then(child_execution_url) {
        text.push_str(&format!("\nSteps of the child execution: {page}"));
    }
    if let Some(page) = execution_console(&description.arn) {
        text.push_str(&format!("\nIts steps: {page}"));
    }
    let output =
        Output { content: vec![Content::text(text)], structured: Some(data.into()), ..Output::default() };
    Observation::new(state(output)).with_message(message)
}

/// Returns the output of an execution, as data and as text.
pub(crate) fn parse_output(text: Option<&str>) -> Output {
    let Some(text) = text else { return Output::default() };
    let structured: Option<Value> = serde_json::from_str(text).ok();
    let display_text = match &structured {
        Some(Value::String(string)) => string.clone(),
        _ => text.to_owned(),
    };
    Output { content: vec![Content::text(display_text)], structured, ..Output::default() }
}

/// Returns a cause or a stack as shown: the head and the tail if it is long.
fn shorten(text: String) -> String {
    excerpt(&text, MAX_CAUSE_SHOWN, "the structured result has them").unwrap_or(text)
}

/// Returns the beginning of a long cause, for one line. The full text contains this part as well.
fn shorten_to_line(cause: String) -> String {
    if cause.len() > MAX_CAUSE_SHOWN { short_line(&cause, 120) } else { cause }
}

/// Returns the stack of a function, which Lambda writes into the cause as lines.
fn stack_trace(cause: &str) -> Option<String> {
    let object = serde_json::from_str::<Map<String, Value>>(cause).ok()?;
    let lines = ["stackTrace", "trace"].iter().find_map(|name| object.get(*name)?.as_array())?;
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).map(str::trim_end).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Parses text as JSON. Other text becomes a JSON string.
fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Returns the essential part of a cause. Lambda and nested executions write the cause as an object.
fn cause_message(cause: &str) -> String {
    let object = serde_json::from_str::<Map<String, Value>>(cause).ok();
    let message = object.as_ref().and_then(|object| {
        ["errorMessage", "Cause", "cause", "message"].iter().find_map(|name| object.get(*name)?.as_str())
    });
    let error = object.as_ref().and_then(|object| object.get("Error")?.as_str());
    match (error, message) {
        (Some(error), Some(message)) => format!("{error}: {message}"),
        _ => message.unwrap_or(cause).to_owned(),
    }
}

/// Returns the URL of the failed child execution that the cause names.
fn child_execution_url(cause: &str) -> Option<String> {
    let object = serde_json::from_str::<Map<String, Value>>(cause).ok()?;
    execution_console(object.get("ExecutionArn")?.as_str()?)
}
