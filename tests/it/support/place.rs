//! [`TestDir`]: a config in its own folder. A server there writes only below that folder. When it is dropped,
//! none of its processes may still run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{PROGRAM, Server};

/// How long the supervisor of an ended job may take to exit.
const GRACE: Duration = Duration::from_secs(10);

/// Timeout for a program that should end by itself.
const RUN_TIMEOUT: Duration = Duration::from_secs(30);

/// A folder with a config.
pub(crate) struct TestDir {
    dir: tempfile::TempDir,
}

/// The output of a program that ended.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestDir {
    /// Creates a new folder with this config.
    pub(crate) fn new(config: &str) -> Self {
        let test_dir = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(test_dir.config(), config).unwrap();
        test_dir
    }

    /// Returns a path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the path of the config file.
    pub(crate) fn config(&self) -> PathBuf {
        self.path("taskbridge.toml")
    }

    /// Returns the command `taskbridge VERB --config FILE`, with an environment independent of the tester's.
    pub(crate) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg(verb).arg("--config").arg(self.config());
        self.prepare(&mut command);
        command
    }

    /// Sets the environment and the working directory of a command.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        command.env_clear().env("PATH", path).env("HOME", self.dir.path()).current_dir(self.dir.path());
        command.stdin(Stdio::null());
    }

    /// Starts the server and waits until it listens.
    pub(crate) fn serve(&self) -> Server {
        let mut server = self.launch();
        server.wait_until_it_listens();
        server
    }

    /// Starts the server without waiting.
    pub(crate) fn launch(&self) -> Server {
        Server::spawn(self.command("serve"), &self.path("server.log"))
    }

    /// Starts the server under limits that a shell sets (`ulimit -n 64`), and waits until it listens.
    pub(crate) fn serve_with_limits(&self, limits: &str) -> Server {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limits}; exec \"$0\" serve --config \"$1\""));
        command.arg(PROGRAM).arg(self.config());
        self.prepare(&mut command);
        let mut server = Server::spawn(command, &self.path("server.log"));
        server.wait_until_it_listens();
        server
    }

    /// Runs a program that should end by itself.
    pub(crate) async fn run(&self, command: Command) -> ProgramOutput {
        let mut command = tokio::process::Command::from(command);
        let output = tokio::time::timeout(RUN_TIMEOUT, command.kill_on_drop(true).output()).await;
        let output = output.expect("it ends by itself, and soon").unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        ProgramOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Waits until no local job runs. A cancelled task is reported as cancelled before its job is stopped. A
    /// server that is killed between the two leaves the stop to the next one.
    pub(crate) async fn wait_for_jobs_to_end(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.processes().iter().any(|process| process.contains("adapter-helper")) {
            assert!(Instant::now() < deadline, "a job goes on although it was cancelled");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the processes that were started with a path of this folder.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = self.dir.path().to_str().unwrap().as_bytes();
        let proc_file = |pid: &Path, name: &str| fs::read(pid.join(name)).unwrap_or_default();
        let has_mark = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
        let own = std::process::id().to_string();
        let pids = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        pids.filter(|pid| pid.file_name().is_some_and(|name| name != own.as_str()))
            .filter(|pid| has_mark(&proc_file(pid, "cmdline")) || has_mark(&proc_file(pid, "environ")))
            .map(|pid| {
                let line = String::from_utf8_lossy(&proc_file(&pid, "cmdline")).replace('\0', " ");
                format!("{} {line}", pid.file_name().unwrap().to_string_lossy())
            })
            .collect()
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("server.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the end of the server's log:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
        let deadline = Instant::now() + GRACE;
        let mut remaining = self.processes();
        while !remaining.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            remaining = self.processes();
        }
        for process in &remaining {
            let pid = process.split(' ').next().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if !std::thread::panicking() {
            assert!(remaining.is_empty(), "processes were left behind: {remaining:#?}");
        }
    }
}
