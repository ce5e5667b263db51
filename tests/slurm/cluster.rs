//! A real Slurm cluster for tests, run by `serve.py` next to this file. `tests/run --only packages` installs
//! its packages. It must not know the adapter: the crates that include this file connect it.

#![allow(dead_code, reason = "more than one crate includes this file, and each uses a part of it")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

/// A running cluster. All of it stops when the input that this value owns is closed, at the latest at the
/// end of this process.
pub(crate) struct Cluster {
    /// The folder of the cluster. Tests may keep their own files in its `work`.
    pub(crate) folder: PathBuf,
    /// The user who submits jobs.
    pub(crate) user: String,
    told: Value,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    /// `None` once the cluster has to stop.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    process: Child,
}

/// The endpoints of slurmrestd.
#[derive(Clone)]
pub(crate) struct Rest {
    /// The socket, for the user who runs the tests.
    pub(crate) socket: PathBuf,
    /// The address, which requires the token.
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Cluster {
    /// Returns the cluster with accounting and slurmrestd that all tests of a binary share. Tests must not
    /// stop parts of it.
    pub(crate) fn shared() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(|| Cluster::start(&["--accounting", "--rest", "--cpus", "200"]))
    }

    /// Returns the cluster without any accounting that all tests of a binary share. Tests must not stop
    /// parts of it.
    pub(crate) fn without_accounting() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(|| Cluster::start(&["--rest", "--cpus", "200"]))
    }

    /// Starts a cluster for one caller; `serve.py --help` lists the options.
    pub(crate) fn start(options: &[&str]) -> Self {
        let serve = Path::new(file!()).with_file_name("serve.py");
        // The path of this file is relative to the workspace, which may contain a package in a subfolder.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|root| root.join(&serve).exists());
        let mut command = Command::new("python3");
        command.arg("-B").arg(root.expect("the tests run in the tree that they were built in").join(serve));
        // Shields the process from signals that are sent to the tests' process group.
        command.args(options).process_group(0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, replies) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut server = Keeper { orders: Some(commands), answers: BufReader::new(replies), process };
        let reply = server.line();
        let ready_info =
            reply.strip_prefix("ready ").unwrap_or_else(|| panic!("the cluster did not start: {reply}"));
        let ready_info: Value = serde_json::from_str(ready_info).unwrap();
        let text = |name: &str| ready_info[name].as_str().unwrap().to_owned();
        Self {
            folder: text("folder").into(),
            user: text("user"),
            told: ready_info,
            keeper: Mutex::new(server),
        }
    }

    /// Sends a command for one of the cluster's servers: `kill slurmctld`, `stop`, `start`, `freeze`,
    /// `thaw`.
    pub(crate) fn order(&self, command: &str) {
        let mut server = self.keeper.lock().unwrap();
        writeln!(server.orders.as_mut().unwrap(), "{command}").unwrap();
        let reply = server.line();
        assert_eq!(reply, "ok", "{command}");
    }

    /// Returns the endpoints of slurmrestd, which the cluster must have.
    pub(crate) fn rest(&self) -> Rest {
        let text =
            |name: &str| self.told["rest"][name].as_str().expect("it was started with --rest").to_owned();
        Rest { socket: text("socket").into(), address: text("address"), token: text("token") }
    }

    /// Returns the path of the cluster's config, for `SLURM_CONF`.
    pub(crate) fn conf(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// Creates a folder with Slurm's commands, in which only this caller injects faults and counts calls.
    pub(crate) fn commands(&self) -> Commands {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let folder = self.folder.join(format!("commands-{}", MADE.fetch_add(1, Ordering::Relaxed)));
        for name in ["bin", "faults"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        empty(&folder.join("calls"));
        symlink(self.conf(), folder.join("slurm.conf")).unwrap();
        for entry in fs::read_dir(self.folder.join("bin")).unwrap() {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
            symlink(fs::read_link(path).unwrap(), folder.join("bin").join(&name)).unwrap();
            let real = format!("real-{}", name.display());
            symlink(self.folder.join(&real), folder.join(real)).unwrap();
        }
        Commands { folder }
    }

    /// Runs one of Slurm's own commands without injected faults, and returns its stdout. It must succeed.
    pub(crate) fn run(&self, name: &str, arguments: &[&str]) -> String {
        let output = self.try_run(name, arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Does the same for a command that may fail.
    pub(crate) fn try_run(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(name);
        command.args(arguments).env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command.output().unwrap()
    }
}

impl Keeper {
    fn line(&mut self) -> String {
        let mut reply = String::new();
        self.answers.read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let server = self.keeper.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(server.orders.take());
        // The process cleans up before it ends.
        let _ = server.process.wait();
    }
}

/// Creates an empty file that the commands of every user can write to.
fn empty(path: &Path) {
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// What a call of one of Slurm's commands does instead of its job (`tests/slurm/command`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault<'a> {
    /// The command runs, and its reply is lost.
    Lost,
    /// The command does not run, and prints this text on stderr.
    Refused(&'a str),
    /// The command does not run, and prints this text on stdout.
    Says(&'a str),
    /// The command does not run and never ends.
    Hangs,
    /// The command runs and never ends.
    HangsAfter,
    /// The command takes five seconds longer.
    Slow,
}

impl Fault<'_> {
    fn file(self) -> String {
        match self {
            Fault::Lost => "lost\n".to_owned(),
            Fault::Refused(text) => format!("refused\n{text}\n"),
            Fault::Says(text) => format!("says\n{text}\n"),
            Fault::Hangs => "hangs\n".to_owned(),
            Fault::HangsAfter => "hangs-after\n".to_owned(),
            Fault::Slow => "slow\n".to_owned(),
        }
    }
}

/// Slurm's commands as one backend calls them.
pub(crate) struct Commands {
    folder: PathBuf,
}

impl Commands {
    /// Returns the folder of `sbatch` and the other commands, which are configured for this cluster.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Injects a fault into the next call of this command that gets no earlier fault.
    pub(crate) fn fault(&self, command: &str, fault: Fault<'_>) {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let at = MADE.fetch_add(1, Ordering::Relaxed);
        self.plant(&format!("{command}.{at:06}"), fault);
    }

    /// Injects a fault into every call of this command until `mend`.
    pub(crate) fn always(&self, command: &str, fault: Fault<'_>) {
        self.plant(&format!("{command}.always"), fault);
    }

    /// Removes the fault that `always` injected.
    pub(crate) fn mend(&self, command: &str) {
        fs::remove_file(self.folder.join("faults").join(format!("{command}.always"))).unwrap();
    }

    /// Writes a fault file atomically.
    fn plant(&self, name: &str, fault: Fault<'_>) {
        let folder = self.folder.join("faults");
        let temp_file = folder.join(format!("new-{name}"));
        fs::write(&temp_file, fault.file()).unwrap();
        fs::rename(temp_file, folder.join(name)).unwrap();
    }

    /// Returns the calls since the last request: for each, the command's name and its arguments.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let (calls, taken_path) = (self.folder.join("calls"), self.folder.join("calls.taken"));
        fs::rename(&calls, &taken_path).unwrap();
        empty(&calls);
        let text = String::from_utf8_lossy(&fs::read(taken_path).unwrap()).into_owned();
        let split_call =
            |call: &str| call.trim_end_matches('\u{1f}').split('\u{1f}').map(str::to_owned).collect();
        text.split('\u{1e}').skip(1).map(split_call).collect()
    }

    /// Returns how often this command was called since the last request for calls.
    pub(crate) fn count(&self, command: &str) -> usize {
        self.calls().iter().filter(|call| call[0] == command).count()
    }
}
