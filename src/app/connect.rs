//! Connects the backends of a config. What is connected already and is to be the same stays as it is. A backend that cannot
//! connect is left to [`super::waiting`]; what no later attempt could mend is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use taskbridge_sdk::{Backend, Connect, Error, ErrorKind, Registry};

use super::AppError;
use crate::config::{self, Config, Database, ToolRules};
use crate::isolation::Isolation;
use crate::metrics::Metrics;

/// How long one backend may take to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// A backend, connected.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) backend: Arc<dyn Backend>,
    /// What it was connected with.
    with: config::Backend,
}

/// Connected backends by name.
pub(super) type Backends = BTreeMap<String, Connected>;

/// A backend that could not be connected.
pub(super) struct Failed {
    pub(super) name: String,
    pub(super) wanted: config::Backend,
    /// File and line.
    pub(super) place: String,
    pub(super) error: Error,
}

/// The backends alone.
pub(super) fn handles(all: &Backends) -> BTreeMap<String, Arc<dyn Backend>> {
    all.iter().map(|(name, connected)| (name.clone(), Arc::clone(&connected.backend))).collect()
}

/// Those whose tools are to be discovered, with how.
pub(super) fn discovered(
    rules: &ToolRules,
    all: &Backends,
) -> Vec<(String, Arc<dyn Backend>, config::Discover)> {
    let wanted = rules.discovered().filter_map(|(name, discover)| {
        Some((name.to_owned(), Arc::clone(&all.get(name)?.backend), discover.clone()))
    });
    wanted.collect()
}

/// What connecting takes, beside the backend's own fields. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    registry: Registry,
    /// This program's file.
    program: PathBuf,
    config_dir: PathBuf,
    backends_dir: PathBuf,
    call_limit: Duration,
    /// Counts the calls to backends, and crashes of their adapters.
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

    /// Connects one backend, isolated from everything else.
    ///
    /// # Errors
    /// The adapter's own: `Config` if no later attempt can succeed.
    pub(super) async fn connect(
        &self,
        name: &str,
        wanted: &config::Backend,
    ) -> taskbridge_sdk::Result<Arc<dyn Backend>> {
        if let Some(host) = &wanted.host {
            on_this_machine(host)?;
        }
        let adapter = self.registry.get(&wanted.kind);
        let adapter =
            adapter.ok_or_else(|| Error::config(format!("no adapter of kind `{}`", wanted.kind)))?;
        let context = Connect {
            name: name.to_owned(),
            config_dir: self.config_dir.clone(),
            state_dir: self.backends_dir.join(name),
            program: self.program.clone(),
            call_limit: self.call_limit,
        };
        let connecting = (adapter.connect)(wanted.fields.clone(), context);
        let connecting = Isolation::new(name, self.metrics.as_ref())?.connect(connecting);
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                Err(Error::unavailable(format!("it did not connect within {} seconds", PATIENCE.as_secs())))
            }
        }
    }

    /// Puts a backend among those that are connected, with its calls counted.
    ///
    /// # Errors
    /// If it is connected to another engine than the backend of that name before: there may be tasks on that.
    pub(super) fn put(
        &self,
        backends: &mut Backends,
        name: &str,
        wanted: &config::Backend,
        backend: Arc<dyn Backend>,
    ) -> Result<(), String> {
        let before = backends.get(name).and_then(|known| known.backend.identity());
        if let (Some(was), Some(is)) = (before, backend.identity())
            && was != is
        {
            return Err(format!(
                "it is connected to {was}, and would be to {is}: there may be tasks on it; give the new backend another name, or \
                 start the server again"
            ));
        }
        let backend = match &self.metrics {
            Some(metrics) => metrics.backend(name, backend),
            None => backend,
        };
        backends.insert(name.to_owned(), Connected { backend, with: wanted.clone() });
        Ok(())
    }
}

/// Connects the backends of a config, but for those that `known` has as the config wants them. Those that the config
/// does not have any more stay, since there may be tasks on them. Those whose jobs run on another machine are not connected:
/// from here their jobs would look lost. One that cannot connect is among the failed, and the connection that it had stays.
///
/// # Errors
/// What no later attempt could mend.
pub(super) async fn connect(
    config: &Config,
    connector: &Connector,
    known: &Backends,
) -> Result<(Backends, Vec<Failed>), AppError> {
    let (mut backends, mut failed, mut wanted_now) = (known.clone(), Vec::new(), Vec::new());
    let here = config::locate::this_machine();
    for (name, wanted) in &config.backends {
        if is_elsewhere(config, wanted, &here) {
            let host = wanted.host.as_deref().unwrap_or_default();
            tracing::info!(
                "backend `{name}`: its jobs run on `{host}` and this is `{here}`, so they are left to servers there"
            );
            backends.remove(name);
            continue;
        }
        match known.get(name) {
            Some(Connected { with, .. })
                if with.kind == wanted.kind && with.fields == wanted.fields && with.host == wanted.host => {}
            Some(known) if known.with.kind != wanted.kind => {
                return Err(AppError::Config(format!(
                    "{}: backends.{name}.kind: it was `{}` when the server started, and there may be tasks on it: give \
                     the new backend another name, or start the server again",
                    place(config, wanted),
                    known.with.kind
                )));
            }
            _ => wanted_now.push((name, wanted)),
        }
    }
    let connecting = wanted_now.iter().map(|(name, wanted)| connector.connect(name, wanted));
    let answers = join_all(connecting).await;
    for ((name, wanted), answer) in wanted_now.into_iter().zip(answers) {
        let (place, name) = (place(config, wanted), name.clone());
        match answer {
            Ok(backend) => {
                let put = connector.put(&mut backends, &name, wanted, backend);
                put.map_err(|why| AppError::Config(format!("{place}: backends.{name}: {why}")))?;
            }
            Err(source) if source.kind() == ErrorKind::Config => {
                return Err(AppError::Backend { place, name, source });
            }
            Err(error) => failed.push(Failed { name, wanted: wanted.clone(), place, error }),
        }
    }
    Ok((backends, failed))
}

/// Where a backend is written, as file and line.
fn place(config: &Config, backend: &config::Backend) -> String {
    match backend.line {
        Some(line) => format!("{}:{line}", config.file.display()),
        None => config.file.display().to_string(),
    }
}

/// Only a store that servers on several machines can use lets a server leave jobs to others.
pub(super) fn is_elsewhere(config: &Config, wanted: &config::Backend, here: &str) -> bool {
    let shared = matches!(config.store.database, Database::Postgres(_));
    shared && wanted.host.as_ref().is_some_and(|host| host != here)
}

/// Jobs that run on one machine would look lost from any other.
fn on_this_machine(host: &str) -> taskbridge_sdk::Result<()> {
    let here = config::locate::this_machine();
    match here == host {
        true => Ok(()),
        false => Err(Error::config(format!(
            "its jobs run on `{host}`, as `host` says, and this is `{here}`: run the servers of this store on `{host}`, or \
             remove `host`"
        ))),
    }
}
