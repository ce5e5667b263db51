//! Connects the backends of a config, all of them or none. What is connected already and is to be the same stays as it
//! is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{Backend, Connect, Error, Registry};

use super::AppError;
use crate::config::{self, Config, Database, Discover};
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

/// The backends alone.
pub(super) fn handles(all: &Backends) -> BTreeMap<String, Arc<dyn Backend>> {
    all.iter().map(|(name, connected)| (name.clone(), Arc::clone(&connected.backend))).collect()
}

/// Those whose tools are to be discovered, with how.
pub(super) fn discovered(config: &Config, all: &Backends) -> Vec<(String, Arc<dyn Backend>, Discover)> {
    let wanted = config.backends.iter().filter_map(|(name, wanted)| {
        let (discover, connected) = (wanted.discover.clone()?, all.get(name)?);
        Some((name.clone(), Arc::clone(&connected.backend), discover))
    });
    wanted.collect()
}

/// Connects the backends of a config, but for those that `known` has as the config wants them. Those that the config
/// does not have any more stay, since there may be tasks on them. Those whose jobs run on another machine are not connected:
/// from here their jobs would look lost.
pub(super) async fn connect(
    config: &Config,
    registry: &Registry,
    program: &Path,
    known: &Backends,
    metrics: Option<&Arc<Metrics>>,
) -> Result<Backends, AppError> {
    let mut backends = known.clone();
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
        let place = || match wanted.line {
            Some(line) => format!("{}:{line}", config.file.display()),
            None => config.file.display().to_string(),
        };
        match known.get(name) {
            Some(Connected { with, .. })
                if with.kind == wanted.kind && with.fields == wanted.fields && with.host == wanted.host =>
            {
                continue;
            }
            Some(known) if known.with.kind != wanted.kind => {
                return Err(AppError::Config(format!(
                    "{}: backends.{name}.kind: it was `{}` when the server started, and there may be tasks on it: give \
                     the new backend another name, or start the server again",
                    place(),
                    known.with.kind
                )));
            }
            _ => {}
        }
        let backend = connect_one(config, registry, program.to_owned(), name, wanted, metrics).await;
        let backend =
            backend.map_err(|source| AppError::Backend { place: place(), name: name.clone(), source })?;
        if let (Some(was), Some(is)) =
            (known.get(name).and_then(|known| known.backend.identity()), backend.identity())
            && was != is
        {
            return Err(AppError::Config(format!(
                "{}: backends.{name}: it is connected to {was}, and would be to {is}: there may be \
                 tasks on it; give the new backend another name, or start the server again",
                place()
            )));
        }
        let backend = match metrics {
            Some(metrics) => metrics.backend(name, backend),
            None => backend,
        };
        backends.insert(name.clone(), Connected { backend, with: wanted.clone() });
    }
    Ok(backends)
}

/// Connects one backend, isolated from everything else. Crashes of its adapter are counted in `metrics`.
pub(super) async fn connect_one(
    config: &Config,
    registry: &Registry,
    program: PathBuf,
    name: &str,
    wanted: &config::Backend,
    metrics: Option<&Arc<Metrics>>,
) -> taskbridge_sdk::Result<Arc<dyn Backend>> {
    if let Some(host) = &wanted.host {
        on_this_machine(host)?;
    }
    let adapter = registry.get(&wanted.kind);
    let adapter = adapter.ok_or_else(|| Error::config(format!("no adapter of kind `{}`", wanted.kind)))?;
    let context = Connect {
        name: name.to_owned(),
        config_dir: config.dir.clone(),
        state_dir: config.store.backends_dir.join(name),
        program,
        call_limit: config.reconciler.lease / 2,
    };
    let connecting = (adapter.connect)(wanted.fields.clone(), context);
    let connecting = Isolation::new(name, metrics)?.connect(connecting);
    match tokio::time::timeout(PATIENCE, connecting).await {
        Ok(connected) => connected,
        Err(_) => {
            Err(Error::unavailable(format!("it did not connect within {} seconds", PATIENCE.as_secs())))
        }
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
