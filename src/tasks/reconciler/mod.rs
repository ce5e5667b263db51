//! The loops that do what rows say is owed: nothing else starts, observes, cancels or answers a job.
//!
//! *Acts* claims due rows and performs what [`todo`](super::machine::todo) says of each. *Groups* watches open jobs. *Housekeeping*
//! lets queued rows into free slots, deletes expired ones and notes what dropped guards left. Creating, polling,
//! cancelling, answering, recovering after a crash and taking over from a dead process are all these three: there is
//! no rarely run path. Everything here may be dropped at any await point; the rows say what is left to do.

mod acts;
mod agenda;
mod claims;
mod crash;
mod engine;
mod groups;
mod hand;
mod housekeeping;
mod places;
mod watched;

pub use crash::Crash;
pub use engine::{Condition, Engines, Place, Unconnected};

use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{JobState, Observation, Started};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use hand::InHand;

use super::history::Happened;
use super::ledger::{Commit, Ledger};
use super::machine::Event;
use super::pace::Pace;
use super::service::{Afterwards, Fresh, Outbox};
use super::store::{Hint, Holder, Lease, Store, StoreError};
use super::task::{Job, Outcome, Task};
use super::time::StoreTime;

/// How the loops run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a claimed row or group belongs to this process. A call to an engine gets half of it at most.
    pub lease: Duration,
    /// The longest time between two looks into the store for what no hint told of.
    pub tick: Duration,
    /// How often jobs are looked at.
    pub pace: Pace,
    /// Rows that are acted on at once, beside those that hold a place at their backend.
    pub max_acts: usize,
    /// How long what happened to tasks is kept.
    pub history: Duration,
}

/// The loops of one process.
pub struct Reconciler {
    ledger: Ledger,
    engines: Engines,
    holder: Holder,
    settings: Settings,
    outbox: Outbox,
    fresh: mpsc::Receiver<Fresh>,
    afterwards: mpsc::UnboundedReceiver<Afterwards>,
    time: Option<Arc<StoreTime>>,
}

/// What a process has leased.
pub struct Leases {
    store: Arc<dyn Store>,
    holder: Holder,
}

/// What the parts of the loops share.
struct Core {
    ledger: Ledger,
    engines: Engines,
    holder: Holder,
    settings: Settings,
    outbox: Outbox,
    in_hand: InHand,
}

impl Reconciler {
    /// The loops over a ledger, for a process that leases rows as `holder`.
    pub fn new(ledger: Ledger, engines: Engines, holder: Holder, settings: Settings) -> Self {
        let (fresh, fresh_in) = mpsc::channel(settings.max_acts.max(1));
        let (afterwards, afterwards_in) = mpsc::unbounded_channel();
        let outbox = Outbox { fresh, afterwards, engines: engines.clone() };
        let (fresh, afterwards) = (fresh_in, afterwards_in);
        Self { ledger, engines, holder, settings, outbox, fresh, afterwards, time: None }
    }

    /// The same loops, which also keep this clock right while they run.
    #[must_use]
    pub fn keeping(self, time: Arc<StoreTime>) -> Self {
        Self { time: Some(time), ..self }
    }

    /// The ways in, for the service.
    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// What these loops lease, for when they are cut off.
    pub fn leases(&self) -> Leases {
        Leases { store: Arc::clone(&self.ledger.store), holder: self.holder.clone() }
    }

    /// Runs until `stop`, then leaves the groups to others at once, finishes the acts that are under way, and lets go
    /// of all leases.
    pub async fn run(self, stop: CancellationToken) {
        let Self { ledger, engines, holder, settings, outbox, mut fresh, mut afterwards, time } = self;
        let (tick, longest_lease) = (settings.tick, settings.lease * 2);
        let leases = Leases { store: Arc::clone(&ledger.store), holder: holder.clone() };
        let core = Core { ledger, engines, holder, settings, outbox, in_hand: InHand::default() };
        tokio::join!(
            core.acts(&mut fresh, &stop),
            async {
                core.groups(&stop).await;
                // Acts may take until the end of their calls, and jobs are not left unwatched for that.
                leases.leave().await;
            },
            core.housekeeping(&mut afterwards, &stop),
            core.hints(&stop),
            async {
                if let Some(time) = time {
                    time.follow(tick, longest_lease, &stop).await;
                }
            },
        );
        // What was let into a slot while the loops ended was not sent.
        while let Ok(fresh) = fresh.try_recv() {
            core.put_back(core.fresh(fresh)).await;
        }
        leases.let_go().await;
    }
}

impl Leases {
    /// Leaves the groups to others.
    async fn leave(&self) {
        if let Err(error) = self.store.leave(&self.holder).await {
            tracing::warn!(%error, "groups could not be left; their leases run out by themselves");
        }
    }

    /// Lets others act on everything.
    pub async fn let_go(&self) {
        if let Err(error) = self.store.let_go(&self.holder).await {
            tracing::warn!(%error, "leases could not be let go; they run out by themselves");
        }
    }
}

impl Core {
    /// Passes on that another process wrote.
    async fn hints(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                hints = self.ledger.store.changed_elsewhere() => {
                    hints.iter().for_each(|hint| self.ledger.watch.heard(hint));
                    if hints.iter().any(|hint| !matches!(hint, Hint::Session(_))) {
                        self.ledger.nudge.all();
                    }
                }
            }
        }
    }

    /// Writes a fact. A fact is never dropped: while the store cannot be used, it is kept and tried again.
    async fn note(&self, task: &Task, happened: impl Into<Happened>, lease: Lease<'_>) -> Option<Task> {
        let happened = happened.into();
        let mut told = false;
        loop {
            match self.ledger.apply(task.clone(), happened.clone(), lease).await {
                Ok(Some(after)) => {
                    self.remember_duration(task, &after).await;
                    return Some(after);
                }
                Ok(None) => {
                    tracing::warn!(task = ?task.id, "a row is gone while its job was being acted on");
                    return None;
                }
                Err(StoreError::Unavailable(reason)) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::error!(task = ?task.id, %reason, "a fact cannot be written yet");
                    }
                    tokio::time::sleep(self.settings.tick).await;
                }
                Err(error @ (StoreError::Broken(_) | StoreError::Unreadable(_))) => {
                    tracing::error!(task = ?task.id, %error, "a fact cannot be written");
                    return None;
                }
            }
        }
    }

    /// Writes what a look saw at its moment ([`Event::passes`]), over the row as it was before the look or not at all:
    /// who wrote it since may have looked later, and what an older look tells would undo that. A question that it does
    /// not know of would be withdrawn for good.
    async fn note_look(
        &self,
        task: &Task,
        look: impl Into<Happened>,
        lease: Lease<'_>,
    ) -> Result<Option<Task>, StoreError> {
        match self.ledger.commit(task, look, lease).await? {
            Commit::Done(after) => Ok(Some(after)),
            Commit::Conflict | Commit::NoSlot(_) => Ok(None),
        }
    }

    /// Remembers how long a job took, to pace the next ones of its tool. Of what ends within a second nothing can be
    /// learnt that is worth a write.
    async fn remember_duration(&self, before: &Task, after: &Task) {
        let (Job::Open { started_at, .. }, Some(ended)) = (&before.job, after.ended_at) else { return };
        let took = ended.since(*started_at);
        let ended_now = !before.has_ended() && after.outcome() == Some(Outcome::Succeeded);
        if ended_now
            && took >= Duration::from_secs(1)
            && let Err(error) = self.ledger.store.record(&after.tool, took).await
        {
            tracing::warn!(%error, tool = after.tool, "a duration could not be remembered");
        }
    }

    /// What was seen, with what job and engine said made harmless, and an output held against the tool's schema: a job that
    /// hands back what its tool does not promise has failed.
    async fn judged(&self, tool: &str, seen: Observation) -> Observation {
        let mut seen = seen.made_harmless();
        let JobState::Succeeded(output) = &seen.state else { return seen };
        if let Err(misfit) = self.ledger.tools.judge(tool, output).await {
            let output = output.clone();
            seen.message = Some(format!("the job's result does not fit the tool's output schema: {misfit}"));
            seen.state = JobState::Failed(output);
        }
        seen
    }

    /// The event that a successful start or find is.
    async fn started(&self, task: &Task, started: Started) -> Event {
        let group = self.engines.group(&task.backend, &started.handle);
        let first = match started.first {
            Some(seen) => Some(self.judged(&task.tool, seen).await),
            None => None,
        };
        Event::Started { handle: started.handle, group, first }
    }

    /// Gives a row back when nothing is left to do on it for now.
    async fn release(&self, task: &Task) {
        if let Err(error) = self.ledger.commit(task, Event::Nothing, Lease::Release(&self.holder)).await {
            tracing::warn!(%error, task = ?task.id, "a lease could not be given back; it runs out by itself");
        }
    }
}
