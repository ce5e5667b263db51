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

use super::{App, AppError, ConsolePrinter};
use crate::audit::record::Kind;
use crate::audit::{Auditor, Writer};
use crate::config::{AuthMode, Config};
use crate::console;
use crate::health::{self, Health};
use crate::hooks::{self, Hooks};
use crate::mcp::transport::http::{AccessControl, AccessRules};
use crate::mcp::transport::{http, stdio};
use crate::notify::{Http, Notifier};
use crate::scrape;
use crate::tasks::reconciler::Reconciler;

/// Time limit for releasing leases of aborted work, and for the last writes of the audit log. A store that is
/// down must not delay the exit.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Listen backlog: pending connections that the kernel keeps until they are accepted, so that a burst is not
/// refused. (The kernel limits it to `net.core.somaxconn`.)
const LISTEN_BACKLOG: u32 = 4096;

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
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted server need not wait for connections of the previous one in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(LISTEN_BACKLOG)
    };
    bind().map_err(|source| AppError::Listen { address, source })
}

/// Listens on the address of the metrics page, if the config has one.
///
/// # Errors
/// See [`AppError::MetricsListen`].
pub async fn listen_for_metrics(config: &Config) -> Result<Option<TcpListener>, AppError> {
    let Some(address) = config.metrics.as_ref().map(|page| page.listen) else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).map_err(|source| AppError::MetricsListen { address, source })
}

/// Listens on the address of the console, if it has one of its own.
///
/// # Errors
/// See [`AppError::ConsoleListen`].
pub async fn listen_for_console(config: &Config) -> Result<Option<TcpListener>, AppError> {
    let Some(address) = config.console().and_then(|console| console.listen) else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).map_err(|source| AppError::ConsoleListen { address, source })
}

impl App {
    /// Serves the metrics page on this listener while the server runs.
    #[must_use]
    pub(crate) fn with_metrics_listener(self, listener: Option<TcpListener>) -> Self {
        let Some((listener, (scraper, page))) = listener.zip(self.scraper) else {
            return Self { scraper: None, ..self };
        };
        let router = scrape::routes(scraper, page.listen.ip(), &page);
        Self { scraper: None, metrics_listener: Some((listener, router)), ..self }
    }

    /// Serves the console on this listener, if it has an address of its own, and prints its lines with this
    /// function.
    #[must_use]
    pub(crate) fn with_console(
        self,
        console_listener: Option<TcpListener>,
        console_printer: ConsolePrinter,
    ) -> Self {
        Self { console_listener, console_printer, ..self }
    }

    /// Serves HTTP on a listener until `stop` is cancelled and `server.drain_for` has passed. Then requests
    /// and engine calls in progress have `server.stop_within` to finish.
    ///
    /// # Errors
    /// See [`AppError`].
    pub async fn serve_http(self, listener: TcpListener, stop: CancellationToken) -> Result<(), AppError> {
        let Self {
            bridge,
            store,
            access_control,
            reconciler,
            notifier,
            nudge,
            drain_for,
            stop_within,
            current_config,
            reload_loop,
            metrics_listener,
            console,
            console_listener,
            console_printer,
            audit_writer,
            ..
        } = self;
        let audit = Arc::clone(&bridge.context.audit);
        let closing = CancellationToken::new();
        let has_own_address = console.as_ref().is_some_and(|settings| settings.listen.is_some());
        let console_address = console_listener.as_ref().unwrap_or(&listener).local_addr().ok();
        let hooks = Hooks::new(Arc::clone(&bridge), nudge);
        let console = console.map_or_else(Router::new, |settings| {
            let parts = console::Parts {
                bridge: Arc::clone(&bridge),
                access_control: Arc::clone(&access_control),
                store: Arc::clone(&store),
                engines: current_config.engines.clone(),
                since_last_hook: {
                    let hooks = hooks.clone();
                    Box::new(move |backend| hooks.since_last(backend))
                },
                settings,
                shutdown: closing.clone(),
                print: console_printer,
            };
            console::routes(parts, console_address)
        });
        let health = Health::new(store, current_config.engines, stop.clone());
        let hooks = hooks::routes(hooks);
        let (router, router_loop) = http::router(bridge, Arc::clone(&access_control), closing.clone());
        let (console, own_console) =
            if has_own_address { (Router::new(), console) } else { (console, Router::new()) };
        let router = router.merge(health::routes(health)).merge(hooks).merge(console);
        let serving = async {
            let console = async {
                if let Some(listener) = console_listener {
                    http::serve(listener, own_console, Arc::clone(&access_control), closing.clone()).await;
                }
            };
            tokio::join!(
                http::serve(listener, router, Arc::clone(&access_control), closing.clone()),
                console
            );
        };
        let (drain_token, metrics_page) = (closing.clone(), serve_metrics(metrics_listener));
        let background = Box::pin(async move {
            tokio::select! {
                never = reload_loop => never,
                never = router_loop => never,
                never = metrics_page => never,
                never = close_after(drain_for, stop, drain_token) => never,
            }
        });
        let work = run_with_loops((reconciler, notifier), background, serving, &closing, stop_within);
        with_audit(&audit, audit_writer, "http", work).await.map(|_| ())
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
        let Self {
            bridge,
            reconciler,
            notifier,
            stop_within,
            reload_loop,
            metrics_listener,
            audit_writer,
            ..
        } = self;
        let serving = stdio::serve(input, output, &bridge, stop.clone());
        let background = Box::pin(async move {
            tokio::select! {
                never = reload_loop => never,
                never = serve_metrics(metrics_listener) => never,
            }
        });
        let work = run_with_loops((reconciler, notifier), background, serving, &stop, stop_within);
        let result = with_audit(&bridge.context.audit, audit_writer, "stdio", work).await?;
        result.unwrap_or(Ok(())).map_err(AppError::Stdio)
    }
}

/// Serves the metrics page, if there is one, until the future is dropped.
async fn serve_metrics(metrics_listener: Option<(TcpListener, Router)>) -> Infallible {
    if let Some((listener, router)) = metrics_listener {
        let access_control = Arc::new(AccessControl::new(AccessRules::plain()));
        http::serve(listener, router, access_control, CancellationToken::new()).await;
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

/// Runs the audit writer while `work` runs, and records the start and the end in the log. Events recorded
/// until then are written before it returns, within a time limit.
async fn with_audit<T, E>(
    audit: &Auditor,
    audit_writer: Option<Writer>,
    transport: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let stop = CancellationToken::new();
    let writing = audit_writer.map(|audit_writer| spawn(audit_writer.run(stop.clone())));
    audit.server_event(
        Kind::ServerStarted,
        "ok",
        json!({"program": env!("CARGO_PKG_VERSION"), "by": transport}),
    );
    let result = work.await;
    let outcome = if result.is_ok() { "ok" } else { "broken" };
    audit.server_event(Kind::ServerStopped, outcome, Value::Null);
    stop.cancel();
    if let Some(writing) = writing
        && tokio::time::timeout(RELEASE_TIMEOUT, writing).await.is_err()
    {
        tracing::error!("last lines of the audit log could not be written in time");
    }
    result
}

/// Serves while the loops and `background` run. Once serving ends or `stop` is cancelled, work in progress
/// has `stop_within` to finish; returns `None` if it was aborted then. In both cases leases are
/// released, so that another process can continue immediately. After an abort, the release may take up to
/// `RELEASE_TIMEOUT`. It is an error if a loop ends by itself.
async fn run_with_loops<T>(
    (reconciler, notifier): (Reconciler, Notifier<Http>),
    background: BoxFuture<'static, Infallible>,
    serving: impl Future<Output = T>,
    stop: &CancellationToken,
    stop_within: Duration,
) -> Result<Option<T>, AppError> {
    let (stop_loops, leases) = (CancellationToken::new(), reconciler.leases());
    // Two tasks, so that neither loop delays the other.
    let mut reconciler_task = spawn(reconciler.run(stop_loops.clone()));
    let mut notifier_task = spawn(notifier.run(stop_loops.clone()));
    let mut serving = Box::pin(serving);
    let result = tokio::select! {
        result = &mut serving => Some(result),
        () = stop.cancelled() => None,
        _ = &mut reconciler_task => return Err(AppError::Loops),
        _ = &mut notifier_task => return Err(AppError::Loops),
        never = background => match never {},
    };
    let end = async {
        let result = match result {
            Some(result) => result,
            None => (&mut serving).await,
        };
        stop_loops.cancel();
        let notifier_result = (&mut notifier_task).await;
        (&mut reconciler_task).await.and(notifier_result).map_err(|_| AppError::Loops)?;
        // The loops released their leases when they ended. This releases the leases of notices that were
        // being sent.
        leases.release_all().await;
        Ok(result)
    };
    match tokio::time::timeout(stop_within, end).await {
        Ok(result) => result.map(Some),
        Err(_) => {
            tracing::warn!("shutdown timed out: aborting what is left and releasing its leases");
            // In this order, so that nothing can acquire a lease after the release.
            drop(serving);
            for task in [reconciler_task, notifier_task] {
                task.abort();
                // A finished task was already awaited above.
                if !task.is_finished() {
                    let _ = task.await;
                }
            }
            if tokio::time::timeout(RELEASE_TIMEOUT, leases.release_all()).await.is_err() {
                tracing::warn!("leases could not be released in time; they expire by themselves");
            }
            Ok(None)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
