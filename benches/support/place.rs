//! Which CPU a process runs on: the servers share one, and the client keeps off it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Result;

/// The CPUs of this run.
pub(crate) struct Places {
    servers: CpuSet,
    client: CpuSet,
    /// True if there is more than one, so that the servers have one of their own.
    pub(crate) apart: bool,
}

impl Places {
    /// The last CPU that this process may use for the servers, and the others for itself.
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

    /// Runs `start` on the servers' CPU: what it starts stays there, and so does every thread of that.
    pub(crate) fn as_server<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        sched_setaffinity(None, &self.servers)?;
        let started = start();
        sched_setaffinity(None, &self.client)?;
        started
    }
}
