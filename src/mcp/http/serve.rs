//! Serves a router on a listener: accepts connections up to the limit and shuts them down gracefully.
//! [`super::connection`] serves each connection. It must not know what requests ask for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::access_control::AccessControl;
use super::capacity::Capacity;
use super::connection::Connection;
use super::connection_limit::ConnectionCounter;
use super::idle::IdleConnections;
use super::scan::LargeHeads;
use super::scheduler::ConnectionScheduler;
use crate::auth::Peer;

/// Delay after a failed accept, usually because file descriptors are exhausted. No delay if the client closed
/// the connection.
const BREATH: Duration = Duration::from_millis(200);

/// Connections allowed above the limit while evicted ones close.
const CLOSING: usize = 4;

/// Serves a router until `shutdown` is cancelled. It then accepts no connection, answers the pending requests
/// and returns. Dropping the future closes all remaining connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    entrance: Arc<AccessControl>,
    shutdown: CancellationToken,
) {
    let scheduler = ConnectionScheduler::default();
    tokio::select! {
        () = serve_scheduled(listener, router, entrance, shutdown, &scheduler) => {}
        () = scheduler.run() => {}
    }
}

async fn serve_scheduled(
    listener: TcpListener,
    router: Router,
    entrance: Arc<AccessControl>,
    shutdown: CancellationToken,
    scheduler: &ConnectionScheduler,
) {
    // The connections belong to this set, so none outlives this function.
    let (mut connections, seats, mut capacity) =
        (JoinSet::new(), ConnectionCounter::default(), Capacity::of_process());
    let (idle, large_heads) = (IdleConnections::default(), LargeHeads::default());
    loop {
        let most = capacity.fit(entrance.rules().limits.connections);
        let full = connections.len() >= most;
        let next = async {
            if full {
                idle.evictable().await;
            }
            listener.accept().await
        };
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = next, if connections.len() < most.saturating_add(CLOSING) => match accepted {
                Ok((socket, address)) => {
                    let rules = entrance.rules();
                    // The connections of a proxy belong to many callers.
                    let counted = !rules.proxies.has(address.ip());
                    let seat = counted.then(|| seats.take(address.ip(), rules.limits.per_address));
                    // A client above its limit gets no response: an explanation would be work that it can
                    // make the server do.
                    if let Some(None) = seat {
                        continue;
                    }
                    if full {
                        idle.evict_oldest();
                    }
                    let peer = Peer { address: Some(address), certificate: None };
                    let (entrance, router, shutdown) = (Arc::clone(&entrance), router.clone(), shutdown.clone());
                    let (idle, large_heads) = (idle.clone(), large_heads.clone());
                    let scheduled = scheduler.join();
                    let connection =
                        Connection { peer, rules, entrance, router, shutdown, idle, large_heads, scheduled };
                    connections.spawn(async move {
                        connection.serve(socket).await;
                        drop(seat);
                    });
                    // Requests that are ready run before the next connection is accepted.
                    tokio::task::yield_now().await;
                }
                Err(error) => unaccepted(&error, &idle).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn unaccepted(error: &io::Error, idle: &IdleConnections) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted; trying again");
        // Other files and sockets may have used the descriptors reserved for accepting.
        idle.evict_oldest();
        tokio::time::sleep(BREATH).await;
    }
}
