//! One process of a simulation: the real service and the real reconciler over the real store, with points around every
//! touch of the store and the engine.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskbridge::clock::{Clock, Entropy};
use taskbridge::tasks::history::Scribe;
use taskbridge::tasks::ledger::{Ledger, Nudge};
use taskbridge::tasks::notices::{Occasion, Receivers};
use taskbridge::tasks::pace::Pace;
use taskbridge::tasks::reconciler::{Engines, Reconciler, Settings};
use taskbridge::tasks::service::Service;
use taskbridge::tasks::store::{Holder, SlotLimit, Store};
use taskbridge::tasks::task::Spec;
use taskbridge::tasks::time::StoreTime;
use taskbridge::tasks::tools::{Opened, Tools};
use taskbridge::tasks::watch::Watch;
use taskbridge_sdk::{
    Answer, Backend, Error, GroupKey, JobHandle, JobSpec, JobState, Observation, Output, Questions, Result,
    Started, Subject, Taken, Wakeups,
};
use tokio_util::sync::CancellationToken;

use super::leases::Leases;
use super::points::Points;
use super::sabotage::Bug;

/// How long a lease lasts in a simulation.
pub(super) const LEASE: Duration = Duration::from_secs(15);

/// What a process is made of.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) backend: Arc<dyn Backend>,
    /// The machine's own clock.
    pub(super) clock: Arc<dyn Clock>,
    /// The clock that leases go by.
    pub(super) world: Arc<dyn Clock>,
    pub(super) leases: Arc<Leases>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) points: Arc<Points>,
    pub(super) bug: Option<Bug>,
}

/// One running process.
pub(super) struct Node {
    pub(super) service: Service,
    pub(super) points: Arc<Points>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Starts a process. None can start while the store is away.
    pub(super) async fn start(parts: Parts) -> Option<Self> {
        let Parts { name, store, backend, clock, world, leases, entropy, points, bug } = parts;
        let holder = Holder(name);
        let pace = Pace { quickest: Duration::from_millis(100), slowest: Duration::from_secs(20) };
        let time = StoreTime::of(Arc::clone(&store) as _).await.ok()?;
        let ledger = Ledger {
            store,
            watch: Watch::default(),
            clock: if bug == Some(Bug::OwnClockTrusted) { clock } else { time.clone() },
            tools: Arc::new(OneSlotEach),
            receivers: Arc::new(WantsAll),
            nudge: Arc::new(Nudge::default()),
            scribe: Scribe { replica: holder.clone(), keeps: true },
            meter: Arc::new(taskbridge::tasks::meter::Unmetered),
            audit: Arc::new(taskbridge::tasks::audit::InTheLog),
        };
        let backend: Arc<dyn Backend> = Arc::new(Pointed {
            backend,
            points: Arc::clone(&points),
            holder: holder.clone(),
            leases,
            world,
            bug,
            hinted: Mutex::default(),
        });
        let engines = Engines::new(BTreeMap::from([("sim".to_owned(), backend)]), 4);
        let settings = Settings {
            lease: LEASE,
            tick: Duration::from_secs(5),
            pace,
            max_acts: 8,
            history: Duration::from_secs(3 * 3600),
        };
        let reconciler = Reconciler::new(ledger.clone(), engines, holder.clone(), settings).keeping(time);
        let service = Service::new(ledger, entropy, holder, LEASE, pace, reconciler.outbox());
        let stop = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "the simulation is its own app")]
        let running = tokio::spawn(reconciler.run(stop.clone()));
        Some(Self { service, points, stop, running })
    }

    /// Ends the process in good order.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// True if it serves no more.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// True if nothing of it is left.
    pub(super) fn is_over(&self) -> bool {
        self.points.is_dead() || self.running.is_finished()
    }
}

impl Drop for Node {
    /// A killed process: every future of it is gone at the point where it stood.
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A receiver that is to hear of everything.
struct WantsAll;

impl Receivers for WantsAll {
    fn wanting(&self, _tool: &str, _occasion: Occasion) -> Vec<String> {
        vec![RECEIVER.to_owned()]
    }
}

/// Its name.
pub(super) const RECEIVER: &str = "everything";

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

    fn elsewhere(&self) -> Arc<[String]> {
        Arc::new([])
    }
}

/// How many groups the engine's jobs are watched in.
const GROUPS: u64 = 3;

/// A backend with a point before and after every call, whose jobs are of several groups.
struct Pointed {
    backend: Arc<dyn Backend>,
    points: Arc<Points>,
    holder: Holder,
    leases: Arc<Leases>,
    world: Arc<dyn Clock>,
    bug: Option<Bug>,
    /// What hints told of, for [`Bug::HintTakenForEnd`] and [`Bug::NoHintTakenForRunning`].
    hinted: Mutex<HashSet<JobHandle>>,
}

impl Pointed {
    /// Holds an act, at the moment of the decision for it, against what this process holds.
    fn acts(&self, key: &str, what: &str) {
        self.leases.act(key, &self.holder, self.world.now(), what);
    }

    async fn look(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let hinted = |handle: &JobHandle| self.hinted.lock().contains(handle);
        let end = || Observation::new(JobState::Succeeded(Output::text("a hint said so")));
        match self.bug {
            Some(Bug::HintTakenForEnd) if jobs.iter().any(|job| hinted(&job.handle)) => {
                let seen = |handle| if hinted(handle) { end() } else { Observation::new(JobState::Running) };
                jobs.iter().map(|job| Ok(seen(&job.handle))).collect()
            }
            Some(Bug::NoHintTakenForRunning) if !jobs.iter().any(|job| hinted(&job.handle)) => {
                jobs.iter().map(|_| Ok(Observation::new(JobState::Running))).collect()
            }
            _ => self.backend.observe_all(group, jobs).await,
        }
    }
}

/// The engine's name of a job holds the key that it was started under.
fn key_in(handle: &JobHandle) -> &str {
    handle.as_str().split_once('.').map_or("", |(_, key)| key)
}

fn group_of(handle: &JobHandle) -> GroupKey {
    let number = handle.as_str().split_once('.').and_then(|(number, _)| number.parse::<u64>().ok());
    GroupKey::new(format!("g{}", number.unwrap_or_default() % GROUPS))
}

#[async_trait]
impl Backend for Pointed {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.acts(job.key.as_str(), "start");
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
        self.acts(job.key.as_str(), "find");
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
        self.acts(key_in(handle), "cancel");
        self.points.pass().await;
        if self.bug == Some(Bug::CancelForgetsTheEngine) {
            return Ok(());
        }
        let taken = self.backend.cancel(handle).await;
        self.points.pass().await;
        taken
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        group_of(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let handles = jobs.iter().map(|job| &job.handle);
        let strangers: Vec<_> = handles.filter(|handle| group_of(handle) != *group).collect();
        self.leases.report_strangers(&strangers);
        self.points.pass().await;
        let seen = self.look(group, jobs).await;
        self.points.pass().await;
        seen
    }

    fn questions(&self) -> Option<&dyn Questions> {
        Some(self)
    }

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        Some(self)
    }
}

#[async_trait]
impl Wakeups for Pointed {
    async fn next(&self) -> JobHandle {
        let wakeups = self.backend.wakeups().expect("the simulated engine of this process gives hints");
        let handle = wakeups.next().await;
        self.hinted.lock().insert(handle.clone());
        handle
    }
}

#[async_trait]
impl Questions for Pointed {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        self.acts(key_in(handle), "answer");
        self.points.pass().await;
        let questions = self.backend.questions().expect("the simulated engine's jobs can be answered");
        let taken = questions.answer(handle, question, answer).await;
        self.points.pass().await;
        taken
    }
}
