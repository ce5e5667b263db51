//! What the server is told by signals: SIGTERM or SIGINT once to stop in order, twice to leave at once; SIGHUP to read its
//! config again, or to stop in order if that is how its terminal went away. SIGXFSZ says nothing.

use std::io::IsTerminal as _;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two steps of an end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown {
    /// Stop accepting, end streams, finish what is in hand.
    pub(crate) begin: CancellationToken,
    /// Leave as you are: what is in hand is taken up again by the next process.
    pub(crate) at_once: CancellationToken,
}

/// Listens for signals until `stop` has been told twice.
///
/// # Errors
/// If the system gives no signals.
pub(crate) fn listen(stop: Shutdown) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        next(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping; a second signal leaves at once");
        stop.begin.cancel();
        next(&mut terminate, &mut interrupt).await;
        stop.at_once.cancel();
    })
}

/// Has a write beyond the limit on file sizes (`RLIMIT_FSIZE`) fail like one to a full disk; without that, its signal would
/// end the process. Programs that are started from here get the signal as ever.
///
/// # Errors
/// If the system gives no signals.
pub(crate) fn outlive_file_limits() -> std::io::Result<()> {
    // The handler stays installed for good; its stream is not needed.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// SIGHUP.
pub(crate) struct Hangups {
    signal: Signal,
    at_terminal: bool,
    stop: CancellationToken,
}

impl Hangups {
    /// Listens for it from now on; without that, it would end the process.
    ///
    /// # Errors
    /// If the system gives no signals.
    pub(crate) fn listen(stop: &Shutdown) -> std::io::Result<Self> {
        let signal = signal(SignalKind::hangup())?;
        Ok(Self { signal, at_terminal: is_at_terminal(), stop: stop.begin.clone() })
    }

    /// Waits until the config is to be read again.
    pub(crate) async fn next(&mut self) {
        loop {
            match self.signal.recv().await {
                // Nobody is there any more to see what it says, or to stop it with Ctrl-C.
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

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
