//! History of an execution: the parts of its events that this adapter needs, and functions that read the
//! newest events or find the state that failed. It must not keep events or compute progress.

pub(crate) mod cloudwatch;
pub(crate) mod content;
pub(crate) mod log_lines;
pub(crate) mod questions;

use aws_sdk_sfn::types::HistoryEvent;
use taskbridge_sdk::{ErrorKind, Result, Timestamp};

use crate::driver::api::{Api, ApiResult, MAX_PAGES, PAGE_SIZE};
use crate::driver::execution::timestamp;

/// Event of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExecutionEvent {
    /// Number of the event, counted from 1.
    pub(crate) id: i64,
    /// Id of the event that this one follows from; 0 if there is none.
    pub(crate) previous: i64,
    pub(crate) at: Option<Timestamp>,
    /// Type as AWS names it, such as `TaskStateEntered`.
    pub(crate) kind: String,
    /// Name of the state. For an iteration of a map, the name of the map state.
    pub(crate) name: Option<String>,
    /// Number of items of a map, or index of an iteration.
    pub(crate) number: Option<i32>,
    /// Input of a state.
    pub(crate) input: Option<String>,
    /// Resource that runs a task: the ARN of an activity, or an action of a service, such as
    /// `sendMessage.waitForTaskToken`.
    pub(crate) resource: Option<String>,
    /// Parameters of a scheduled task; for an activity, its input.
    pub(crate) parameters: Option<String>,
    /// Output of a task.
    pub(crate) output: Option<String>,
    /// Error and cause of a failure.
    pub(crate) error: Option<String>,
    pub(crate) cause: Option<String>,
}

/// State in which a failure originated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    pub(crate) state: String,
    pub(crate) input: Option<String>,
}

impl From<&HistoryEvent> for ExecutionEvent {
    fn from(event: &HistoryEvent) -> Self {
        let mut result = Self {
            id: event.id,
            previous: event.previous_event_id,
            at: timestamp(&event.timestamp),
            kind: event.r#type.as_str().to_owned(),
            ..Self::default()
        };
        if let Some(entered) = &event.state_entered_event_details {
            (result.name, result.input) = (Some(entered.name.clone()), entered.input.clone());
        }
        if let Some(exited) = &event.state_exited_event_details {
            result.name = Some(exited.name.clone());
        }
        if let Some(map) = &event.map_state_started_event_details {
            result.number = Some(map.length);
        }
        let iterations = [
            &event.map_iteration_started_event_details,
            &event.map_iteration_succeeded_event_details,
            &event.map_iteration_failed_event_details,
            &event.map_iteration_aborted_event_details,
        ];
        if let Some(iteration) = iterations.into_iter().flatten().next() {
            (result.name, result.number) = (iteration.name.clone(), Some(iteration.index));
        }
        copy_task_details(event, &mut result);
        (result.error, result.cause) = error_and_cause(event);
        result
    }
}

/// Copies the details of a task that another service runs.
fn copy_task_details(event: &HistoryEvent, result: &mut ExecutionEvent) {
    if let Some(scheduled) = &event.activity_scheduled_event_details {
        (result.resource, result.parameters) = (Some(scheduled.resource.clone()), scheduled.input.clone());
    }
    if let Some(scheduled) = &event.task_scheduled_event_details {
        (result.resource, result.parameters) =
            (Some(scheduled.resource.clone()), Some(scheduled.parameters.clone()));
    }
    if let Some(succeeded) = &event.activity_succeeded_event_details {
        result.output = succeeded.output.clone();
    }
    if let Some(succeeded) = &event.task_succeeded_event_details {
        (result.resource, result.output) = (Some(succeeded.resource.clone()), succeeded.output.clone());
    }
    if let Some(failed) = &event.task_failed_event_details {
        result.resource = Some(failed.resource.clone());
    }
    if let Some(timed_out) = &event.task_timed_out_event_details {
        result.resource = Some(timed_out.resource.clone());
    }
}

/// Returns the error and the cause of a failure event of any type.
fn error_and_cause(event: &HistoryEvent) -> (Option<String>, Option<String>) {
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

/// Returns the events after the one with the id `after_id`, oldest first, and whether they are complete. If
/// `after_id` is not 0, it reads at most the newest 2,500 events. They count as incomplete if this limit is
/// reached before the event `after_id`. `include_data` requests the inputs and outputs of states.
pub(crate) async fn read_newest(
    api: &Api,
    arn: &str,
    after_id: i64,
    include_data: bool,
) -> ApiResult<(Vec<ExecutionEvent>, bool)> {
    let (mut events, mut page) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let response =
            api.history(arn, if after_id == 0 { PAGE_SIZE } else { 100 }, include_data, page).await?;
        for event in &response.events {
            if event.id <= after_id {
                events.reverse();
                return Ok((events, true));
            }
            events.push(ExecutionEvent::from(event));
        }
        page = response.next_token;
        if page.is_none() {
            events.reverse();
            return Ok((events, true));
        }
    }
    events.reverse();
    Ok((events, false))
}

/// Returns the state in which the failure of an execution originated. `None` if the newest 500 events of its
/// history do not contain it, or access is denied.
pub(crate) async fn find_origin(api: &Api, arn: &str) -> Result<Option<Origin>> {
    match api.history(arn, 500, true, None).await {
        Ok(response) => Ok(origin_in(&response.events.iter().map(ExecutionEvent::from).collect::<Vec<_>>())),
        // Without the permission to read histories, a retry would be denied, too. The job then ends without
        // the name of the failed state.
        Err(failure) if failure.error.kind() == ErrorKind::Denied => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Finds the state in which the failure originated. It starts at the newest failure of a task or state, or
/// else at the newest event of the execution itself, which is its end. From there it follows the previous
/// events back to one that entered a state. `events` begins with the newest event.
fn origin_in(events: &[ExecutionEvent]) -> Option<Origin> {
    let is_failure = |event: &&ExecutionEvent| {
        let kind = event.kind.as_str();
        !kind.starts_with("Execution")
            && !kind.starts_with("MapState")
            && !kind.starts_with("ParallelState")
            && !kind.starts_with("MapIteration")
            && (kind == "FailStateEntered" || kind.ends_with("Failed") || kind.ends_with("TimedOut"))
    };
    let is_execution_event = |event: &&ExecutionEvent| event.kind.starts_with("Execution");
    let mut current = events.iter().find(is_failure).or_else(|| events.iter().find(is_execution_event))?;
    loop {
        if let (true, Some(state)) = (current.kind.ends_with("StateEntered"), &current.name) {
            return Some(Origin { state: state.clone(), input: current.input.clone() });
        }
        // Each iteration moves to an older event, so the loop ends.
        current = events.iter().find(|event| event.id == current.previous && event.id < current.id)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: i64, previous: i64, kind: &str, name: &str) -> ExecutionEvent {
        let (name, input) = match name {
            "" => (None, None),
            name => (Some(name.to_owned()), Some(format!("{{\"of\":\"{name}\"}}"))),
        };
        ExecutionEvent { id, previous, kind: kind.to_owned(), name, input, ..ExecutionEvent::default() }
    }

    fn origin(mut events: Vec<ExecutionEvent>) -> Option<String> {
        events.reverse();
        origin_in(&events).map(|origin| origin.state)
    }

    /// The state that failed is found through retries and parallel branches.
    #[test]
    fn failure_origin_survives_retries_and_branches() {
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

    /// A Fail state is the origin. If no task or state has a failure event, the origin is the state in which
    /// the execution ended.
    #[test]
    fn failing_state_is_its_own_origin() {
        let fail = vec![event(2, 1, "FailStateEntered", "GiveUp"), event(3, 2, "ExecutionFailed", "")];
        assert_eq!(origin(fail).as_deref(), Some("GiveUp"));
        let fault = vec![event(2, 1, "ChoiceStateEntered", "Which"), event(3, 2, "ExecutionFailed", "")];
        assert_eq!(origin(fault).as_deref(), Some("Which"));
        let late = vec![event(2, 1, "WaitStateEntered", "Sleep"), event(3, 2, "ExecutionTimedOut", "")];
        assert_eq!(origin(late).as_deref(), Some("Sleep"));
    }

    /// An empty history, and one with missing or circular predecessors, has no origin.
    #[test]
    fn incomplete_history_has_no_origin() {
        assert_eq!(origin(vec![]), None);
        assert_eq!(origin(vec![event(7, 3, "ExecutionFailed", "")]), None);
        assert_eq!(origin(vec![event(7, 9, "ExecutionFailed", ""), event(9, 7, "TaskFailed", "")]), None);
    }
}
