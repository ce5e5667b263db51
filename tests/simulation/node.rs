//! One process of a simulation: the real service and the real reconciler over the real store, with points
//! around every access to the store and the engines. It must not decide which faults it gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge::clock::{Clock, Entropy};
use taskbridge::tasks::history::HistoryRecorder;
use taskbridge::tasks::notices::{Occasion, Receivers};
use taskbridge::tasks::pace::PollIntervals;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::Service;
use taskbridge::tasks::store::{Holder, SlotLimit, Store};
use taskbridge::tasks::task::Spec;
use taskbridge::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use taskbridge::tasks::time::StoreTime;
use taskbridge::tasks::tools::{OpenedSpec, ToolCatalog};
use taskbridge::tasks::watch::ChangeNotifier;
use taskbridge_sdk::{Backend, Output, Result};
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
const CALLS: usize = 4;

/// The parts of a process.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    /// The engines that it can be connected to.
    pub(super) reach: Vec<Way>,
    /// The world's clock, which is never set.
    pub(super) world: Arc<dyn Clock>,
    pub(super) leases: Arc<Leases>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) points: Arc<Points>,
    pub(super) bug: Option<Bug>,
}

/// The connection from one process to one engine.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) identity: Option<&'static str>,
    pub(super) faults: Arc<EngineFaults>,
    pub(super) is_cut: Arc<AtomicBool>,
    /// True if the config at the start of the process has it.
    pub(super) is_known: bool,
}

impl Way {
    /// Creates a connection that is never cut, to an engine with only the faults of its backend.
    pub(super) fn to(name: &'static str, backend: Arc<dyn Backend>) -> Self {
        Self { name, backend, identity: None, faults: Arc::default(), is_cut: Arc::default(), is_known: true }
    }
}

/// One running process.
pub(super) struct Node {
    pub(super) service: Service,
    pub(super) points: Arc<Points>,
    /// For the actions of operators.
    pub(super) ledger: TaskWriter,
    engines: Engines,
    connections: BTreeMap<String, Arc<dyn Backend>>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Starts a process. Returns `None` while the store is down.
    pub(super) async fn start(parts: Parts) -> Option<Self> {
        let Parts { name, store, reach, world, leases, entropy, points, bug } = parts;
        let holder = Holder(name);
        let pace = PollIntervals { quickest: Duration::from_millis(100), slowest: Duration::from_secs(20) };
        let uptime = Arc::new(WorldUptime(Arc::clone(&world)));
        let time = StoreTime::of(Arc::clone(&store) as _, uptime).await.ok()?;
        time.compare().await.ok()?;
        let ledger = TaskWriter {
            store,
            watch: ChangeNotifier::default(),
            clock: time.clone(),
            tools: Arc::new(OneSlotEach),
            receivers: Arc::new(WantsAll),
            nudge: Arc::new(ReconcilerSignals::default()),
            scribe: HistoryRecorder { replica: holder.clone(), keeps: true },
            meter: Arc::new(taskbridge::tasks::meter::Unmetered),
            audit: Arc::new(taskbridge::tasks::audit::InTheLog),
        };
        let (mut connections, mut known) = (BTreeMap::new(), BTreeMap::new());
        for Way { name, backend, identity, faults, is_cut, is_known } in reach {
            let connection: Arc<dyn Backend> = Arc::new(Connection {
                backend,
                identity,
                faults,
                is_cut,
                bug,
                points: Arc::clone(&points),
                holder: holder.clone(),
                leases: Arc::clone(&leases),
                world: Arc::clone(&world),
                hinted: Default::default(),
                answered: Default::default(),
            });
            if is_known {
                known.insert(name.to_owned(), Arc::clone(&connection));
            }
            connections.insert(name.to_owned(), connection);
        }
        let engines = Engines::new(known, CALLS);
        let settings =
            Settings { lease: LEASE, tick: TICK, pace, max_acts: 8, history: Duration::from_secs(3 * 3600) };
        let reconciler =
            Reconciler::new(ledger.clone(), engines.clone(), holder.clone(), settings).keeping(time);
        let service = Service::new(ledger.clone(), entropy, holder, LEASE, pace, reconciler.outbox());
        let stop = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "the simulation is its own app")]
        let running = tokio::spawn(reconciler.run(stop.clone()));
        Some(Self { service, points, ledger, engines, connections, stop, running })
    }

    /// Reloads the config, which names these engines. A removed engine stays connected for its tasks until
    /// the process ends.
    pub(super) fn reload(&self, knows: impl Fn(&str) -> bool) {
        let served = self.engines.served();
        let stays = |name: &str| served.iter().any(|served| served.backend == name);
        let known = self.connections.iter().filter(|(name, _)| knows(name) || stays(name));
        self.engines
            .replace(known.map(|(name, connection)| (name.clone(), Arc::clone(connection))).collect(), CALLS);
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
    pub(super) fn is_over(&self) -> bool {
        self.points.is_dead() || self.running.is_finished()
    }

    /// Reports whether it ended by itself.
    pub(super) fn has_fallen(&self) -> bool {
        self.points.died_unasked()
            || (self.running.is_finished() && !self.is_stopping() && !self.points.is_dead())
    }
}

impl Drop for Node {
    /// Like a kill: every future of the process is dropped at its current point.
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A receiver that wants every event.
struct WantsAll;

impl Receivers for WantsAll {
    fn wanting(&self, _tool: &str, _occasion: Occasion) -> Vec<String> {
        vec![RECEIVER.to_owned()]
    }
}

/// The name of that receiver.
pub(super) const RECEIVER: &str = "everything";

/// Tools of a simulation: every output is valid, slots have a limit of one, and sealing reverses the text.
struct OneSlotEach;

/// Seals an argument.
pub(super) fn sealed(text: &str) -> String {
    text.chars().rev().collect()
}

#[async_trait]
impl ToolCatalog for OneSlotEach {
    fn open(&self, spec: &Spec) -> Result<OpenedSpec> {
        let mut arguments = spec.arguments.clone();
        if let Some(secret) = &spec.sealed {
            arguments["text"] = sealed(secret).into();
        }
        Ok(OpenedSpec { arguments, files: Vec::new() })
    }

    async fn judge(&self, _tool: &str, _output: &Output) -> std::result::Result<(), String> {
        Ok(())
    }

    fn limits(&self, slots: &[String]) -> Vec<SlotLimit> {
        slots.iter().map(|slot| SlotLimit { slot: slot.clone(), limit: 1 }).collect()
    }
}
