//! Builds an [`App`] from a config: opens the store, connects the backends and wires the parts. It starts no
//! loop and listens on no address.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Registry;

use super::connect::{Backends, Connector, connect, discovery_backends, handles};
use super::connection_retries::ConnectionRetries;
use super::discovery::Discoveries;
use super::offered::ClientFacingConfig;
use super::reload::CurrentConfig;
use super::stores::open_store;
use super::{App, AppError, unconnected};
use crate::audit::{AuditDependencies, Auditor};
use crate::clock::{self, Clock, Entropy, MachineClock, System};
use crate::config::Config;
use crate::current::Current;
use crate::mcp::Bridge;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::offers::Offers;
use crate::mcp::features::resources::EngineReads;
use crate::mcp::session::SessionState;
use crate::mcp::transport::http::AccessControl;
use crate::metrics::{AuditCounters, Metrics, Scraper};
use crate::notify::{Http, Notifier, Receivers};
use crate::seal::Seal;
use crate::tasks::history::HistoryRecorder;
use crate::tasks::meter::{Meter, Unmetered};
use crate::tasks::pace::PollIntervals;
use crate::tasks::reconciler::{Reconciler, Settings};
use crate::tasks::service::Service;
use crate::tasks::store::Holder;
use crate::tasks::store::time::StoreTime;
use crate::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use crate::tasks::watch::ChangeNotifier;

/// Longest interval between two reads of the store without a hint.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of concurrent actions on rows, not counting those that have a call permit. They wait for a
/// permit of their backend.
const MAX_ACTIONS: usize = 512;

impl App {
    /// Opens the store, connects the backends and wires everything. Waits a few seconds for the first
    /// discovery of tools. `program` is the path of this executable, which adapters run in their helper role.
    /// Backends that cannot connect are left out for now. It is an error if `strict` is set, if none
    /// connects, or if no retry could fix it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub async fn build(
        config: Config,
        registry: &Registry,
        program: PathBuf,
        strict: bool,
    ) -> Result<Self, AppError> {
        let entropy = System::entropy();
        let holder = replica(&*entropy);
        let (store, audit_lines) = open_store(&config, &holder).await?;
        let time = StoreTime::of(Arc::clone(&store) as _, System::uptime()).await?;
        time.compare().await?;
        let clock: Arc<dyn Clock> = time.clone();
        let metrics = Arc::new(Metrics::default());
        // Without a metrics page, the store and the tasks are not measured. Backends are measured for spans
        // as well.
        let task_metrics = config.metrics.is_some().then_some(&metrics);
        let backend_metrics = (config.metrics.is_some() || config.telemetry.is_some()).then_some(&metrics);
        let store =
            task_metrics.map_or(Arc::clone(&store), |metrics| metrics.store(store, Arc::clone(&clock)));
        let key = store.seal_key(clock::random(&*entropy)).await?;
        let seal = Seal::new(&key, Arc::clone(&entropy));
        seal.replace(&config.seal);
        let connector = Connector::of(&config, registry, &program, backend_metrics);
        let (backends, failed) = connect(&config, &connector, &Backends::new()).await?;
        if !failed.is_empty() && (strict || backends.is_empty()) {
            return Err(unconnected(&failed, strict));
        }
        let mut connection_retries = ConnectionRetries::default();
        connection_retries.replace(failed, &connector);

        let mut discoveries = Discoveries::default();
        discoveries.load(&*store, &config.tool_rules).await;
        discoveries.set_backends(discovery_backends(&config.tool_rules, &backends)).await;
        discoveries.save(&*store, &config.tool_rules).await;
        let (drain_for, stop_within) = (config.server.drain_for, config.server.stop_within);
        let (reconciler_config, notify) = (config.reconciler.clone(), config.notify.clone());
        let (history, audit) = (config.store.history, config.audit.clone());
        let current_config = CurrentConfig::of(&config, backends, backend_metrics.cloned());
        current_config.engines.set_unconnected(connection_retries.unconnected());
        let (page, console) = (config.metrics.clone(), config.console());
        let ClientFacingConfig { configured_catalog, settings, rules } =
            ClientFacingConfig::of(config, seal.clone())?;
        let catalog = Arc::new(Current::new(discoveries.build_catalog(&configured_catalog, registry)));
        tracing::info!(replica = holder.0, "replica name of this process in leases and task histories");
        let dependencies = AuditDependencies {
            seal: seal.clone(),
            clock: Arc::new(MachineClock(Arc::clone(&clock))),
            entropy: Arc::clone(&entropy),
            replica: holder.0.clone(),
        };
        let (audit, audit_writer) = Auditor::new(&audit, dependencies, audit_lines);
        let audit = Arc::new(audit);
        let auditor = Arc::clone(&audit);
        metrics.set_audit_counters(move || AuditCounters {
            events: auditor.counts().map(|(kind, count)| (kind.name(), count)).collect(),
            failures: auditor.failures(),
        });
        let receivers = Receivers::new(notify);
        let task_writer = TaskWriter {
            store: Arc::clone(&store) as _,
            watch: ChangeNotifier::default(),
            clock: Arc::clone(&clock),
            tools: Arc::clone(&catalog) as _,
            receivers: Arc::new(receivers.clone()),
            nudge: Arc::new(ReconcilerSignals::default()),
            history_recorder: HistoryRecorder { replica: holder.clone(), enabled: !history.is_zero() },
            meter: task_metrics
                .map_or_else(|| Arc::new(Unmetered) as Arc<dyn Meter>, |metrics| Arc::clone(metrics) as _),
            audit: Arc::clone(&audit) as _,
        };
        let scraper = page.map(|page| {
            let (store, clock, engines) =
                (Arc::clone(&store) as _, Arc::clone(&clock), current_config.engines.clone());
            (Scraper::new(Arc::clone(&metrics), store, clock, engines), page)
        });
        let (lease, nudge) = (reconciler_config.lease, Arc::clone(&task_writer.nudge));
        let poll_intervals = PollIntervals {
            shortest: reconciler_config.quickest_look,
            longest: reconciler_config.slowest_look,
        };
        let loop_settings = Settings { lease, tick: TICK, poll_intervals, max_actions: MAX_ACTIONS, history };
        let engines = current_config.engines.clone();
        let reconciler =
            Reconciler::new(task_writer.clone(), engines, holder.clone(), loop_settings).with_time(time);
        let notifier = Notifier::new(task_writer.clone(), receivers.clone(), holder.clone(), Http);
        let service = Service::new(
            task_writer,
            Arc::clone(&entropy),
            holder,
            lease,
            poll_intervals,
            reconciler.outbox(),
        );
        let bridge = Bridge {
            context: FeatureContext {
                service,
                offers: Offers::new(catalog, settings),
                seal,
                clock,
                entropy,
                audit,
            },
            reads: EngineReads::new(handles(&current_config.backends)),
            sessions: SessionState::new(Arc::clone(&store)),
            metrics,
        };
        let reload_loop = Box::pin(std::future::pending());
        let (bridge, access_control) = (Arc::new(bridge), Arc::new(AccessControl::new(rules)));
        Ok(Self {
            bridge,
            store,
            access_control,
            reconciler,
            notifier,
            receivers,
            nudge,
            drain_for,
            stop_within,
            current_config,
            configured_catalog,
            discoveries,
            connection_retries,
            scraper,
            metrics_listener: None,
            console,
            console_listener: None,
            console_printer: Box::new(|_| {}),
            reload_loop,
            audit_writer,
        })
    }
}

/// Returns a unique name for this process. It includes the host name.
fn replica(entropy: &dyn Entropy) -> Holder {
    let nonce: [u8; 10] = clock::random(entropy);
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let node: String = node.chars().take_while(is_plain).take(24).collect();
    Holder(format!("{node}.{}", data_encoding::BASE32_NOPAD.encode(&nonce).to_ascii_lowercase()))
}
