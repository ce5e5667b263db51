//! A real Slurm cluster for tests, run by `serve.py` beside this file. `tests/run --only packages` installs what it is made of.
//! It must not know the adapter: the crates that include this file connect it.

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

/// A cluster that runs. Everything of it stops when the input that is held here ends, with this process at the latest.
pub(crate) struct Cluster {
    /// Where all of it lies. Tests may keep files of their own in its `work`.
    pub(crate) folder: PathBuf,
    /// Who submits.
    pub(crate) user: String,
    told: Value,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    /// `None` once it is to end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    process: Child,
}

/// How slurmrestd is reached.
#[derive(Clone)]
pub(crate) struct Rest {
    /// By this socket, as whoever runs the tests.
    pub(crate) socket: PathBuf,
    /// By this address, with the token.
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Cluster {
    /// The one with accounting and slurmrestd that all tests of a binary share. Nobody may stop a part of it.
    pub(crate) fn shared() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(|| Cluster::start(&["--accounting", "--rest", "--cpus", "200"]))
    }

    /// The one without any accounting that all tests of a binary share. Nobody may stop a part of it.
    pub(crate) fn without_accounting() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(|| Cluster::start(&["--rest", "--cpus", "200"]))
    }

    /// One of the caller's own; `serve.py --help` has the options.
    pub(crate) fn start(options: &[&str]) -> Self {
        let serve = Path::new(file!()).with_file_name("serve.py");
        // The path of this file is relative to the workspace, in which there may be a package in a folder of its own.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|root| root.join(&serve).exists());
        let mut command = Command::new("python3");
        command.arg("-B").arg(root.expect("the tests run in the tree that they were built in").join(serve));
        // Out of the way of a signal that is meant for the tests.
        command.args(options).process_group(0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut keeper = Keeper { orders: Some(orders), answers: BufReader::new(answers), process };
        let said = keeper.line();
        let told = said.strip_prefix("ready ").unwrap_or_else(|| panic!("the cluster did not start: {said}"));
        let told: Value = serde_json::from_str(told).unwrap();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        Self { folder: text("folder").into(), user: text("user"), told, keeper: Mutex::new(keeper) }
    }

    /// Does something to one of its servers: `kill slurmctld`, `stop`, `start`, `freeze`, `thaw`.
    pub(crate) fn order(&self, order: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        writeln!(keeper.orders.as_mut().unwrap(), "{order}").unwrap();
        let said = keeper.line();
        assert_eq!(said, "ok", "{order}");
    }

    /// How its slurmrestd is reached, if it has one.
    pub(crate) fn rest(&self) -> Rest {
        let text =
            |name: &str| self.told["rest"][name].as_str().expect("it was started with --rest").to_owned();
        Rest { socket: text("socket").into(), address: text("address"), token: text("token") }
    }

    /// Its config, for `SLURM_CONF`.
    pub(crate) fn conf(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// Slurm's commands in a folder of their own, where this caller alone plants faults and counts.
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

    /// What one of Slurm's own commands says, past all that is planted. It must succeed.
    pub(crate) fn run(&self, name: &str, arguments: &[&str]) -> String {
        let done = self.try_run(name, arguments);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{name} {arguments:?}: {said}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// The same, where it may fail.
    pub(crate) fn try_run(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(name);
        command.args(arguments).env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command.output().unwrap()
    }
}

impl Keeper {
    fn line(&mut self) -> String {
        let mut said = String::new();
        self.answers.read_line(&mut said).unwrap();
        said.trim_end().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(keeper.orders.take());
        // It clears up before it ends.
        let _ = keeper.process.wait();
    }
}

/// An empty file to which the commands of every user can write.
fn empty(path: &Path) {
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// What a call of one of Slurm's commands does instead of what it should (`tests/slurm/command`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault<'a> {
    /// It is done, and the reply is lost.
    Lost,
    /// It is not done, with these words on standard error.
    Refused(&'a str),
    /// It is not done, and these words are on standard output.
    Says(&'a str),
    /// It is not done, without end.
    Hangs,
    /// It is done, and never says so.
    HangsAfter,
    /// It takes five seconds longer.
    Slow,
}

impl Fault<'_> {
    fn file(self) -> String {
        match self {
            Fault::Lost => "lost\n".to_owned(),
            Fault::Refused(words) => format!("refused\n{words}\n"),
            Fault::Says(words) => format!("says\n{words}\n"),
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
    /// Where `sbatch` and the others lie. They know their cluster by themselves.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Has the next call of this command that finds no earlier fault go wrong.
    pub(crate) fn fault(&self, command: &str, fault: Fault<'_>) {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let at = MADE.fetch_add(1, Ordering::Relaxed);
        self.plant(&format!("{command}.{at:06}"), fault);
    }

    /// Has every call of this command go wrong until it is mended.
    pub(crate) fn always(&self, command: &str, fault: Fault<'_>) {
        self.plant(&format!("{command}.always"), fault);
    }

    /// Takes away what `always` planted.
    pub(crate) fn mend(&self, command: &str) {
        fs::remove_file(self.folder.join("faults").join(format!("{command}.always"))).unwrap();
    }

    /// A fault is there as a whole or not at all.
    fn plant(&self, name: &str, fault: Fault<'_>) {
        let folder = self.folder.join("faults");
        let unseen = folder.join(format!("new-{name}"));
        fs::write(&unseen, fault.file()).unwrap();
        fs::rename(unseen, folder.join(name)).unwrap();
    }

    /// The calls since this was last asked: each the command's name and what it was given.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let (calls, taken) = (self.folder.join("calls"), self.folder.join("calls.taken"));
        fs::rename(&calls, &taken).unwrap();
        empty(&calls);
        let text = String::from_utf8_lossy(&fs::read(taken).unwrap()).into_owned();
        let words = |call: &str| call.trim_end_matches('\u{1f}').split('\u{1f}').map(str::to_owned).collect();
        text.split('\u{1e}').skip(1).map(words).collect()
    }

    /// How often this command was called since `calls` was last asked.
    pub(crate) fn count(&self, command: &str) -> usize {
        self.calls().iter().filter(|call| call[0] == command).count()
    }
}
