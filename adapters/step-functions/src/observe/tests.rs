//! Tests of the table of statuses, and of the texts of ends.

use serde_json::json;
use taskbridge_sdk::{Output, Timestamp};

use super::conclude::STOPPED_ERROR;
use super::*;

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

/// The table at the top of the module is what the code does.
#[test]
fn state_table_matches_code() {
    let source = include_str!("mod.rs").lines();
    let rows: Vec<&str> = source.filter_map(|line| line.strip_prefix("//! | ")).skip(1).collect();
    assert_eq!(rows.len(), 7);
    for row in rows {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [status, job, task, message] = cells[..] else { panic!("{row}") };
        let observation = description(status.trim_matches('`')).observation(None);
        let (actual, expected_task) = match observation.state {
            JobState::Queued => ("queued", "working"),
            JobState::Running => ("running", "working"),
            JobState::Succeeded(_) => ("succeeded", "completed"),
            JobState::Failed(_) => ("failed", "failed"),
            JobState::Cancelled(_) => ("cancelled", "cancelled"),
            JobState::Gone => panic!("{row}"),
        };
        assert_eq!((job, task), (actual, expected_task), "{row}");
        assert!(observation.message.is_none_or(|text| text == message), "{row}");
    }
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
    assert!(texts(output)[0].contains("the tray\nis empty\nInput of the state: {\"page\":7}"), "{output:?}");
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
    let cancelled = ExecutionDescription { error: Some(STOPPED_ERROR.to_owned()), ..description("ABORTED") };
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
    let nested =
        r#"{"ExecutionArn":"arn:aws:states:us-east-1:123456789012:execution:m:e","Error":"E","Cause":"c"}"#;
    let child = page.replace("Its steps", "Steps of the child execution");
    assert_eq!(text(nested, "FAILED"), format!("The execution failed: E: c\n{child}\n{page}"));
    let late = "If it needs longer, raise `TimeoutSeconds` of the state machine.";
    assert_eq!(text("late", "TIMED_OUT"), format!("The execution timed out: late\n{late}\n{page}"));
    let long = text(&"x".repeat(30_000), "FAILED");
    assert!(long.len() < 900 && long.ends_with(page), "{long}");
}
