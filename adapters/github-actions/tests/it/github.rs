//! The test GitHub: a single process that all tests share. `tests/run --only github` installs it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Running test GitHub. It stops when the pipe to its stdin closes, at the latest when this process ends.
pub(crate) struct Github {
    pub(crate) port: u16,
    _process: Child,
}

impl Github {
    pub(crate) fn shared() -> &'static Github {
        static GITHUB: OnceLock<Github> = OnceLock::new();
        GITHUB.get_or_init(Github::start)
    }

    fn start() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let installed = target.join("github");
        assert!(installed.join("node_modules").exists(), "it is not installed: run tests/run --only github");
        let serve = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/github/serve.mjs");
        let mut command = Command::new("node");
        command.arg(serve).arg(installed);
        // A signal for the tests must not reach it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port = said.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("it did not start: {said}"));
        Self { port: port.parse().unwrap(), _process: process }
    }
}
