//! What the endpoint serves: the bridge over a database, with its config, a stopped clock and deterministic
//! randomness.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taskbridge::audit::{AuditDependencies, Auditor};
use taskbridge::catalog::Catalog;
use taskbridge::clock::{Clock, Entropy};
use taskbridge::current::Current;
use taskbridge::mcp::features::context::FeatureContext;
use taskbridge::mcp::features::offers::Offers;
use taskbridge::mcp::features::resources::EngineReads;
use taskbridge::mcp::session::SessionState;
use taskbridge::mcp::{Bridge, CompanionTools, Settings};
use taskbridge::seal::Seal;
use taskbridge::sessions::ServerStore;
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::Engines;
use taskbridge::tasks::service::{Outbox, Service};
use taskbridge::tasks::store::Holder;
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge::{adapters, config};
use taskbridge_sdk::Timestamp;
use tokio::sync::mpsc;

/// A config with one example of everything that parses client input.
const CONFIG: &str = r#"
[backends.sim]
kind = "sim"

[tools.run]
backend = "sim"
target = {}
parameters.n = { type = "integer", required = false }

[tools.careful]
backend = "sim"
target = {}
confirm = "Really?"

[tools.deploy]
backend = "sim"
target = {}
confirm = "Deploy to {{ env }}?"
parameters.env = { type = "string", enum = ["staging", "production"], ask = "Where to?" }
parameters.note = { type = "string", required = false }

[tools.routed]
backend = "sim"
target = {}
parameters.region = { type = "string", header = "Region" }
parameters.count = { type = "integer", required = false, header = "Count" }
parameters.dry = { type = "boolean", required = false, header = "Dry" }

[resources.runbook]
uri = "runbook://deploy"
text = "Roll back."

[resources.service]
uri = "service://{id}/data"
text = "about {{ id }}"
places.id = { suggest = ["api", "web"] }

[resources.region]
uri = "region://{name}"
text = "about {{ name }}"
places.name = {}

[prompts.release]
arguments = [{ name = "env", same_as = "deploy.env" }, { name = "notes", required = false }]
messages = [{ text = "Release to {{ env }}." }]

[prompts.plain]
messages = [{ text = "Hello." }]
"#;

/// Maximum size of a request body.
const MAX_BODY: usize = 64 * 1024;

/// A stopped clock.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }
}

/// Numbers that depend only on how many were drawn before.
#[derive(Default)]
pub(crate) struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mixed = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&mixed.to_be_bytes()[..chunk.len()]);
        }
    }
}

/// Creates a bridge over a database in this folder.
pub(crate) fn bridge(dir: &Path, seal: &Seal, entropy: &Arc<dyn Entropy>) -> Bridge {
    let clock: Arc<dyn Clock> = Arc::new(FixedClock);
    let store = SqliteStore::open(&dir.join("tasks.db"), Arc::clone(&clock), Mode::Inline).unwrap();
    let store: Arc<dyn ServerStore> = Arc::new(store);
    let config = config::parse(Path::new("fuzz.toml"), dir, CONFIG, &adapters::all(), Some(dir)).unwrap();
    let catalog = Catalog::new(config.tools, config.slot_limits, seal.clone())
        .with_content(config.resources, config.prompts);
    let catalog = Arc::new(Current::new(catalog));
    let writer = TaskWriter {
        store: store.clone(),
        watch: ChangeNotifier::default(),
        clock: Arc::clone(&clock),
        receivers: Arc::new(taskbridge::tasks::notices::NoReceivers),
        tools: Arc::clone(&catalog) as _,
        nudge: Arc::new(ReconcilerSignals::default()),
        history_recorder: HistoryRecorder { replica: Holder("fuzz".to_owned()), enabled: true },
        meter: Arc::new(taskbridge::tasks::meter::Unmetered),
        audit: Arc::new(taskbridge::tasks::audit::LogOnlyAudit),
    };
    let outbox = Outbox {
        committed_starts: mpsc::channel(1).0,
        deferred_writes: mpsc::unbounded_channel().0,
        engines: Engines::default(),
    };
    let poll_intervals =
        PollIntervals { shortest: Duration::from_millis(50), longest: Duration::from_secs(30) };
    let holder = Holder("fuzz".to_owned());
    // A call returns a handle at once, and lists have pages.
    let settings = Settings {
        call_budget: Duration::ZERO,
        quick_wait: Duration::ZERO,
        progress_every: Duration::from_secs(5),
        companion_tools: CompanionTools::Always,
        page_size: 1,
        session_lifetime: Duration::from_secs(3600),
        max_log_bytes: 1024,
        max_artifact_bytes: 1024,
        max_body_bytes: MAX_BODY,
        max_polls_per_second: u32::MAX,
        limits: taskbridge::mcp::wire::limits::Limits::default(),
        max_calls_per_minute: u32::MAX,
    };
    let service =
        Service::new(writer, Arc::clone(entropy), holder, Duration::from_secs(30), poll_intervals, outbox);
    let replica = "fuzz".to_owned();
    let dependencies = AuditDependencies {
        seal: seal.clone(),
        clock: Arc::clone(&clock),
        entropy: Arc::clone(entropy),
        replica,
    };
    let audit = Arc::new(Auditor::off(dependencies));
    Bridge {
        context: FeatureContext {
            service,
            offers: Offers::new(catalog, settings),
            seal: seal.clone(),
            clock,
            entropy: Arc::clone(entropy),
            audit,
        },
        reads: EngineReads::new(BTreeMap::new()),
        sessions: SessionState::new(store),
        metrics: Arc::default(),
    }
}
