//! The resource usage of processes, as the system counts it: CPU in nanoseconds, and memory.

use std::collections::HashMap;
use std::fs;

use super::Result;

/// A measured process, or a server with several processes.
pub(crate) struct Meter {
    pid: u32,
    with_children: bool,
    /// The last known usage of each thread. A thread that has ended keeps its part.
    threads: HashMap<String, u64>,
}

impl Meter {
    /// Creates a meter of this process.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, with_children: false, threads: HashMap::new() }
    }

    /// Creates a meter of the parent of this process, with all children of the parent.
    pub(crate) fn of_siblings(pid: u32) -> Result<Self> {
        let pid = parent(&pid.to_string()).ok_or("a process that is there has a parent")?;
        Ok(Self { pid, with_children: true, threads: HashMap::new() })
    }

    /// Returns the CPU time of all its threads so far, in nanoseconds, in the kernel and in user space.
    pub(crate) fn cpu_ns(&mut self) -> Result<u64> {
        for process in self.processes()? {
            // A process or one of its threads can end between two reads.
            for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten() {
                let thread = thread?;
                let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
                let used = text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
                self.threads.insert(thread.file_name().to_string_lossy().into_owned(), used);
            }
        }
        Ok(self.threads.values().sum())
    }

    /// Returns its resident memory, in KiB.
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

/// Returns the parent of a process.
fn parent(process: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name, in brackets, can contain any character.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
