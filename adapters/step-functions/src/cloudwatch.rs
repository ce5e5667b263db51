//! What CloudWatch Logs has of an execution whose state machine logs: the events of its history, each as JSON in a line. It is
//! all that can be read of how an Express execution went. AWS delivers these lines when it can, and promises neither that
//! all come nor when.

use aws_sdk_sfn::types::{LogLevel, LoggingConfiguration};
use serde_json::Value;
use taskbridge_sdk::{LogRequest, LogText, Result, Timestamp};

use crate::api::Api;
use crate::history::Happened;
use crate::log::Tail;

/// The most pages that are read for one tail. AWS may answer with an empty page and a way to the next.
const MOST_PAGES: usize = 5;
/// AWS reads from the end only what is not older than this: the beginning of 2024, in milliseconds.
const EARLIEST: i64 = 1_704_067_200_000;
/// How far the moments of events may lie beyond those that AWS gives for the execution.
const SLACK: i64 = 60_000;
/// How long an Express execution takes at most.
const LONGEST_EXPRESS: i64 = 300_000;

/// Where executions of a state machine log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogGroup {
    arn: String,
}

impl LogGroup {
    /// The one of a state machine, if it logs.
    pub(crate) fn of(config: &LoggingConfiguration) -> Option<Self> {
        if config.level.as_ref().is_none_or(|level| *level == LogLevel::Off) {
            return None;
        }
        // There is one destination at most.
        let destination = config.destinations().first()?.cloud_watch_logs_log_group.as_ref()?;
        let arn = destination.log_group_arn.as_ref().filter(|arn| arn.contains(":log-group:"))?;
        Some(Self { arn: arn.clone() })
    }

    /// All of a region, where it is not known which one a state machine has.
    pub(crate) fn all(partition: &str, region: &str, account: &str) -> Self {
        Self { arn: format!("arn:{partition}:logs:{region}:{account}:log-group:*") }
    }

    /// As a policy names it.
    pub(crate) fn arn(&self) -> &str {
        &self.arn
    }

    pub(crate) fn name(&self) -> &str {
        let name = self.arn.split_once(":log-group:").map_or("", |(_, name)| name);
        name.strip_suffix(":*").unwrap_or(name)
    }
}

/// From when to when an execution can have logged, in milliseconds. An end that is not known is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: i64,
    pub(crate) until: Option<i64>,
}

impl Window {
    /// That of an execution that began and ended then, as far as it is known.
    pub(crate) fn of(began: Option<Timestamp>, ended: Option<Timestamp>) -> Self {
        let since = began.map_or(EARLIEST, |began| began.as_millis() - SLACK).max(EARLIEST);
        Self { since, until: ended.map(|ended| ended.as_millis() + SLACK) }
    }

    /// That of an Express execution.
    pub(crate) fn of_express(began: Option<Timestamp>) -> Self {
        let latest = began.map(|began| Timestamp::from_millis(began.as_millis() + LONGEST_EXPRESS));
        Self::of(began, latest)
    }
}

/// The end of what an execution has logged.
pub(crate) async fn tail(
    api: &Api,
    group: &LogGroup,
    arn: &str,
    window: Window,
    request: &LogRequest,
) -> Result<LogText> {
    let (mut tail, mut page) = (Tail::new(request), None);
    for _ in 0..MOST_PAGES {
        let answer = match api.log_events(group.name(), arn, window, page).await {
            // Somebody has deleted the log group.
            Err(failure) if failure.is("ResourceNotFoundException") => return Ok(LogText::default()),
            answer => answer?,
        };
        for event in answer.events() {
            let at = event.timestamp.map(Timestamp::from_millis);
            if let Some(happened) = event.message.as_deref().and_then(|line| happened(line, at, arn)) {
                tail.take(&happened);
            }
        }
        page = answer.next_token;
        if page.is_none() || tail.is_full() {
            break;
        }
    }
    Ok(tail.text(page.is_some()))
}

/// What a line says that happened in this execution. Lines that only mention it, such as those of an execution that it was
/// started by, are none of its own.
fn happened(line: &str, at: Option<Timestamp>, arn: &str) -> Option<Happened> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["execution_arn"] != arn {
        return None;
    }
    let details = &event["details"];
    let text = |name: &str| details[name].as_str().map(str::to_owned);
    Some(Happened {
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
        ..Happened::default()
    })
}

/// A number, which AWS writes as text in places.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_sfn::types::{CloudWatchLogsLogGroup, LogDestination};

    const ARN: &str = "arn:aws:states:us-east-1:123456789012:express:Quick:tb-x:0b7a-1";

    /// As AWS writes them.
    fn line(rest: &str) -> String {
        format!(
            r#"{{"id":"2","type":"TaskStateEntered",{rest}"previous_event_id":"1","event_timestamp":"1785902417192",
               "execution_arn":"{ARN}","redrive_count":"0"}}"#
        )
    }

    #[test]
    fn a_line_tells_what_a_history_would() {
        let at = Some(Timestamp::from_millis(1_785_902_417_192));
        let entered = line(r#""details":{"name":"Run","input":"{}","inputDetails":{"truncated":false}},"#);
        let expected = Happened {
            id: 2,
            previous: 1,
            at,
            kind: "TaskStateEntered".to_owned(),
            name: Some("Run".to_owned()),
            ..Happened::default()
        };
        assert_eq!(happened(&entered, at, ARN), Some(expected));
        for details in [r#"{"name":"Each","index":"7"}"#, r#"{"name":"Each","index":7}"#, r#"{"length":"7"}"#]
        {
            let seen = happened(&line(&format!(r#""details":{details},"#)), at, ARN).unwrap();
            assert_eq!(seen.number, Some(7), "{details}");
        }
        let failed = happened(&line(r#""details":{"error":"E","cause":"c"},"#), at, ARN).unwrap();
        assert_eq!((failed.error.as_deref(), failed.cause.as_deref()), (Some("E"), Some("c")));
        assert!(happened(&line(""), None, ARN).is_some(), "without details");
    }

    #[test]
    fn lines_of_others_and_other_lines_are_left_out() {
        let parent = line("").replace(ARN, "arn:aws:states:us-east-1:123456789012:execution:Parent:p");
        let parent =
            parent.replace(r#""redrive_count""#, &format!(r#""details":{{"parameters":"{ARN}"}},"x""#));
        assert!(parent.contains(ARN));
        for text in [parent.as_str(), ARN, "", "[]", &line("").replace(r#""id":"2","#, "")] {
            assert_eq!(happened(text, None, ARN), None, "{text}");
        }
    }

    #[test]
    fn a_state_machine_logs_if_it_has_a_level_and_a_group() {
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

    #[test]
    fn only_the_time_of_the_execution_is_searched() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        let began = 1_785_902_417_166;
        assert_eq!(Window::of(None, None), Window { since: EARLIEST, until: None });
        assert_eq!(Window::of(at(5), at(6)), Window { since: EARLIEST, until: Some(6 + SLACK) });
        let window = Window::of_express(at(began));
        assert_eq!(window, Window { since: began - SLACK, until: Some(began + LONGEST_EXPRESS + SLACK) });
        assert_eq!(Window::of_express(None), Window { since: EARLIEST, until: None });
    }
}
