//! Serves a router on a listener: connections with their limits, and their orderly end.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a client may take for the head of a request; also how long an unused connection is kept.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

/// How many connections are served at once. Further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 16_384;

/// How long to wait when the system gives no more connections (out of file descriptors, as a rule).
const BREATH: Duration = Duration::from_millis(200);

/// Serves a router until `shutdown` is cancelled; then no connection is accepted any more, requests in hand are
/// answered, and it returns once all of that is done. Dropped, it cuts what is still open.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    // The connections belong to this set: none outlives this function.
    let mut connections = JoinSet::new();
    loop {
        let full = connections.len() >= MOST_CONNECTIONS;
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), shutdown.clone()));
                }
                Err(error) => unaccepted(&error).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Without this, an event can wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke");
    }
}

async fn unaccepted(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted; trying again");
        tokio::time::sleep(BREATH).await;
    }
}
