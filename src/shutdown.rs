//! Signal handling: the first SIGTERM or SIGINT starts a graceful shutdown, the second exits immediately.
//! SIGHUP reloads the config, or starts a graceful shutdown if the process was started at a terminal that is
//! gone. SIGXFSZ is ignored.

use std::io::IsTerminal as _;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two stages of a shutdown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown {
    /// Graceful: stop accepting, end streams, finish work in progress.
    pub(crate) graceful: CancellationToken,
    /// Immediate: exit now; the next process resumes the work in progress.
    pub(crate) immediate: CancellationToken,
}

/// Listens for signals until both stages of `stop` are triggered.
///
/// # Errors
/// If a signal handler cannot be installed.
pub(crate) fn listen(stop: Shutdown) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        next_signal(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping; a second signal exits immediately");
        stop.graceful.cancel();
        next_signal(&mut terminate, &mut interrupt).await;
        stop.immediate.cancel();
    })
}

/// Makes a write beyond the file size limit (`RLIMIT_FSIZE`) fail like one to a full disk; otherwise its
/// signal would terminate the process. Child processes keep the default behaviour of the signal.
///
/// # Errors
/// If the signal handler cannot be installed.
pub(crate) fn ignore_file_size_signal() -> std::io::Result<()> {
    // The handler stays installed; its stream is not needed.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// A SIGHUP listener.
pub(crate) struct Hangups {
    signal: Signal,
    at_terminal: bool,
    stop: CancellationToken,
}

impl Hangups {
    /// Installs the handler. Without it, SIGHUP would terminate the process.
    ///
    /// # Errors
    /// If the signal handler cannot be installed.
    pub(crate) fn listen(stop: &Shutdown) -> std::io::Result<Self> {
        let signal = signal(SignalKind::hangup())?;
        Ok(Self { signal, at_terminal: is_at_terminal(), stop: stop.graceful.clone() })
    }

    /// Waits until the config must be read again.
    pub(crate) async fn next(&mut self) {
        loop {
            match self.signal.recv().await {
                // The terminal is gone, so no user can see the output or press Ctrl-C.
                Some(()) if self.at_terminal && !is_at_terminal() => self.stop.cancel(),
                Some(()) => return,
                None => std::future::pending().await,
            }
        }
    }
}

fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

async fn next_signal(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
