//! Events of an execution in CloudWatch Logs, if its state machine logs: one history event per line, as JSON.
//! It is the only record of how an Express execution went. AWS delivers these lines on a best-effort basis
//! and guarantees neither completeness nor a delay.

use serde_json::Value;
use taskbridge_sdk::{LogRequest, LogText, Result, Timestamp};

use crate::driver::api::Api;
use crate::driver::log_group::{LogGroup, Window};
use crate::store::history::ExecutionEvent;
use crate::store::history::log_lines::Tail;

/// Maximum number of pages read for one tail. AWS may return an empty page with a token for the next one.
const MAX_PAGES: usize = 5;

/// Reads the end of an execution's log.
pub(crate) async fn tail(
    api: &Api,
    group: &LogGroup,
    arn: &str,
    window: Window,
    request: &LogRequest,
) -> Result<LogText> {
    let (mut tail, mut page) = (Tail::new(request), None);
    for _ in 0..MAX_PAGES {
        let response = match api.log_events(group.name(), arn, window, page).await {
            // The log group was deleted.
            Err(failure) if failure.is("ResourceNotFoundException") => return Ok(LogText::default()),
            response => response?,
        };
        for event in response.events() {
            let at = event.timestamp.map(Timestamp::from_millis);
            if let Some(history_event) = event.message.as_deref().and_then(|line| parse_event(line, at, arn))
            {
                tail.push(&history_event);
            }
        }
        page = response.next_token;
        if page.is_none() || tail.is_full() {
            break;
        }
    }
    Ok(tail.text(page.is_some()))
}

/// Parses a line that logs an event of this execution. Other lines may mention it, such as those of the
/// execution that started it; they return `None`.
fn parse_event(line: &str, at: Option<Timestamp>, arn: &str) -> Option<ExecutionEvent> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["execution_arn"] != arn {
        return None;
    }
    let details = &event["details"];
    let text = |name: &str| details[name].as_str().map(str::to_owned);
    Some(ExecutionEvent {
        id: number(&event["id"])?,
        previous: number(&event["previous_event_id"]).unwrap_or_default(),
        at,
        kind: event["type"].as_str()?.to_owned(),
        name: text("name"),
        number: ["length", "index"]
            .iter()
            .find_map(|name| number(&details[*name]))
            .and_then(|n| n.try_into().ok()),
        error: text("error"),
        cause: text("cause"),
        ..ExecutionEvent::default()
    })
}

/// Parses a number, which AWS sometimes writes as a string.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:states:us-east-1:123456789012:express:Quick:tb-x:0b7a-1";

    /// Returns a line in AWS's format.
    fn line(rest: &str) -> String {
        format!(
            r#"{{"id":"2","type":"TaskStateEntered",{rest}"previous_event_id":"1","event_timestamp":"1785902417192",
               "execution_arn":"{ARN}","redrive_count":"0"}}"#
        )
    }

    /// A line of CloudWatch Logs parses to the same facts as an event of the history.
    #[test]
    fn log_line_parses_to_history_event() {
        let at = Some(Timestamp::from_millis(1_785_902_417_192));
        let entered = line(r#""details":{"name":"Run","input":"{}","inputDetails":{"truncated":false}},"#);
        let expected = ExecutionEvent {
            id: 2,
            previous: 1,
            at,
            kind: "TaskStateEntered".to_owned(),
            name: Some("Run".to_owned()),
            ..ExecutionEvent::default()
        };
        assert_eq!(parse_event(&entered, at, ARN), Some(expected));
        for details in [r#"{"name":"Each","index":"7"}"#, r#"{"name":"Each","index":7}"#, r#"{"length":"7"}"#]
        {
            let event = parse_event(&line(&format!(r#""details":{details},"#)), at, ARN).unwrap();
            assert_eq!(event.number, Some(7), "{details}");
        }
        let failed = parse_event(&line(r#""details":{"error":"E","cause":"c"},"#), at, ARN).unwrap();
        assert_eq!((failed.error.as_deref(), failed.cause.as_deref()), (Some("E"), Some("c")));
        assert!(parse_event(&line(""), None, ARN).is_some(), "without details");
    }

    /// Lines of other executions, and lines that are not events, are ignored.
    #[test]
    fn unrelated_log_lines_are_ignored() {
        let parent = line("").replace(ARN, "arn:aws:states:us-east-1:123456789012:execution:Parent:p");
        let parent =
            parent.replace(r#""redrive_count""#, &format!(r#""details":{{"parameters":"{ARN}"}},"x""#));
        assert!(parent.contains(ARN));
        for text in [parent.as_str(), ARN, "", "[]", &line("").replace(r#""id":"2","#, "")] {
            assert_eq!(parse_event(text, None, ARN), None, "{text}");
        }
    }
}
