//! Maps the error messages of Slurm's commands to the sdk's kinds of errors. Pure.

use taskbridge_sdk::{Error, ErrorKind};

/// Returns the kind of a failure, by Slurm's message. The texts are the messages of its error codes
/// (`slurm_strerror`).
fn kind(words: &str) -> ErrorKind {
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
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
    if words.starts_with("sudo: ")
        || (words.starts_with("Sorry, user ") && words.contains("is not allowed to execute"))
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
pub(crate) fn of_configuration(printed: &str) -> Option<&'static str> {
    let refusals = [
        "Requested node configuration is not available",
        "More processors requested than permitted",
        "Node count specification invalid",
        "Memory specification can not be satisfied",
    ];
    refusals.into_iter().find(|words| printed.contains(words))
}

/// Returns the error for a failed command.
pub(crate) fn error(command: &str, printed: &str) -> Error {
    let words = words(printed);
    if words.is_empty() {
        return Error::unavailable(format!("{command} failed and said nothing"));
    }
    Error::new(kind(&words), format!("{command}: {words}"))
}

/// Returns true if a submission that failed with this message may have arrived: the request was sent, but no
/// response came.
pub(crate) fn may_have_arrived(printed: &str) -> bool {
    let sent = [
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
    sent.iter().any(|words| printed.contains(words))
}

/// Returns true if ssh only reports why there was no session, so that no command started.
pub(crate) fn is_of_no_session(printed: &str) -> bool {
    let reached_nobody = |line: &str| {
        line.starts_with("ssh: connect to host ")
            || line.starts_with("ssh: Could not resolve hostname ")
            || line == "Host key verification failed."
            || line.contains(": Permission denied (")
    };
    let of_a_command = |line: &str| line.contains(": error: ") || line.contains(": fatal: ");
    let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    !printed.lines().any(of_a_command) && lines.next_back().is_some_and(reached_nobody)
}

/// Returns true if a signal that failed with this message may have been sent.
pub(crate) fn signal_may_have_arrived(printed: &str) -> bool {
    // Slurm prints the last message for an array with pending tasks, after it has signalled the other tasks.
    printed.trim().is_empty() || may_have_arrived(printed) || printed.contains("Job can not be altered now")
}

/// Returns true if the message reports an unknown or ended job.
pub(crate) fn is_over(printed: &str) -> bool {
    [
        "Invalid job id specified",
        "Job has already finished",
        "Job/step already completing or completed",
        "already completing",
    ]
    .iter()
    .any(|words| printed.contains(words))
}

/// Returns the messages in one line of at most 1000 characters, without the command names and without
/// duplicates.
fn words(printed: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in printed.lines() {
        let line = line.trim();
        let said = line.split_once(": error: ").map_or(line, |(_, said)| said);
        if !said.is_empty() && !lines.contains(&said) {
            lines.push(said);
        }
    }
    let mut words = lines.join("; ");
    if let Some((at, _)) = words.char_indices().nth(1000) {
        words.truncate(at);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message of Slurm 22.05 has an error kind, and some may follow a submission that arrived.
    #[test]
    fn slurm_error_text_is_classified() {
        for (printed, wanted, said) in [
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
            ("", ErrorKind::Unavailable, "sbatch failed and said nothing"),
        ] {
            let error = error("sbatch", printed);
            assert_eq!((error.kind(), error.to_string().as_str()), (wanted, said));
        }
        assert!(is_over("scancel: error: Kill job error on job id 3: Invalid job id specified"));
        assert!(may_have_arrived(
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
        ));
        let killed = "sbatch: error: slurm_msg_sendto: address:port=127.0.0.1:27817 msg_type=4003: Unexpected missing socket error";
        assert!(may_have_arrived(killed) && error("sbatch", killed).kind() == ErrorKind::Unavailable);
        let gone = "sbatch: error: Batch job submission failed: Transport endpoint is not connected";
        assert!(may_have_arrived(gone) && error("sbatch", gone).kind() == ErrorKind::Unavailable);
        assert!(!may_have_arrived("Unable to contact slurm controller (connect failure)"));
    }
}
