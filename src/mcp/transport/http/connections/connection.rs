//! [`Connection`]: serves one connection. It answers requests one after the other, validates them and applies
//! timeouts, and may end as a detached stream. It must not know what the requests ask for.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

use axum::Router;
use axum::http::HeaderMap;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::detached_stream::{Events, Takeover, write_events};
use super::head_scanner::{Findings, HeadScanner, LargeHeads};
use super::idle::IdleConnections;
use super::limits::ConnectionLimits;
use super::scheduler::ScheduledConnection;
use super::socket::Socket;
use super::timeouts::{GuardedBody, HeaderTimeout, TimeoutBody, TimeoutSocket};
use super::tls::Tls;
use crate::auth::Peer;
use crate::mcp::transport::http::validation::access_control::{AccessControl, AccessRules};
use crate::mcp::transport::http::validation::head;

/// The number of headers that the HTTP library parses without a heap allocation.
const DEFAULT_HEADERS: usize = 100;

/// The smallest buffer that the HTTP library accepts.
const MIN_BUFFER_SIZE: usize = 8 * 1024;

/// Limit of unsent response bytes that the kernel buffers per connection. Without a limit, it can be
/// megabytes.
const MAX_UNSENT: u32 = 64 * 1024;

/// What one connection needs to serve its requests.
pub(in crate::mcp::transport::http) struct Connection {
    pub(in crate::mcp::transport::http) peer: Peer,
    /// The rules that were in force when the connection was accepted.
    pub(in crate::mcp::transport::http) rules: Arc<AccessRules>,
    /// Where new rules are published.
    pub(in crate::mcp::transport::http) access_control: Arc<AccessControl>,
    pub(in crate::mcp::transport::http) router: Router,
    pub(in crate::mcp::transport::http) shutdown: CancellationToken,
    /// The idle connections. This one joins them while it has no request.
    pub(in crate::mcp::transport::http) idle: IdleConnections,
    pub(in crate::mcp::transport::http) large_heads: LargeHeads,
    /// Its position in the fair queue of all connections.
    pub(in crate::mcp::transport::http) queue_position: ScheduledConnection,
}

impl Connection {
    /// Serves the connection until it ends.
    pub(in crate::mcp::transport::http) async fn serve(mut self, socket: TcpStream) {
        // Without this, an event can wait for the acknowledgement of the previous one.
        let _ = socket.set_nodelay(true);
        limit_unsent(&socket);
        let header_timeout = HeaderTimeout::begin(&self.idle);
        let socket = match self.rules.tls.clone() {
            None => Socket::Plain(TimeoutSocket::new(socket, &self.rules.limits, header_timeout.clone())),
            Some(tls) => {
                let handshake_timeout = self.rules.limits.handshake_timeout;
                let evicted = header_timeout.evicted();
                let handshake = tokio::select! {
                    handshake = timeout(handshake_timeout, Box::pin(self.secure(&tls, socket, &header_timeout))) => handshake,
                    () = evicted.cancelled() => return,
                };
                let Ok(Some(socket)) = handshake else { return };
                header_timeout.restart();
                socket
            }
        };
        let (peer, rules, access_control) =
            (self.peer.clone(), Arc::clone(&self.rules), Arc::clone(&self.access_control));
        // Boxed, so that a detached stream does not keep the memory of the earlier requests.
        let result = match Box::pin(self.serve_requests(socket, header_timeout.clone())).await {
            Ok(None) => return,
            Ok(Some((socket, events))) => {
                header_timeout.set_busy();
                tokio::select! {
                    result = write_events(socket, events) => result.map_err(|error| error.to_string()),
                    () = access_control.wait_until_disallowed(&peer, &rules) => return,
                }
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = result {
            tracing::trace!(%error, "a connection broke");
        }
    }

    /// Performs the TLS handshake, and stores the client's certificate. Returns `None` if the handshake
    /// fails.
    async fn secure(
        &mut self,
        tls: &Tls,
        socket: TcpStream,
        header_timeout: &HeaderTimeout,
    ) -> Option<Socket> {
        if !Tls::starts_with_handshake(&socket).await.ok()? {
            return None;
        }
        let socket = TimeoutSocket::new(socket, &self.rules.limits, header_timeout.clone());
        match tls.accept(socket).await {
            Ok((stream, certificate)) => {
                self.peer.certificate = certificate.map(Arc::new);
                Some(Socket::Secured(Box::new(stream)))
            }
            Err(error) => {
                tracing::debug!(peer = ?self.peer.address, %error, "a connection could not be secured");
                None
            }
        }
    }

    /// Answers requests until the connection closes, or returns the socket and the events of a detached
    /// stream.
    async fn serve_requests(
        self,
        socket: Socket,
        header_timeout: HeaderTimeout,
    ) -> hyper::Result<Option<(Socket, Events)>> {
        let Self { peer, rules, access_control, router, shutdown, large_heads, mut queue_position, .. } =
            self;
        let last_accepted = Arc::new(AtomicBool::new(false));
        let (takeover, findings, evicted) =
            (Takeover::default(), Arc::<Findings>::default(), header_timeout.evicted());
        let service = {
            let (router, takeover) = (TowerToHyperService::new(router), takeover.clone());
            let (header_timeout, rules, peer) = (header_timeout.clone(), Arc::clone(&rules), peer.clone());
            let (findings, last_accepted) = (Arc::clone(&findings), Arc::clone(&last_accepted));
            service_fn(move |mut request: hyper::Request<Incoming>| {
                let peer = request_peer(&peer, &rules, request.headers());
                request.extensions_mut().insert(peer);
                let (version, takeover, request_guard) =
                    (request.version(), takeover.clone(), header_timeout.begin_request());
                let rejection = head::reject_invalid(&request, &rules.limits, findings.next_has_bare_lf());
                let is_last = head::is_last(&request) || findings.is_last();
                let request = request.map(|body| TimeoutBody::new(body, &rules.limits));
                let response_future = rejection.is_none().then(|| router.call(request));
                let last_accepted = Arc::clone(&last_accepted);
                async move {
                    let mut response = match (rejection, response_future) {
                        (None, Some(response_future)) => response_future.await?,
                        (rejection, _) => rejection.unwrap_or_default(),
                    };
                    let status = response.status();
                    last_accepted
                        .store(!status.is_client_error() && !status.is_server_error(), Ordering::Relaxed);
                    if is_last {
                        head::close(&mut response);
                    }
                    let response = takeover.of(version, response);
                    Ok::<_, Infallible>(response.map(|body| GuardedBody::new(body, request_guard)))
                }
            })
        };
        let scanner = HeadScanner::new(findings, &large_heads, rules.limits.head_bytes);
        let socket = TokioIo::new(takeover.watch(socket, scanner));
        let mut connection = builder(&rules.limits).serve_connection(socket, service);
        let mut stop_requested = std::pin::pin!(async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = access_control.wait_until_disallowed(&peer, &rules) => {}
                () = evicted.cancelled() => {}
            }
        });
        let mut is_stopping = false;
        let mut header_timer = std::pin::pin!(sleep_until(Instant::now()));
        let events = poll_fn(|context| {
            // A connection whose last response was no error is polled at once. The others, also new ones,
            // take turns.
            if !last_accepted.load(Ordering::Relaxed) {
                ready!(queue_position.poll_turn(context));
            }
            if !is_stopping && stop_requested.as_mut().poll(context).is_ready() {
                is_stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(result.map(|()| None));
            }
            if let Some(events) = takeover.take() {
                return Poll::Ready(Ok(Some(events)));
            }
            if let Some(started_at) = header_timeout.since() {
                // The HTTP library would wait for the rest of an incomplete head.
                if evicted.is_cancelled() {
                    return Poll::Ready(Ok(None));
                }
                let deadline = started_at + rules.limits.head_timeout;
                if header_timer.deadline() != deadline {
                    header_timer.as_mut().reset(deadline);
                }
                if header_timer.as_mut().poll(context).is_ready() {
                    tracing::debug!("the head of a request did not arrive in time");
                    return Poll::Ready(Ok(None));
                }
            }
            Poll::Pending
        })
        .await?;
        Ok(events.map(|events| (connection.into_parts().io.into_inner().into_socket(), events)))
    }
}

/// Limits the response bytes that the kernel buffers for a client that does not read. The HTTP library reads
/// the next request only after the whole previous response was written. A client that never reads is
/// therefore soon no longer served.
fn limit_unsent(socket: &TcpStream) {
    if let Err(error) = socket2::SockRef::from(socket).set_tcp_notsent_lowat(MAX_UNSENT) {
        tracing::debug!(%error, "the unsent bytes of a connection cannot be limited");
    }
}

/// Returns the peer of a request. Behind a trusted proxy, this is the address that the proxy reported.
fn request_peer(peer: &Peer, rules: &AccessRules, headers: &HeaderMap) -> Peer {
    let address = peer.address.map(|address| match rules.proxies.origin(address.ip(), headers) {
        origin if origin == address.ip() => address,
        origin => SocketAddr::new(origin, 0),
    });
    Peer { address, ..peer.clone() }
}

fn builder(limits: &ConnectionLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // This is the timeout of an idle connection. `HeaderTimeout` limits a head that has begun.
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle_timeout);
    builder.max_buf_size(limits.head_bytes.max(MIN_BUFFER_SIZE)).max_header_size(limits.head_bytes);
    if limits.headers != DEFAULT_HEADERS {
        builder.max_headers(limits.headers);
    }
    builder
}
