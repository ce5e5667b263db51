//! Processes that a dead supervisor left behind. They are known by the job's key in their environment, which is
//! random: a process id that was given to somebody else cannot be taken for one of them.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills what still runs of a job. Processes of others, and those that cannot be read, are left alone.
pub(crate) fn kill(key: &str) {
    let mark = format!("TASKBRIDGE_JOB={key}");
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        // The descriptor comes first: from here on the process that is looked at is the one that is signalled.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}
