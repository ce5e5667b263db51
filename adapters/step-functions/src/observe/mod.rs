//! What a status of AWS says of an execution, and what the task becomes. Pure. This file holds the table; the
//! modules poll and conclude.
//!
//! | status | job | task | message |
//! |---|---|---|---|
//! | `RUNNING` | running | working | its progress |
//! | `PENDING_REDRIVE` | queued | working | the execution waits to be redriven |
//! | any other | running | working | Step Functions reports an unknown status: any other |
//! | `SUCCEEDED` | succeeded | completed | none |
//! | `FAILED` | failed | failed | the execution failed |
//! | `TIMED_OUT` | failed | failed | the execution timed out |
//! | `ABORTED` | cancelled | cancelled | the execution was stopped |
//!
//! The message of a failure also has the failed state, the error and the cause. An execution that AWS does
//! not know is gone, and so is an Express execution, of which AWS keeps no status. The task of either fails.

pub(crate) mod conclude;
pub(crate) mod poll;
pub(crate) mod poll_many;

use taskbridge_sdk::{Content, JobState, Observation, one_line};

use crate::driver::execution::ExecutionDescription;
use crate::observe::conclude::{end_observation, parse_output};
use crate::store::history::Origin;

/// What a status says of an execution. An end other than success has a verb for people.
enum Meaning {
    Queued,
    Running,
    Succeeded,
    Failed(&'static str),
    Cancelled(&'static str),
    Unknown,
}

fn meaning(status: &str) -> Meaning {
    match status {
        "RUNNING" => Meaning::Running,
        // It has failed, and a redrive was requested.
        "PENDING_REDRIVE" => Meaning::Queued,
        "SUCCEEDED" => Meaning::Succeeded,
        "FAILED" => Meaning::Failed("failed"),
        "TIMED_OUT" => Meaning::Failed("timed out"),
        "ABORTED" => Meaning::Cancelled("was stopped"),
        _ => Meaning::Unknown,
    }
}

impl ExecutionDescription {
    /// Returns true if the execution failed or timed out, so that its history may contain the origin.
    pub(crate) fn may_have_origin(&self) -> bool {
        matches!(meaning(&self.status), Meaning::Failed(_))
    }

    /// Returns true if the execution is in a terminal state.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(meaning(&self.status), Meaning::Succeeded | Meaning::Failed(_) | Meaning::Cancelled(_))
    }

    /// Returns the observation, with the origin of a failure.
    pub(crate) fn observation(self, origin: Option<Origin>) -> Observation {
        let since = if self.has_ended() { self.stopped } else { self.started };
        let observation = match meaning(&self.status) {
            Meaning::Succeeded => Observation::new(JobState::Succeeded(parse_output(self.output.as_deref()))),
            Meaning::Failed(verb) => end_observation(&self, verb, origin.as_ref(), JobState::Failed),
            Meaning::Cancelled(verb) => end_observation(&self, verb, None, JobState::Cancelled),
            Meaning::Running => Observation::new(JobState::Running),
            Meaning::Queued => {
                Observation::new(JobState::Queued).with_message("the execution waits to be redriven")
            }
            // It counts as running: a future status must not end a task.
            Meaning::Unknown => Observation::new(JobState::Running).with_message(format!(
                "Step Functions reports an unknown status: {}",
                one_line(&self.status)
            )),
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
}

/// Returns the observation of an execution that AWS does not know.
pub(crate) fn gone_observation() -> Observation {
    Observation::new(JobState::Gone).with_message(
        "Step Functions no longer has the execution: it keeps executions for 90 days after their end",
    )
}

#[cfg(test)]
mod tests;
