//! [`Connection`]: what happens on one: requests one after the other, each of which must have a form and come in time, and in
//! the end perhaps a stream that lasts. It must not know what is asked.

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

use super::entrance::{Entrance, Rules};
use super::form;
use super::idle::IdleConnections;
use super::lasting::{Events, Takeover, pour};
use super::limits::ConnectionLimits;
use super::patience::{Answer, Heads, Paced, Patient};
use super::scan::{Findings, HeadScanner, LargeHeads};
use super::scheduler::ScheduledConnection;
use super::socket::Socket;
use super::tls::Tls;
use crate::auth::Peer;

/// As many headers as the HTTP library has room for without asking for memory.
const USUAL_HEADERS: usize = 100;

/// The smallest room that the HTTP library can do with.
const SMALLEST_ROOM: usize = 8 * 1024;

/// The most bytes of answers that the system keeps of one connection before it sends them. It could be megabytes otherwise.
const UNSENT: u32 = 64 * 1024;

/// What the requests of one connection are served by.
pub(super) struct Connection {
    pub(super) peer: Peer,
    /// The rules that were in force when it was accepted.
    pub(super) rules: Arc<Rules>,
    /// Where others are put in force.
    pub(super) entrance: Arc<Entrance>,
    pub(super) router: Router,
    pub(super) shutdown: CancellationToken,
    /// Among which it is while no request is in hand.
    pub(super) idle: IdleConnections,
    pub(super) large_heads: LargeHeads,
    /// Its place among all connections.
    pub(super) scheduled: ScheduledConnection,
}

impl Connection {
    /// Serves it until it ends.
    pub(super) async fn serve(mut self, socket: TcpStream) {
        // Without this, an event can wait for the acknowledgement of the one before.
        let _ = socket.set_nodelay(true);
        limit_unsent(&socket);
        let heads = Heads::begin(&self.idle);
        let socket = match self.rules.tls.clone() {
            None => Socket::Plain(Patient::new(socket, &self.rules.limits, heads.clone())),
            Some(tls) => {
                let within = self.rules.limits.handshake_within;
                let evicted = heads.evicted();
                let secured = tokio::select! {
                    secured = timeout(within, Box::pin(self.secure(&tls, socket, &heads))) => secured,
                    () = evicted.cancelled() => return,
                };
                let Ok(Some(socket)) = secured else { return };
                heads.secured();
                socket
            }
        };
        let (peer, rules, entrance) =
            (self.peer.clone(), Arc::clone(&self.rules), Arc::clone(&self.entrance));
        // In a box, so that a stream that lasts does not keep the room that the requests before it took.
        let ended = match Box::pin(self.requests(socket, heads.clone())).await {
            Ok(None) => return,
            Ok(Some((socket, events))) => {
                heads.set_busy();
                tokio::select! {
                    poured = pour(socket, events) => poured.map_err(|error| error.to_string()),
                    () = entrance.parts_with(&peer, &rules) => return,
                }
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = ended {
            tracing::trace!(%error, "a connection broke");
        }
    }

    /// Secures the connection, and notes what its client showed. `None` if they cannot agree.
    async fn secure(&mut self, tls: &Tls, socket: TcpStream, heads: &Heads) -> Option<Socket> {
        if !Tls::begins(&socket).await.ok()? {
            return None;
        }
        let socket = Patient::new(socket, &self.rules.limits, heads.clone());
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

    /// Answers requests until the connection closes, or becomes a stream that lasts.
    async fn requests(self, socket: Socket, heads: Heads) -> hyper::Result<Option<(Socket, Events)>> {
        let Self { peer, rules, entrance, router, shutdown, large_heads, mut scheduled, .. } = self;
        let last_accepted = Arc::new(AtomicBool::new(false));
        let (takeover, findings, evicted) =
            (Takeover::default(), Arc::<Findings>::default(), heads.evicted());
        let service = {
            let (router, takeover) = (TowerToHyperService::new(router), takeover.clone());
            let (heads, rules, peer) = (heads.clone(), Arc::clone(&rules), peer.clone());
            let (findings, last_accepted) = (Arc::clone(&findings), Arc::clone(&last_accepted));
            service_fn(move |mut request: hyper::Request<Incoming>| {
                let peer = from(&peer, &rules, request.headers());
                request.extensions_mut().insert(peer);
                let (version, takeover, in_hand) = (request.version(), takeover.clone(), heads.in_hand());
                let refused = form::refused(&request, &rules.limits, findings.next_has_bare_lf());
                let last = form::is_last(&request) || findings.is_last();
                let request = request.map(|body| Paced::new(body, &rules.limits));
                let answer = refused.is_none().then(|| router.call(request));
                let last_accepted = Arc::clone(&last_accepted);
                async move {
                    let mut response = match (refused, answer) {
                        (None, Some(answer)) => answer.await?,
                        (refused, _) => refused.unwrap_or_default(),
                    };
                    let status = response.status();
                    last_accepted
                        .store(!status.is_client_error() && !status.is_server_error(), Ordering::Relaxed);
                    if last {
                        form::close(&mut response);
                    }
                    let response = takeover.of(version, response);
                    Ok::<_, Infallible>(response.map(|body| Answer::new(body, in_hand)))
                }
            })
        };
        let scanner = HeadScanner::new(findings, &large_heads, rules.limits.head_bytes);
        let socket = TokioIo::new(takeover.watch(socket, scanner));
        let mut connection = builder(&rules.limits).serve_connection(socket, service);
        let mut stops = std::pin::pin!(async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = entrance.parts_with(&peer, &rules) => {}
                () = evicted.cancelled() => {}
            }
        });
        let mut stopping = false;
        let mut late = std::pin::pin!(sleep_until(Instant::now()));
        let events = poll_fn(|context| {
            // A connection whose last request was accepted is polled at once. The others take turns.
            if !last_accepted.load(Ordering::Relaxed) {
                ready!(scheduled.poll_turn(context));
            }
            if !stopping && stops.as_mut().poll(context).is_ready() {
                stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(ended.map(|()| None));
            }
            if let Some(events) = takeover.take() {
                return Poll::Ready(Ok(Some(events)));
            }
            if let Some(since) = heads.since() {
                // The HTTP library waits for a head that has not come whole.
                if evicted.is_cancelled() {
                    return Poll::Ready(Ok(None));
                }
                let until = since + rules.limits.head_within;
                if late.deadline() != until {
                    late.as_mut().reset(until);
                }
                if late.as_mut().poll(context).is_ready() {
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

/// Limits what the system keeps of answers that the client's end has no room for. The HTTP library reads the next request once
/// the whole answer before it was written, so that a client that never reads is soon not served any more.
fn limit_unsent(socket: &TcpStream) {
    if let Err(error) = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT) {
        tracing::debug!(%error, "the unsent bytes of a connection cannot be limited");
    }
}

/// The other end of the connection, but for where a request is from that proxies passed on.
fn from(peer: &Peer, rules: &Rules, headers: &HeaderMap) -> Peer {
    let address = peer.address.map(|address| match rules.proxies.origin(address.ip(), headers) {
        origin if origin == address.ip() => address,
        origin => SocketAddr::new(origin, 0),
    });
    Peer { address, ..peer.clone() }
}

fn builder(limits: &ConnectionLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // A head that began is waited for less long: see `Heads`.
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle_for);
    builder.max_buf_size(limits.head_bytes.max(SMALLEST_ROOM)).max_header_size(limits.head_bytes);
    if limits.headers != USUAL_HEADERS {
        builder.max_headers(limits.headers);
    }
    builder
}
