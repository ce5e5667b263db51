//! The loops that do the pending work of rows. Nothing else starts, polls, cancels or answers a job.
//!
//! *Actions* claims due rows and performs the action that [`todo`](super::machine::todo) returns for each.
//! *Groups* polls open jobs. *Housekeeping* admits queued rows to free slots, executes the deferred writes of
//! dropped guards, ends leases of dead processes, and deletes expired rows and old history. These three loops
//! do everything: create, poll, cancel, answer, recovery after a crash, and takeover from a dead process.
//! There is no rarely used code path. Two small tasks beside them forward hints of the store and keep the
//! clock accurate. All of them may be dropped at any await point: rows and leases record the remaining work,
//! and only hints are lost.

mod actions;
mod claims;
mod crash;
mod engine;
mod groups;
mod housekeeping;
mod in_progress;
mod permit_requests;
mod poll_schedule;
mod watched;

pub use crash::Crash;
pub use engine::{CallPermit, Condition, Engines, Unconnected};

use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{JobState, Observation, Started};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use in_progress::InProgressRows;

use super::history::EventWithCall;
use super::machine::Event;
use super::pace::PollIntervals;
use super::service::{CommittedStart, DeferredWrite, Outbox};
use super::store::{Hint, Holder, Lease, Store, StoreError};
use super::task::{Job, Outcome, Task};
use super::task_writer::{Commit, TaskWriter};
use super::time::StoreTime;

/// The settings of the loops.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a claimed row or group belongs to this process. A call to an engine times out after half of
    /// it.
    pub lease: Duration,
    /// How often each loop reads the store if no hint arrives, and the delay before a failed write is
    /// repeated.
    pub tick: Duration,
    /// The poll intervals of jobs.
    pub pace: PollIntervals,
    /// Number of concurrent actions, in addition to the number of call permits of all backends, at which no
    /// more rows are claimed. Starts that are handed over run even beyond it. It is also the capacity of
    /// their channel.
    pub max_acts: usize,
    /// How long the history of tasks is kept.
    pub history: Duration,
}

/// The loops of one process.
pub struct Reconciler {
    ledger: TaskWriter,
    engines: Engines,
    holder: Holder,
    settings: Settings,
    outbox: Outbox,
    fresh: mpsc::Receiver<CommittedStart>,
    afterwards: mpsc::UnboundedReceiver<DeferredWrite>,
    time: Option<Arc<StoreTime>>,
}

/// Releases the leases of a process.
pub struct Leases {
    store: Arc<dyn Store>,
    holder: Holder,
}

/// The state that the loops share.
struct Core {
    ledger: TaskWriter,
    engines: Engines,
    holder: Holder,
    settings: Settings,
    outbox: Outbox,
    in_hand: InProgressRows,
}

impl Reconciler {
    /// Creates the loops over a task writer, for a process that leases rows as `holder`.
    pub fn new(ledger: TaskWriter, engines: Engines, holder: Holder, settings: Settings) -> Self {
        let (fresh, fresh_in) = mpsc::channel(settings.max_acts.max(1));
        let (afterwards, afterwards_in) = mpsc::unbounded_channel();
        let outbox = Outbox { fresh, afterwards, engines: engines.clone() };
        let (fresh, afterwards) = (fresh_in, afterwards_in);
        Self { ledger, engines, holder, settings, outbox, fresh, afterwards, time: None }
    }

    /// Returns the same loops, which also keep this clock accurate while they run.
    #[must_use]
    pub fn keeping(self, time: Arc<StoreTime>) -> Self {
        Self { time: Some(time), ..self }
    }

    /// Returns the channels from the service to the loops.
    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Returns what releases the leases of these loops, for a caller that aborts [`Self::run`].
    pub fn leases(&self) -> Leases {
        Leases { store: Arc::clone(&self.ledger.store), holder: self.holder.clone() }
    }

    /// Runs until `stop`. Then it drops the sweeps in progress and releases the groups at once, finishes the
    /// actions in progress, sends the starts that were already handed over, and releases all leases.
    pub async fn run(self, stop: CancellationToken) {
        let Self { ledger, engines, holder, settings, outbox, mut fresh, mut afterwards, time } = self;
        let (tick, longest_lease) = (settings.tick, settings.lease * 2);
        let leases = Leases { store: Arc::clone(&ledger.store), holder: holder.clone() };
        let core = Core { ledger, engines, holder, settings, outbox, in_hand: InProgressRows::default() };
        tokio::join!(
            core.acts(&mut fresh, &stop),
            async {
                core.groups(&stop).await;
                // Actions may take until the end of their calls, and jobs must not stay unpolled
                // for that time.
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
        // Starts that were handed over after the action loop ended are not sent. This is recorded.
        while let Ok(fresh) = fresh.try_recv() {
            core.put_back(core.fresh(fresh)).await;
        }
        leases.release_all().await;
    }
}

impl Leases {
    /// Releases the leases of groups.
    async fn leave(&self) {
        if let Err(error) = self.store.release_groups(&self.holder).await {
            tracing::warn!(%error, "groups could not be left; their leases run out by themselves");
        }
    }

    /// Releases all leases.
    pub async fn release_all(&self) {
        if let Err(error) = self.store.release_all(&self.holder).await {
            tracing::warn!(%error, "leases could not be let go; they run out by themselves");
        }
    }
}

impl Core {
    /// Forwards the store's hints about writes of other processes to the watchers in this process. Wakes the
    /// loops, unless all hints are about sessions.
    async fn hints(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                hints = self.ledger.store.changed_elsewhere() => {
                    hints.iter().for_each(|hint| self.ledger.watch.forward_hint(hint));
                    if hints.iter().any(|hint| !matches!(hint, Hint::Session(_))) {
                        self.ledger.nudge.all();
                    }
                }
            }
        }
    }

    /// Applies a fact, which is an event that stays true however late it is written (not [`Event::passes`]),
    /// to whatever version the row has. While the store is unavailable it retries every tick. Returns `None`
    /// if the row is gone, or if the store is broken or the row unreadable; in these cases the fact is lost.
    async fn note(&self, task: &Task, happened: impl Into<EventWithCall>, lease: Lease<'_>) -> Option<Task> {
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

    /// Writes the result of a poll that a later poll may contradict ([`Event::passes`]), only over the row
    /// version that was known before the poll. Returns `None` if the row has another version by now: a later
    /// writer may have polled later, and the older result would undo that. For example, it would close a
    /// question that it does not list for good.
    async fn write_poll(
        &self,
        task: &Task,
        look: impl Into<EventWithCall>,
        lease: Lease<'_>,
    ) -> Result<Option<Task>, StoreError> {
        match self.ledger.commit(task, look, lease).await? {
            Commit::Done(after) => Ok(Some(after)),
            Commit::Conflict | Commit::NoSlot(_) => Ok(None),
        }
    }

    /// Records how long a job took if it has just succeeded, to pace the polls of its tool's next jobs.
    /// Durations under a second are not worth a write.
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

    /// Sanitizes the text of an observation. If the job succeeded, validates its output against the tool's
    /// schema: a job whose output does not fit counts as failed.
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

    /// Returns the event for a start that the engine accepted, or for a find that found the job.
    async fn started(&self, task: &Task, started: Started) -> Event {
        let group = self.engines.group(&task.backend, &started.handle);
        let first = match started.first {
            Some(seen) => Some(self.judged(&task.tool, seen).await),
            None => None,
        };
        Event::Started { handle: started.handle, group, first }
    }

    /// Ends the lease of a row without another change. If the row was changed in the meantime or the write
    /// fails, the lease expires by itself.
    async fn release(&self, task: &Task) {
        if let Err(error) = self.ledger.commit(task, Event::Nothing, Lease::Release(&self.holder)).await {
            tracing::warn!(%error, task = ?task.id, "a lease could not be given back; it runs out by itself");
        }
    }
}
