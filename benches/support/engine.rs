//! The simulated engine as a separate process, for bridges that share their tasks, because any of them may
//! poll any job. It runs next to the client, so that no figure includes its usage.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::Result;

/// A running engine.
pub(crate) struct Engine {
    process: Child,
    /// The address on which it listens.
    pub(crate) address: String,
}

impl Engine {
    /// Starts an engine.
    pub(crate) fn start() -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskbridge"));
        command.args(["adapter-helper", "sim", "--listen", "127.0.0.1:0"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut engine = Self { address: String::new(), process };
        let mut line = String::new();
        if let Some(output) = engine.process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim_end().strip_prefix("listening on ");
        engine.address = address.ok_or_else(|| format!("the engine says {line:?}"))?.to_owned();
        Ok(engine)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
