//! Kills the processes that a dead supervisor left behind. They are identified by the job's random key in
//! their environment, so that a process with a reused process id is never mistaken for one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Maximum size of an environment that is read. Linux does not let a program start with a larger one.
const MAX_ENVIRON_BYTES: u64 = 8 * 1024 * 1024;

/// Kills the processes of a job that still run. It ignores other processes, and processes whose environment
/// it cannot read.
pub(crate) fn kill(key: &str) {
    let marker = format!("TASKBRIDGE_JOB={key}");
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        // The descriptor is opened first, so that the process that is checked is the one that is signalled.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(environment) = environment(&entry.path()) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn environment(process: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(process.join("environ"))?.take(MAX_ENVIRON_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
