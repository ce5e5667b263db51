//! [`SimProcess`]: the simulated engine as its own process. It survives a kill of the server, and its journal
//! lists the started jobs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{PROGRAM, TestDir};

/// A simulated engine. Dropping it kills it.
pub(crate) struct SimProcess {
    child: Child,
    /// The address on which it listens.
    pub(crate) address: String,
    journal: PathBuf,
    _stdout: BufReader<ChildStdout>,
}

/// A job, as the engine's journal recorded it before the engine reported it.
pub(crate) struct JournalEntry {
    pub(crate) key: String,
    pub(crate) handle: String,
    pub(crate) text: String,
}

impl SimProcess {
    /// Starts an engine in `mode`: `keyed` or `unkeyed`.
    pub(crate) fn start(dir: &TestDir, mode: &str) -> Self {
        Self::start_with(dir, mode, &[])
    }

    /// Starts an engine with more arguments.
    pub(crate) fn start_with(dir: &TestDir, mode: &str, more: &[&str]) -> Self {
        Self::start_as(dir, mode, mode, more)
    }

    /// Starts an engine with a journal of this name.
    pub(crate) fn start_as(dir: &TestDir, name: &str, mode: &str, more: &[&str]) -> Self {
        let journal = dir.path(&format!("{name}.journal"));
        let mut command = Command::new(PROGRAM);
        command.args(["adapter-helper", "sim", "--listen", "127.0.0.1:0", "--mode", mode, "--journal"]);
        command.arg(&journal).args(more);
        dir.prepare(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").expect("its first line").to_owned();
        Self { child, address, journal, _stdout: stdout }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the keys of all started jobs, in order.
    pub(crate) fn started(&self) -> Vec<String> {
        self.journal().into_iter().map(|job| job.key).collect()
    }

    /// Returns all started jobs, in order.
    pub(crate) fn journal(&self) -> Vec<JournalEntry> {
        let journal = fs::read_to_string(&self.journal).unwrap_or_default();
        let read = |line: &str| {
            let mut parts = line.splitn(3, ' ').map(str::to_owned);
            let (key, handle) = (parts.next().unwrap(), parts.next().unwrap());
            JournalEntry { key, handle, text: serde_json::from_str(&parts.next().unwrap()).unwrap() }
        };
        journal.lines().map(read).collect()
    }
}

impl Drop for SimProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
