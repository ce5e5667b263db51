//! [`Meter`] for [`Metrics`]: counts the state changes of tasks, and how long each state lasted.

use std::borrow::Cow;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::Metrics;
use crate::tasks::meter::{Meter, Phase};
use crate::tasks::task::{Job, Outcome, QuestionStatus, Task, TaskState};

impl Meter for Metrics {
    fn changed(&self, before: &Task, after: &Task, now: Timestamp) {
        // Most writes change nothing that is counted.
        if before.state == after.state && Phase::of(before) == Phase::of(after) {
            return;
        }
        let tool = self.tool(&after.tool);
        let observe = |state: &'static str, since: Timestamp, until: Timestamp| {
            let labels = [("tool", tool.clone()), ("state", state.into())];
            self.families.state_duration.get_or_create(&labels).observe(until.since(since).as_secs_f64());
        };
        if before.is_queued() && !after.is_queued() {
            observe(Phase::Queued.as_str(), before.created_at, now);
        }
        if let Job::Pending { .. } | Job::Starting { .. } = &before.job {
            match &after.job {
                Job::Open { started_at, .. } => {
                    observe(Phase::Starting.as_str(), before.created_at, *started_at);
                }
                // The reply that confirmed the start also reported the end: the job ended at once.
                Job::Closed { handle: Some(_) } => {
                    observe(Phase::Starting.as_str(), before.created_at, now);
                    observe(Phase::Running.as_str(), now, now);
                }
                Job::Pending { .. } | Job::Starting { .. } | Job::Closed { handle: None } => {}
            }
        }
        if before.state == TaskState::InputRequired && after.state != TaskState::InputRequired {
            let open_questions =
                before.questions.iter().filter(|question| question.status == QuestionStatus::Open);
            if let Some(since) = open_questions.map(|question| question.at).min() {
                observe(Phase::InputRequired.as_str(), since, now);
            }
        }
        if let (false, Some(outcome), Some(ended)) = (before.has_ended(), after.outcome(), after.ended_at) {
            if let Job::Open { started_at, .. } = &before.job {
                observe(Phase::Running.as_str(), *started_at, ended);
            }
            self.record_ended(tool.clone(), outcome, ended.since(after.created_at));
        }
    }

    fn sweep_started(&self, _backend: &str, late: Duration) {
        self.families.lag.get_or_create(&[("what", "look".into())]).observe(late.as_secs_f64());
    }
}

impl Metrics {
    /// Counts a new task. One that has already ended was refused before its start.
    pub(super) fn record_created(&self, task: &Task) {
        let tool = self.tool(&task.tool);
        self.families.created.get_or_create(&[("tool", tool.clone())]).inc();
        if let (Some(outcome), Some(ended)) = (task.outcome(), task.ended_at) {
            self.record_ended(tool, outcome, ended.since(task.created_at));
        }
    }

    fn record_ended(&self, tool: Cow<'static, str>, outcome: Outcome, took: Duration) {
        let labels = [("tool", tool), ("outcome", outcome.as_str().into())];
        self.families.duration.get_or_create(&labels).observe(took.as_secs_f64());
        self.families.ended.get_or_create(&labels).inc();
    }

    /// Records how late a row was claimed.
    pub(super) fn record_claim_lag(&self, late: Duration) {
        self.families.lag.get_or_create(&[("what", "act".into())]).observe(late.as_secs_f64());
    }
}
