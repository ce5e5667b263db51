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
        let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let install_dir = target_dir.join("github");
        assert!(
            install_dir.join("node_modules").exists(),
            "the test GitHub is not installed: run tests/run --only github"
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/github/serve.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(install_dir);
        // A signal for the tests must not reach it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line
            .trim()
            .strip_prefix("ready ")
            .unwrap_or_else(|| panic!("the test GitHub did not start: {line}"));
        Self { port: port.parse().unwrap(), _process: process }
    }
}
