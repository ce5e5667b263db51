//! [`Place`]: a config in a folder of its own. Everything that a server there writes is under that folder, and when it
//! goes away, nothing may be left that still runs for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{PROGRAM, Server};

/// How long a supervisor whose job has ended may take to go away.
const GRACE: Duration = Duration::from_secs(10);

/// How long a program that should end by itself may take.
const SOON: Duration = Duration::from_secs(30);

/// A folder with a config.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

/// What a program that ended has said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    /// A new folder with this config.
    pub(crate) fn new(config: &str) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(place.config(), config).unwrap();
        place
    }

    /// A path within the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The config file.
    pub(crate) fn config(&self) -> PathBuf {
        self.path("taskbridge.toml")
    }

    /// `taskbridge VERB --config FILE`, in an environment that knows nothing of the tester's.
    pub(crate) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg(verb).arg("--config").arg(self.config());
        self.settle(&mut command);
        command
    }

    /// Makes a command run here.
    pub(crate) fn settle(&self, command: &mut Command) {
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

    /// Starts the server and does not wait.
    pub(crate) fn launch(&self) -> Server {
        Server::spawn(self.command("serve"), &self.path("server.log"))
    }

    /// Starts the server under limits that a shell sets (`ulimit -n 64`), and waits until it listens.
    pub(crate) fn serve_under(&self, limits: &str) -> Server {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limits}; exec \"$0\" serve --config \"$1\""));
        command.arg(PROGRAM).arg(self.config());
        self.settle(&mut command);
        let mut server = Server::spawn(command, &self.path("server.log"));
        server.wait_until_it_listens();
        server
    }

    /// Runs a program that should end by itself.
    pub(crate) async fn run(&self, command: Command) -> Ended {
        let mut command = tokio::process::Command::from(command);
        let output = tokio::time::timeout(SOON, command.kill_on_drop(true).output()).await;
        let output = output.expect("it ends by itself, and soon").unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Waits until no local job runs. A cancelled task is reported as cancelled before its job is stopped, and a server that is
    /// killed between the two leaves that to the next one.
    pub(crate) async fn jobs_end(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.processes().iter().any(|process| process.contains("adapter-helper")) {
            assert!(Instant::now() < until, "a job goes on although it was cancelled");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The processes that belong to this place: they were started with one of its paths.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = self.dir.path().to_str().unwrap().as_bytes();
        let of = |pid: &Path, name: &str| fs::read(pid.join(name)).unwrap_or_default();
        let has_mark = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
        let own = std::process::id().to_string();
        let pids = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        pids.filter(|pid| pid.file_name().is_some_and(|name| name != own.as_str()))
            .filter(|pid| has_mark(&of(pid, "cmdline")) || has_mark(&of(pid, "environ")))
            .map(|pid| {
                let line = String::from_utf8_lossy(&of(&pid, "cmdline")).replace('\0', " ");
                format!("{} {line}", pid.file_name().unwrap().to_string_lossy())
            })
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("server.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the end of the server's log:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
        let until = Instant::now() + GRACE;
        let mut left = self.processes();
        while !left.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            left = self.processes();
        }
        for process in &left {
            let pid = process.split(' ').next().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if !std::thread::panicking() {
            assert!(left.is_empty(), "processes were left behind: {left:#?}");
        }
    }
}
