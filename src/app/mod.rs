//! Builds the parts of the server, wires them, and spawns the background loops. It must not decide anything
//! about a task or the protocol.
//!
//! [`build`] makes an [`App`] from a config: [`stores`] opens its store, [`connect`] connects its backends,
//! and [`offered`] builds what clients see. [`serve`] runs it. [`reload`] applies a changed config at
//! runtime, and the tools that [`discovery`] finds. [`connection_retries`] retries backends that could not
//! connect.

mod backend_checkup;
mod build;
mod checkup;
mod connect;
mod connection_retries;
mod discovery;
mod offered;
mod reload;
mod serve;
mod stores;
#[cfg(test)]
mod tests;
mod trial;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;

use crate::audit::Writer;
use crate::config::{MetricsPage, Problems};
use crate::console;
use crate::mcp::Bridge;
use crate::mcp::transport::http::AccessControl;
use crate::metrics::Scraper;
use crate::notify::{Http, Notifier, Receivers};
use crate::tasks::reconciler::Reconciler;
use crate::tasks::store::{Store, StoreError};
use crate::tasks::task_writer::ReconcilerSignals;

pub use backend_checkup::pluralize;
pub use checkup::{CheckResult, DiscoveryFailure, discover_tools, run_checks};
pub use reload::Origin;
pub use serve::{listen, listen_for_console, listen_for_metrics};
pub use stores::open_existing_store;
pub use trial::try_backend;

/// A server that is ready to serve.
pub struct App {
    bridge: Arc<Bridge>,
    store: Arc<dyn Store>,
    access_control: Arc<AccessControl>,
    reconciler: Reconciler,
    notifier: Notifier<Http>,
    receivers: Receivers,
    nudge: Arc<ReconcilerSignals>,
    drain_for: Duration,
    stop_within: Duration,
    current_config: reload::CurrentConfig,
    configured_catalog: offered::ConfiguredCatalog,
    discoveries: discovery::Discoveries,
    connection_retries: connection_retries::ConnectionRetries,
    /// Renders the metrics, if the config has a metrics page.
    scraper: Option<(Scraper, MetricsPage)>,
    /// Listener and routes of the metrics page.
    metrics_listener: Option<(TcpListener, Router)>,
    /// Applies changed configs, discovered tools and retried connections; never ends.
    reload_loop: BoxFuture<'static, Infallible>,
    /// Settings of the console, if there is one.
    console: Option<console::Settings>,
    /// Listener of the console, if it has an address of its own.
    console_listener: Option<TcpListener>,
    /// Prints lines of the console for the operator at the terminal.
    console_printer: ConsolePrinter,
    /// Writes the audit log, if it is enabled.
    audit_writer: Option<Writer>,
}

/// Prints one line for the operator at the terminal.
pub(crate) type ConsolePrinter = Box<dyn Fn(&str) + Send + Sync>;

/// Why the server cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The server cannot listen on its address.
    #[error("{}", cannot_listen(.address, .source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The server cannot listen on the address of the metrics page.
    #[error(
        "metrics.listen: cannot listen on {address}: {source}. Choose another in [metrics], or remove it"
    )]
    MetricsListen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The server cannot listen on the console's own address.
    #[error(
        "console.listen: cannot listen on {address}: {source}. Choose another in [console], or remove it"
    )]
    ConsoleListen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A folder for state cannot be created.
    #[error("{}: the folder for state cannot be created: {source}; choose another with `path` or `backends_dir` in [store]", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A backend cannot be connected.
    #[error("{place}: backends.{name}: {source}")]
    Backend {
        /// File and line.
        place: String,
        /// The backend's name.
        name: String,
        /// The cause.
        source: Box<taskbridge_sdk::Error>,
    },
    /// No backend can be connected, or at least one cannot where all are required.
    #[error("{0}")]
    Unconnected(String),
    /// The config is invalid.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// A config error that the parser could not detect.
    #[error("{0}")]
    Config(String),
    /// Standard input or output of the client fails.
    #[error("standard input or output cannot be used: {0}")]
    Stdio(io::Error),
    /// The loops that act on tasks ended without a shutdown. The rows keep the remaining work.
    #[error("the background loops for tasks failed: restart the server")]
    Loops,
}

/// Formats why a server with backends that cannot connect does not start.
fn unconnected(failed: &[connect::FailedConnection], strict: bool) -> AppError {
    let mut lines: Vec<String> = failed
        .iter()
        .map(|connect::FailedConnection { location, name, error, .. }| {
            format!("{location}: backends.{name}: {error}")
        })
        .collect();
    lines.push(match strict {
        true => "refused: --strict requires every backend to connect".to_owned(),
        false => "refused: no backend could be connected".to_owned(),
    });
    AppError::Unconnected(lines.join("\n"))
}

fn cannot_listen(address: &SocketAddr, source: &io::Error) -> String {
    let why = match source.kind() {
        io::ErrorKind::AddrInUse => "the address is in use, perhaps by another taskbridge".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "this user has no permission for that port".to_owned(),
        _ => source.to_string(),
    };
    format!(
        "cannot listen on {address}: {why}. Choose another with --listen ADDRESS:PORT or `listen` in [server]"
    )
}
