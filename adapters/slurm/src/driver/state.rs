//! Slurm's job states and their meanings. Pure.

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
    pub(crate) const NAMES: [(&'static str, State); 24] = [
        ("PENDING", State::Pending),
        ("CONFIGURING", State::Configuring),
        ("RUNNING", State::Running),
        ("COMPLETING", State::Completing),
        ("SUSPENDED", State::Suspended),
        ("STOPPED", State::Stopped),
        ("REQUEUED", State::Requeued),
        ("REQUEUE_HOLD", State::RequeueHold),
        ("SPECIAL_EXIT", State::SpecialExit),
        ("RESV_DEL_HOLD", State::ResvDelHold),
        ("SIGNALING", State::Signaling),
        ("STAGE_OUT", State::StageOut),
        ("RESIZING", State::Resizing),
        ("COMPLETED", State::Completed),
        ("FAILED", State::Failed),
        ("NODE_FAIL", State::NodeFail),
        ("OUT_OF_MEMORY", State::OutOfMemory),
        ("TIMEOUT", State::Timeout),
        ("DEADLINE", State::Deadline),
        ("BOOT_FAIL", State::BootFail),
        ("LAUNCH_FAILED", State::LaunchFailed),
        ("CANCELLED", State::Cancelled),
        ("PREEMPTED", State::Preempted),
        ("REVOKED", State::Revoked),
    ];

    /// Parses the output of squeue, sacct, scontrol or slurmrestd. `CANCELLED by 1000` is `CANCELLED`, and a
    /// narrow column leaves a `+` at the end.
    pub(crate) fn parse(text: &str) -> Self {
        let name = text.split_whitespace().next().unwrap_or_default().trim_end_matches('+');
        let entry = Self::NAMES.iter().find(|(state_name, _)| *state_name == name);
        entry.map_or(Self::Unknown, |(_, state)| *state)
    }

    /// Returns Slurm's name of the state.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, state)| *state == self).map_or("UNKNOWN", |(name, _)| name)
    }

    pub(crate) fn phase(self) -> Phase {
        match self {
            Self::Pending | Self::Requeued | Self::RequeueHold | Self::SpecialExit | Self::ResvDelHold => {
                Phase::Waiting
            }
            Self::Configuring
            | Self::Running
            | Self::Completing
            | Self::Suspended
            | Self::Stopped
            | Self::Signaling
            | Self::StageOut
            | Self::Resizing
            | Self::Unknown => Phase::Running,
            Self::Completed
            | Self::Failed
            | Self::NodeFail
            | Self::OutOfMemory
            | Self::Timeout
            | Self::Deadline
            | Self::BootFail
            | Self::LaunchFailed
            | Self::Cancelled
            | Self::Preempted
            | Self::Revoked => Phase::Ended,
        }
    }

    pub(crate) fn has_ended(self) -> bool {
        self.phase() == Phase::Ended
    }

    /// Returns true if Slurm may requeue the job after this state, if the job permits it.
    pub(crate) fn may_requeue(self) -> bool {
        matches!(self, Self::NodeFail | Self::Preempted | Self::BootFail | Self::LaunchFailed)
    }

    /// Returns the meaning for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Pending => "waiting",
            Self::Configuring => "its nodes are being prepared",
            Self::Running => "running",
            Self::Completing => "ending",
            Self::Suspended => "suspended: another job uses its nodes",
            Self::Stopped => "stopped by a signal, and keeps its nodes",
            Self::Requeued => "put back into the queue",
            Self::RequeueHold => "put back into the queue and held there",
            Self::SpecialExit => "held because of its exit code (`RequeueExitHold`)",
            Self::ResvDelHold => "held, because its reservation was deleted",
            Self::Signaling => "being sent a signal",
            Self::StageOut => "its files are being copied back",
            Self::Resizing => "changing its size",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::NodeFail => "a node of the job failed",
            Self::OutOfMemory => "used more memory than requested",
            Self::Timeout => "time limit reached",
            Self::Deadline => "could not end before its deadline",
            Self::BootFail => "a node of the job did not boot",
            Self::LaunchFailed => "could not be launched on its node",
            Self::Cancelled => "cancelled",
            Self::Preempted => "preempted by a job of a higher priority",
            Self::Revoked => "taken over by another cluster of the federation",
            Self::Unknown => "in an unknown state",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Suffixes are ignored, and an unknown state is not an ended one.
    #[test]
    fn slurm_states_are_parsed() {
        for (name, state) in State::NAMES {
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
        for (name, state) in State::NAMES {
            let other = ["SIGNALING", "STAGE_OUT", "RESIZING"].contains(&name);
            assert_eq!(state.has_ended(), !active.contains(&name) && !other, "{name}");
        }
    }
}
