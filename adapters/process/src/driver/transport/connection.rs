//! [`Transport`] and [`Connection`]: how messages reach a program, and how it is ended. It must not know what
//! a message means.

use std::future::pending;
use std::io;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::timeout;

/// Time for a program to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// Time for the launcher to end the program and its children.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// A way to a program.
pub(crate) trait Transport: Send + Sync + 'static {
    /// Connects. Called within a runtime, on a thread that lives as long as the connection.
    fn connect(&self) -> io::Result<Connection>;
}

/// A connection to a program. Both directions carry one message per line.
pub(crate) struct Connection {
    pub(in crate::driver) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(in crate::driver) output: Box<dyn AsyncRead + Send + Unpin>,
    /// What the program logs.
    pub(in crate::driver) errors: Box<dyn AsyncRead + Send + Unpin>,
    /// Moves messages while it is polled. It never ends: a lost connection ends `output`.
    pub(in crate::driver) carrier: BoxFuture<'static, ()>,
    pub(in crate::driver) process: Option<Child>,
}

impl Connection {
    /// Creates a connection over pipes, which need no carrier.
    pub(crate) fn piped(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
        errors: impl AsyncRead + Send + Unpin + 'static,
        process: Option<Child>,
    ) -> Self {
        let (input, output, errors) = (Box::new(input), Box::new(output), Box::new(errors));
        Self { input, output, errors, carrier: pending().boxed(), process }
    }

    /// Asks the program to end, and ends it with all its children after a while. A service only loses the
    /// connection.
    pub(in crate::driver) async fn stop(mut self) {
        let Some(mut process) = self.process.take() else { return };
        let goodbye = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"shutdown\",\"params\":{}}\n";
        let _ = timeout(GRACE, self.input.write_all(goodbye)).await;
        drop(self.input);
        let _ = timeout(GRACE, process.wait()).await;
        end(process).await;
    }

    /// Ends the program and all its children now. Returns its exit status as text, if it ended by itself.
    pub(in crate::driver) async fn kill(mut self) -> Option<String> {
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
