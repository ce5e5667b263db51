//! One process of a simulation: the real service and the real reconciler over the real store, with points around every
//! touch of the store and the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskbridge::clock::{Clock, Entropy};
use taskbridge::tasks::ledger::{Ledger, Nudge};
use taskbridge::tasks::pace::Pace;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::Service;
use taskbridge::tasks::store::{Holder, SlotLimit, Store};
use taskbridge::tasks::task::Spec;
use taskbridge::tasks::tools::{Opened, Tools};
use taskbridge::tasks::watch::Watch;
use taskbridge_sdk::{
    Answer, Backend, Error, GroupKey, JobHandle, JobSpec, Observation, Output, Questions, Result, Started,
    Taken, Wakeups,
};
use tokio_util::sync::CancellationToken;

use super::points::Points;
use super::sabotage::Bug;

/// How long a lease lasts in a simulation.
pub(super) const LEASE: Duration = Duration::from_secs(15);

/// One running process.
pub(super) struct Node {
    pub(super) service: Service,
    pub(super) points: Arc<Points>,
    running: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Starts a process.
    pub(super) fn start(
        name: String,
        store: Arc<dyn Store>,
        backend: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        points: Arc<Points>,
        bug: Option<Bug>,
    ) -> Self {
        let holder = Holder(name);
        let pace = Pace { quickest: Duration::from_millis(100), slowest: Duration::from_secs(20) };
        let ledger = Ledger {
            store,
            watch: Watch::default(),
            clock,
            tools: Arc::new(OneSlotEach),
            nudge: Arc::new(Nudge::default()),
        };
        let backend: Arc<dyn Backend> = Arc::new(Pointed { backend, points: Arc::clone(&points), bug });
        let engines = Engines::new(BTreeMap::from([("sim".to_owned(), backend)]), 4);
        let settings = Settings { lease: LEASE, tick: Duration::from_secs(5), pace, max_acts: 8 };
        let reconciler = Reconciler::new(ledger.clone(), engines, holder.clone(), settings);
        let service = Service::new(ledger, entropy, holder, LEASE, pace, reconciler.outbox());
        #[allow(clippy::disallowed_methods, reason = "the simulation is its own app")]
        let running = tokio::spawn(reconciler.run(CancellationToken::new()));
        Self { service, points, running }
    }
}

impl Drop for Node {
    /// A killed process: every future of it is gone at the point where it stood.
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Tools of a simulation: nothing is sealed, every output fits, and slots of a group are one each.
struct OneSlotEach;

impl Tools for OneSlotEach {
    fn open(&self, spec: &Spec) -> Result<Opened> {
        Ok(Opened { arguments: spec.arguments.clone(), files: Vec::new() })
    }

    fn judge(&self, _tool: &str, _output: &Output) -> std::result::Result<(), String> {
        Ok(())
    }

    fn limits(&self, slots: &[String]) -> Vec<SlotLimit> {
        slots.iter().map(|slot| SlotLimit { slot: slot.clone(), limit: 1 }).collect()
    }
}

/// A backend with a point before and after every call.
struct Pointed {
    backend: Arc<dyn Backend>,
    points: Arc<Points>,
    bug: Option<Bug>,
}

#[async_trait]
impl Backend for Pointed {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let mut job = job.clone();
        if self.bug == Some(Bug::RepeatIsNotSaid) {
            job.may_exist = false;
        }
        self.points.pass().await;
        let started = self.backend.start(&job).await;
        self.points.pass().await;
        match (started, self.bug) {
            (Err(error), Some(Bug::LostReplyIsNotStarted)) => Err(Error::unavailable(error.to_string())),
            (started, _) => started,
        }
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.points.pass().await;
        let found = self.backend.find(job).await;
        self.points.pass().await;
        found
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.points.pass().await;
        let seen = self.backend.observe(handle).await;
        self.points.pass().await;
        seen
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.points.pass().await;
        if self.bug == Some(Bug::CancelForgetsTheEngine) {
            return Ok(());
        }
        let taken = self.backend.cancel(handle).await;
        self.points.pass().await;
        taken
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.backend.group(handle)
    }

    async fn observe_all(&self, group: &GroupKey, handles: &[JobHandle]) -> Vec<Result<Observation>> {
        self.points.pass().await;
        let seen = self.backend.observe_all(group, handles).await;
        self.points.pass().await;
        seen
    }

    fn questions(&self) -> Option<&dyn Questions> {
        Some(self)
    }

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        self.backend.wakeups()
    }
}

#[async_trait]
impl Questions for Pointed {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        self.points.pass().await;
        let questions = self.backend.questions().expect("the simulated engine's jobs can be answered");
        let taken = questions.answer(handle, question, answer).await;
        self.points.pass().await;
        taken
    }
}
