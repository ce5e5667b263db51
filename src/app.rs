//! Builds the parts and wires them, and spawns what runs beside the requests: the only place that spawns. It must
//! not decide anything about a task or the protocol.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{Backend, Connect, Registry};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::auth::{ApiKeys, Authenticator};
use crate::catalog::Catalog;
use crate::clock::{self, System};
use crate::config::{AuthMode, Config, StoreKind};
use crate::current::Current;
use crate::mcp::offers::Offers;
use crate::mcp::origin::Doors;
use crate::mcp::speakers::Speakers;
use crate::mcp::{self, Bridge, http, stdio};
use crate::seal::Seal;
use crate::store::sqlite::{Mode, SqliteStore};
use crate::tasks::ledger::{Ledger, Nudge};
use crate::tasks::pace::Pace;
use crate::tasks::reconciler::{Engines, Reconciler, Settings};
use crate::tasks::service::Service;
use crate::tasks::store::{Holder, Store, StoreError};
use crate::tasks::watch::Watch;

/// The longest time between two looks into the store for what no hint told of.
const TICK: Duration = Duration::from_secs(1);
/// Rows that are acted on at once. Each waits in its backend's own line of calls.
const MAX_ACTS: usize = 512;

/// A server that is ready to serve.
pub struct App {
    bridge: Arc<Bridge>,
    auth: Arc<Authenticator>,
    reconciler: Reconciler,
    config: Config,
}

/// Why the server cannot start, or go on.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The address cannot be listened on.
    #[error("{}", cannot_listen(.address, .source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A folder for state cannot be made.
    #[error("{}: the folder for state cannot be made: {source}; choose another with `path` in [store]", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
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
        /// Why not.
        source: taskbridge_sdk::Error,
    },
    /// Something in the config that was not seen before.
    #[error("{0}")]
    Config(String),
    /// The one client's input or output is broken.
    #[error("standard input or output cannot be used: {0}")]
    Stdio(io::Error),
    /// What acts on tasks has ended although nobody stopped it. Rows say what is left to do.
    #[error("the loops that act on tasks broke: start the server again")]
    Loops,
}

/// Listens on the config's address.
///
/// # Errors
/// See [`AppError::Listen`].
pub async fn listen(config: &Config) -> Result<TcpListener, AppError> {
    let address = config.server.listen;
    TcpListener::bind(address).await.map_err(|source| AppError::Listen { address, source })
}

fn cannot_listen(address: &SocketAddr, source: &io::Error) -> String {
    let why = match source.kind() {
        io::ErrorKind::AddrInUse => "something else listens there, perhaps another taskbridge".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not use that port".to_owned(),
        _ => source.to_string(),
    };
    format!(
        "cannot listen on {address}: {why}. Choose another with --listen ADDRESS:PORT or `listen` in [server]"
    )
}

impl App {
    /// Opens the store, connects the backends and wires everything. Nothing runs yet. `program` is this program's
    /// file, which adapters run in their helper role.
    ///
    /// # Errors
    /// See [`AppError`].
    pub async fn build(mut config: Config, registry: &Registry, program: PathBuf) -> Result<Self, AppError> {
        let (clock, entropy) = (System::clock(), System::entropy());
        let store = open_store(&config)?;
        let key = store.seal_key(clock::random(&*entropy)).await?;
        let seal = Seal::new(&key, Arc::clone(&entropy));
        let backends = connect(&config, registry, program).await?;

        let tools = std::mem::take(&mut config.tools);
        let (resources, prompts) =
            (std::mem::take(&mut config.resources), std::mem::take(&mut config.prompts));
        let catalog = Catalog::new(tools, config.limits.clone(), seal.clone()).with(resources, prompts);
        let catalog = Arc::new(Current::new(catalog));
        let ledger = Ledger {
            store: Arc::clone(&store),
            watch: Watch::default(),
            clock: Arc::clone(&clock),
            tools: Arc::clone(&catalog) as _,
            nudge: Arc::new(Nudge::default()),
        };
        let nonce: [u8; 16] = clock::random(&*entropy);
        let holder = Holder(data_encoding::BASE32_NOPAD.encode(&nonce).to_ascii_lowercase());
        let lease = config.reconciler.lease;
        let pace =
            Pace { quickest: config.reconciler.quickest_look, slowest: config.reconciler.slowest_look };
        let calls = config.reconciler.max_concurrent_calls.get();
        let engines = backends
            .iter()
            .fold(Engines::default(), |all, (name, backend)| all.with(name, Arc::clone(backend), calls));
        let settings = Settings { lease, tick: TICK, pace, max_acts: MAX_ACTS };
        let reconciler = Reconciler::new(ledger.clone(), engines, holder.clone(), settings);
        let service = Service::new(ledger, Arc::clone(&entropy), holder, lease, pace, reconciler.outbox());
        let bridge = Bridge {
            service,
            offers: Offers::new(catalog, protocol_settings(&config)),
            backends: Current::new(backends),
            seal,
            store,
            clock,
            entropy,
            speakers: Speakers::default(),
        };
        let auth = Arc::new(authenticator(&config)?);
        Ok(Self { bridge: Arc::new(bridge), auth, reconciler, config })
    }

    /// Serves HTTP on a listener until `stop` is cancelled; then requests and engine calls in hand may finish, for as
    /// long as the config allows.
    ///
    /// # Errors
    /// See [`AppError`].
    pub async fn serve_http(self, listener: TcpListener, stop: CancellationToken) -> Result<(), AppError> {
        let server = &self.config.server;
        let doors =
            Doors::new(server.listen.ip(), server.allowed_origins.clone(), server.allowed_hosts.clone())
                .map_err(AppError::Config)?;
        let options = http::Options { doors, max_body_bytes: server.max_body_bytes.get() };
        let serving = http::serve(listener, Arc::clone(&self.bridge), self.auth, options, stop.clone());
        let stop_within = server.stop_within;
        beside(self.reconciler, serving, &stop, stop_within).await.map(|_| ())
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
        let most = self.config.server.max_body_bytes.get();
        let serving = stdio::serve(input, output, &self.bridge, most, stop.clone());
        let served = beside(self.reconciler, serving, &stop, self.config.server.stop_within).await?;
        served.unwrap_or(Ok(())).map_err(AppError::Stdio)
    }
}

/// Serves with the reconciler beside it. Once serving is over or `stop` is cancelled, all that is in hand has
/// `stop_within` to end; `None` if serving was cut off then.
async fn beside<T>(
    reconciler: Reconciler,
    serving: impl Future<Output = T>,
    stop: &CancellationToken,
    stop_within: Duration,
) -> Result<Option<T>, AppError> {
    let stop_loops = CancellationToken::new();
    let mut loops = spawn(reconciler.run(stop_loops.clone()));
    let mut serving = std::pin::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => Some(served),
        () = stop.cancelled() => None,
        _ = &mut loops => return Err(AppError::Loops),
    };
    let end = async {
        let served = match served {
            Some(served) => served,
            None => serving.await,
        };
        stop_loops.cancel();
        loops.await.map(|()| served).map_err(|_| AppError::Loops)
    };
    match tokio::time::timeout(stop_within, end).await {
        Ok(served) => served.map(Some),
        Err(_) => {
            tracing::warn!("not everything ended in time; what is left is taken up again at the next start");
            Ok(None)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

fn open_store(config: &Config) -> Result<Arc<dyn Store>, AppError> {
    let place = &config.store;
    make_folder(place.path.parent().unwrap_or(Path::new("/")))?;
    match place.kind {
        StoreKind::Sqlite => Ok(Arc::new(SqliteStore::open(&place.path, System::clock(), Mode::Threaded)?)),
    }
}

/// State is for its user alone.
fn make_folder(folder: &Path) -> Result<(), AppError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| AppError::Folder { folder: folder.to_owned(), source })
}

async fn connect(
    config: &Config,
    registry: &Registry,
    program: PathBuf,
) -> Result<HashMap<String, Arc<dyn Backend>>, AppError> {
    let mut backends = HashMap::new();
    for (name, backend) in &config.backends {
        let place = || match backend.line {
            Some(line) => format!("{}:{line}", config.file.display()),
            None => config.file.display().to_string(),
        };
        let Some(adapter) = registry.get(&backend.kind) else {
            return Err(AppError::Config(format!("{}: no adapter of kind `{}`", place(), backend.kind)));
        };
        let context = Connect {
            name: name.clone(),
            config_dir: config.dir.clone(),
            state_dir: config.store.backends_dir.join(name),
            program: program.clone(),
        };
        let connected = (adapter.connect)(backend.fields.clone(), context).await;
        let connected =
            connected.map_err(|source| AppError::Backend { place: place(), name: name.clone(), source })?;
        backends.insert(name.clone(), connected);
    }
    Ok(backends)
}

fn authenticator(config: &Config) -> Result<Authenticator, AppError> {
    let auth = &config.auth;
    match auth.mode {
        AuthMode::None => Ok(Authenticator::None { single_user: auth.single_user }),
        AuthMode::ApiKeys => {
            let digests: Vec<(&str, String)> = auth
                .keys
                .iter()
                .map(|key| (key.principal.as_str(), data_encoding::HEXLOWER.encode(&key.sha256)))
                .collect();
            let keys = ApiKeys::new(digests.iter().map(|(principal, digest)| (*principal, digest.as_str())));
            keys.map(Authenticator::ApiKeys).map_err(|error| AppError::Config(error.to_string()))
        }
    }
}

fn protocol_settings(config: &Config) -> mcp::Settings {
    use crate::config::CompanionTools;
    let server = &config.server;
    mcp::Settings {
        call_budget: server.call_budget,
        quick_wait: server.quick_wait,
        progress_every: server.progress_every,
        companion_tools: match server.companion_tools {
            CompanionTools::Auto => mcp::CompanionTools::Auto,
            CompanionTools::Always => mcp::CompanionTools::Always,
            CompanionTools::Never => mcp::CompanionTools::Never,
        },
        page_size: server.page_size.get(),
        session_lifetime: server.session_lifetime,
        max_log_bytes: server.max_log_bytes.get(),
        max_artifact_bytes: server.max_artifact_bytes,
        max_polls_per_second: server.max_polls_per_second.get(),
    }
}
