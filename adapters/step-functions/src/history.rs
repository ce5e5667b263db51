//! What happened in an execution, in the few words that this adapter needs, and the ways to read it: the newest part, and
//! the state that a failure came from.

use aws_sdk_sfn::primitives::DateTime;
use aws_sdk_sfn::types::HistoryEvent;
use taskbridge_sdk::{ErrorKind, Result, Timestamp};

use crate::api::{Answer, Api};

/// The most pages that are read for one purpose: the longest history that there is.
pub(crate) const MOST_PAGES: usize = 25;
/// The most events that a page holds.
pub(crate) const PAGE: i32 = 1000;

/// One thing that happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Happened {
    /// Counted from 1.
    pub(crate) id: i64,
    /// What it came from.
    pub(crate) previous: i64,
    pub(crate) at: Option<Timestamp>,
    /// The type as AWS calls it, such as `TaskStateEntered`.
    pub(crate) kind: String,
    /// Of which state or iteration.
    pub(crate) name: Option<String>,
    /// Of a map: how many items it has; of an iteration: which it is.
    pub(crate) number: Option<i32>,
    /// What a state was given.
    pub(crate) input: Option<String>,
    /// Which resource a task was handed to, and with what.
    pub(crate) resource: Option<String>,
    pub(crate) parameters: Option<String>,
    /// What a task gave.
    pub(crate) output: Option<String>,
    /// What failed, and why.
    pub(crate) error: Option<String>,
    pub(crate) cause: Option<String>,
}

/// The state that a failure came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    pub(crate) state: String,
    pub(crate) input: Option<String>,
}

/// A moment of AWS's.
pub(crate) fn timestamp(moment: &DateTime) -> Option<Timestamp> {
    moment.to_millis().ok().map(Timestamp::from_millis)
}

impl From<&HistoryEvent> for Happened {
    fn from(event: &HistoryEvent) -> Self {
        let mut it = Self {
            id: event.id,
            previous: event.previous_event_id,
            at: timestamp(&event.timestamp),
            kind: event.r#type.as_str().to_owned(),
            ..Self::default()
        };
        if let Some(entered) = &event.state_entered_event_details {
            (it.name, it.input) = (Some(entered.name.clone()), entered.input.clone());
        }
        if let Some(exited) = &event.state_exited_event_details {
            it.name = Some(exited.name.clone());
        }
        if let Some(map) = &event.map_state_started_event_details {
            it.number = Some(map.length);
        }
        let iterations = [
            &event.map_iteration_started_event_details,
            &event.map_iteration_succeeded_event_details,
            &event.map_iteration_failed_event_details,
            &event.map_iteration_aborted_event_details,
        ];
        if let Some(iteration) = iterations.into_iter().flatten().next() {
            (it.name, it.number) = (iteration.name.clone(), Some(iteration.index));
        }
        task(event, &mut it);
        (it.error, it.cause) = failure(event);
        it
    }
}

/// What an event says of a task that was handed to something else.
fn task(event: &HistoryEvent, it: &mut Happened) {
    if let Some(scheduled) = &event.activity_scheduled_event_details {
        (it.resource, it.parameters) = (Some(scheduled.resource.clone()), scheduled.input.clone());
    }
    if let Some(scheduled) = &event.task_scheduled_event_details {
        (it.resource, it.parameters) = (Some(scheduled.resource.clone()), Some(scheduled.parameters.clone()));
    }
    if let Some(succeeded) = &event.activity_succeeded_event_details {
        it.output = succeeded.output.clone();
    }
    if let Some(succeeded) = &event.task_succeeded_event_details {
        (it.resource, it.output) = (Some(succeeded.resource.clone()), succeeded.output.clone());
    }
    if let Some(failed) = &event.task_failed_event_details {
        it.resource = Some(failed.resource.clone());
    }
    if let Some(late) = &event.task_timed_out_event_details {
        it.resource = Some(late.resource.clone());
    }
}

/// What an event says of a failure, wherever it says it.
fn failure(event: &HistoryEvent) -> (Option<String>, Option<String>) {
    macro_rules! first_of {
        ($($details:ident)*) => {
            $(if let Some(details) = &event.$details {
                return (details.error.clone(), details.cause.clone());
            })*
        };
    }
    first_of!(
        execution_failed_event_details execution_aborted_event_details execution_timed_out_event_details
        task_failed_event_details task_timed_out_event_details task_start_failed_event_details
        task_submit_failed_event_details activity_failed_event_details activity_timed_out_event_details
        activity_schedule_failed_event_details lambda_function_failed_event_details
        lambda_function_timed_out_event_details lambda_function_schedule_failed_event_details
        lambda_function_start_failed_event_details map_run_failed_event_details evaluation_failed_event_details
    );
    (None, None)
}

/// The newest of what happened, down to and without the event `known`, the oldest first. The second is false if there is
/// more between `known` and what was read. `data` is what states are given and give.
pub(crate) async fn newest(api: &Api, arn: &str, known: i64, data: bool) -> Answer<(Vec<Happened>, bool)> {
    let (mut read, mut page) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let answer = api.history(arn, if known == 0 { PAGE } else { 100 }, data, page).await?;
        for event in &answer.events {
            if event.id <= known {
                read.reverse();
                return Ok((read, true));
            }
            read.push(Happened::from(event));
        }
        page = answer.next_token;
        if page.is_none() {
            read.reverse();
            return Ok((read, true));
        }
    }
    read.reverse();
    Ok((read, false))
}

/// Where the failure of an execution came from. `None` if its history does not tell, or may not be read.
pub(crate) async fn origin(api: &Api, arn: &str) -> Result<Option<Origin>> {
    match api.history(arn, 500, true, None).await {
        Ok(answer) => Ok(origin_in(&answer.events.iter().map(Happened::from).collect::<Vec<_>>())),
        // Whoever may not read histories is told less, and always the same.
        Err(failure) if failure.error.kind() == ErrorKind::Denied => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Follows the newest failure back to the state that it happened in. The newest event is the first.
fn origin_in(events: &[Happened]) -> Option<Origin> {
    let failed = |event: &&Happened| {
        let kind = event.kind.as_str();
        !kind.starts_with("Execution")
            && !kind.starts_with("MapState")
            && !kind.starts_with("ParallelState")
            && !kind.starts_with("MapIteration")
            && (kind == "FailStateEntered" || kind.ends_with("Failed") || kind.ends_with("TimedOut"))
    };
    let ended = |event: &&Happened| event.kind.starts_with("Execution");
    let mut at = events.iter().find(failed).or_else(|| events.iter().find(ended))?;
    loop {
        if let (true, Some(state)) = (at.kind.ends_with("StateEntered"), &at.name) {
            return Some(Origin { state: state.clone(), input: at.input.clone() });
        }
        // Each step leads to an older event, so this ends.
        at = events.iter().find(|event| event.id == at.previous && event.id < at.id)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: i64, previous: i64, kind: &str, name: &str) -> Happened {
        let (name, input) = match name {
            "" => (None, None),
            name => (Some(name.to_owned()), Some(format!("{{\"of\":\"{name}\"}}"))),
        };
        Happened { id, previous, kind: kind.to_owned(), name, input, ..Happened::default() }
    }

    fn origin(mut events: Vec<Happened>) -> Option<String> {
        events.reverse();
        origin_in(&events).map(|origin| origin.state)
    }

    #[test]
    fn a_failure_is_followed_back_through_retries_and_branches() {
        let retried = vec![
            event(1, 0, "ExecutionStarted", ""),
            event(2, 1, "TaskStateEntered", "Train"),
            event(3, 2, "TaskScheduled", ""),
            event(4, 3, "TaskFailed", ""),
            event(5, 4, "TaskScheduled", ""),
            event(6, 5, "TaskFailed", ""),
            event(7, 6, "ExecutionFailed", ""),
        ];
        assert_eq!(origin(retried).as_deref(), Some("Train"));
        let branches = vec![
            event(2, 1, "ParallelStateEntered", "Both"),
            event(3, 2, "ParallelStateStarted", ""),
            event(4, 3, "PassStateEntered", "Left"),
            event(5, 3, "TaskStateEntered", "Right"),
            event(6, 5, "LambdaFunctionFailed", ""),
            event(7, 6, "ParallelStateFailed", ""),
            event(8, 7, "ExecutionFailed", ""),
        ];
        assert_eq!(origin(branches).as_deref(), Some("Right"));
    }

    #[test]
    fn a_fail_state_and_a_fault_of_a_state_itself_are_origins() {
        let fail = vec![event(2, 1, "FailStateEntered", "GiveUp"), event(3, 2, "ExecutionFailed", "")];
        assert_eq!(origin(fail).as_deref(), Some("GiveUp"));
        let fault = vec![event(2, 1, "ChoiceStateEntered", "Which"), event(3, 2, "ExecutionFailed", "")];
        assert_eq!(origin(fault).as_deref(), Some("Which"));
        let late = vec![event(2, 1, "WaitStateEntered", "Sleep"), event(3, 2, "ExecutionTimedOut", "")];
        assert_eq!(origin(late).as_deref(), Some("Sleep"));
    }

    #[test]
    fn a_history_that_does_not_tell_has_no_origin() {
        assert_eq!(origin(vec![]), None);
        assert_eq!(origin(vec![event(7, 3, "ExecutionFailed", "")]), None);
        assert_eq!(origin(vec![event(7, 9, "ExecutionFailed", ""), event(9, 7, "TaskFailed", "")]), None);
    }
}
