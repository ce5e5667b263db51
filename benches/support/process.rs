//! What a process has used, as the system counts it: CPU in nanoseconds, and memory.

use std::collections::HashMap;
use std::fs;

use super::Result;

/// A process that is measured.
pub(crate) struct Meter {
    pid: u32,
    /// What each thread had used when it was last seen. A thread that has ended meanwhile keeps its part.
    threads: HashMap<String, u64>,
}

impl Meter {
    /// Measures this process.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, threads: HashMap::new() }
    }

    /// CPU that all its threads have used so far, in nanoseconds, in the kernel and out of it.
    pub(crate) fn cpu_ns(&mut self) -> Result<u64> {
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let thread = thread?;
            // A thread can end between the two reads.
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let used = text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
            self.threads.insert(thread.file_name().to_string_lossy().into_owned(), used);
        }
        Ok(self.threads.values().sum())
    }

    /// Memory that it has in use and in RAM, in KiB.
    pub(crate) fn memory_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }
}
