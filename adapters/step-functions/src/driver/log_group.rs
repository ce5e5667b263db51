//! The log group of a state machine in CloudWatch Logs, and the time range in which an execution logs. Pure.

use aws_sdk_sfn::types::{LogLevel, LoggingConfiguration};
use taskbridge_sdk::Timestamp;

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

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_sfn::types::{CloudWatchLogsLogGroup, LogDestination};

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
