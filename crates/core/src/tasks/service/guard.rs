//! The drop guard of a plain call that waits for its result. A drop cannot write to a store, so it sends a
//! [`DeferredWrite`] to the reconciler, which writes it. Front ends leave writes of their own to the
//! reconciler in the same way.

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

use super::Service;
use crate::tasks::machine::{CancelMode, Event};
use crate::tasks::store::{Lease, Result};
use crate::tasks::task::{Owner, Task, TaskId};
use crate::tasks::task_writer::{Commit, TaskWriter};

/// A write that a dropped guard or a front end leaves to the reconciler.
pub enum DeferredWrite {
    /// A plain call disconnected before it received its result.
    CallAbandoned {
        /// Its task.
        id: TaskId,
        /// The deadline of the waiting call, as the row has it. If the row has another deadline, the task no
        /// longer belongs to this call.
        until: Timestamp,
        /// Whether the tool wants the job stopped in this case.
        cancel: bool,
    },
    /// The result of an ended task was sent.
    ResultRead {
        /// The task.
        id: TaskId,
        /// The person who asked for it.
        by: Owner,
    },
    /// A front end left a write.
    FrontEnd(Box<dyn FrontEndWrite>),
}

/// A write of a front end, to data that the core does not know. The reconciler makes it in order with the
/// other deferred writes, and retries it while the store is unavailable.
#[async_trait]
pub trait FrontEndWrite: Send + Sync {
    /// Makes the write. It may be called again after an error.
    ///
    /// # Errors
    /// If the store is unavailable.
    async fn execute(&self) -> Result<()>;
}

/// A plain call that waits for its result. If it is dropped before [`CallGuard::mark_delivered`], an equal
/// call can take over its task.
#[must_use]
pub struct CallGuard {
    service: Service,
    id: TaskId,
    /// The deadline of this call in the row; `None` if the row does not record a waiting call.
    until: Option<Timestamp>,
    cancel: bool,
}

impl Service {
    /// Guards a plain call that waits for `task`.
    pub fn guard_call(&self, task: &Task, cancel_on_abandon: bool) -> CallGuard {
        let until = task.undelivered.as_ref().map(|undelivered| undelivered.waiting_until);
        CallGuard { service: self.clone(), id: task.id.clone(), until, cancel: cancel_on_abandon }
    }
}

impl Service {
    /// Records that the result of an ended task was sent to this person, if it is the first time and history
    /// is kept. The reconciler writes it, so that the answer need not wait for a write.
    pub fn note_result_read(&self, task: &Task, by: &Owner) {
        if self.writer.history_recorder.enabled && task.result_read_at.is_none() {
            let write = DeferredWrite::ResultRead { id: task.id.clone(), by: by.clone() };
            let _ = self.outbox.deferred_writes.send(write);
        }
    }
}

impl CallGuard {
    /// Records that the call is about to receive its result: no other call can take over the task.
    ///
    /// # Errors
    /// If the store is unavailable; then the result still counts as undelivered.
    pub async fn mark_delivered(mut self) -> Result<()> {
        // The result exists: a failure from here on is not a disconnect of the client.
        self.cancel = false;
        let writer = &self.service.writer;
        if let Some(task) = writer.read(&self.id).await? {
            writer.apply(task, Event::ResultDelivered, Lease::Keep).await?;
        }
        self.until = None;
        Ok(())
    }

    /// Ends the call without a result and lets the client repeat it. An equal call can take over the task
    /// from now on. Its job continues, whatever the tool is configured to do.
    ///
    /// # Errors
    /// If the store is unavailable; then the change is written as soon as possible.
    pub async fn release(mut self) -> Result<()> {
        self.cancel = false;
        if let Some(until) = self.until {
            abandon_call(&self.service.writer, &self.id, until, false).await?;
            self.until = None;
        }
        Ok(())
    }

    /// Ends the call without a result although its client did not disconnect. An equal call can take over
    /// the task. Its job continues, whatever the tool is configured to do.
    pub fn keep_job(mut self) {
        self.cancel = false;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if let Some(until) = self.until {
            // A server that shuts down drops its pending calls; their clients did not disconnect.
            let cancel = self.cancel && !self.service.is_stopping();
            let write = DeferredWrite::CallAbandoned { id: self.id.clone(), until, cancel };
            // The reconciler is gone only at the end of the process. The deadline in the row then has the
            // same effect.
            let _ = self.service.outbox.deferred_writes.send(write);
        }
    }
}

impl DeferredWrite {
    /// Makes the write.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub(in crate::tasks) async fn execute(&self, writer: &TaskWriter) -> Result<()> {
        match self {
            DeferredWrite::CallAbandoned { id, until, cancel } => {
                abandon_call(writer, id, *until, *cancel).await
            }
            DeferredWrite::ResultRead { id, by } => {
                if let Some(task) = writer.read(id).await? {
                    writer.apply(task, Event::ResultRead { by: by.clone() }, Lease::Keep).await?;
                }
                Ok(())
            }
            DeferredWrite::FrontEnd(write) => write.execute().await,
        }
    }
}

/// Records that a plain call disconnected, and cancels its task first if `cancel` is set. Does nothing if the
/// task no longer belongs to that call: another caller may have received it or wait for it by now.
async fn abandon_call(writer: &TaskWriter, id: &TaskId, until: Timestamp, cancel: bool) -> Result<()> {
    let belongs_to_call = |task: &Task| task.undelivered.as_ref().is_some_and(|u| u.waiting_until == until);
    // The cancellation comes first: once the task counts as abandoned, an equal call can take it over.
    let stop = cancel.then_some(Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None });
    let mut row = writer.read(id).await?;
    for event in stop.into_iter().chain([Event::CallAbandoned]) {
        loop {
            let Some(task) = row.filter(belongs_to_call) else { return Ok(()) };
            match writer.commit(&task, event.clone(), Lease::Keep).await? {
                Commit::Done(after) => {
                    row = Some(after);
                    break;
                }
                Commit::Conflict | Commit::NoSlot(_) => row = writer.read(id).await?,
            }
        }
    }
    Ok(())
}
