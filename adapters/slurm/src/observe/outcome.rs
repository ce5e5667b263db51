//! The outcome of a job that Slurm no longer runs: of a whole job, or of each array task. The wrapper's
//! marker takes precedence over Slurm, since a controller that crashed can start an ended job again, or
//! forget one that ran. Pure.

use std::time::Duration;

use crate::driver::state::State;
use crate::driver::{CancelledBy, Exit};
use crate::observe::terminal_state::{Accounting, TerminalEvidence, TerminalState};
use crate::observe::usage::Usage;
use crate::observe::{Meaning, meaning};
use crate::store::end_marker::{
    ALREADY_RUN_EXIT_CODE, EndMarker, NO_FOLDER_EXIT_CODE, in_words, signal_name,
};
use crate::store::plan::Plan;

/// How long a marker may take to become visible after Slurm reports the job's end: shared file systems cache.
const MARKER_VISIBILITY_DELAY: Duration = Duration::from_secs(5);

/// How long to wait for the end marker of a script that Slurm forgot, or started a second time while it ran.
const LOST_MARKER_WAIT: Duration = Duration::from_secs(60);

/// How long Slurm may not know a job that never began before it counts as lost. Accounting records are a few
/// seconds late.
const UNKNOWN_JOB_WAIT: Duration = Duration::from_secs(20);

/// The signal number with which Slurm reports that it could not open a job's output files.
const OUTPUT_ERROR_SIGNAL: u32 = 53;

/// The reported result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    Succeeded,
    Failed(String),
    Cancelled(String),
    /// The end is unknown and stays unknown.
    Lost(String),
}

impl TerminalState {
    /// Returns the result, or what it is still waiting for.
    pub(crate) fn outcome(
        &self,
        plan: &Plan,
        evidence: &TerminalEvidence,
    ) -> Result<JobOutcome, &'static str> {
        Ok(match (self.evaluate(plan, evidence)?, self.canceller(evidence)) {
            (JobOutcome::Cancelled(reason), Some(name)) => {
                JobOutcome::Cancelled(reason.replacen("cancelled", &format!("cancelled by {name}"), 1))
            }
            (JobOutcome::Failed(reason), _) if self.is_out_of_memory(plan) => {
                JobOutcome::Failed(format!("{} ({reason})", State::OutOfMemory.describe()))
            }
            (verdict, _) => verdict,
        })
    }

    /// Returns the user who cancelled it, if the accounting database names one and the cancel did not come
    /// from its task.
    fn canceller(&self, evidence: &TerminalEvidence) -> Option<String> {
        let CancelledBy::User(number) = self.cancelled_by else { return None };
        let name = || evidence.user_names.get(&number).cloned().unwrap_or_else(|| format!("user {number}"));
        (!evidence.cancel_requested).then(name)
    }

    /// Returns true if it was killed after it had used more memory than requested. Without control groups,
    /// Slurm shows such a job as failed by SIGKILL.
    pub(crate) fn is_out_of_memory(&self, plan: &Plan) -> bool {
        let killed = match &self.end_marker {
            Some(end_marker) => end_marker.signal() == Some(9),
            None => self.exit.is_some_and(|exit| exit.signal == 9 || exit.code == 128 + 9),
        };
        let is_failure = matches!(self.state, Some(State::Failed) | None);
        killed && is_failure && Usage::of(plan, self).exceeds_memory()
    }

    fn evaluate(&self, plan: &Plan, evidence: &TerminalEvidence) -> Result<JobOutcome, &'static str> {
        let ended_for = evidence.ended_for;
        let slurm_state = self.state.filter(|state| state.has_ended());
        if let Some(end_marker) = &self.end_marker {
            return Ok(outcome_from_marker(
                end_marker,
                slurm_state,
                self.was_cut_off(end_marker),
                evidence.cancel_requested,
            ));
        }
        let Some(state) = slurm_state else {
            return self.evaluate_unknown(plan, evidence);
        };
        if plan.requeue && state.may_requeue() && ended_for < MARKER_VISIBILITY_DELAY {
            return Err("Slurm may put the job back into the queue");
        }
        let code = self.exit.map(|exit| exit.code);
        // Slurm saw the end of a wrapper that found the fence, not of the script.
        if self.started_twice || (self.has_started && code == Some(ALREADY_RUN_EXIT_CODE)) {
            return match ended_for < LOST_MARKER_WAIT {
                true => Err("Slurm started the job a second time; waiting for the end of the first run"),
                false => Ok(JobOutcome::Lost(
                    "Slurm started the job a second time, without effect; the outcome of the first run is unknown"
                        .to_owned(),
                )),
            };
        }
        // A node that still had another job of this number did not launch the script, and reports the end of
        // that one. The traces of a script may become visible late.
        if state == State::Completed && !self.has_started && plan.attached.is_none() {
            return match ended_for < LOST_MARKER_WAIT {
                true => Err("the job has ended; waiting for the traces of its script"),
                false => Ok(JobOutcome::Lost(
                    "Slurm shows the job as completed, but its script left no trace: it is not known whether it ran"
                        .to_owned(),
                )),
            };
        }
        if self.has_started
            && plan.attached.is_none()
            && ended_for < MARKER_VISIBILITY_DELAY
            && matches!(state, State::Completed | State::Failed)
        {
            return Err("the job has ended; waiting for its end marker");
        }
        if state == State::Cancelled && plan.attached.is_none() && self.may_be_cancelled_by_slurm(evidence) {
            return match ended_for < MARKER_VISIBILITY_DELAY || evidence.accounting != Accounting::Complete {
                true => Err("the job was cancelled; looking up the user who cancelled it"),
                false => Ok(lost_before_start(self.cancellation_reason(evidence))),
            };
        }
        if state == State::Timeout && !self.has_started && plan.attached.is_none() {
            return match ended_for < MARKER_VISIBILITY_DELAY {
                true => Err("the time limit is reached; checking whether the script began"),
                // A node that still had another job of this number did not launch the script, and did not
                // report that to the controller.
                false => Ok(lost_before_start("Slurm showed the job as running until its time limit")),
            };
        }
        Ok(match meaning(state) {
            Meaning::Succeeded => JobOutcome::Succeeded,
            Meaning::Cancelled if self.has_unmet_dependency(plan, evidence) => {
                JobOutcome::Failed("the job that it depends on did not end as required".to_owned())
            }
            Meaning::Cancelled => JobOutcome::Cancelled(match self.has_started {
                true => "cancelled".to_owned(),
                false => "cancelled before it began".to_owned(),
            }),
            Meaning::Queued | Meaning::Running | Meaning::Failed => {
                JobOutcome::Failed(self.failure_reason(state, plan))
            }
        })
    }

    /// Returns true if Slurm shows that it ended the script, and the script did not end before. Slurm sends
    /// signals to one process after the other, and its time of the end is when it began: the script may end
    /// because its child did, even with 0, before it or its wrapper is told.
    fn was_cut_off(&self, marker: &EndMarker) -> bool {
        let row_end = self.row.as_ref().and_then(|row| row.end);
        let slurm_end = row_end.or(self.record.as_ref().and_then(|record| record.end));
        let ended_before = marker.ended_at.zip(slurm_end).is_some_and(|(marker, slurm)| marker < slurm);
        let signals = [State::Cancelled, State::Timeout, State::Deadline, State::Preempted];
        self.state.is_some_and(|state| signals.contains(&state)) && !ended_before
    }

    fn failure_reason(&self, state: State, plan: &Plan) -> String {
        let code = self.exit.map(|exit| exit.code);
        match state {
            State::Failed if code == Some(NO_FOLDER_EXIT_CODE) && plan.attached.is_none() => {
                "the node cannot write into the job's folder; check that `jobs_dir` is on a file system that all nodes share".to_owned()
            }
            State::Failed if !self.has_started && self.exit.is_some_and(|exit| exit.signal == OUTPUT_ERROR_SIGNAL) => {
                "the node could not open the output files; check that the job's user may write into the job's folder there".to_owned()
            }
            State::Failed => self.exit.map_or_else(|| "failed".to_owned(), exit_in_words),
            state => state.describe().to_owned(),
        }
    }

    /// Returns true if no user is known to have cancelled the job. After a crash, the controller can assign a
    /// number twice. A node that still has the other job of that number then requests that the controller
    /// cancels the new one. It does so as slurmd's user, before the script began, and possibly before the job
    /// was assigned to the node.
    fn may_be_cancelled_by_slurm(&self, evidence: &TerminalEvidence) -> bool {
        let nodes =
            [self.row.as_ref().map(|row| &row.nodes), self.record.as_ref().map(|record| &record.nodes)];
        let has_node = nodes.into_iter().flatten().any(|nodes| !nodes.is_empty() && nodes != "None assigned");
        let is_other_user = match (self.cancelled_by, evidence.slurmd_uid) {
            (CancelledBy::User(by), Some(slurmd)) => by != slurmd,
            _ => false,
        };
        let is_reused_number = evidence.number_reused && self.cancelled_by != CancelledBy::Controller;
        !evidence.cancel_requested && !self.has_started && (has_node || is_reused_number) && !is_other_user
    }

    /// Returns the reason of a cancellation. Only the accounting database knows who cancelled a job.
    fn cancellation_reason(&self, evidence: &TerminalEvidence) -> &'static str {
        match (self.cancelled_by, evidence.slurmd_uid) {
            _ if evidence.number_reused => {
                "Slurm assigned the job's number twice, and the job was cancelled before it began, by a user or by Slurm itself"
            }
            (CancelledBy::Unknown, _) | (CancelledBy::User(_), None) => {
                "the job was cancelled after it was assigned a node, by a user or by Slurm itself, which may have assigned the job's \
                 number twice"
            }
            _ => {
                "the job was cancelled on its node by Slurm itself, which has assigned the job's number twice"
            }
        }
    }

    /// Returns true if Slurm cancelled it because its dependency did not end as required. The reason of the
    /// queue row shows that, but the controller forgets it with the job. The accounting record shows that no
    /// user cancelled it.
    fn has_unmet_dependency(&self, plan: &Plan, evidence: &TerminalEvidence) -> bool {
        let is_automatic =
            !self.has_started && !evidence.cancel_requested && self.cancelled_by == CancelledBy::Controller;
        self.row.as_ref().is_some_and(|row| row.reason == "DependencyNeverSatisfied")
            || (is_automatic && plan.asked.contains_key("dependency"))
    }

    /// Returns the verdict if neither the controller nor the accounting database knows the end, and there is
    /// no end marker.
    fn evaluate_unknown(&self, plan: &Plan, evidence: &TerminalEvidence) -> Result<JobOutcome, &'static str> {
        match evidence.accounting {
            Accounting::Complete => {}
            Accounting::Unavailable => {
                return Err(
                    "Slurm's controller no longer knows the job, and the accounting database does not answer",
                );
            }
            Accounting::NotQueried => {
                return Err(
                    "Slurm's controller no longer knows the job; the accounting database is queried next",
                );
            }
        }
        if self.has_started {
            return match evidence.ended_for < LOST_MARKER_WAIT {
                true => Err("Slurm no longer knows the job; waiting for its end marker"),
                false => Ok(JobOutcome::Lost(
                    "Slurm no longer knows the job, which began and left no end marker".to_owned(),
                )),
            };
        }
        if evidence.ended_for < UNKNOWN_JOB_WAIT {
            return Err("Slurm does not know the job");
        }
        Ok(match evidence.cancel_requested {
            true => JobOutcome::Cancelled("cancelled before it began".to_owned()),
            false if plan.attached.is_some() => JobOutcome::Lost("Slurm no longer knows the job".to_owned()),
            false => lost_before_start("Slurm no longer knows the job"),
        })
    }
}

/// Returns the verdict for a lost job whose script did not pass its fence. The code that reports this closes
/// the fence.
fn lost_before_start(reason: &str) -> JobOutcome {
    JobOutcome::Lost(format!(
        "{reason}; the script never began and no longer can, so the tool may be called again"
    ))
}

/// Returns the verdict for an end marker. Slurm's state explains why the script ended.
fn outcome_from_marker(
    marker: &EndMarker,
    slurm_state: Option<State>,
    was_cut_off: bool,
    cancel_requested: bool,
) -> JobOutcome {
    if marker.was_stopped() {
        match slurm_state {
            Some(State::Cancelled) => return JobOutcome::Cancelled("cancelled".to_owned()),
            // A controller that was killed meanwhile may know only the exit code.
            Some(State::Failed) | None if cancel_requested => {
                return JobOutcome::Cancelled("cancelled".to_owned());
            }
            // A node that cancels another job of this number ends this one as well. A tool may also have sent
            // the signal.
            None if marker.forwarded_signal.is_some() && marker.code != 0 => {
                return JobOutcome::Failed(format!(
                    "the script received a termination signal ({}) of unknown origin; Slurm no longer knows the job",
                    in_words(marker.code)
                ));
            }
            // Slurm itself may have done it: the controller lost the start in a crash, ended the job, and
            // then started it again.
            Some(State::Completed | State::Failed)
                if marker.forwarded_signal.is_some() && marker.code != 0 =>
            {
                return JobOutcome::Failed(format!(
                    "the script received a termination signal ({}), from a user, or from Slurm after a crash of its controller",
                    in_words(marker.code)
                ));
            }
            Some(State::Completed | State::Failed) | None => {}
            Some(state) => return JobOutcome::Failed(state.describe().to_owned()),
        }
    }
    match (marker.code, slurm_state) {
        (_, Some(State::Cancelled)) if was_cut_off => JobOutcome::Cancelled("cancelled".to_owned()),
        (0, Some(state)) if was_cut_off => JobOutcome::Failed(state.describe().to_owned()),
        // A process of the script was killed for lack of memory, and the script did not notice, or continued.
        (0, Some(state @ State::OutOfMemory)) => {
            JobOutcome::Failed(format!("{} (although the script ended with 0)", state.describe()))
        }
        (0, _) => JobOutcome::Succeeded,
        // The script may end by itself when the limit is reached, and return a code for it.
        (code, Some(state))
            if was_cut_off || matches!(state, State::OutOfMemory | State::Timeout | State::Deadline) =>
        {
            JobOutcome::Failed(format!("{} ({})", state.describe(), in_words(code)))
        }
        (code, _) => JobOutcome::Failed(in_words(code)),
    }
}

fn exit_in_words(exit: Exit) -> String {
    match exit {
        Exit { signal: 0, code } => in_words(code),
        Exit { signal, .. } => format!("ended by {}", signal_name(signal)),
    }
}

#[cfg(test)]
mod tests;
