//! Serves a router on a listener: accepts connections up to the limit and shuts them down gracefully.
//! [`super::connection`] serves each connection. It must not know what requests ask for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::capacity::Capacity;
use super::connection::Connection;
use super::head_scanner::LargeHeads;
use super::idle::IdleConnections;
use super::per_address::ConnectionCounter;
use super::scheduler::ConnectionScheduler;
use crate::auth::Peer;
use crate::mcp::transport::http::validation::access_control::AccessControl;

/// Delay after a failed accept, usually because file descriptors are exhausted. No delay if the client closed
/// the connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Connections allowed above the limit while evicted ones close.
const MAX_CLOSING: usize = 4;

/// Serves a router until `shutdown` is cancelled. It then accepts no connection, answers the pending requests
/// and returns. Dropping the future closes all remaining connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    access_control: Arc<AccessControl>,
    shutdown: CancellationToken,
) {
    let scheduler = ConnectionScheduler::default();
    tokio::select! {
        () = serve_scheduled(listener, router, access_control, shutdown, &scheduler) => {}
        () = scheduler.run() => {}
    }
}

async fn serve_scheduled(
    listener: TcpListener,
    router: Router,
    access_control: Arc<AccessControl>,
    shutdown: CancellationToken,
    scheduler: &ConnectionScheduler,
) {
    // The connections belong to this set, so none outlives this function.
    let (mut connections, connection_counter, mut capacity) =
        (JoinSet::new(), ConnectionCounter::default(), Capacity::of_process());
    let (idle, large_heads) = (IdleConnections::default(), LargeHeads::default());
    loop {
        let limit = capacity.fit(access_control.rules().limits.connections);
        let is_full = connections.len() >= limit;
        let next = async {
            if is_full {
                idle.evictable().await;
            }
            listener.accept().await
        };
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = next, if connections.len() < limit.saturating_add(MAX_CLOSING) => match accepted {
                Ok((socket, address)) => {
                    let rules = access_control.rules();
                    // The connections of a proxy belong to many callers.
                    let is_counted = !rules.proxies.has(address.ip());
                    let slot = is_counted.then(|| connection_counter.take(address.ip(), rules.limits.per_address));
                    // A client above its limit gets no response: an explanation would be work that it can
                    // make the server do.
                    if let Some(None) = slot {
                        continue;
                    }
                    if is_full {
                        idle.evict_oldest();
                    }
                    let peer = Peer { address: Some(address), certificate: None };
                    let (access_control, router, shutdown) = (Arc::clone(&access_control), router.clone(), shutdown.clone());
                    let (idle, large_heads) = (idle.clone(), large_heads.clone());
                    let queue_position = scheduler.join();
                    let connection =
                        Connection { peer, rules, access_control, router, shutdown, idle, large_heads, queue_position };
                    connections.spawn(async move {
                        connection.serve(socket).await;
                        drop(slot);
                    });
                    // Requests that are ready run before the next connection is accepted.
                    tokio::task::yield_now().await;
                }
                Err(error) => handle_accept_error(&error, &idle).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn handle_accept_error(error: &io::Error, idle: &IdleConnections) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted; trying again");
        // Other files and sockets may have used the descriptors reserved for accepting.
        idle.evict_oldest();
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    }
}
