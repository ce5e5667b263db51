//! Serves a router on a listener: accepts connections, as many as there may be, and ends them in order. What happens on
//! one is in [`super::connection`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::entrance::Entrance;
use super::seats::Seats;
use crate::auth::Peer;

/// How long to wait when the system gives no more connections (out of file descriptors, as a rule).
const BREATH: Duration = Duration::from_millis(200);

/// Serves a router until `shutdown` is cancelled; then no connection is accepted any more, requests in hand are
/// answered, and it returns once all of that is done. Dropped, it cuts what is still open.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    entrance: Arc<Entrance>,
    shutdown: CancellationToken,
) {
    // The connections belong to this set: none outlives this function.
    let (mut connections, seats) = (JoinSet::new(), Seats::default());
    loop {
        let full = connections.len() >= entrance.rules().limits.connections;
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((socket, address)) => {
                    let rules = entrance.rules();
                    // Those of a proxy are many callers'.
                    let counted = !rules.proxies.has(address.ip());
                    let seat = counted.then(|| seats.take(address.ip(), rules.limits.per_address));
                    // Who has too many gets nothing more: to say why would be work that they could have us do.
                    if let Some(None) = seat {
                        continue;
                    }
                    let peer = Peer { address: Some(address), certificate: None };
                    let (entrance, router, shutdown) = (Arc::clone(&entrance), router.clone(), shutdown.clone());
                    let connection = Connection { peer, rules, entrance, router, shutdown };
                    connections.spawn(async move {
                        connection.serve(socket).await;
                        drop(seat);
                    });
                }
                Err(error) => unaccepted(&error).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn unaccepted(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted; trying again");
        tokio::time::sleep(BREATH).await;
    }
}
