//! From a config to an [`App`]: the store is opened, the backends are connected, and everything is wired. Nothing runs
//! yet.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Registry;

use super::connect::connect;
use super::{App, AppError};
use crate::auth::{ApiKeys, Authenticator};
use crate::catalog::Catalog;
use crate::clock::{self, System};
use crate::config::{AuthMode, Config, StoreKind};
use crate::current::Current;
use crate::mcp::offers::Offers;
use crate::mcp::speakers::Speakers;
use crate::mcp::{self, Bridge};
use crate::seal::Seal;
use crate::store::sqlite::{Mode, SqliteStore};
use crate::tasks::ledger::{Ledger, Nudge};
use crate::tasks::pace::Pace;
use crate::tasks::reconciler::{Engines, Reconciler, Settings};
use crate::tasks::service::Service;
use crate::tasks::store::{Holder, Store};
use crate::tasks::watch::Watch;

/// The longest time between two looks into the store for what no hint told of.
const TICK: Duration = Duration::from_secs(1);
/// Rows that are acted on at once. Each waits in its backend's own line of calls.
const MAX_ACTS: usize = 512;

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
        let engines = Engines::new(backends.clone(), calls);
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
