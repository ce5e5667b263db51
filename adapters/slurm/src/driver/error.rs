//! Maps the error messages of Slurm's commands to the sdk's kinds of errors. Pure.

use taskbridge_sdk::{Error, ErrorKind};

/// Returns the kind of a failure, by Slurm's message. The texts are the messages of its error codes
/// (`slurm_strerror`).
fn error_kind(message: &str) -> ErrorKind {
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    // Slurm's own messages for rate limits and temporary overload.
    if has(&["temporarily unable to accept job", "Rate limit exceeded", "exceeded: retry"]) {
        return ErrorKind::Limited { after: None };
    }
    if has(&[
        "Unable to contact slurm controller",
        "Slurm controller not responding",
        "Connection refused",
        "Connection timed out",
        "Connection reset",
        "Transport endpoint is not connected",
        "Software caused connection abort",
        "Unable to establish controller machine",
        "Slurm backup controller in standby mode",
        "Socket timed out",
        "Zero Bytes were transmitted",
        "Communication connection failure",
        "Problem talking to the database",
        "Unable to connect to database",
        "slurm_persist_conn_open",
        "Unable to contact slurmdbd",
        "No route to host",
        "Could not resolve hostname",
        "ssh: connect to host",
        "kex_exchange_identification",
        "Broken pipe",
        // The messages after a controller dies in the middle of a response.
        "slurm_msg_sendto",
        "slurm_receive_msg",
        "slurm_send_",
        "socket error",
        "Message receive failure",
        "Message send failure",
    ]) {
        return ErrorKind::Unavailable;
    }
    // sudo did not run the command.
    if message.starts_with("sudo: ")
        || (message.starts_with("Sorry, user ") && message.contains("is not allowed to execute"))
    {
        return ErrorKind::Config;
    }
    if has(&[
        "Invalid user id",
        "Access/permission denied",
        "Access denied",
        "Permission denied (",
        "Host key verification failed",
        "Invalid authentication credential",
        "authentication",
        "Munge",
        "User's group not permitted",
    ]) {
        return ErrorKind::Denied;
    }
    if has(&[
        "command not found",
        "Could not establish a configuration source",
        "Unable to process configuration file",
        "No such file or directory",
        "can't be reached now, or it is an invalid entry for --cluster",
        "accounting storage is disabled",
        "protocol version",
    ]) {
        return ErrorKind::Config;
    }
    ErrorKind::Rejected
}

/// Returns Slurm's message if a test submission requests more than the nodes that are up have.
pub(crate) fn infeasible_message(output: &str) -> Option<&'static str> {
    let refusals = [
        "Requested node configuration is not available",
        "More processors requested than permitted",
        "Node count specification invalid",
        "Memory specification can not be satisfied",
    ];
    refusals.into_iter().find(|message| output.contains(message))
}

/// Converts a failure into `Uncertain`, since the request may have taken effect.
pub(crate) fn uncertain(error: &Error) -> Error {
    Error::new(ErrorKind::Uncertain, error.to_string())
}

/// Returns the error for a failed command.
pub(crate) fn parse(command: &str, output: &str) -> Error {
    let summary = summarize(output);
    if summary.is_empty() {
        return Error::unavailable(format!("{command} failed without a message"));
    }
    Error::new(error_kind(&summary), format!("{command}: {summary}"))
}

/// Returns true if a submission that failed with this message may have arrived: the request was sent, but no
/// response came.
pub(crate) fn may_have_arrived(output: &str) -> bool {
    let patterns = [
        "Socket timed out",
        "Zero Bytes were transmitted",
        "Connection reset",
        "Transport endpoint is not connected",
        "Software caused connection abort",
        "Broken pipe",
        "closed by remote host",
        "slurm_msg_sendto",
        "slurm_receive_msg",
        "slurm_send_",
        "socket error",
        "Message receive failure",
        "Message send failure",
    ];
    patterns.iter().any(|pattern| output.contains(pattern))
}

/// Returns true if ssh only reports why there was no session, so that no command started.
pub(crate) fn is_connection_failure(output: &str) -> bool {
    let is_ssh_failure = |line: &str| {
        line.starts_with("ssh: connect to host ")
            || line.starts_with("ssh: Could not resolve hostname ")
            || line == "Host key verification failed."
            || line.contains(": Permission denied (")
    };
    let is_command_output = |line: &str| line.contains(": error: ") || line.contains(": fatal: ");
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    !output.lines().any(is_command_output) && lines.next_back().is_some_and(is_ssh_failure)
}

/// Returns true if a signal that failed with this message may have been sent.
pub(crate) fn signal_may_have_arrived(output: &str) -> bool {
    // Slurm prints the last message for an array with pending tasks, after it has signalled the other tasks.
    output.trim().is_empty() || may_have_arrived(output) || output.contains("Job can not be altered now")
}

/// Returns true if the message reports an unknown or ended job.
pub(crate) fn is_ended_or_unknown(output: &str) -> bool {
    [
        "Invalid job id specified",
        "Job has already finished",
        "Job/step already completing or completed",
        "already completing",
    ]
    .iter()
    .any(|pattern| output.contains(pattern))
}

/// Returns the messages in one line of at most 1000 characters, without the command names and without
/// duplicates.
fn summarize(output: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in output.lines() {
        let line = line.trim();
        let message = line.split_once(": error: ").map_or(line, |(_, message)| message);
        if !message.is_empty() && !lines.contains(&message) {
            lines.push(message);
        }
    }
    let mut summary = lines.join("; ");
    if let Some((at, _)) = summary.char_indices().nth(1000) {
        summary.truncate(at);
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message of Slurm 22.05 has an error kind, and some may follow a submission that arrived.
    #[test]
    fn slurm_error_text_is_classified() {
        for (output, expected_kind, message) in [
            (
                "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified",
                ErrorKind::Rejected,
                "sbatch: invalid partition specified: nope; Batch job submission failed: Invalid partition name specified",
            ),
            (
                "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
                ErrorKind::Unavailable,
                "sbatch: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            ),
            (
                "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
                ErrorKind::Limited { after: None },
                "sbatch: Slurm temporarily unable to accept job, sleeping and retrying",
            ),
            (
                "sbatch: error: Batch job submission failed: Access/permission denied",
                ErrorKind::Denied,
                "sbatch: Batch job submission failed: Access/permission denied",
            ),
            ("sudo: a password is required\n", ErrorKind::Config, "sbatch: sudo: a password is required"),
            (
                "Sorry, user bridge is not allowed to execute '/usr/bin/sbatch' as asmith on login1.",
                ErrorKind::Config,
                "sbatch: Sorry, user bridge is not allowed to execute '/usr/bin/sbatch' as asmith on login1.",
            ),
            ("", ErrorKind::Unavailable, "sbatch failed without a message"),
        ] {
            let error = parse("sbatch", output);
            assert_eq!((error.kind(), error.to_string().as_str()), (expected_kind, message));
        }
        assert!(is_ended_or_unknown("scancel: error: Kill job error on job id 3: Invalid job id specified"));
        assert!(may_have_arrived(
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
        ));
        let socket_error = "sbatch: error: slurm_msg_sendto: address:port=127.0.0.1:27817 msg_type=4003: Unexpected missing socket error";
        assert!(
            may_have_arrived(socket_error) && parse("sbatch", socket_error).kind() == ErrorKind::Unavailable
        );
        let not_connected = "sbatch: error: Batch job submission failed: Transport endpoint is not connected";
        assert!(
            may_have_arrived(not_connected)
                && parse("sbatch", not_connected).kind() == ErrorKind::Unavailable
        );
        assert!(!may_have_arrived("Unable to contact slurm controller (connect failure)"));
    }
}
