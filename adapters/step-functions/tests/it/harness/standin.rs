//! Emulators of AWS: third-party servers, each a single process that all tests share. `tests/run --only
//! standins` installs them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Emulator product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    LocalStack,
    MiniStack,
}

/// Running emulator. Its supervisor stops it when the pipe to its stdin closes, at the latest when this
/// process ends.
pub(crate) struct Standin {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    _supervisor: Child,
}

impl Standin {
    /// Returns the shared emulator of this kind.
    pub(crate) fn shared(kind: Kind) -> &'static Standin {
        static LOCALSTACK: OnceLock<Standin> = OnceLock::new();
        static MINISTACK: OnceLock<Standin> = OnceLock::new();
        match kind {
            Kind::LocalStack => LOCALSTACK.get_or_init(|| Standin::start(kind, "localstack")),
            Kind::MiniStack => MINISTACK.get_or_init(|| Standin::start(kind, "ministack")),
        }
    }

    fn start(kind: Kind, name: &str) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let python = target.join("standins").join(name).join("bin/python");
        assert!(python.exists(), "{name} is not installed: run tests/run --only standins");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standins/serve.py");
        let folder = tempfile::Builder::new().prefix("taskbridge-standin-").tempdir().unwrap().keep();
        let mut command = Command::new(python);
        command.arg("-B").arg(script).arg(name).arg(&folder);
        // A signal for the tests must not reach it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready_line = String::new();
        BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut ready_line).unwrap();
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let port =
            ready_line.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("{name} did not start: {log}"));
        Self { kind, port: port.parse().unwrap(), _supervisor: supervisor }
    }
}
