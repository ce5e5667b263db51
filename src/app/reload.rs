//! Reloads the config on SIGHUP, or when one of its files changes, and applies it entirely or not at all.
//! Changes that take effect only at the next start are logged. Requests in progress continue with the config
//! that they started with.
//!
//! Discovered tools are applied here too, so that only one place replaces the client-facing catalog.
//!
//! The reloader polls its files a few times a second. That costs one system call per file and works on any
//! file system. It detects every kind of change by an editor or orchestrator: a write in place, a rename, a
//! symlink that changes its target.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Registry;

use serde_json::{Value, json};

use super::connect::{Backends, Connector, connect, discovery_backends, handles};
use super::connection_retries::{ConnectionRetries, RetriedBackend};
use super::discovery::Discoveries;
use super::offered::{ClientFacingConfig, ConfiguredCatalog};
use super::{App, AppError, unconnected};
use crate::audit::record::Kind;
use crate::clock::{Clock as _, System};
use crate::config::{self, Config, ConfigLoad, Differences, Parts, Sources, StoreSettings};
use crate::mcp::Bridge;
use crate::mcp::transport::http::AccessControl;
use crate::metrics::Metrics;
use crate::notify::Receivers;
use crate::shutdown::Hangups;
use crate::tasks::reconciler::Engines;
use crate::tasks::store::Store;

/// Poll interval of the config files.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long changed files must stay unchanged before they are read, because a write may still be in progress.
const SETTLE: Duration = Duration::from_millis(200);

/// The source of a config, for reading it again.
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The file and the files that it refers to, with their state when they were read.
    pub sources: Sources,
    /// The adapters.
    pub registry: Registry,
    /// Path of this executable.
    pub program: PathBuf,
    /// Default location of state if the config names none.
    pub state_home: Option<PathBuf>,
    /// Whether a config is refused if one of its backends cannot connect.
    pub strict: bool,
}

/// The config in force, with which a new one is compared.
#[derive(Clone)]
pub(super) struct CurrentConfig {
    pub(super) engines: Engines,
    /// All backends that were connected by this process. Those that the config no longer has stay, because
    /// they may have tasks. Only a backend whose `host` names another machine now is removed.
    pub(super) backends: Backends,
    parts: Parts,
    /// The config at the start. Some of its settings apply until the server ends.
    at_start: Parts,
    listen: SocketAddr,
    store: StoreSettings,
    max_calls: usize,
    /// Measures the calls to backends, if metrics or telemetry are enabled.
    metrics: Option<Arc<Metrics>>,
}

/// The loop that reloads the config, and applies discovered tools and retried connections.
struct Reloader {
    origin: Origin,
    current_config: CurrentConfig,
    configured_catalog: ConfiguredCatalog,
    discoveries: Discoveries,
    /// Backends that could not be connected.
    connection_retries: ConnectionRetries,
    bridge: Arc<Bridge>,
    store: Arc<dyn Store>,
    access_control: Arc<AccessControl>,
    receivers: Receivers,
}

/// The effect of a config that was applied.
struct ReloadEffect {
    /// Changes that apply immediately.
    immediate: Differences,
    /// Changes that apply after a restart.
    at_start: Differences,
    /// Backends that this reload removed from the config.
    removed: Vec<String>,
}

impl CurrentConfig {
    /// Returns the state for this config and its backends at the start of the server.
    pub(super) fn of(config: &Config, backends: Backends, metrics: Option<Arc<Metrics>>) -> Self {
        let max_calls = config.reconciler.max_concurrent_calls.get();
        Self {
            engines: Engines::new(handles(&backends), max_calls),
            backends,
            parts: config.parts.clone(),
            at_start: config.parts.clone(),
            listen: config.server.listen,
            store: config.store.clone(),
            max_calls,
            metrics,
        }
    }
}

impl App {
    /// Enables config reloads, connection retries and discovery while the server runs.
    #[must_use]
    pub(crate) fn with_reload(mut self, origin: Origin, hangups: Hangups) -> Self {
        let reloader = Reloader::of(&mut self, origin);
        Self { reload_loop: Box::pin(reloader.run(hangups)), ..self }
    }
}

impl Reloader {
    fn of(app: &mut App, origin: Origin) -> Self {
        // From now on only the reloader polls for discovered tools.
        let (configured_catalog, discoveries) =
            (app.configured_catalog.clone(), std::mem::take(&mut app.discoveries));
        let connection_retries = std::mem::take(&mut app.connection_retries);
        let (bridge, access_control) = (Arc::clone(&app.bridge), Arc::clone(&app.access_control));
        let (current_config, receivers) = (app.current_config.clone(), app.receivers.clone());
        Self {
            origin,
            current_config,
            configured_catalog,
            discoveries,
            connection_retries,
            bridge,
            store: Arc::clone(&app.store),
            access_control,
            receivers,
        }
    }

    async fn run(mut self, mut hangups: Hangups) -> Infallible {
        let mut settling: Option<Sources> = None;
        loop {
            tokio::select! {
                () = hangups.next() => {
                    tracing::info!("SIGHUP: config is read again");
                    settling = None;
                    self.reload().await;
                    self.connection_retries.retry_now();
                }
                () = self.discoveries.changed() => self.apply_catalog().await,
                newly = self.connection_retries.next() => self.apply_connection(newly).await,
                () = tokio::time::sleep(if settling.is_some() { SETTLE } else { POLL_INTERVAL }) => {
                    let known = self.origin.sources.clone();
                    let now = run_blocking(move || known.now()).await;
                    let settled = settling.as_ref() == Some(&now);
                    settling = (now != self.origin.sources && !settled).then_some(now);
                    if settled {
                        self.reload().await;
                    }
                }
            }
        }
    }

    /// Applies the tools that backends offer now, and stores them for the next start.
    async fn apply_catalog(&mut self) {
        let catalog = self.discoveries.build_catalog(&self.configured_catalog, &self.origin.registry);
        self.bridge.context.offers.replace_catalog(catalog);
        self.discoveries.save(&*self.store, &self.configured_catalog.tool_rules).await;
    }

    /// Applies the result of a connection attempt after an earlier failure.
    async fn apply_connection(&mut self, retried: Option<RetriedBackend>) {
        let Some(retried) = retried else {
            self.current_config.engines.set_unconnected(self.connection_retries.unconnected());
            return;
        };
        let mut backends = self.current_config.backends.clone();
        if let Err(why) = retried.put(&mut backends) {
            self.connection_retries.retry_later(retried, why);
            self.current_config.engines.set_unconnected(self.connection_retries.unconnected());
            return;
        }
        tracing::info!("backend `{}` connected", retried.name);
        self.use_backends(backends);
        self.discoveries
            .set_backends(discovery_backends(
                &self.configured_catalog.tool_rules,
                &self.current_config.backends,
            ))
            .await;
        self.apply_catalog().await;
    }

    /// Uses these backends for calls from now on.
    fn use_backends(&mut self, backends: Backends) {
        self.current_config.engines.replace(handles(&backends), self.current_config.max_calls);
        self.current_config.engines.set_unconnected(self.connection_retries.unconnected());
        self.bridge.reads.replace(handles(&backends));
        self.current_config.backends = backends;
    }

    async fn reload(&mut self) {
        let Origin { file, registry, state_home, .. } = &self.origin;
        let (file, registry, state_home) = (file.clone(), registry.clone(), state_home.clone());
        let ConfigLoad { config, sources } =
            run_blocking(move || config::read(&file, &registry, state_home.as_deref())).await;
        // Valid or not, the config is not read again before its files change or SIGHUP arrives.
        self.origin.sources = sources;
        let result = match config {
            Ok(config) => self.apply(config).await,
            Err(problems) => Err(problems.into()),
        };
        match result {
            Ok(effect) => {
                effect.log();
                let detail = json!({
                    "changed": effect.immediate.to_string(),
                    "at_start": effect.at_start.to_string(),
                });
                self.bridge.context.audit.server_event(Kind::ConfigReloaded, "ok", detail);
            }
            Err(error) => {
                self.bridge.context.audit.server_event(Kind::ConfigReloaded, "refused", Value::Null);
                tracing::error!("config refused, the previous one stays in force:");
                error.to_string().lines().for_each(|line| tracing::error!("{line}"));
            }
        }
    }

    /// Applies a config, or changes nothing.
    async fn apply(&mut self, mut config: Config) -> Result<ReloadEffect, AppError> {
        let CurrentConfig { parts, at_start, listen, store, .. } = &self.current_config;
        let effect = ReloadEffect {
            immediate: parts.differences(&config.parts).immediate(),
            at_start: at_start.differences(&config.parts).after_restart(),
            removed: Vec::new(),
        };
        if *parts == config.parts {
            return Ok(effect);
        }
        // An empty config could start a server, but it would also admit everyone who can reach the server.
        if config.parts.is_empty() {
            let file = config.file.display();
            let message = "the file has no tables, perhaps because a write is in progress; to apply an empty config, \
                           restart the server";
            return Err(AppError::Config(format!("{file}: {message}")));
        }
        // The listen address stays. A rule for another address must not admit callers who can reach this one.
        config.listen_on(*listen).map_err(|error| {
            let file = config.file.display();
            AppError::Config(format!(
                "{file}: server.listen: takes effect after a restart, and until then {error}"
            ))
        })?;
        config.store = store.clone();
        let warnings = config.warnings(System.now());
        let Origin { registry, program, strict, .. } = &self.origin;
        let CurrentConfig { backends, metrics, .. } = &self.current_config;
        let connector = Connector::of(&config, registry, program, metrics.as_ref());
        let (backends, failed) = connect(&config, &connector, backends).await?;
        if *strict && !failed.is_empty() {
            return Err(unconnected(&failed, true));
        }
        let removed: Vec<String> = backends
            .keys()
            .filter(|name| !config.backends.contains_key(*name) && parts.has("backends", name))
            .cloned()
            .collect();
        let (parts, keys, notify) = (config.parts.clone(), config.seal.clone(), config.notify.clone());
        let to_discover = discovery_backends(&config.tool_rules, &backends);
        let ClientFacingConfig { configured_catalog, settings, rules } =
            ClientFacingConfig::of(config, self.bridge.context.seal.clone())?;

        self.discoveries.load(&*self.store, &configured_catalog.tool_rules).await;

        // Nothing below can fail. Callers that lose access are shut out first. A tool is offered only after
        // its backend is in use.
        self.access_control.replace(rules);
        self.connection_retries.replace(failed, &connector);
        self.discoveries.set_backends(to_discover).await;
        let catalog = self.discoveries.build_catalog(&configured_catalog, &self.origin.registry);
        self.bridge.context.seal.replace(&keys);
        self.use_backends(backends);
        self.bridge.context.offers.replace(catalog, settings);
        self.receivers.replace(notify);
        self.configured_catalog = configured_catalog;
        self.current_config.parts = parts;
        self.discoveries.save(&*self.store, &self.configured_catalog.tool_rules).await;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(ReloadEffect { removed, ..effect })
    }
}

impl ReloadEffect {
    fn log(&self) {
        match self.immediate.is_empty() {
            true => tracing::info!("config read again: no changes"),
            false => tracing::info!("config applied: {}", self.immediate),
        }
        for name in &self.removed {
            tracing::info!(
                "backend `{name}` is no longer in the config: it stays connected for its tasks until the server stops"
            );
        }
        if !self.at_start.is_empty() {
            tracing::warn!("takes effect after a restart: {}", self.at_start);
        }
    }
}

/// Runs work that may wait for a disk on a thread for blocking calls.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // The work is never cancelled, so it can only fail by a panic, which is resumed here.
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters;

    const KEY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// A config without auth for another address is not applied while the server is reachable from outside.
    #[tokio::test]
    async fn reload_keeps_auth_of_listen_address() {
        let folder = tempfile::tempdir().unwrap();
        let (file, registry) = (folder.path().join("x.toml"), adapters::all());
        let parse =
            |text: &str| config::parse(&file, folder.path(), text, &registry, Some(folder.path())).unwrap();
        let keys =
            format!("[auth]\nmode = \"api_keys\"\nkeys = [{{ principal = \"a\", sha256 = \"{KEY}\" }}]\n");
        let reachable = parse(&format!("{keys}[server]\nlisten = \"0.0.0.0:1\"\n"));
        let mut app = App::build(reachable, &registry, PathBuf::new(), false).await.unwrap();
        let (sources, program) = (Sources::default(), PathBuf::new());
        let origin = Origin {
            file: file.clone(),
            sources,
            registry: registry.clone(),
            program,
            state_home: None,
            strict: false,
        };
        let mut reloader = Reloader::of(&mut app, origin);
        let refused = reloader.apply(parse("[server]\nlisten = \"127.0.0.1:1\"\n")).await;
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("until then other machines can reach 0.0.0.0:1"), "{refused}");
        let with_keys = parse(&format!("{keys}[server]\nlisten = \"127.0.0.1:1\"\npage_size = 7\n"));
        let effect = reloader.apply(with_keys).await.ok().unwrap();
        assert_eq!(effect.at_start.to_string(), "[server] listen");
        assert_eq!(effect.immediate.to_string(), "[server] page_size");
        assert_eq!(app.bridge.context.settings().page_size, 7);
    }
}
