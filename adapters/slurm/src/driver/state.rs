//! Slurm's job states and their meanings. Pure.

use self::Phase::{Ended, Running, Waiting};

/// A state of a job or an array task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    Pending,
    Configuring,
    Running,
    Completing,
    Suspended,
    Stopped,
    Requeued,
    RequeueHold,
    SpecialExit,
    ResvDelHold,
    Signaling,
    StageOut,
    Resizing,
    Completed,
    Failed,
    NodeFail,
    OutOfMemory,
    Timeout,
    Deadline,
    BootFail,
    LaunchFailed,
    Cancelled,
    Preempted,
    Revoked,
    /// A state that this version does not know. It counts as running, so that no end is concluded from it.
    Unknown,
}

/// The phase of a job's life that a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Running,
    Ended,
}

impl State {
    /// The states that Slurm reports: each with Slurm's name, its phase, and its meaning for people.
    pub(crate) const ALL: [(State, &'static str, Phase, &'static str); 24] = [
        (Self::Pending, "PENDING", Waiting, "waiting"),
        (Self::Configuring, "CONFIGURING", Running, "its nodes are being prepared"),
        (Self::Running, "RUNNING", Running, "running"),
        (Self::Completing, "COMPLETING", Running, "ending"),
        (Self::Suspended, "SUSPENDED", Running, "suspended: another job uses its nodes"),
        (Self::Stopped, "STOPPED", Running, "stopped by a signal, and keeps its nodes"),
        (Self::Requeued, "REQUEUED", Waiting, "put back into the queue"),
        (Self::RequeueHold, "REQUEUE_HOLD", Waiting, "put back into the queue and held there"),
        (Self::SpecialExit, "SPECIAL_EXIT", Waiting, "held because of its exit code (`RequeueExitHold`)"),
        (Self::ResvDelHold, "RESV_DEL_HOLD", Waiting, "held, because its reservation was deleted"),
        (Self::Signaling, "SIGNALING", Running, "being sent a signal"),
        (Self::StageOut, "STAGE_OUT", Running, "its files are being copied back"),
        (Self::Resizing, "RESIZING", Running, "changing its size"),
        (Self::Completed, "COMPLETED", Ended, "completed"),
        (Self::Failed, "FAILED", Ended, "failed"),
        (Self::NodeFail, "NODE_FAIL", Ended, "a node of the job failed"),
        (Self::OutOfMemory, "OUT_OF_MEMORY", Ended, "used more memory than requested"),
        (Self::Timeout, "TIMEOUT", Ended, "time limit reached"),
        (Self::Deadline, "DEADLINE", Ended, "could not end before its deadline"),
        (Self::BootFail, "BOOT_FAIL", Ended, "a node of the job did not boot"),
        (Self::LaunchFailed, "LAUNCH_FAILED", Ended, "could not be launched on its node"),
        (Self::Cancelled, "CANCELLED", Ended, "cancelled"),
        (Self::Preempted, "PREEMPTED", Ended, "preempted by a job of a higher priority"),
        (Self::Revoked, "REVOKED", Ended, "taken over by another cluster of the federation"),
    ];

    /// Returns the name, phase and meaning.
    fn row(self) -> (&'static str, Phase, &'static str) {
        let row = Self::ALL.into_iter().find(|(state, ..)| *state == self);
        row.map_or(("UNKNOWN", Running, "in an unknown state"), |(_, name, phase, meaning)| {
            (name, phase, meaning)
        })
    }

    /// Parses the output of squeue, sacct, scontrol or slurmrestd. `CANCELLED by 1000` is `CANCELLED`, and a
    /// narrow column leaves a `+` at the end.
    pub(crate) fn parse(text: &str) -> Self {
        let name = text.split_whitespace().next().unwrap_or_default().trim_end_matches('+');
        let row = Self::ALL.into_iter().find(|(_, state_name, ..)| *state_name == name);
        row.map_or(Self::Unknown, |(state, ..)| state)
    }

    /// Returns Slurm's name of the state.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn phase(self) -> Phase {
        self.row().1
    }

    pub(crate) fn has_ended(self) -> bool {
        self.phase() == Ended
    }

    /// Returns true if Slurm may requeue the job after this state, if the job permits it.
    pub(crate) fn may_requeue(self) -> bool {
        matches!(self, Self::NodeFail | Self::Preempted | Self::BootFail | Self::LaunchFailed)
    }

    /// Returns the meaning for people.
    pub(crate) fn describe(self) -> &'static str {
        self.row().2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Suffixes are ignored, and an unknown state is not an ended one.
    #[test]
    fn slurm_states_are_parsed() {
        for (state, name, ..) in State::ALL {
            assert_eq!((State::parse(name), state.name()), (state, name));
            assert!(!state.describe().is_empty());
        }
        assert_eq!(State::parse("CANCELLED by 1000"), State::Cancelled);
        assert_eq!(State::parse("CANCELLED+"), State::Cancelled);
        assert_eq!(State::parse("SOMETHING_NEW"), State::Unknown);
        assert!(!State::Unknown.has_ended(), "an unknown state is not an end");
    }

    #[test]
    fn active_states_have_not_ended() {
        let active = [
            "PENDING",
            "CONFIGURING",
            "RUNNING",
            "COMPLETING",
            "SUSPENDED",
            "STOPPED",
            "REQUEUED",
            "REQUEUE_HOLD",
            "SPECIAL_EXIT",
            "RESV_DEL_HOLD",
        ];
        for (state, name, ..) in State::ALL {
            let other = ["SIGNALING", "STAGE_OUT", "RESIZING"].contains(&name);
            assert_eq!(state.has_ended(), !active.contains(&name) && !other, "{name}");
        }
    }
}
