//! The operations that every protocol generation uses: call, get, wait, list, cancel, answer. This module
//! must not depend on a protocol, and must not call an engine: the reconciler does that.

mod actor;
mod answer;
mod call;
mod guard;
mod limit_exceeded;
mod look;

pub use actor::{Actor, TaskOperation};
pub use answer::AnswerError;
pub use call::{BlockingCall, Call, CallError, CallResult, WhenFull};
pub use guard::{CallGuard, DeferredWrite, FrontEndWrite};
pub use limit_exceeded::LimitExceeded;
pub use look::{RENEW_WATCH, View};

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{OnBehalfOf, Output};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::{AuditEvent, AuditedOperation};
use super::machine::{CancelMode, Event};
use super::pace::PollIntervals;
use super::pace::usual::UsualDuration;
use super::reconciler::{CallPermit, Engines};
use super::store::{BoundedOutput, Holder, Lease, Result};
use super::task::{Outcome, Task, TaskId};
use super::task_writer::TaskWriter;
use crate::clock::Entropy;

/// The task operations. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    writer: TaskWriter,
    entropy: Arc<dyn Entropy>,
    holder: Holder,
    lease: Duration,
    poll_intervals: PollIntervals,
    outbox: Outbox,
    usual_durations: Arc<Mutex<UsualDurations>>,
    stop: Arc<OnceLock<CancellationToken>>,
}

/// The usual duration of each tool's jobs, and when it was read.
type UsualDurations = HashMap<String, (Instant, Option<UsualDuration>)>;

/// The channels from the operations to the reconciler.
#[derive(Clone)]
pub struct Outbox {
    /// Rows whose starts this process has committed, and orphans. They need action at once.
    pub committed_starts: mpsc::Sender<CommittedStart>,
    /// Writes that dropped guards and front ends leave to the reconciler.
    pub deferred_writes: mpsc::UnboundedSender<DeferredWrite>,
    /// The connected backends: a row is passed on with a `CallPermit` at its own backend.
    pub engines: Engines,
}

/// A row that this process leased when it committed the intent to start its job, or an orphan.
#[derive(Debug)]
pub struct CommittedStart {
    /// The row.
    pub task: Task,
    /// The start of the lease, or shortly before.
    pub since: Instant,
    /// How the start was committed.
    pub origin: StartOrigin,
    /// The permit at the backend for the call that starts the job. An orphan may have none; then a later
    /// claim starts its job.
    pub call_permit: Option<CallPermit>,
}

/// How a start was committed.
#[derive(Clone, Copy, Debug)]
pub enum StartOrigin {
    /// The row was inserted with its start and its lease.
    Inserted,
    /// The row existed before its start was committed: it was queued, or claimed as due. Another action of
    /// this process may have the row, and the end of that action releases the lease.
    Admitted,
    /// As [`Self::Inserted`], but the outcome of the insert is unknown: its call disconnected meanwhile, or
    /// the store became unavailable. The row may still reach the store, or never.
    Orphaned {
        /// Whether the tool wants the job stopped in this case.
        cancel: bool,
    },
}

/// The result of a cancellation request.
#[derive(Clone, Debug)]
pub enum CancelResult {
    /// The request is recorded (and with [`CancelMode::Immediate`] the task is cancelled).
    Done(Task),
    /// The task had already ended.
    AlreadyEnded(Task),
    /// The caller may read the task but not cancel it. The text is written for the caller.
    Refused(String),
    /// The caller has no such task.
    NotFound,
}

impl Service {
    /// Creates the operations over a task writer, for a process that leases rows as `holder`, for `lease` at
    /// a time.
    pub fn new(
        writer: TaskWriter,
        entropy: Arc<dyn Entropy>,
        holder: Holder,
        lease: Duration,
        poll_intervals: PollIntervals,
        outbox: Outbox,
    ) -> Self {
        Self {
            writer,
            entropy,
            holder,
            lease,
            poll_intervals,
            outbox,
            usual_durations: Arc::default(),
            stop: Arc::default(),
        }
    }

    /// Sets the token that ends the serving of clients. Once it is cancelled, a dropped call does not count
    /// as a disconnect, and its job continues. Only the first call has an effect.
    pub fn set_stop_token(&self, stop: CancellationToken) {
        self.stop.get_or_init(|| stop);
    }

    /// Waits until the serving of clients ends. Without [`Self::set_stop_token`] it waits forever.
    pub async fn stopping(&self) {
        match self.stop.get() {
            Some(stop) => stop.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn is_stopping(&self) -> bool {
        self.stop.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Requests the cancellation of a task, as [`CancelMode`] defines it. The reconciler calls the engine
    /// later.
    ///
    /// # Errors
    /// If the store is unavailable.
    #[tracing::instrument(target = "spans", level = "trace", name = "verb", skip_all, fields(verb = "cancel", task = ?id))]
    pub async fn cancel(&self, by: &dyn Actor, id: &TaskId, mode: CancelMode) -> Result<CancelResult> {
        let Some(task) = self.find(by, id).await? else {
            return Ok(CancelResult::NotFound);
        };
        let on_behalf_of = match self.permits(by, TaskOperation::Cancel, &task) {
            Ok(on_behalf_of) => on_behalf_of,
            Err(why) => return Ok(CancelResult::Refused(why)),
        };
        if task.has_ended() {
            return Ok(CancelResult::AlreadyEnded(task));
        }
        if !is_requested(&task, mode, on_behalf_of.as_ref()) {
            self.writer.audit.announce(AuditedOperation::Cancel(id)).await?;
            self.writer.audit.record(AuditEvent::CancelRequested(&task));
        }
        match self.writer.apply(task, Event::CancelRequested { mode, on_behalf_of }, Lease::Keep).await? {
            // The job may have ended between the read and the write.
            Some(after) if after.outcome().is_some_and(|outcome| outcome != Outcome::Cancelled) => {
                Ok(CancelResult::AlreadyEnded(after))
            }
            Some(after) => Ok(CancelResult::Done(after)),
            None => Ok(CancelResult::NotFound),
        }
    }

    /// Records that a client wants to know, for `lease`, how much a task's job prints. [`Task::printed`]
    /// then has the number of bytes. Returns `None` if the caller has no such task.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn follow_log(&self, by: &dyn Actor, id: &TaskId, lease: Duration) -> Result<Option<Task>> {
        let Some(task) = self.find(by, id).await? else { return Ok(None) };
        let until = self.writer.now() + lease;
        self.writer.apply(task, Event::LogFollowed { until }, Lease::Keep).await
    }

    /// Notifies the subscribers of a channel that other data than its tasks has changed.
    pub fn channel_changed(&self, channel: &str) {
        self.writer.watch.channel_changed(channel);
    }

    /// Notifies the subscribers of a task, and of its channel, that data of the front end about it has
    /// changed.
    pub fn task_changed(&self, id: &TaskId, channel: Option<&str>) {
        self.writer.watch.task_changed(id, channel);
    }

    /// Returns a receiver of the channels of which other processes change other data than tasks from now on.
    pub fn remote_channel_changes(&self) -> mpsc::UnboundedReceiver<String> {
        self.writer.watch.remote_channel_changes()
    }

    /// Leaves a write of the front end to the reconciler. See [`FrontEndWrite`].
    pub fn defer(&self, write: Box<dyn FrontEndWrite>) {
        // The reconciler is gone only at the end of the process.
        let _ = self.outbox.deferred_writes.send(DeferredWrite::FrontEnd(write));
    }

    /// Returns the result of a task; `None` if it has none.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn output(&self, task: &Task) -> Result<Option<Output>> {
        self.writer.store.output(&task.id).await
    }

    /// Returns the result of a task, unless it is stored in more than `max_bytes` bytes.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn output_within(&self, task: &Task, max_bytes: usize) -> Result<BoundedOutput> {
        self.writer.store.output_within(&task.id, max_bytes).await
    }
}

/// Returns true if the request is already recorded. A repeated request is not audited again.
fn is_requested(task: &Task, mode: CancelMode, on_behalf_of: Option<&OnBehalfOf>) -> bool {
    let before = task.cancel.as_ref();
    mode == CancelMode::Request
        && before.is_some_and(|cancel| {
            cancel.taken || cancel.unsupported || cancel.on_behalf_of.as_ref() == on_behalf_of
        })
}
