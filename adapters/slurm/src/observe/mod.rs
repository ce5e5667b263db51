//! What a state of Slurm says of a job, and what the task becomes. `UNKNOWN` is any state that this version
//! does not know: it ends no task. This file holds the table; the modules poll and conclude.
//!
//! | state of Slurm | job | task | in words |
//! |---|---|---|---|
//! | `PENDING` | queued | working | waiting |
//! | `REQUEUED` | queued | working | put back into the queue |
//! | `REQUEUE_HOLD` | queued | working | put back into the queue and held there |
//! | `SPECIAL_EXIT` | queued | working | held because of its exit code (`RequeueExitHold`) |
//! | `RESV_DEL_HOLD` | queued | working | held, because its reservation was deleted |
//! | `CONFIGURING` | running | working | its nodes are being prepared |
//! | `RUNNING` | running | working | running |
//! | `COMPLETING` | running | working | ending |
//! | `SUSPENDED` | running | working | suspended: another job uses its nodes |
//! | `STOPPED` | running | working | stopped by a signal, and keeps its nodes |
//! | `SIGNALING` | running | working | being sent a signal |
//! | `STAGE_OUT` | running | working | its files are being copied back |
//! | `RESIZING` | running | working | changing its size |
//! | `UNKNOWN` | running | working | in an unknown state |
//! | `COMPLETED` | succeeded | completed | completed |
//! | `FAILED` | failed | failed | failed |
//! | `NODE_FAIL` | failed | failed | a node of the job failed |
//! | `OUT_OF_MEMORY` | failed | failed | used more memory than requested |
//! | `TIMEOUT` | failed | failed | time limit reached |
//! | `DEADLINE` | failed | failed | could not end before its deadline |
//! | `BOOT_FAIL` | failed | failed | a node of the job did not boot |
//! | `LAUNCH_FAILED` | failed | failed | could not be launched on its node |
//! | `CANCELLED` | cancelled | cancelled | cancelled |
//! | `PREEMPTED` | failed | failed | preempted by a job of a higher priority |
//! | `REVOKED` | failed | failed | taken over by another cluster of the federation |
//!
//! Other facts about an ended job take precedence ([`outcome`] has the rules):
//!
//! - The end marker of the wrapper. Exit code 0 of a script that was not stopped is a success, whatever Slurm
//!   shows except `OUT_OF_MEMORY`. A script counts as stopped if Slurm shows `CANCELLED`, `TIMEOUT`, `DEADLINE`
//!   or `PREEMPTED`, and its end is not a second or more before Slurm's.
//! - `NODE_FAIL`, `PREEMPTED`, `BOOT_FAIL` and `LAUNCH_FAILED` of a job that may be requeued count as running
//!   for 5 s, since Slurm may put the job back into the queue.
//! - `CANCELLED` by Slurm, because a dependency did not end as required, is a failure.
//! - `TIMEOUT` of a script that never began means that the job is lost. So does `CANCELLED`, if Slurm itself
//!   may have cancelled it: after a crash, it can assign a number twice. And so does `COMPLETED` of a script that
//!   left no trace within 60 s: the node may have ended another job of that number.
//! - A job that Slurm no longer knows and that left no marker is lost, too. A lost job is gone, and its task
//!   fails.

pub(crate) mod active_job;
pub(crate) mod bounded_scan;
pub(crate) mod conclude;
pub(crate) mod folder_reader;
pub(crate) mod outcome;
pub(crate) mod poll;
pub(crate) mod reason;
pub(crate) mod release;
pub(crate) mod snapshot;
pub(crate) mod task_table;
pub(crate) mod terminal_state;
pub(crate) mod usage;

use crate::driver::state::{Phase, State};

/// What a state says of a job by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

/// Returns the meaning of a state, as in the table above.
pub(crate) fn meaning(state: State) -> Meaning {
    match state.phase() {
        Phase::Waiting => Meaning::Queued,
        Phase::Running => Meaning::Running,
        Phase::Ended => match state {
            State::Completed => Meaning::Succeeded,
            State::Cancelled => Meaning::Cancelled,
            _ => Meaning::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskbridge_sdk::JobState;

    use super::outcome::JobOutcome;
    use super::terminal_state::{TerminalEvidence, TerminalState};
    use super::*;
    use crate::driver::tests::fake::row;
    use crate::store::array_counts::ArrayCounts;
    use crate::store::plan::Plan;

    /// Returns what a poll reports for a job in this state, without other facts.
    fn reported(state: State) -> &'static str {
        if !state.has_ended() {
            let rows = [row(7, "tb-a", state)];
            let job = active_job::observe_rows(&Plan::default(), &rows, None, &mut ArrayCounts::default());
            return if job.state == JobState::Queued { "queued" } else { "running" };
        }
        let ended = TerminalState { state: Some(state), has_started: true, ..TerminalState::default() };
        let evidence = TerminalEvidence { ended_for: Duration::from_hours(1), ..TerminalEvidence::default() };
        match ended.outcome(&Plan::default(), &evidence).unwrap() {
            JobOutcome::Succeeded => "succeeded",
            JobOutcome::Failed(_) => "failed",
            JobOutcome::Cancelled(_) => "cancelled",
            JobOutcome::Lost(_) => "gone",
        }
    }

    /// The table at the top of this file is what the code does.
    #[test]
    fn state_table_matches_code() {
        let rows = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let mut documented = Vec::new();
        for line in rows {
            let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").collect();
            let [name, job, task, words] = cells[..] else { panic!("{line}") };
            let state = State::parse(name.trim_matches('`'));
            assert_eq!(format!("{}`", state.name()), name);
            assert_eq!((reported(state), state.describe()), (job, words), "{name}");
            assert_eq!(format!("{:?}", meaning(state)).to_lowercase(), job, "{name}");
            let expected = match job {
                "queued" | "running" => "working",
                "succeeded" => "completed",
                job => job,
            };
            assert_eq!(task, expected, "{name}");
            documented.push(state);
        }
        let all = State::ALL.into_iter().map(|(state, ..)| state).chain([State::Unknown]);
        documented.sort();
        let mut all: Vec<State> = all.collect();
        all.sort();
        assert_eq!(documented, all, "each state has one row");
    }
}
