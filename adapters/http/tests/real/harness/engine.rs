//! [`Engine`]: a real engine, started by `tests/http/serve.py`, and [`Shared`]: one for all tests of a file.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use taskbridge_sdk::JobKey;

/// An engine that tests share. The first of them starts it.
pub(crate) struct Shared {
    name: &'static str,
    engine: OnceLock<Engine>,
}

impl Shared {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, engine: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> &Engine {
        tokio::task::block_in_place(|| self.engine.get_or_init(|| Engine::start(self.name)))
    }
}

/// Running engine. It stops when the pipe to its stdin closes, at the latest when this process ends.
pub(crate) struct Engine {
    pub(crate) port: u16,
    /// Folder of the engine.
    pub(crate) folder: PathBuf,
    _supervisor: Child,
}

impl Engine {
    fn start(name: &str) -> Self {
        let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("http");
        let is_installed = installed.join(name).exists();
        assert!(
            is_installed,
            "{name} is not installed: run tests/http/install {} {name}",
            installed.display()
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/http/serve.py");
        let folder = tempfile::Builder::new().prefix("taskbridge-http-").tempdir().unwrap().keep();
        let mut command = Command::new("python3");
        command.arg("-B").arg(script).arg(name).arg(installed).arg(&folder);
        // A signal for the tests must not reach it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        let port =
            line.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("{name} did not start: {}", log()));
        Self { port: port.parse().unwrap(), folder, _supervisor: supervisor }
    }

    /// Counts the lines that jobs with this key have written into `starts/KEY`.
    pub(crate) fn count_starts(&self, key: &JobKey) -> usize {
        let starts = fs::read_to_string(self.folder.join("starts").join(key.as_str()));
        starts.unwrap_or_default().lines().count()
    }
}
