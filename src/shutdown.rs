//! How the server is told to stop: SIGTERM or SIGINT once to stop in order, twice to leave at once.

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

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
