//! Processes that a dead supervisor left behind. They are known by the job's key in their environment, which is
//! random: a process id that was given to somebody else cannot be taken for one of them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The most of a process's environment that is read: Linux lets a program begin with no more than this.
const LARGEST: u64 = 8 * 1024 * 1024;

/// Kills what still runs of a job. Processes of others, and those that cannot be read, are left alone.
pub(crate) fn kill(key: &str) {
    let mark = format!("TASKBRIDGE_JOB={key}");
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        // The descriptor comes first: from here on the process that is looked at is the one that is signalled.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(environment) = environment(&entry.path()) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn environment(process: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(process.join("environ"))?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}
