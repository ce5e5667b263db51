//! [`Transport`]: how messages reach a program: over the pipes of a child process, or by HTTP to a service. It
//! must not know what a message means.

pub(crate) mod child;
pub(crate) mod service;
pub(crate) mod user;

use std::future::pending;
use std::io;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::timeout;

/// Time for a program to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// A way to a program.
pub(crate) trait Transport: Send + Sync + 'static {
    /// Connects. Called within a runtime, on a thread that lives as long as the connection.
    fn connect(&self) -> io::Result<Connection>;
}

/// A connection to a program. Both directions carry one message per line.
pub(crate) struct Connection {
    pub(super) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    /// What the program logs.
    pub(super) errors: Box<dyn AsyncRead + Send + Unpin>,
    /// Moves messages while it is polled. It never ends: a lost connection ends `output`.
    pub(super) carrier: BoxFuture<'static, ()>,
    pub(super) process: Option<Child>,
}

impl Connection {
    /// Creates a connection over pipes, which need no carrier.
    pub(super) fn piped(
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
    pub(super) async fn stop(mut self) {
        let Some(mut process) = self.process.take() else { return };
        let goodbye = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"shutdown\",\"params\":{}}\n";
        let _ = timeout(GRACE, self.input.write_all(goodbye)).await;
        drop(self.input);
        let _ = timeout(GRACE, process.wait()).await;
        child::end(process).await;
    }

    /// Ends the program and all its children now. Returns its exit status as text, if it ended by itself.
    pub(super) async fn kill(mut self) -> Option<String> {
        let mut process = self.process.take()?;
        // The launcher ends a moment after the program.
        let status = timeout(Duration::from_millis(200), process.wait()).await.ok().and_then(Result::ok);
        if status.is_none() {
            child::end(process).await;
        }
        status.map(|status| status.to_string())
    }
}
