//! CPU affinity: the servers share one CPU, and the client does not use it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Result;

/// The CPUs of this run.
pub(crate) struct Places {
    servers: CpuSet,
    client: CpuSet,
    /// True if there is more than one CPU, so that the servers have their own.
    pub(crate) apart: bool,
}

impl Places {
    /// Assigns the last CPU that this process may use to the servers, and the others to the client.
    pub(crate) fn find() -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
        let last = *cpus.last().ok_or("the system names no CPU that this process may use")?;
        let mut servers = CpuSet::new();
        servers.set(last);
        let mut client = all;
        let apart = cpus.len() > 1;
        if apart {
            client.unset(last);
        }
        Ok(Self { servers, client, apart })
    }

    /// Runs `start` on the servers' CPU. Processes that it starts, and their threads, stay there.
    pub(crate) fn as_server<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        sched_setaffinity(None, &self.servers)?;
        let started = start();
        sched_setaffinity(None, &self.client)?;
        started
    }
}
