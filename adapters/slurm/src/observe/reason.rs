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
        return "required nodes are down, drained or reserved".to_owned();
    }
    let words = match code {
        "" | "None" => "waiting for the scheduler",
        "Priority" => "jobs of a higher priority come first",
        "Resources" => "waiting for resources",
        "Dependency" => "waiting for another job",
        "DependencyNeverSatisfied" => {
            "the job that it depends on did not end as required, so it can never begin"
        }
        "BeginTime" => "its begin time is not reached",
        "JobHeldUser" => "held by its user",
        "JobHeldAdmin" => "held by an administrator",
        "JobArrayTaskLimit" => "the maximum number of its tasks is running",
        "Licenses" => "waiting for a licence",
        "Reservation" => "waiting for its reservation to begin",
        "ReservationDeleted" => "its reservation was deleted",
        "ReqNodeNotAvail" => "a required node is not available",
        "PartitionDown" => "its partition is down",
        "PartitionInactive" => "its partition is inactive",
        "PartitionNodeLimit" => "requests more or fewer nodes than its partition allows",
        "PartitionTimeLimit" => "its time limit exceeds that of its partition",
        "PartitionConfig" => "its partition cannot provide the requested resources",
        "NodeDown" => "a required node is down",
        "BadConstraints" => "no nodes meet its constraints",
        "Cleaning" => "its last run is being cleaned up",
        "QOSNotAllowed" => "its quality of service is not allowed in its partition",
        "AccountNotAllowed" => "its account is not allowed in its partition",
        "InvalidAccount" => "its account is not valid",
        "InvalidQOS" => "its quality of service is not valid",
        "JobHoldMaxRequeue" => "put back into the queue too often, and held",
        "Prolog" => "the prolog is running",
        "FrontEndDown" => "no front end is available",
        "BurstBufferResources" | "BurstBufferStageIn" => "waiting for its burst buffer",
        "launch_failed_requeued_held" | "launch failed requeued held" => "could not be launched, and is held",
        "job_requeued_in_held_state" | "job requeued in held state" => "put back into the queue, and held",
        "JobLaunchFailure" => "could not be launched",
        "NonZeroExitCode" => "ended with an exit code other than 0",
        "SystemFailure" => "Slurm or a node failed",
        "TimeLimit" => "time limit reached",
        "InactiveLimit" => "idle for too long",
        "OutOfMemory" => "used more memory than requested",
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
            ("ReqNodeNotAvail,_UnavailableNodes:n1", "a required node is not available"),
            (
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
                "required nodes are down, drained or reserved",
            ),
            ("SomethingNew", "SomethingNew"),
            ("(null)", "(null)"),
        ] {
            assert_eq!(describe(code), words, "{code}");
        }
        assert!(is_stuck("BadConstraints") && !is_stuck("Priority"));
    }
}
