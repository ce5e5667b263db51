//! The filter of task lists. Names must match completely. Pure.

use std::time::Duration;

use clap::{Args, ValueEnum};
use taskbridge_sdk::Timestamp;

use crate::tasks::task::{Outcome, Task, TaskState};

/// Conditions that must all match.
#[derive(Args, Clone, Debug, Default)]
pub(in crate::cli) struct Filter {
    /// Only tasks in this state.
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only tasks of this tool.
    #[arg(long)]
    tool: Option<String>,
    /// Only tasks of this backend.
    #[arg(long)]
    backend: Option<String>,
    /// Only tasks of this owner.
    #[arg(long)]
    owner: Option<String>,
    /// Only tasks that were created within this time, such as 30m, 12h or 7d.
    #[arg(long, value_name = "DURATION", value_parser = humantime_serde::re::humantime::parse_duration)]
    since: Option<Duration>,
    /// Only tasks with an action due now.
    #[arg(long)]
    due: bool,
    /// Only tasks whose engine is unavailable.
    #[arg(long)]
    trouble: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    Working,
    InputRequired,
    Succeeded,
    Failed,
    Cancelled,
    Broken,
    /// Any of the last four.
    Ended,
    /// Any of the first two.
    Unended,
}

impl State {
    fn matches(self, task: &Task) -> bool {
        match self {
            State::Working => task.state == TaskState::Working,
            State::InputRequired => task.state == TaskState::InputRequired,
            State::Succeeded => task.outcome() == Some(Outcome::Succeeded),
            State::Failed => task.outcome() == Some(Outcome::Failed),
            State::Cancelled => task.outcome() == Some(Outcome::Cancelled),
            State::Broken => task.outcome() == Some(Outcome::Broken),
            State::Ended => task.has_ended(),
            State::Unended => !task.has_ended(),
        }
    }
}

impl Filter {
    /// Returns true if no condition is set.
    pub(super) fn is_empty(&self) -> bool {
        let Self { state, tool, backend, owner, since, due, trouble } = self;
        state.is_none()
            && tool.is_none()
            && backend.is_none()
            && owner.is_none()
            && since.is_none()
            && !due
            && !trouble
    }

    /// Returns true if the task matches.
    pub(super) fn matches(&self, task: &Task, now: Timestamp) -> bool {
        let is_match =
            |expected: &Option<String>, name: &str| expected.as_ref().is_none_or(|expected| expected == name);
        self.state.is_none_or(|state| state.matches(task))
            && is_match(&self.tool, &task.tool)
            && is_match(&self.backend, &task.backend)
            && is_match(&self.owner, task.owner.as_str())
            && self.since.is_none_or(|since| task.created_at >= now - since)
            && (!self.due || task.due_at.is_some_and(|due| due <= now))
            && (!self.trouble || task.trouble.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::task;
    use crate::tasks::task::{EngineOutage, Owner};

    #[test]
    fn names_are_compared_as_a_whole() {
        let task = Task {
            owner: Owner::new("ana"),
            tool: "deploy".to_owned(),
            ..task(0, Timestamp::from_millis(0))
        };
        let now = task.created_at + Duration::from_secs(60);
        let filter = Filter::default();
        assert!(filter.is_empty() && filter.matches(&task, now));
        for (owner, expected) in [("ana", true), ("an", false), ("Ana", false), ("", false)] {
            let filter = Filter { owner: Some(owner.to_owned()), ..Filter::default() };
            assert!(!filter.is_empty());
            assert_eq!(filter.matches(&task, now), expected, "{owner}");
        }
        for (tool, expected) in [("deploy", true), ("deplo", false)] {
            assert_eq!(
                Filter { tool: Some(tool.to_owned()), ..Filter::default() }.matches(&task, now),
                expected
            );
        }
    }

    #[test]
    fn all_conditions_must_hold() {
        let outage = EngineOutage { since: Timestamp::from_millis(0), reason: "away".to_owned() };
        let task = Task { trouble: Some(outage), ..task(0, Timestamp::from_millis(0)) };
        let now = task.created_at + Duration::from_secs(60);
        let filter = |since: u64, outage| Filter {
            since: Some(Duration::from_secs(since)),
            trouble: outage,
            due: true,
            state: Some(State::Unended),
            ..Filter::default()
        };
        assert!(filter(60, true).matches(&task, now));
        assert!(!filter(59, true).matches(&task, now));
        assert!(!filter(60, true).matches(&Task { trouble: None, ..task.clone() }, now));
        let ended = Task { state: TaskState::Ended(Outcome::Broken), ..task };
        assert!(!filter(60, true).matches(&ended, now));
        assert!(
            State::Broken.matches(&ended) && State::Ended.matches(&ended) && !State::Failed.matches(&ended)
        );
    }
}
