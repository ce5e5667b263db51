//! Serves over HTTP or stdio, with the loops in the background, until shutdown. The server's tasks are
//! spawned here; invariant 5 in ARCHITECTURE.md lists the exceptions.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

use super::{App, AppError};
use crate::audit::record::Kind;
use crate::audit::{Auditor, Writer};
use crate::config::{AuthMode, Config};
use crate::health::{self, Health};
use crate::hooks::{self, Hooks};
use crate::mcp::http::{AccessControl, AccessRules};
use crate::mcp::{http, stdio};
use crate::notify::{Http, Notifier};
use crate::scrape;
use crate::tasks::reconciler::Reconciler;

/// Time limit for releasing leases of aborted work, and for the last writes of the audit log. A store that is
/// down must not delay the exit.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);

/// Listen backlog: pending connections that the kernel keeps until they are accepted, so that a burst is not
/// refused. (The kernel limits it to `net.core.somaxconn`.)
const HELD: u32 = 4096;

/// Listens on the config's address.
///
/// # Errors
/// See [`AppError::Listen`].
pub async fn listen(config: &Config) -> Result<TcpListener, AppError> {
    let address = config.server.listen;
    if config.auth.mode == AuthMode::None && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "ANYONE WHO REACHES THIS ADDRESS MAY DO EVERYTHING: `anyone_may_do_everything` is set in [auth]; set `mode` \
             there and remove it"
        );
    }
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted server need not wait for connections of the previous one in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(HELD)
    };
    bound().map_err(|source| AppError::Listen { address, source })
}

/// Listens on the address of the metrics page, if the config has one.
///
/// # Errors
/// See [`AppError::Numbers`].
pub async fn listen_for_metrics(config: &Config) -> Result<Option<TcpListener>, AppError> {
    let Some(address) = config.metrics.as_ref().map(|page| page.listen) else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).map_err(|source| AppError::Numbers { address, source })
}

impl App {
    /// Serves the metrics page on this listener while the server runs.
    #[must_use]
    pub(crate) fn showing_metrics(self, listener: Option<TcpListener>) -> Self {
        let Some((listener, (scraper, page))) = listener.zip(self.scraper) else {
            return Self { scraper: None, ..self };
        };
        let router = scrape::routes(scraper, page.listen.ip(), &page);
        Self { scraper: None, numbers: Some((listener, router)), ..self }
    }

    /// Serves HTTP on a listener until `stop` is cancelled and `server.drain_for` has passed. Then requests
    /// and engine calls in progress have `server.stop_within` to finish.
    ///
    /// # Errors
    /// See [`AppError`].
    pub async fn serve_http(self, listener: TcpListener, stop: CancellationToken) -> Result<(), AppError> {
        let Self {
            bridge,
            entrance,
            reconciler,
            notifier,
            nudge,
            drain_for,
            stop_within,
            in_force,
            reloading,
            numbers,
            writer,
            ..
        } = self;
        let audit = Arc::clone(&bridge.audit);
        let (store, engines, closing) = (bridge.store.clone(), in_force.engines, CancellationToken::new());
        let health = Health::new(store, engines, stop.clone());
        let hooks = hooks::routes(Hooks::new(Arc::clone(&bridge), nudge));
        let (router, hearing) = http::router(bridge, Arc::clone(&entrance), closing.clone());
        let router = router.merge(health::routes(health)).merge(hooks);
        let serving = http::serve(listener, router, entrance, closing.clone());
        let (closes, showing) = (closing.clone(), show(numbers));
        let meanwhile = Box::pin(async move {
            tokio::select! {
                never = reloading => never,
                never = hearing => never,
                never = showing => never,
                never = close_after(drain_for, stop, closes) => never,
            }
        });
        let served = beside((reconciler, notifier), meanwhile, serving, &closing, stop_within);
        accounted(&audit, writer, "http", served).await.map(|_| ())
    }

    /// Serves one client over its input and output until the input ends or `stop` is cancelled.
    ///
    /// # Errors
    /// If the input cannot be read or the output cannot be written.
    pub async fn serve_stdio(
        self,
        input: impl AsyncBufRead + Unpin + Send,
        output: impl AsyncWrite + Unpin + Send,
        stop: CancellationToken,
    ) -> Result<(), AppError> {
        let Self { bridge, reconciler, notifier, stop_within, reloading, numbers, writer, .. } = self;
        let serving = stdio::serve(input, output, &bridge, stop.clone());
        let meanwhile = Box::pin(async move {
            tokio::select! {
                never = reloading => never,
                never = show(numbers) => never,
            }
        });
        let served = beside((reconciler, notifier), meanwhile, serving, &stop, stop_within);
        let served = accounted(&bridge.audit, writer, "stdio", served).await?;
        served.unwrap_or(Ok(())).map_err(AppError::Stdio)
    }
}

/// Serves the metrics page, if there is one, until the future is dropped.
async fn show(numbers: Option<(TcpListener, Router)>) -> Infallible {
    if let Some((listener, router)) = numbers {
        let entrance = Arc::new(AccessControl::new(AccessRules::plain()));
        http::serve(listener, router, entrance, CancellationToken::new()).await;
    }
    std::future::pending().await
}

/// Closes the server only after the drain time, so that load balancers and clients can notice the shutdown.
async fn close_after(drain_for: Duration, stop: CancellationToken, closing: CancellationToken) -> Infallible {
    stop.cancelled().await;
    tokio::time::sleep(drain_for).await;
    closing.cancel();
    std::future::pending().await
}

/// Runs the audit writer while `served` runs, and records the start and the end in the log. Events recorded
/// until then are written before it returns, within a time limit.
async fn accounted<T, E>(
    audit: &Auditor,
    writer: Option<Writer>,
    by: &str,
    served: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let stop = CancellationToken::new();
    let writing = writer.map(|writer| spawn(writer.run(stop.clone())));
    audit.server(Kind::ServerStarted, "ok", json!({"program": env!("CARGO_PKG_VERSION"), "by": by}));
    let served = served.await;
    let outcome = if served.is_ok() { "ok" } else { "broken" };
    audit.server(Kind::ServerStopped, outcome, Value::Null);
    stop.cancel();
    if let Some(writing) = writing
        && tokio::time::timeout(LET_GO_WITHIN, writing).await.is_err()
    {
        tracing::error!("the audit log could not be written to its end in time");
    }
    served
}

/// Serves with the loops and `meanwhile` in the background. Once serving ends or `stop` is cancelled, work in
/// progress has `stop_within` to finish; returns `None` if it was aborted then. In both cases leases are
/// released, so that another process can continue immediately. After an abort, the release may take up to
/// `LET_GO_WITHIN`. It is an error if a loop ends by itself.
async fn beside<T>(
    (reconciler, notifier): (Reconciler, Notifier<Http>),
    meanwhile: BoxFuture<'static, Infallible>,
    serving: impl Future<Output = T>,
    stop: &CancellationToken,
    stop_within: Duration,
) -> Result<Option<T>, AppError> {
    let (stop_loops, leases) = (CancellationToken::new(), reconciler.leases());
    // Two tasks, so that neither loop delays the other.
    let mut loops = spawn(reconciler.run(stop_loops.clone()));
    let mut notices = spawn(notifier.run(stop_loops.clone()));
    let mut serving = Box::pin(serving);
    let served = tokio::select! {
        served = &mut serving => Some(served),
        () = stop.cancelled() => None,
        _ = &mut loops => return Err(AppError::Loops),
        _ = &mut notices => return Err(AppError::Loops),
        never = meanwhile => match never {},
    };
    let end = async {
        let served = match served {
            Some(served) => served,
            None => (&mut serving).await,
        };
        stop_loops.cancel();
        let noticed = (&mut notices).await;
        (&mut loops).await.and(noticed).map_err(|_| AppError::Loops)?;
        // The loops released their leases when they ended. This releases the leases of notices that were
        // being sent.
        leases.release_all().await;
        Ok(served)
    };
    match tokio::time::timeout(stop_within, end).await {
        Ok(served) => served.map(Some),
        Err(_) => {
            tracing::warn!("not everything ended in time: what is left is cut off, and let go of");
            // In this order, so that nothing can acquire a lease after the release.
            drop(serving);
            for task in [loops, notices] {
                task.abort();
                // A finished task was already awaited above.
                if !task.is_finished() {
                    let _ = task.await;
                }
            }
            if tokio::time::timeout(LET_GO_WITHIN, leases.release_all()).await.is_err() {
                tracing::warn!("leases could not be let go in time; they run out by themselves");
            }
            Ok(None)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
