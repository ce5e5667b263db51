//! Explains why a job is pending, from squeue's reason codes. Pure.

/// Returns the meaning of a reason code for people. Returns an unknown code unchanged.
pub(crate) fn describe(code: &str) -> String {
    // There are dozens of codes for limits of associations and qualities of service, all named by one scheme.
    if let Some(limit) = code.strip_prefix("Assoc") {
        return format!("a limit of the account is reached ({limit})");
    }
    if let Some(limit) = code.strip_prefix("QOS").filter(|rest| *rest != "NotAllowed") {
        return format!("a limit of the quality of service is reached ({limit})");
    }
    // Slurm prints it with spaces or with underscores.
    if code.starts_with("Nodes required for job are DOWN")
        || code.starts_with("Nodes_required_for_job_are_DOWN")
    {
        return "the nodes that it needs are down, drained or reserved".to_owned();
    }
    let words = match code {
        "" | "None" => "waiting to be considered",
        "Priority" => "jobs of a higher priority come first",
        "Resources" => "waiting for resources",
        "Dependency" => "waiting for another job",
        "DependencyNeverSatisfied" => {
            "the job that it waits for did not end as required, so that it will never begin"
        }
        "BeginTime" => "its time to begin has not come",
        "JobHeldUser" => "held by its user",
        "JobHeldAdmin" => "held by an administrator",
        "JobArrayTaskLimit" => "as many of its tasks run as may run at a time",
        "Licenses" => "waiting for a licence",
        "Reservation" => "waiting for its reservation to begin",
        "ReservationDeleted" => "its reservation was deleted",
        "ReqNodeNotAvail" => "a node that it needs is not available",
        "PartitionDown" => "its partition is down",
        "PartitionInactive" => "its partition takes no jobs now",
        "PartitionNodeLimit" => "it asks for more or fewer nodes than its partition allows",
        "PartitionTimeLimit" => "its time limit is over that of its partition",
        "PartitionConfig" => "its partition cannot give what it asks for",
        "NodeDown" => "a node that it needs is down",
        "BadConstraints" => "no nodes have what it asks for",
        "Cleaning" => "its last run is being cleaned up",
        "QOSNotAllowed" => "its quality of service is not allowed in its partition",
        "AccountNotAllowed" => "its account is not allowed in its partition",
        "InvalidAccount" => "its account is not valid",
        "InvalidQOS" => "its quality of service is not valid",
        "JobHoldMaxRequeue" => "it was put back into the queue too often, and is held",
        "Prolog" => "the prolog is running",
        "FrontEndDown" => "no front end is available",
        "BurstBufferResources" | "BurstBufferStageIn" => "waiting for its burst buffer",
        "launch_failed_requeued_held" | "launch failed requeued held" => {
            "it could not be launched, and is held"
        }
        "job_requeued_in_held_state" | "job requeued in held state" => "put back into the queue, and held",
        "JobLaunchFailure" => "it could not be launched",
        "NonZeroExitCode" => "it ended with an exit code other than 0",
        "SystemFailure" => "Slurm or a node failed",
        "TimeLimit" => "it reached its time limit",
        "InactiveLimit" => "it was idle for too long",
        "OutOfMemory" => "it used more memory than it had asked for",
        "NodeFail" => "a node failed",
        _ => {
            let base_code = code.split([',', '(']).next().unwrap_or(code);
            return if base_code != code && !base_code.is_empty() {
                describe(base_code)
            } else {
                code.to_owned()
            };
        }
    };
    words.to_owned()
}

/// Returns true if a job with this reason does not begin without intervention.
pub(crate) fn is_stuck(code: &str) -> bool {
    matches!(
        code,
        "DependencyNeverSatisfied"
            | "PartitionNodeLimit"
            | "PartitionTimeLimit"
            | "BadConstraints"
            | "AccountNotAllowed"
            | "InvalidAccount"
            | "InvalidQOS"
            | "QOSNotAllowed"
            | "JobHeldAdmin"
            | "JobHoldMaxRequeue"
            | "ReservationDeleted"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_codes_become_plain_text() {
        for (code, words) in [
            ("Resources", "waiting for resources"),
            ("QOSMaxCpuPerUserLimit", "a limit of the quality of service is reached (MaxCpuPerUserLimit)"),
            ("AssocGrpCpuLimit", "a limit of the account is reached (GrpCpuLimit)"),
            ("QOSNotAllowed", "its quality of service is not allowed in its partition"),
            ("ReqNodeNotAvail,_UnavailableNodes:n1", "a node that it needs is not available"),
            (
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
                "the nodes that it needs are down, drained or reserved",
            ),
            ("SomethingNew", "SomethingNew"),
            ("(null)", "(null)"),
        ] {
            assert_eq!(describe(code), words, "{code}");
        }
        assert!(is_stuck("BadConstraints") && !is_stuck("Priority"));
    }
}
