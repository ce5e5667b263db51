//! What a run's status and conclusion say of its job, and what the task becomes. Pure. This file holds the
//! table; the modules poll and conclude.
//!
//! | status | job | task | message |
//! |---|---|---|---|
//! | `queued` | queued | working | waits for a runner |
//! | `requested` | queued | working | waits for a runner |
//! | `pending` | queued | working | waits for another run of its concurrency group |
//! | `in_progress` | running | working | its progress |
//! | `waiting` | running | working | its open reviews are questions, a timer is a message |
//! | `completed` | running | working | the run has ended, and GitHub reports no conclusion yet |
//! | any other | running | working | GitHub reports an unknown status: any other |
//!
//! | conclusion of a completed run | job | task | message |
//! |---|---|---|---|
//! | `success` | succeeded | completed | the run succeeded |
//! | `neutral` | succeeded | completed | the run ended with the conclusion neutral |
//! | `skipped` | succeeded | completed | the run had nothing to do: all of its jobs were skipped |
//! | `failure` | failed | failed | the run failed |
//! | `timed_out` | failed | failed | the run timed out |
//! | `startup_failure` | failed | failed | the run could not be started: check the workflow's file |
//! | `action_required` | failed | failed | the run ended because GitHub requires an action first |
//! | `stale` | failed | failed | the run was marked as stale by GitHub |
//! | any other | failed | failed | the run ended with an unknown conclusion: any other |
//! | `cancelled` | cancelled | cancelled | the run was cancelled |
//!
//! A run that does not exist is gone, and its task fails. `conclude` adds the cause of a failure to the
//! message.

pub(crate) mod conclude;
pub(crate) mod poll;
pub(crate) mod poll_many;

use taskbridge_sdk::{JobState, Output, Timestamp, one_line};

use crate::driver::wire::{Run, parse_time};

/// Stage of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stage {
    /// Not started, with the reason.
    Queued(Option<String>),
    /// Running, with a message if something is unusual.
    Running(Option<String>),
    /// Waiting for a review or a timer.
    Waiting,
    Ended(RunConclusion),
}

/// End of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunConclusion {
    /// Conclusion as GitHub names it, such as `timed_out`.
    pub(crate) conclusion: String,
    pub(crate) kind: EndKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    Succeeded,
    Failed,
    Cancelled,
}

impl Stage {
    pub(crate) fn from_run(run: &Run) -> Self {
        match (run.status.as_deref(), run.conclusion.as_deref()) {
            (Some("completed"), Some(conclusion)) => Stage::Ended(RunConclusion::from_name(conclusion)),
            (Some("completed"), None) => {
                Stage::Running(Some("the run has ended, and GitHub reports no conclusion yet".to_owned()))
            }
            (Some("queued" | "requested"), _) => Stage::Queued(Some("waits for a runner".to_owned())),
            (Some("pending"), _) => {
                Stage::Queued(Some("waits for another run of its concurrency group".to_owned()))
            }
            (Some("in_progress"), _) => Stage::Running(None),
            (Some("waiting"), _) => Stage::Waiting,
            // An unknown status counts as running: a future status must not end a task.
            (Some(status), _) => {
                Stage::Running(Some(format!("GitHub reports an unknown status: {}", one_line(status))))
            }
            (None, _) => Stage::Running(Some("GitHub reports no status".to_owned())),
        }
    }
}

impl RunConclusion {
    fn from_name(conclusion: &str) -> Self {
        let kind = known_conclusion(conclusion).map_or(EndKind::Failed, |(kind, _)| kind);
        Self { conclusion: conclusion.to_owned(), kind }
    }

    pub(crate) fn state(&self, output: Output) -> JobState {
        match self.kind {
            EndKind::Succeeded => JobState::Succeeded(output),
            EndKind::Failed => JobState::Failed(output),
            EndKind::Cancelled => JobState::Cancelled(output),
        }
    }

    /// Returns the text for people, such as `the run failed`.
    pub(crate) fn describe(&self) -> String {
        match known_conclusion(&self.conclusion) {
            Some((_, text)) => text.to_owned(),
            None => format!("the run ended with an unknown conclusion: {}", one_line(&self.conclusion)),
        }
    }
}

/// Returns the kind of end that a conclusion means, and its text for people. An unknown conclusion is a
/// failure.
fn known_conclusion(name: &str) -> Option<(EndKind, &'static str)> {
    Some(match name {
        "success" => (EndKind::Succeeded, "the run succeeded"),
        "neutral" => (EndKind::Succeeded, "the run ended with the conclusion neutral"),
        "skipped" => (EndKind::Succeeded, "the run had nothing to do: all of its jobs were skipped"),
        "failure" => (EndKind::Failed, "the run failed"),
        "timed_out" => (EndKind::Failed, "the run timed out"),
        "startup_failure" => (EndKind::Failed, "the run could not be started: check the workflow's file"),
        "action_required" => (EndKind::Failed, "the run ended because GitHub requires an action first"),
        "stale" => (EndKind::Failed, "the run was marked as stale by GitHub"),
        "cancelled" => (EndKind::Cancelled, "the run was cancelled"),
        _ => return None,
    })
}

/// Returns the time of the end for an ended run, otherwise the time of the start.
pub(crate) fn state_since(run: &Run, stage: &Stage) -> Option<Timestamp> {
    let text = match stage {
        Stage::Ended(_) => run.updated_at.as_deref(),
        _ => run.run_started_at.as_deref(),
    };
    parse_time(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(status: Option<&str>, conclusion: Option<&str>) -> Stage {
        let run = Run {
            status: status.map(str::to_owned),
            conclusion: conclusion.map(str::to_owned),
            ..Run::default()
        };
        Stage::from_run(&run)
    }

    /// The tables at the top of this file are what the code does.
    #[test]
    fn state_table_matches_code() {
        let source = include_str!("mod.rs").lines();
        let rows: Vec<&str> = source.filter_map(|line| line.strip_prefix("//! | ")).collect();
        assert_eq!(rows.len(), 19);
        let mut is_conclusion = false;
        for row in rows {
            let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
            let [name, job, task, message] = cells[..] else { panic!("{row}") };
            if job == "job" {
                is_conclusion = name.starts_with("conclusion");
                continue;
            }
            let name = Some(name.trim_matches('`'));
            let stage = if is_conclusion { stage(Some("completed"), name) } else { stage(name, None) };
            let (actual, expected_task, text) = match stage {
                Stage::Queued(text) => ("queued", "working", text),
                Stage::Running(text) => ("running", "working", text),
                Stage::Waiting => ("running", "working", None),
                Stage::Ended(end) => match end.state(Output::default()) {
                    JobState::Succeeded(_) => ("succeeded", "completed", Some(end.describe())),
                    JobState::Failed(_) => ("failed", "failed", Some(end.describe())),
                    JobState::Cancelled(_) => ("cancelled", "cancelled", Some(end.describe())),
                    other => panic!("{other:?}"),
                },
            };
            assert_eq!((job, task), (actual, expected_task), "{row}");
            assert!(text.is_none_or(|text| text == message), "{row}");
        }
    }

    /// Every known status and conclusion has a stage, and an unknown conclusion is a failure.
    #[test]
    fn status_and_conclusion_map_to_stage() {
        for conclusion in ["success", "neutral", "skipped"] {
            let Stage::Ended(end) = stage(Some("completed"), Some(conclusion)) else {
                panic!("{conclusion}")
            };
            assert_eq!(end.kind, EndKind::Succeeded, "{conclusion}");
        }
        for conclusion in
            ["failure", "timed_out", "action_required", "stale", "startup_failure", "something_new"]
        {
            let Stage::Ended(end) = stage(Some("completed"), Some(conclusion)) else {
                panic!("{conclusion}")
            };
            assert_eq!(end.kind, EndKind::Failed, "{conclusion}");
            assert!(!end.describe().contains('\n'));
        }
        let Stage::Ended(end) = stage(Some("completed"), Some("cancelled")) else { panic!() };
        assert_eq!((end.kind, end.describe().as_str()), (EndKind::Cancelled, "the run was cancelled"));
        for status in ["queued", "requested", "pending"] {
            assert!(matches!(stage(Some(status), None), Stage::Queued(Some(_))), "{status}");
        }
        assert_eq!(stage(Some("in_progress"), None), Stage::Running(None));
        assert_eq!(stage(Some("waiting"), None), Stage::Waiting, "waiting is not queued");
    }

    /// A missing or unknown status, and a missing conclusion, do not end a run.
    #[test]
    fn unknown_status_keeps_run_active() {
        for (status, conclusion, expected) in [
            (None, None, "reports no status"),
            (None, Some("success"), "reports no status"),
            (Some("paused"), None, "unknown status: paused"),
            (Some("completed"), None, "no conclusion yet"),
        ] {
            let Stage::Running(Some(message)) = stage(status, conclusion) else { panic!("{status:?}") };
            assert!(message.contains(expected), "{message}");
        }
    }
}
