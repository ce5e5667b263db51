//! [`Server`]: the program under test as a process: started, measured, and killed by its process id.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A server process. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    /// Kept open, so that the server can continue to write.
    stdout: BufReader<ChildStdout>,
    url: Option<String>,
}

impl Server {
    /// Starts the server; its stderr is appended to `log`.
    pub(crate) fn spawn(mut command: Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, url: None }
    }

    /// Reads the address from the server's output about how to connect.
    pub(crate) fn wait_until_it_listens(&mut self) {
        let listens = self.listens();
        assert!(listens, "the server ended without an address: {:?}", self.child.wait());
    }

    /// Reads the address from the output; returns false if the server ended without one.
    pub(crate) fn listens(&mut self) -> bool {
        let mut line = String::new();
        while self.url.is_none() {
            line.clear();
            if self.stdout.read_line(&mut line).unwrap() == 0 {
                return false;
            }
            self.url = endpoint(&line);
        }
        true
    }

    /// Reads the address of its metrics from its next output.
    pub(crate) fn metrics_url(&mut self) -> String {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some(url) = line.trim_end().strip_prefix("metrics at ") {
                return url.to_owned();
            }
            line.clear();
        }
        panic!("it says of no metrics");
    }

    /// Reads the next address that signs in to the console from its next output.
    pub(crate) fn console_address(&mut self) -> String {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some(rest) = line.trim_end().strip_prefix("console at ") {
                return rest.split(' ').next().unwrap().to_owned();
            }
            line.clear();
        }
        panic!("it has no console");
    }

    /// Returns the endpoint.
    pub(crate) fn url(&self) -> &str {
        self.url.as_deref().expect("the server listens")
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does, and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it with SIGTERM, unless it has already ended, and returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        if self.child.try_wait().unwrap().is_none() {
            self.signal(rustix::process::Signal::TERM);
        }
        self.child.wait().unwrap().code()
    }

    /// Sends it a signal. Its process id cannot be reused before it is waited for.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns its stdout after the address. It must have ended.
    pub(crate) fn read_stdout(&mut self) -> String {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns its current memory without the pages of files, in KiB: the program itself is large in a debug build.
    pub(crate) fn memory_kib(&self) -> u64 {
        self.status("RssAnon:")
    }

    /// Returns its peak memory, in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Returns a field in KiB of proc_pid_status(5).
    fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Returns the CPU time that it has used so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The name in parentheses may contain anything; utime and stime are fields 14 and 15 (proc(5)).
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // A tick of proc(5) is a hundredth of a second on every architecture that Linux still supports.
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that ended or was killed before is not an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the endpoint in a line, if it names one.
fn endpoint(line: &str) -> Option<String> {
    let start = line.find("http://").or_else(|| line.find("https://"))?;
    let word = line[start..].split(|c: char| c.is_whitespace() || "\"'`<>,)".contains(c)).next()?;
    word.ends_with("/mcp").then(|| word.to_owned())
}

/// Raises the descriptor limit of this process to its maximum.
pub(crate) fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
