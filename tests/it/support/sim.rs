//! [`SimProcess`]: the simulated engine as a process of its own. It outlives the server's kills, and its journal says
//! which jobs were started.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{PROGRAM, Place};

/// A simulated engine. It is killed when it is dropped.
pub(crate) struct SimProcess {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
    journal: PathBuf,
    _stdout: BufReader<ChildStdout>,
}

impl SimProcess {
    /// Starts one in `mode`: `keyed` or `unkeyed`.
    pub(crate) fn start(place: &Place, mode: &str) -> Self {
        let journal = place.path(&format!("{mode}.journal"));
        let mut command = Command::new(PROGRAM);
        command.args(["adapter-helper", "sim", "--listen", "127.0.0.1:0", "--mode", mode, "--journal"]);
        command.arg(&journal);
        place.settle(&mut command);
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

    /// The key of each job that was started, in order.
    pub(crate) fn started(&self) -> Vec<String> {
        let journal = fs::read_to_string(&self.journal).unwrap_or_default();
        journal.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

impl Drop for SimProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
