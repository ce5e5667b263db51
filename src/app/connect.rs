//! Connects the backends of a config. A connection whose settings are unchanged stays. A backend that cannot
//! connect goes to [`super::connection_retries`]; a failure that no retry could fix is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use taskbridge_sdk::{Backend, ConnectContext, Error, ErrorKind, Registry};

use super::AppError;
use crate::config::{self, Config, ToolRules};
use crate::isolation::Isolation;
use crate::metrics::Metrics;

/// Connect timeout of one backend.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A connected backend.
#[derive(Clone)]
pub(super) struct ConnectedBackend {
    pub(super) backend: Arc<dyn Backend>,
    /// The settings of the connection.
    settings: config::Backend,
}

/// Connected backends by name.
pub(super) type Backends = BTreeMap<String, ConnectedBackend>;

/// A backend whose connection attempt failed.
pub(super) struct FailedConnection {
    pub(super) name: String,
    pub(super) settings: config::Backend,
    /// File and line.
    pub(super) location: String,
    pub(super) error: Error,
}

/// Returns the backend handles by name.
pub(super) fn handles(all: &Backends) -> BTreeMap<String, Arc<dyn Backend>> {
    all.iter().map(|(name, connected)| (name.clone(), Arc::clone(&connected.backend))).collect()
}

/// Returns the connected backends whose tools are discovered, with their discovery settings.
pub(super) fn discovery_backends(
    rules: &ToolRules,
    all: &Backends,
) -> Vec<(String, Arc<dyn Backend>, config::Discover)> {
    let backends = rules.discovered().filter_map(|(name, discover)| {
        Some((name.to_owned(), Arc::clone(&all.get(name)?.backend), discover.clone()))
    });
    backends.collect()
}

/// The inputs for connecting a backend, except for the backend's own fields. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    registry: Registry,
    /// Path of this executable.
    program: PathBuf,
    config_dir: PathBuf,
    backends_dir: PathBuf,
    call_limit: Duration,
    /// Measures the calls to backends and counts the crashes of their adapters. `None` without metrics and
    /// telemetry.
    metrics: Option<Arc<Metrics>>,
}

impl Connector {
    pub(super) fn of(
        config: &Config,
        registry: &Registry,
        program: &Path,
        metrics: Option<&Arc<Metrics>>,
    ) -> Self {
        Self {
            registry: registry.clone(),
            program: program.to_owned(),
            config_dir: config.dir.clone(),
            backends_dir: config.store.backends_dir.clone(),
            call_limit: config.reconciler.lease / 2,
            metrics: metrics.cloned(),
        }
    }

    /// Connects one backend in an isolation of its own.
    ///
    /// # Errors
    /// The adapter's error. Its kind is `Config` if no retry can succeed.
    pub(super) async fn connect(
        &self,
        name: &str,
        settings: &config::Backend,
    ) -> taskbridge_sdk::Result<Arc<dyn Backend>> {
        if let Some(host) = &settings.host {
            check_local_host(host)?;
        }
        let adapter = self.registry.get(&settings.kind);
        let adapter =
            adapter.ok_or_else(|| Error::config(format!("no adapter of kind `{}`", settings.kind)))?;
        let context = ConnectContext {
            name: name.to_owned(),
            config_dir: self.config_dir.clone(),
            state_dir: self.backends_dir.join(name),
            program: self.program.clone(),
            call_timeout: self.call_limit,
        };
        let connecting = (adapter.connect)(settings.fields.clone(), context);
        let connecting = Isolation::new(name, self.metrics.as_ref())?.connect(connecting);
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::unavailable(format!(
                "the connection timed out after {} seconds",
                CONNECT_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Adds a backend to the connected ones, in place of a previous one of its name, and measures its calls
    /// if metrics or telemetry are on.
    ///
    /// # Errors
    /// If the previous backend of that name is connected to another engine, which may still run tasks.
    pub(super) fn put(
        &self,
        backends: &mut Backends,
        name: &str,
        settings: &config::Backend,
        backend: Arc<dyn Backend>,
    ) -> Result<(), String> {
        let previous = backends.get(name).and_then(|known| known.backend.identity());
        if let (Some(old), Some(new)) = (previous, backend.identity())
            && old != new
        {
            return Err(format!(
                "identity changed from {old} to {new}, and tasks of the old one may exist: give the new backend \
                 another name, or restart the server"
            ));
        }
        let backend = match &self.metrics {
            Some(metrics) => metrics.backend(name, backend),
            None => backend,
        };
        backends.insert(name.to_owned(), ConnectedBackend { backend, settings: settings.clone() });
        Ok(())
    }
}

/// Connects the backends of a config. Connections in `previous` with unchanged settings are reused. Backends
/// that the config no longer has stay connected, because they may have tasks. Backends whose jobs run on
/// another machine are not connected: from here their jobs would look lost. A backend that cannot connect is
/// returned as failed, and keeps its previous connection.
///
/// # Errors
/// Failures that no retry could fix (`ErrorKind::Config`), and a backend whose kind or identity is not that
/// of its previous connection.
pub(super) async fn connect(
    config: &Config,
    connector: &Connector,
    previous: &Backends,
) -> Result<(Backends, Vec<FailedConnection>), AppError> {
    let (mut backends, mut failed, mut to_connect) = (previous.clone(), Vec::new(), Vec::new());
    let here = config::locate::this_machine();
    for (name, settings) in &config.backends {
        if is_on_other_host(config, settings, &here) {
            let host = settings.host.as_deref().unwrap_or_default();
            tracing::info!(
                "backend `{name}` not connected: its jobs run on `{host}`, and this machine is `{here}`"
            );
            backends.remove(name);
            continue;
        }
        match previous.get(name) {
            Some(ConnectedBackend { settings: current, .. })
                if current.kind == settings.kind
                    && current.fields == settings.fields
                    && current.host == settings.host => {}
            Some(connected) if connected.settings.kind != settings.kind => {
                return Err(AppError::Config(format!(
                    "{}: backends.{name}.kind: changed from `{}`, and tasks of the old backend may exist: give the \
                     new backend another name, or restart the server",
                    config_location(config, settings),
                    connected.settings.kind
                )));
            }
            _ => to_connect.push((name, settings)),
        }
    }
    let connecting = to_connect.iter().map(|(name, settings)| connector.connect(name, settings));
    let results = join_all(connecting).await;
    for ((name, settings), result) in to_connect.into_iter().zip(results) {
        let (location, name) = (config_location(config, settings), name.clone());
        match result {
            Ok(backend) => {
                let added = connector.put(&mut backends, &name, settings, backend);
                added.map_err(|why| AppError::Config(format!("{location}: backends.{name}: {why}")))?;
            }
            Err(source) if source.kind() == ErrorKind::Config => {
                return Err(AppError::Backend { place: location, name, source: source.into() });
            }
            Err(error) => failed.push(FailedConnection { name, settings: settings.clone(), location, error }),
        }
    }
    Ok((backends, failed))
}

/// Returns where a backend is defined, as file and line.
fn config_location(config: &Config, backend: &config::Backend) -> String {
    match backend.line {
        Some(line) => format!("{}:{line}", config.file.display()),
        None => config.file.display().to_string(),
    }
}

/// Returns true if the jobs of a backend belong to servers on another machine. Only in a PostgreSQL store,
/// which servers on several machines can share, is that possible.
pub(super) fn is_on_other_host(config: &Config, settings: &config::Backend, here: &str) -> bool {
    let shared = config.store.database.is_shared();
    shared && settings.host.as_ref().is_some_and(|host| host != here)
}

/// Fails if the jobs run on another machine, because from here they would look lost.
fn check_local_host(host: &str) -> taskbridge_sdk::Result<()> {
    let here = config::locate::this_machine();
    match here == host {
        true => Ok(()),
        false => Err(Error::config(format!(
            "`host` is `{host}`, but this machine is `{here}`: run the servers of this store on `{host}`, or remove `host`"
        ))),
    }
}
