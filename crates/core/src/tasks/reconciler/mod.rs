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
mod precedence;
mod watched;

pub use crash::Crash;
pub use engine::{CallPermit, Condition, Engines, Unconnected};

use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{JobState, Observation, Started, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use in_progress::InProgressRows;

use super::history::EventWithCall;
use super::machine::Event;
use super::pace::PollIntervals;
use super::pace::usual::duration_keys;
use super::service::{CommittedStart, DeferredWrite, Outbox};
use super::store::time::StoreTime;
use super::store::{Hint, Holder, Lease, Store, StoreError};
use super::task::{Job, Outcome, Task};
use super::task_writer::{Commit, TaskWriter};

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
    pub poll_intervals: PollIntervals,
    /// Number of concurrent actions, in addition to the number of call permits of all backends, at which no
    /// more rows are claimed. Starts that are handed over run even beyond it. It is also the capacity of
    /// their channel.
    pub max_actions: usize,
    /// How long the history of tasks is kept.
    pub history: Duration,
}

/// The loops of one process.
pub struct Reconciler {
    writer: TaskWriter,
    engines: Engines,
    holder: Holder,
    settings: Settings,
    outbox: Outbox,
    committed_starts: mpsc::Receiver<CommittedStart>,
    deferred_writes: mpsc::UnboundedReceiver<DeferredWrite>,
    time: Option<Arc<StoreTime>>,
}

/// Releases the leases of a process.
pub struct Leases {
    store: Arc<dyn Store>,
    holder: Holder,
}

/// The state that the loops share.
struct Core {
    writer: TaskWriter,
    engines: Engines,
    holder: Holder,
    settings: Settings,
    outbox: Outbox,
    in_progress: InProgressRows,
}

impl Reconciler {
    /// Creates the loops over a task writer, for a process that leases rows as `holder`.
    pub fn new(writer: TaskWriter, engines: Engines, holder: Holder, settings: Settings) -> Self {
        let (committed_starts, committed_starts_in) = mpsc::channel(settings.max_actions.max(1));
        let (deferred_writes, deferred_writes_in) = mpsc::unbounded_channel();
        let outbox = Outbox { committed_starts, deferred_writes, engines: engines.clone() };
        let (committed_starts, deferred_writes) = (committed_starts_in, deferred_writes_in);
        Self { writer, engines, holder, settings, outbox, committed_starts, deferred_writes, time: None }
    }

    /// Returns the same loops, which also keep this clock accurate while they run.
    #[must_use]
    pub fn with_time(self, time: Arc<StoreTime>) -> Self {
        Self { time: Some(time), ..self }
    }

    /// Returns the channels from the service to the loops.
    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Returns what releases the leases of these loops, for a caller that aborts [`Self::run`].
    pub fn leases(&self) -> Leases {
        Leases { store: Arc::clone(&self.writer.store), holder: self.holder.clone() }
    }

    /// Runs until `stop`. Then it drops the sweeps in progress and releases the groups at once, finishes the
    /// actions in progress, sends the starts that were already handed over, and releases all leases.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            writer,
            engines,
            holder,
            settings,
            outbox,
            mut committed_starts,
            mut deferred_writes,
            time,
        } = self;
        let (tick, longest_lease) = (settings.tick, settings.lease * 2);
        let leases = Leases { store: Arc::clone(&writer.store), holder: holder.clone() };
        let core = Core { writer, engines, holder, settings, outbox, in_progress: InProgressRows::default() };
        tokio::join!(
            core.run_actions(&mut committed_starts, &stop),
            async {
                core.groups(&stop).await;
                // Actions may take until the end of their calls, and jobs must not stay unpolled
                // for that time.
                leases.release_groups().await;
            },
            core.housekeeping(&mut deferred_writes, &stop),
            core.hints(&stop),
            async {
                if let Some(time) = time {
                    time.follow(tick, longest_lease, &stop).await;
                }
            },
        );
        // Starts that were handed over after the action loop ended are not sent. This is recorded.
        while let Ok(start) = committed_starts.try_recv() {
            core.requeue(core.leased_row(start)).await;
        }
        leases.release_all().await;
    }
}

impl Leases {
    /// Releases the leases of groups.
    async fn release_groups(&self) {
        if let Err(error) = self.store.release_groups(&self.holder).await {
            tracing::warn!(%error, "group leases cannot be released; they expire");
        }
    }

    /// Releases all leases.
    pub async fn release_all(&self) {
        if let Err(error) = self.store.release_all(&self.holder).await {
            tracing::warn!(%error, "leases cannot be released; they expire");
        }
    }
}

impl Core {
    /// Forwards the store's hints about writes of other processes to the watchers in this process. Wakes the
    /// loops, unless all hints are about other data of channels.
    async fn hints(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                hints = self.writer.store.changed_elsewhere() => {
                    hints.iter().for_each(|hint| self.writer.watch.forward_hint(hint));
                    if hints.iter().any(|hint| !matches!(hint, Hint::Channel(_))) {
                        self.writer.nudge.wake_all();
                    }
                }
            }
        }
    }

    /// Applies a fact, which is an event that stays true however late it is written (not
    /// [`Event::is_transient`]), to whatever version the row has. While the store is unavailable it retries
    /// every tick. Returns `None` if the row is gone, or if the store is broken or the row unreadable; in
    /// these cases the fact is lost.
    async fn write_fact(
        &self,
        task: &Task,
        event: impl Into<EventWithCall>,
        lease: Lease<'_>,
    ) -> Option<Task> {
        let event = event.into();
        let mut is_logged = false;
        loop {
            match self.writer.apply(task.clone(), event.clone(), lease).await {
                Ok(Some(after)) => {
                    self.remember_duration(task, &after).await;
                    return Some(after);
                }
                Ok(None) => {
                    tracing::warn!(task = ?task.id, "row was deleted during an action on its job");
                    return None;
                }
                Err(StoreError::Unavailable(reason)) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        tracing::error!(task = ?task.id, %reason, "event cannot be written; it is retried");
                    }
                    tokio::time::sleep(self.settings.tick).await;
                }
                Err(error @ (StoreError::Broken(_) | StoreError::Unreadable(_))) => {
                    tracing::error!(task = ?task.id, %error, "event cannot be written and is lost");
                    return None;
                }
            }
        }
    }

    /// Writes the result of a poll that a later poll may contradict ([`Event::is_transient`]), only over the
    /// row version that was known before the poll. Returns `None` if the row has another version by now: a
    /// later writer may have polled later, and the older result would undo that. For example, it would close
    /// a question that it does not list for good.
    async fn write_poll(
        &self,
        task: &Task,
        result: impl Into<EventWithCall>,
        lease: Lease<'_>,
    ) -> Result<Option<Task>, StoreError> {
        match self.writer.commit(task, result, lease).await? {
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
        if !ended_now || took < Duration::from_secs(1) {
            return;
        }
        for key in duration_keys(after) {
            if let Err(error) = self.writer.store.record_duration(&key, took).await {
                tracing::warn!(%error, tool = after.tool, "job duration cannot be recorded");
            }
        }
    }

    /// Sanitizes the text of an observation. If the job succeeded, validates its output against the tool's
    /// schema: a job whose output does not fit counts as failed.
    async fn validate_observation(&self, tool: &str, observation: Observation) -> Observation {
        let mut observation = observation.sanitized();
        let JobState::Succeeded(output) = &observation.state else { return observation };
        if let Err(mismatch) = self.writer.tools.validate_output(tool, output).await {
            let output = output.clone();
            observation.message =
                Some(format!("the job's result does not fit the tool's output schema: {mismatch}"));
            observation.state = JobState::Failed(output);
        }
        observation
    }

    /// Returns the event for the observation of a poll that began at this time.
    async fn observed(&self, task: &Task, observation: Observation, polled_at: Timestamp) -> Event {
        let observation = self.validate_observation(&task.tool, observation).await;
        let new_group = observation.renamed_to.as_ref().map(|name| self.engines.group(&task.backend, name));
        let list_lag = self.engines.list_lag(&task.backend);
        let start_lag = self.engines.start_lag(&task.backend);
        Event::Observed { observation, polled_at, list_lag, start_lag, new_group }
    }

    /// Returns the event for a start that the engine accepted, or for a find that found the job.
    async fn started(&self, task: &Task, started: Started) -> Event {
        let mut first = match started.first {
            Some(observation) => Some(self.validate_observation(&task.tool, observation).await),
            None => None,
        };
        let new_name = first.as_mut().and_then(|observation| observation.renamed_to.take());
        let handle = new_name.unwrap_or(started.handle);
        let group = self.engines.group(&task.backend, &handle);
        Event::Started { handle, group, first }
    }

    /// Ends the lease of a row without another change. If the row was changed in the meantime or the write
    /// fails, the lease expires by itself.
    async fn release(&self, task: &Task) {
        if let Err(error) = self.writer.commit(task, Event::Nothing, Lease::Release(&self.holder)).await {
            tracing::warn!(%error, task = ?task.id, "lease cannot be released; it expires");
        }
    }
}
