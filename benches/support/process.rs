//! What processes have used, as the system counts it: CPU in nanoseconds, and memory.

use std::collections::HashMap;
use std::fs;

use super::Result;

/// A process that is measured, or a server that is many.
pub(crate) struct Meter {
    pid: u32,
    with_children: bool,
    /// What each thread had used when it was last seen. A thread that has ended meanwhile keeps its part.
    threads: HashMap<String, u64>,
}

impl Meter {
    /// Measures this process.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, with_children: false, threads: HashMap::new() }
    }

    /// Measures the process that this one was started by, with all that it has started.
    pub(crate) fn of_siblings(pid: u32) -> Result<Self> {
        let pid = parent(&pid.to_string()).ok_or("a process that is there has a parent")?;
        Ok(Self { pid, with_children: true, threads: HashMap::new() })
    }

    /// CPU that all its threads have used so far, in nanoseconds, in the kernel and out of it.
    pub(crate) fn cpu_ns(&mut self) -> Result<u64> {
        for process in self.processes()? {
            // A process, or a thread of it, can end between two reads.
            for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten() {
                let thread = thread?;
                let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
                let used = text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
                self.threads.insert(thread.file_name().to_string_lossy().into_owned(), used);
            }
        }
        Ok(self.threads.values().sum())
    }

    /// Memory that it has in use and in RAM, in KiB.
    pub(crate) fn memory_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }

    fn processes(&self) -> Result<Vec<String>> {
        let mut processes = vec![self.pid.to_string()];
        if self.with_children {
            for process in fs::read_dir("/proc")? {
                let name = process?.file_name().to_string_lossy().into_owned();
                if parent(&name) == Some(self.pid) {
                    processes.push(name);
                }
            }
        }
        Ok(processes)
    }
}

/// Who started a process.
fn parent(process: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of its program, in brackets, can hold anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
