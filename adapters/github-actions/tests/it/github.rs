//! The test GitHub: one process that all tests share. It is installed by `tests/run --only github`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The test GitHub, running. It stops when the input that is held here ends, with this process at the latest.
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
        // Out of the way of a signal that is meant for the tests.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port = said.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("it did not start: {said}"));
        Self { port: port.parse().unwrap(), _process: process }
    }
}
