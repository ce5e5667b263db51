//! One process of a simulation: the real service and the real reconciler over the real store, with points
//! around every access to the store and the engines. It must not decide which faults it gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge_core::clock::{Clock, Entropy};
use taskbridge_core::tasks::history::HistoryRecorder;
use taskbridge_core::tasks::notices::{NoticeKind, Receivers};
use taskbridge_core::tasks::pace::PollIntervals;
use taskbridge_core::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge_core::tasks::service::Service;
use taskbridge_core::tasks::store::time::StoreTime;
use taskbridge_core::tasks::store::{Holder, SlotLimit, Store};
use taskbridge_core::tasks::task::Spec;
use taskbridge_core::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge_core::tasks::tools::{OpenedSpec, ToolCatalog};
use taskbridge_core::tasks::watch::ChangeNotifier;
use taskbridge_sdk::{Backend, Output, Questions, Result};
use tokio_util::sync::CancellationToken;

use super::bugs::Bug;
use super::clocks::WorldUptime;
use super::connection::Connection;
use super::engines::EngineFaults;
use super::leases::Leases;
use super::points::Points;

/// Duration of a lease in a simulation.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// How often a process polls for due rows without a hint.
pub(super) const TICK: Duration = Duration::from_secs(10);
/// Maximum number of concurrent calls from a process to one engine.
const MAX_CALLS_PER_ENGINE: usize = 4;

/// The parts of a process.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    /// The engines that it can be connected to.
    pub(super) engine_links: Vec<EngineLink>,
    /// The world's clock, which is never set.
    pub(super) world_clock: Arc<dyn Clock>,
    pub(super) leases: Arc<Leases>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) points: Arc<Points>,
    pub(super) bug: Option<Bug>,
}

/// The connection from one process to one engine.
pub(super) struct EngineLink {
    pub(super) name: &'static str,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) identity: Option<&'static str>,
    /// See [`Questions::needs_token`].
    pub(super) needs_token: bool,
    pub(super) faults: Arc<EngineFaults>,
    pub(super) is_cut: Arc<AtomicBool>,
    /// True if the config at the start of the process has it.
    pub(super) is_configured: bool,
}

impl EngineLink {
    /// Creates a connection that is never cut, to an engine with only the faults of its backend.
    pub(super) fn to(name: &'static str, backend: Arc<dyn Backend>) -> Self {
        let needs_token = backend.abilities().questions.is_some_and(Questions::needs_token);
        Self {
            name,
            backend,
            identity: None,
            needs_token,
            faults: Arc::default(),
            is_cut: Arc::default(),
            is_configured: true,
        }
    }
}

/// One running process.
pub(super) struct Node {
    pub(super) service: Service,
    pub(super) points: Arc<Points>,
    /// For the actions of operators.
    pub(super) writer: TaskWriter,
    engines: Engines,
    connections: BTreeMap<String, Arc<dyn Backend>>,
    stop: CancellationToken,
    reconciler_task: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Starts a process. Returns `None` while the store is down.
    pub(super) async fn start(parts: Parts) -> Option<Self> {
        let Parts { name, store, engine_links, world_clock, leases, entropy, points, bug } = parts;
        let holder = Holder(name);
        let poll_intervals =
            PollIntervals { shortest: Duration::from_millis(100), longest: Duration::from_secs(20) };
        let uptime = Arc::new(WorldUptime(Arc::clone(&world_clock)));
        let time = StoreTime::of(Arc::clone(&store) as _, uptime).await.ok()?;
        time.compare().await.ok()?;
        let writer = TaskWriter {
            store,
            watch: ChangeNotifier::default(),
            clock: time.clone(),
            tools: Arc::new(TestTools),
            receivers: Arc::new(NotifyAll),
            nudge: Arc::new(ReconcilerSignals::default()),
            history_recorder: HistoryRecorder { replica: holder.clone(), enabled: true },
            meter: Arc::new(taskbridge_core::tasks::meter::Unmetered),
            audit: Arc::new(taskbridge_core::tasks::audit::LogOnlyAudit),
        };
        let (mut connections, mut configured) = (BTreeMap::new(), BTreeMap::new());
        for EngineLink { name, backend, identity, needs_token, faults, is_cut, is_configured } in engine_links
        {
            let connection: Arc<dyn Backend> = Arc::new(Connection {
                backend,
                identity,
                needs_token,
                faults,
                is_cut,
                bug,
                points: Arc::clone(&points),
                holder: holder.clone(),
                leases: Arc::clone(&leases),
                world_clock: Arc::clone(&world_clock),
                hinted_jobs: Default::default(),
                first_answers: Default::default(),
            });
            if is_configured {
                configured.insert(name.to_owned(), Arc::clone(&connection));
            }
            connections.insert(name.to_owned(), connection);
        }
        let engines = Engines::new(configured, MAX_CALLS_PER_ENGINE);
        let settings = Settings {
            lease: LEASE,
            tick: TICK,
            poll_intervals,
            max_actions: 8,
            history: Duration::from_secs(3 * 3600),
        };
        let reconciler =
            Reconciler::new(writer.clone(), engines.clone(), holder.clone(), settings).with_time(time);
        let service =
            Service::new(writer.clone(), entropy, holder, LEASE, poll_intervals, reconciler.outbox());
        let stop = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "the simulation is its own app")]
        let reconciler_task = tokio::spawn(reconciler.run(stop.clone()));
        Some(Self { service, points, writer, engines, connections, stop, reconciler_task })
    }

    /// Reloads the config, which names these engines. A removed engine stays connected for its tasks until
    /// the process ends.
    pub(super) fn reload(&self, is_configured: impl Fn(&str) -> bool) {
        let served = self.engines.served();
        let is_served = |name: &str| served.iter().any(|served| served.backend == name);
        let active = self.connections.iter().filter(|(name, _)| is_configured(name) || is_served(name));
        self.engines.replace(
            active.map(|(name, connection)| (name.clone(), Arc::clone(connection))).collect(),
            MAX_CALLS_PER_ENGINE,
        );
    }

    /// Stops the process gracefully.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Reports whether it has stopped serving.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Reports whether nothing of it runs any more.
    pub(super) fn is_finished(&self) -> bool {
        self.points.is_dead() || self.reconciler_task.is_finished()
    }

    /// Reports whether it ended by itself.
    pub(super) fn ended_unexpectedly(&self) -> bool {
        self.points.has_crashed()
            || (self.reconciler_task.is_finished() && !self.is_stopping() && !self.points.is_dead())
    }
}

impl Drop for Node {
    /// Like a kill: every future of the process is dropped at its current point.
    fn drop(&mut self) {
        self.reconciler_task.abort();
    }
}

/// A receiver that wants every event.
struct NotifyAll;

impl Receivers for NotifyAll {
    fn receivers_for(&self, _tool: &str, _occasion: NoticeKind) -> Vec<String> {
        vec![RECEIVER.to_owned()]
    }
}

/// The name of that receiver.
pub(super) const RECEIVER: &str = "everything";

/// Tools of a simulation: every output is valid, slots have a limit of one, and sealing reverses the text.
struct TestTools;

/// Seals an argument.
pub(super) fn seal_text(text: &str) -> String {
    text.chars().rev().collect()
}

#[async_trait]
impl ToolCatalog for TestTools {
    fn open(&self, spec: &Spec) -> Result<OpenedSpec> {
        let mut arguments = spec.arguments.clone();
        if let Some(secret) = &spec.sealed {
            arguments["text"] = seal_text(secret).into();
        }
        Ok(OpenedSpec { arguments, files: Vec::new() })
    }

    async fn validate_output(&self, _tool: &str, _output: &Output) -> std::result::Result<(), String> {
        Ok(())
    }

    fn limits(&self, slots: &[String]) -> Vec<SlotLimit> {
        slots.iter().map(|slot| SlotLimit { slot: slot.clone(), limit: 1 }).collect()
    }
}
