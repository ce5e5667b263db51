//! Serves a router on a listener: connections with their limits, and their orderly end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::auth::Peer;

use super::lasting::{Events, Takeover, pour};

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
                Ok((stream, address)) => {
                    let peer = Peer { address: Some(address) };
                    connections.spawn(connection(stream, peer, router.clone(), shutdown.clone()));
                }
                Err(error) => unaccepted(&error).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(socket: TcpStream, peer: Peer, router: Router, shutdown: CancellationToken) {
    // Without this, an event can wait for the acknowledgement of the one before.
    let _ = socket.set_nodelay(true);
    // In a box, so that a stream that lasts does not keep the room that the requests before it took.
    let ended = match Box::pin(requests(socket, peer, router, shutdown)).await {
        Ok(None) => return,
        Ok(Some((socket, events))) => pour(socket, events).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke");
    }
}

/// Answers requests until the connection closes, or becomes a stream that lasts.
async fn requests(
    socket: TcpStream,
    peer: Peer,
    router: Router,
    shutdown: CancellationToken,
) -> hyper::Result<Option<(TcpStream, Events)>> {
    let takeover = Takeover::default();
    let service = {
        let (router, takeover) = (TowerToHyperService::new(router), takeover.clone());
        service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let (version, takeover) = (request.version(), takeover.clone());
            let answer = router.call(request);
            async move { answer.await.map(|response| takeover.of(version, response)) }
        })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(takeover.watch(socket)), service);
    let mut stops = std::pin::pin!(shutdown.cancelled());
    let mut stopping = false;
    let events = poll_fn(|context| {
        if !stopping && stops.as_mut().poll(context).is_ready() {
            stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        match Pin::new(&mut connection).poll(context) {
            Poll::Ready(ended) => Poll::Ready(ended.map(|()| None)),
            Poll::Pending => takeover.take().map_or(Poll::Pending, |events| Poll::Ready(Ok(Some(events)))),
        }
    })
    .await?;
    Ok(events.map(|events| (connection.into_parts().io.into_inner().into_socket(), events)))
}

async fn unaccepted(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "no connection can be accepted; trying again");
        tokio::time::sleep(BREATH).await;
    }
}
