//! Drop guards: for a plain call that waits for its result, a stream that carries a question, and a listening
//! stream. A drop cannot write to a store, so it sends a [`DeferredWrite`] to the reconciler, which writes
//! it.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::{QuestionClaim, Service};
use crate::tasks::machine::{Cancel, Event};
use crate::tasks::store::{Lease, Result, SessionChange};
use crate::tasks::streams::{StreamNote, TaskReport};
use crate::tasks::task::{Task, TaskId};
use crate::tasks::task_writer::{Commit, TaskWriter};

/// A write that a dropped guard leaves to the reconciler.
#[derive(Debug)]
pub enum DeferredWrite {
    /// A plain call disconnected before it received its result.
    Abandoned {
        /// Its task.
        id: TaskId,
        /// The deadline of the waiting call, as the row has it. If the row has another deadline, the task no
        /// longer belongs to this call.
        until: Timestamp,
        /// Whether the tool wants the job stopped in this case.
        cancel: bool,
    },
    /// A stream that carried a question has ended.
    NoLongerCarried(QuestionClaim),
    /// A listening stream that other processes know of has ended.
    NoLongerListens {
        /// Its session.
        session: String,
        /// Its number in the session.
        n: u64,
        /// Its last reports. An older stream of the session continues from them.
        told: Vec<TaskReport>,
        /// Until when the session's settings are kept.
        forget_after: Timestamp,
    },
}

/// A plain call that waits for its result. If it is dropped before [`CallGuard::answered`], an equal call can
/// take over its task.
#[must_use]
pub struct CallGuard {
    service: Service,
    id: TaskId,
    /// The deadline of this call in the row; `None` if the row does not record a waiting call.
    until: Option<Timestamp>,
    cancel: bool,
}

/// A stream that carries a question. On drop it reports that the stream broke, so that another stream may
/// carry the question. After [`DeliveryGuard::over`] that has no effect.
#[must_use]
pub struct DeliveryGuard {
    service: Service,
    carried: QuestionClaim,
}

/// A listening stream that other processes know of. On drop it reports that the stream has ended, so that an
/// older one becomes active.
#[must_use]
pub struct ListenerGuard {
    service: Service,
    session: String,
    n: u64,
    told: Vec<TaskReport>,
    forget_after: Timestamp,
}

impl Service {
    /// Guards the listening stream `n` of a session. The settings of the session are kept until
    /// `forget_after`.
    pub fn listening(&self, session: &str, n: u64, forget_after: Timestamp) -> ListenerGuard {
        ListenerGuard {
            service: self.clone(),
            session: session.to_owned(),
            n,
            told: Vec::new(),
            forget_after,
        }
    }

    /// Guards a plain call that waits for `task`.
    pub fn waiting(&self, task: &Task, cancel_on_abandon: bool) -> CallGuard {
        let until = task.undelivered.as_ref().map(|undelivered| undelivered.waiting_until);
        CallGuard { service: self.clone(), id: task.id.clone(), until, cancel: cancel_on_abandon }
    }

    /// Guards a stream that carries a question.
    pub fn carrying(&self, carried: QuestionClaim) -> DeliveryGuard {
        DeliveryGuard { service: self.clone(), carried }
    }
}

impl CallGuard {
    /// Records that the call is about to receive its result: no other call can take over the task.
    ///
    /// # Errors
    /// If the store is unavailable; then the result still counts as undelivered.
    pub async fn answered(mut self) -> Result<()> {
        // The result exists: a failure from here on is not a disconnect of the client.
        self.cancel = false;
        let ledger = &self.service.ledger;
        if let Some(task) = ledger.read(&self.id).await? {
            ledger.apply(task, Event::Delivered, Lease::Keep).await?;
        }
        self.until = None;
        Ok(())
    }

    /// Ends the call without a result and lets the client repeat it. An equal call can take over the task
    /// from now on. Its job continues, whatever the tool is configured to do.
    ///
    /// # Errors
    /// If the store is unavailable; then the change is written as soon as possible.
    pub async fn handed_on(mut self) -> Result<()> {
        self.cancel = false;
        if let Some(until) = self.until {
            abandoned(&self.service.ledger, &self.id, until, false).await?;
            self.until = None;
        }
        Ok(())
    }

    /// Ends the call without a result although its client did not disconnect. An equal call can take over
    /// the task. Its job continues, whatever the tool is configured to do.
    pub fn spare(mut self) {
        self.cancel = false;
    }
}

impl ListenerGuard {
    /// Records what the stream has reported, now that it ends.
    pub fn ended(&mut self, told: Vec<TaskReport>) {
        self.told = told;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if let Some(until) = self.until {
            // A server that shuts down drops its pending calls; their clients did not disconnect.
            let cancel = self.cancel && !self.service.is_stopping();
            let note = DeferredWrite::Abandoned { id: self.id.clone(), until, cancel };
            // The reconciler is gone only at the end of the process. The deadline in the row then has the
            // same effect.
            let _ = self.service.outbox.afterwards.send(note);
        }
    }
}

impl DeliveryGuard {
    /// Returns the question that the stream carries.
    pub fn carried(&self) -> &QuestionClaim {
        &self.carried
    }

    /// Records that the stream stays open for another `lease`.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn still_open(&self, lease: Duration) -> Result<()> {
        let ledger = &self.service.ledger;
        let QuestionClaim { task, key, n, .. } = &self.carried;
        if let Some(task) = ledger.read(task).await? {
            let until = ledger.now() + lease;
            let event = Event::Delivering { key: key.clone(), n: *n, until };
            ledger.apply(task, event, Lease::Keep).await?;
        }
        Ok(())
    }

    /// Records that the client has handled the message, whatever its response. The question can be sent
    /// again, but not on the streams that are open now. If an answer was rejected, `problem` is the reason,
    /// written for the person who answered.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn over(self, problem: Option<String>) -> Result<()> {
        let ledger = &self.service.ledger;
        let QuestionClaim { task, key, n, .. } = &self.carried;
        if let Some(task) = ledger.read(task).await? {
            let event = Event::DeliveryEnded { key: key.clone(), n: *n, over: true, problem };
            ledger.apply(task, event, Lease::Keep).await?;
        }
        Ok(())
    }
}

impl Drop for DeliveryGuard {
    fn drop(&mut self) {
        // As above: without the reconciler, the claim on the question expires.
        let _ = self.service.outbox.afterwards.send(DeferredWrite::NoLongerCarried(self.carried.clone()));
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let session = std::mem::take(&mut self.session);
        let told = std::mem::take(&mut self.told);
        let note =
            DeferredWrite::NoLongerListens { session, n: self.n, told, forget_after: self.forget_after };
        // As above: without the reconciler, the stream's entry expires after a while.
        let _ = self.service.outbox.afterwards.send(note);
    }
}

impl DeferredWrite {
    /// Makes the write.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub(in crate::tasks) async fn note(&self, ledger: &TaskWriter) -> Result<()> {
        match self {
            DeferredWrite::Abandoned { id, until, cancel } => abandoned(ledger, id, *until, *cancel).await,
            DeferredWrite::NoLongerCarried(QuestionClaim { task, key, n, .. }) => {
                if let Some(row) = ledger.read(task).await? {
                    let event = Event::DeliveryEnded { key: key.clone(), n: *n, over: false, problem: None };
                    ledger.apply(row, event, Lease::Keep).await?;
                }
                Ok(())
            }
            DeferredWrite::NoLongerListens { session, n, told, forget_after } => {
                // The reports come first, since an older stream becomes active as soon as it sees that this
                // one has closed.
                if !told.is_empty() {
                    let setting = SessionChange::Streams(StreamNote::Told(told.clone()));
                    ledger.store.set(session, setting, *forget_after).await?;
                }
                let setting = SessionChange::Streams(StreamNote::Closed(*n));
                ledger.store.set(session, setting, *forget_after).await.map(drop)
            }
        }
    }
}

/// Records that a plain call disconnected, and cancels its task first if `cancel` is set. Does nothing if the
/// task no longer belongs to that call: another caller may have received it or wait for it by now.
async fn abandoned(ledger: &TaskWriter, id: &TaskId, until: Timestamp, cancel: bool) -> Result<()> {
    let is_its = |task: &Task| task.undelivered.as_ref().is_some_and(|u| u.waiting_until == until);
    // The cancellation comes first: once the task counts as abandoned, an equal call can take it over.
    let stop = cancel.then_some(Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None });
    let mut row = ledger.read(id).await?;
    for event in stop.into_iter().chain([Event::Abandoned]) {
        loop {
            let Some(task) = row.filter(is_its) else { return Ok(()) };
            match ledger.commit(&task, event.clone(), Lease::Keep).await? {
                Commit::Done(after) => {
                    row = Some(after);
                    break;
                }
                Commit::Conflict | Commit::NoSlot(_) => row = ledger.read(id).await?,
            }
        }
    }
    Ok(())
}
