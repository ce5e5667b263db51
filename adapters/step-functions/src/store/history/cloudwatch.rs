//! Events of an execution in CloudWatch Logs, if its state machine logs: one history event per line, as JSON.
//! It is the only record of how an Express execution went. AWS delivers these lines on a best-effort basis
//! and guarantees neither completeness nor a delay.

use aws_sdk_sfn::types::{LogLevel, LoggingConfiguration};
use serde_json::Value;
use taskbridge_sdk::{LogRequest, LogText, Result, Timestamp};

use crate::driver::api::Api;
use crate::result::log::Tail;
use crate::store::history::ExecutionEvent;

/// Maximum number of pages read for one tail. AWS may return an empty page with a token for the next one.
const MAX_PAGES: usize = 5;
/// Earliest start time for which AWS reads from the end: the beginning of 2024, in milliseconds.
const EARLIEST: i64 = 1_704_067_200_000;
/// How far event times may lie outside the execution's start and end, in milliseconds.
const SLACK: i64 = 60_000;
/// Maximum duration of an Express execution, in milliseconds.
const MAX_EXPRESS_MILLIS: i64 = 300_000;

/// Log group of a state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogGroup {
    arn: String,
}

impl LogGroup {
    /// Returns the log group of a state machine, or `None` if it does not log.
    pub(crate) fn of(config: &LoggingConfiguration) -> Option<Self> {
        if config.level.as_ref().is_none_or(|level| *level == LogLevel::Off) {
            return None;
        }
        // AWS allows at most one destination.
        let destination = config.destinations().first()?.cloud_watch_logs_log_group.as_ref()?;
        let arn = destination.log_group_arn.as_ref().filter(|arn| arn.contains(":log-group:"))?;
        Some(Self { arn: arn.clone() })
    }

    /// Returns a pattern for all log groups of a region, for a state machine whose log group is unknown.
    pub(crate) fn all(partition: &str, region: &str, account: &str) -> Self {
        Self { arn: format!("arn:{partition}:logs:{region}:{account}:log-group:*") }
    }

    /// Returns the ARN for use in a policy.
    pub(crate) fn arn(&self) -> &str {
        &self.arn
    }

    pub(crate) fn name(&self) -> &str {
        let name = self.arn.split_once(":log-group:").map_or("", |(_, name)| name);
        name.strip_suffix(":*").unwrap_or(name)
    }
}

/// Time range in which an execution can have logged, in milliseconds. `until` is `None` if the end is unknown
/// and means now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: i64,
    pub(crate) until: Option<i64>,
}

impl Window {
    /// Returns the range for an execution with this start and end, as far as they are known.
    pub(crate) fn of(started_at: Option<Timestamp>, ended_at: Option<Timestamp>) -> Self {
        let since = started_at.map_or(EARLIEST, |started_at| started_at.as_millis() - SLACK).max(EARLIEST);
        Self { since, until: ended_at.map(|ended_at| ended_at.as_millis() + SLACK) }
    }

    /// Returns the range for an Express execution.
    pub(crate) fn of_express(started_at: Option<Timestamp>) -> Self {
        let latest_end =
            started_at.map(|started_at| Timestamp::from_millis(started_at.as_millis() + MAX_EXPRESS_MILLIS));
        Self::of(started_at, latest_end)
    }
}

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
    use aws_sdk_sfn::types::{CloudWatchLogsLogGroup, LogDestination};

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

    /// A state machine has a log only if its level is not OFF and it names a log group.
    #[test]
    fn log_group_requires_level_and_destination() {
        let arn = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/vendedlogs/states/Quick:*";
        let config = |level: Option<LogLevel>, arn: Option<&str>| {
            let group = CloudWatchLogsLogGroup::builder().set_log_group_arn(arn.map(str::to_owned)).build();
            let destination = LogDestination::builder().cloud_watch_logs_log_group(group).build();
            LoggingConfiguration::builder().set_level(level).destinations(destination).build()
        };
        let group = LogGroup::of(&config(Some(LogLevel::Error), Some(arn))).unwrap();
        assert_eq!((group.name(), group.arn()), ("/aws/vendedlogs/states/Quick", arn));
        for (level, arn) in [
            (Some(LogLevel::Off), Some(arn)),
            (None, Some(arn)),
            (Some(LogLevel::All), None),
            (Some(LogLevel::All), Some("Quick")),
        ] {
            assert_eq!(LogGroup::of(&config(level, arn)), None);
        }
        assert_eq!(LogGroup::of(&LoggingConfiguration::builder().level(LogLevel::All).build()), None);
    }

    /// The search of a log group covers the time of the execution, plus a margin.
    #[test]
    fn log_search_covers_execution_time_only() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        let started_at = 1_785_902_417_166;
        assert_eq!(Window::of(None, None), Window { since: EARLIEST, until: None });
        assert_eq!(Window::of(at(5), at(6)), Window { since: EARLIEST, until: Some(6 + SLACK) });
        let window = Window::of_express(at(started_at));
        assert_eq!(
            window,
            Window { since: started_at - SLACK, until: Some(started_at + MAX_EXPRESS_MILLIS + SLACK) }
        );
        assert_eq!(Window::of_express(None), Window { since: EARLIEST, until: None });
    }
}
