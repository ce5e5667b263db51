//! Translation of a run's status and conclusion to states of the sdk. Pure.

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
        let kind = match conclusion {
            "success" | "neutral" | "skipped" => EndKind::Succeeded,
            "cancelled" => EndKind::Cancelled,
            _ => EndKind::Failed,
        };
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
        match self.conclusion.as_str() {
            "success" => "the run succeeded".to_owned(),
            "failure" => "the run failed".to_owned(),
            "cancelled" => "the run was cancelled".to_owned(),
            "timed_out" => "the run timed out".to_owned(),
            "skipped" => "the run had nothing to do: all of its jobs were skipped".to_owned(),
            "startup_failure" => "the run could not be started: check the workflow's file".to_owned(),
            "action_required" => "the run ended because GitHub requires an action first".to_owned(),
            "stale" => "the run was marked as stale by GitHub".to_owned(),
            "neutral" => "the run ended with the conclusion neutral".to_owned(),
            other => format!("the run ended with an unknown conclusion: {}", one_line(other)),
        }
    }
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
