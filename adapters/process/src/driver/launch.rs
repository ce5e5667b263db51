//! Starts a program behind the launcher, with an almost empty environment, and ends it. It must not put
//! config or secrets into arguments or the environment.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::config::{KIND, Limits};
use crate::launcher::{HELPER_ROLE, WATCH};

/// Environment variables that every program inherits.
const ENVIRONMENT: [&str; 4] = ["PATH", "LANG", "TZ", "HOME"];
/// Time for a program to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// Time for the launcher to end the program and its children.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// How a program is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// A program with the launcher's role.
    pub(crate) launcher: PathBuf,
    pub(crate) command: Vec<String>,
    /// Names of further environment variables that it inherits.
    pub(crate) env: Vec<String>,
    pub(crate) limits: Limits,
}

/// A source of running programs.
pub(super) trait Start: Send + Sync + 'static {
    /// Starts the program. Called within a runtime, on a thread that lives as long as the program.
    fn start(&self) -> io::Result<Running>;
}

/// A running program.
pub(super) struct Running {
    pub(super) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) errors: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) process: Option<Child>,
}

impl Start for Launch {
    fn start(&self) -> io::Result<Running> {
        let limits = serde_json::to_string(&self.limits)?;
        let mut child = Command::new(&self.launcher)
            .args([HELPER_ROLE, KIND, WATCH, &std::process::id().to_string(), &limits])
            .args(&self.command)
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("the program has no pipes"));
        };
        let (input, output, errors) = (Box::new(input), Box::new(output), Box::new(errors));
        Ok(Running { input, output, errors, process: Some(child) })
    }
}

impl Launch {
    fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        std::env::vars_os().filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| ENVIRONMENT.contains(&name) || self.env.iter().any(|n| n == name))
        })
    }
}

impl Running {
    /// Asks the program to end, and ends it with all its children after a while.
    pub(super) async fn stop(mut self) {
        let goodbye = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"shutdown\",\"params\":{}}\n";
        let _ = timeout(GRACE, self.input.write_all(goodbye)).await;
        drop(self.input);
        if let Some(mut process) = self.process.take() {
            let _ = timeout(GRACE, process.wait()).await;
            end(process).await;
        }
    }

    /// Ends the program and all its children now. Returns its exit status as text, if it ended by itself.
    pub(super) async fn kill(mut self) -> Option<String> {
        let mut process = self.process.take()?;
        // The launcher ends a moment after the program.
        let status = timeout(Duration::from_millis(200), process.wait()).await.ok().and_then(Result::ok);
        if status.is_none() {
            end(process).await;
        }
        status.map(|status| status.to_string())
    }
}

/// Ends the launcher, which ends the program and its children first.
async fn end(mut process: Child) {
    let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    // Without an id, it has ended and is reaped.
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
        if timeout(KILL_GRACE, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
    }
}
