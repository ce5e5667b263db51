//! Translation of AWS's description of an execution to an observation of the sdk. Pure.

pub(crate) mod poll;
pub(crate) mod poll_many;

use serde_json::{Map, Value};
use taskbridge_sdk::{Content, JobState, Observation, Output, excerpt, one_line, short_line};

use crate::driver::execution::ExecutionDescription;
use crate::identity::arn::execution_console;
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

impl ExecutionDescription {
    /// Returns true if the execution failed or timed out, so that its history may contain the origin.
    pub(crate) fn may_have_origin(&self) -> bool {
        matches!(self.status.as_str(), "FAILED" | "TIMED_OUT")
    }

    /// Returns true if the execution is in a terminal state.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "ABORTED")
    }

    /// Returns the observation, with the origin of a failure.
    pub(crate) fn observation(self, origin: Option<Origin>) -> Observation {
        let since = if self.has_ended() { self.stopped } else { self.started };
        let observation = match self.status.as_str() {
            "SUCCEEDED" => Observation::new(JobState::Succeeded(parse_output(self.output.as_deref()))),
            "FAILED" => self.end_observation("failed", origin.as_ref(), JobState::Failed),
            "TIMED_OUT" => self.end_observation("timed out", origin.as_ref(), JobState::Failed),
            "ABORTED" => self.end_observation("was stopped", None, JobState::Cancelled),
            "RUNNING" => Observation::new(JobState::Running),
            // It has failed, and a redrive was requested.
            "PENDING_REDRIVE" => {
                Observation::new(JobState::Queued).with_message("the execution waits to be redriven")
            }
            // An unknown status counts as running: a future status must not end a task.
            status => Observation::new(JobState::Running)
                .with_message(format!("Step Functions reports an unknown status: {}", one_line(status))),
        };
        Observation { since, ..observation }
    }

    /// Returns the observation of a failure whose history cannot be read, with the reason.
    pub(crate) fn observation_without_history(self, reason: &str) -> Observation {
        let observation = self.observation(None);
        let (JobState::Failed(mut output), Some(message)) = (observation.state.clone(), &observation.message)
        else {
            return observation;
        };
        let note =
            format!("the failed state is unknown, because the history cannot be read: {}", one_line(reason));
        output.content.push(Content::text(format!("Note: {note}")));
        Observation {
            state: JobState::Failed(output),
            message: Some(format!("{message} ({note})")),
            ..observation
        }
    }

    /// Returns the observation of an end other than success: the reason in one line, as text, and as data.
    /// Only the data has a long cause in full. An end that the cancellation of a task caused has only a
    /// message.
    fn end_observation(
        &self,
        verb: &str,
        origin: Option<&Origin>,
        state: fn(Output) -> JobState,
    ) -> Observation {
        let error = self.error.as_deref().filter(|error| !error.is_empty());
        let cause = self.cause.as_deref().filter(|cause| !cause.is_empty());
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
        data.insert("status".to_owned(), self.status.as_str().into());
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
        if self.status == "TIMED_OUT" {
            text.push_str("\nIf it needs longer, raise `TimeoutSeconds` of the state machine.");
        }
        if let Some(page) = cause.and_then(child_execution_url) {
            text.push_str(&format!("\nSteps of the child execution: {page}"));
        }
        if let Some(page) = execution_console(&self.arn) {
            text.push_str(&format!("\nIts steps: {page}"));
        }
        let output =
            Output { content: vec![Content::text(text)], structured: Some(data.into()), ..Output::default() };
        Observation::new(state(output)).with_message(message)
    }
}

/// Returns the observation of an execution that AWS does not know.
pub(crate) fn gone_observation() -> Observation {
    Observation::new(JobState::Gone).with_message(
        "Step Functions no longer has the execution: it keeps executions for 90 days after their end",
    )
}

/// Returns the output of an execution, as data and as text.
fn parse_output(text: Option<&str>) -> Output {
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

#[cfg(test)]
mod tests {
    use taskbridge_sdk::Timestamp;

    use super::*;
    use serde_json::json;

    fn description(status: &str) -> ExecutionDescription {
        ExecutionDescription {
            status: status.to_owned(),
            started: Some(Timestamp::from_millis(1000)),
            stopped: Some(Timestamp::from_millis(2000)),
            ..ExecutionDescription::default()
        }
    }

    fn texts(output: &Output) -> Vec<&str> {
        let mut texts = Vec::new();
        for content in &output.content {
            let Content::Text { text } = content else { panic!("{content:?}") };
            texts.push(text.as_str());
        }
        texts
    }

    #[test]
    fn each_status_is_a_state() {
        let state = |status: &str| description(status).observation(None).state;
        assert_eq!(state("RUNNING"), JobState::Running);
        assert_eq!(state("PENDING_REDRIVE"), JobState::Queued);
        assert_eq!(state("SOMETHING_NEW"), JobState::Running);
        assert!(matches!(state("SUCCEEDED"), JobState::Succeeded(_)));
        assert!(matches!(state("FAILED"), JobState::Failed(_)));
        assert!(matches!(state("TIMED_OUT"), JobState::Failed(_)));
        assert!(matches!(state("ABORTED"), JobState::Cancelled(_)));
        for status in
            ["RUNNING", "PENDING_REDRIVE", "SOMETHING_NEW", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"]
        {
            assert_eq!(description(status).has_ended(), state(status).has_ended(), "{status}");
        }
        let unknown = description("SOMETHING_NEW").observation(None).message.unwrap();
        assert!(unknown.ends_with("SOMETHING_NEW"), "{unknown}");
    }

    #[test]
    fn since_is_when_the_state_began() {
        let since = |status: &str| description(status).observation(None).since.map(Timestamp::as_millis);
        assert_eq!(
            (since("RUNNING"), since("SUCCEEDED"), since("ABORTED")),
            (Some(1000), Some(2000), Some(2000))
        );
    }

    #[test]
    fn output_is_data_and_text() {
        for (raw, data, text) in [
            (r#"{"rows": 3}"#, Some(json!({"rows": 3})), r#"{"rows": 3}"#),
            (r#""all done""#, Some(json!("all done")), "all done"),
            ("[1,2]", Some(json!([1, 2])), "[1,2]"),
            ("null", Some(json!(null)), "null"),
            ("not JSON", None, "not JSON"),
        ] {
            let actual = parse_output(Some(raw));
            assert_eq!((actual.structured.clone(), texts(&actual)), (data, vec![text]), "{raw}");
        }
        assert_eq!(parse_output(None), Output::default());
        let longest = json!("x".repeat(262_142)).to_string();
        assert_eq!((longest.len(), texts(&parse_output(Some(&longest)))[0].len()), (262_144, 262_142));
    }

    #[test]
    fn a_failure_says_where_and_why() {
        let failed = ExecutionDescription {
            error: Some("NoPaper".to_owned()),
            cause: Some("the tray\nis empty".to_owned()),
            ..description("FAILED")
        };
        let origin = Origin { state: "Print".to_owned(), input: Some(r#"{"page":7}"#.to_owned()) };
        let observation = failed.clone().observation(Some(origin));
        assert_eq!(
            observation.message.as_deref(),
            Some("the execution failed in state `Print`: NoPaper: the tray is empty")
        );
        let JobState::Failed(output) = &observation.state else { panic!("{observation:?}") };
        let data = json!({"status": "FAILED", "error": "NoPaper", "cause": "the tray\nis empty", "state": "Print",
            "input": {"page": 7}});
        assert_eq!(output.structured, Some(data));
        assert!(
            texts(output)[0].contains("the tray\nis empty\nInput of the state: {\"page\":7}"),
            "{output:?}"
        );
        let large_origin = Origin { state: "Print".to_owned(), input: Some("x".repeat(5000)) };
        let JobState::Failed(output) = failed.clone().observation(Some(large_origin)).state else { panic!() };
        assert!(texts(&output)[0].ends_with("Input of the state: 5000 bytes."), "{output:?}");
        assert_eq!(
            failed.observation(None).message.as_deref(),
            Some("the execution failed: NoPaper: the tray is empty")
        );
    }

    /// A timeout, a stop, a cancellation and a failure have different messages.
    #[test]
    fn terminal_messages_are_distinct() {
        let message = |facts: ExecutionDescription| facts.observation(None).message.unwrap();
        assert_eq!(message(description("TIMED_OUT")), "the execution timed out");
        assert_eq!(message(description("ABORTED")), "the execution was stopped");
        let cancelled =
            ExecutionDescription { error: Some(STOPPED_ERROR.to_owned()), ..description("ABORTED") };
        assert_eq!(message(cancelled), "the execution was stopped, because its task was cancelled");
        let lambda = r#"{"errorMessage":"boom","errorType":"E","stackTrace":[]}"#;
        let failed = ExecutionDescription { cause: Some(lambda.to_owned()), ..description("FAILED") };
        assert_eq!(message(failed), "the execution failed: boom");
    }

    /// The text of a failure is short and ends with a link to the steps of the execution.
    #[test]
    fn failure_text_is_short_with_link() {
        let text = |cause: &str, status| {
            let arn = "arn:aws:states:us-east-1:123456789012:execution:m:e".to_owned();
            let failed = ExecutionDescription { arn, cause: Some(cause.to_owned()), ..description(status) };
            let JobState::Failed(output) = failed.observation(None).state else { panic!("{cause}") };
            texts(&output)[0].to_owned()
        };
        let page = "Its steps: https://us-east-1.console.aws.amazon.com/states/home?region=us-east-1#/v2/executions/details/\
                    arn:aws:states:us-east-1:123456789012:execution:m:e";
        let lambda = r#"{"errorMessage":"boom","stackTrace":["  File \"a.py\", line 1, in f\n    g()\n"]}"#;
        let stack = "The stack:\n  File \"a.py\", line 1, in f\n    g()";
        assert_eq!(text(lambda, "FAILED"), format!("The execution failed: boom\n{stack}\n{page}"));
        let nested = r#"{"ExecutionArn":"arn:aws:states:us-east-1:123456789012:execution:m:e","Error":"E","Cause":"c"}"#;
        let child = page.replace("Its steps", "Steps of the child execution");
        assert_eq!(text(nested, "FAILED"), format!("The execution failed: E: c\n{child}\n{page}"));
        let late = "If it needs longer, raise `TimeoutSeconds` of the state machine.";
        assert_eq!(text("late", "TIMED_OUT"), format!("The execution timed out: late\n{late}\n{page}"));
        let long = text(&"x".repeat(30_000), "FAILED");
        assert!(long.len() < 900 && long.ends_with(page), "{long}");
    }
}
