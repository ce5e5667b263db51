//! Guards for what ends by being dropped: a call that waits for its answer, a stream that carries a question. A drop
//! cannot write to a store, so it tells the reconciler, which does.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::{Carried, Service};
use crate::tasks::ledger::{Commit, Ledger};
use crate::tasks::machine::{Cancel, Event};
use crate::tasks::store::{Lease, Result, Setting};
use crate::tasks::streams::{StreamNote, Told};
use crate::tasks::task::{Task, TaskId};

/// Something to be noted although whoever would have noted it is gone.
#[derive(Debug)]
pub enum Afterwards {
    /// A plain call went away before it was answered.
    Abandoned {
        /// Its task.
        id: TaskId,
        /// Until when the task said that the call waits. Where it says otherwise, the task is no longer the call's.
        until: Timestamp,
        /// Whether the tool wants the job stopped then.
        cancel: bool,
    },
    /// A stream that carried a question has ended.
    NoLongerCarried(Carried),
    /// A listening stream that other processes know of has ended.
    NoLongerListens {
        /// Its session.
        session: String,
        /// Its number in it.
        n: u64,
        /// What it told, for an older one to go on from.
        told: Vec<Told>,
        /// For how long that may matter to anybody.
        forget_after: Timestamp,
    },
}

/// A plain call that waits for its answer. Dropped before [`Waiting::answered`], it marks its task as one that an
/// equal call can take over.
#[must_use]
pub struct Waiting {
    service: Service,
    id: TaskId,
    /// Until when the row says that this call waits; absent if nobody waits for the task by its row.
    until: Option<Timestamp>,
    cancel: bool,
}

/// A stream that carries a question. Dropped, it says that the stream broke, so that another may carry the question.
#[must_use]
pub struct Carrying {
    service: Service,
    carried: Carried,
}

/// A listening stream that other processes know of. Dropped, it says that the stream has ended, so that an older one
/// speaks.
#[must_use]
pub struct Listening {
    service: Service,
    session: String,
    n: u64,
    told: Vec<Told>,
    forget_after: Timestamp,
}

impl Service {
    /// Guards a listening stream of a session that lasts until `forget_after`.
    pub fn listening(&self, session: &str, n: u64, forget_after: Timestamp) -> Listening {
        Listening { service: self.clone(), session: session.to_owned(), n, told: Vec::new(), forget_after }
    }

    /// Guards a plain call that waits for `task`.
    pub fn waiting(&self, task: &Task, cancel_on_abandon: bool) -> Waiting {
        let until = task.undelivered.as_ref().map(|undelivered| undelivered.waiting_until);
        Waiting { service: self.clone(), id: task.id.clone(), until, cancel: cancel_on_abandon }
    }

    /// Guards a stream that carries a question.
    pub fn carrying(&self, carried: Carried) -> Carrying {
        Carrying { service: self.clone(), carried }
    }
}

impl Waiting {
    /// The call is about to be given its answer: nobody else shall take the task over.
    ///
    /// # Errors
    /// If the store cannot be used; then the task still counts as one that nobody was told of.
    pub async fn answered(mut self) -> Result<()> {
        // The answer is there: whatever fails from here on is not the client's going away.
        self.cancel = false;
        let ledger = &self.service.ledger;
        if let Some(task) = ledger.read(&self.id).await? {
            ledger.apply(task, Event::Delivered, Lease::Keep).await?;
        }
        self.until = None;
        Ok(())
    }

    /// The call ends unanswered, and its client is told to ask again: an equal call can take the task over from now on, and its
    /// job goes on whatever the tool says.
    ///
    /// # Errors
    /// If the store cannot be used; then it is noted as soon as it can be.
    pub async fn handed_on(mut self) -> Result<()> {
        self.cancel = false;
        if let Some(until) = self.until {
            abandoned(&self.service.ledger, &self.id, until, false).await?;
            self.until = None;
        }
        Ok(())
    }

    /// The call ends unanswered, but its client did not go away: an equal call can take the task over, and its job
    /// goes on whatever the tool says.
    pub fn spare(mut self) {
        self.cancel = false;
    }
}

impl Listening {
    /// The stream ends now, and has told this.
    pub fn ended(&mut self, told: Vec<Told>) {
        self.told = told;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(until) = self.until {
            // A server that stops drops what it has in hand; none of these clients went away.
            let cancel = self.cancel && !self.service.is_stopping();
            let note = Afterwards::Abandoned { id: self.id.clone(), until, cancel };
            // The reconciler is gone only when the process ends, and then the row's own deadline says the same.
            let _ = self.service.outbox.afterwards.send(note);
        }
    }
}

impl Carrying {
    /// What is carried.
    pub fn carried(&self) -> &Carried {
        &self.carried
    }

    /// Says that the stream is still open, for `lease` again.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn still_open(&self, lease: Duration) -> Result<()> {
        let ledger = &self.service.ledger;
        let Carried { task, key, n, .. } = &self.carried;
        if let Some(task) = ledger.read(task).await? {
            let until = ledger.now() + lease;
            let event = Event::Delivering { key: key.clone(), n: *n, until };
            ledger.apply(task, event, Lease::Keep).await?;
        }
        Ok(())
    }

    /// Says that the client has dealt with the message, whatever it said: the question can go out again, but not on
    /// the streams that are open now. Where there was an answer that was not taken, `problem` says why, in words for
    /// whoever gave it.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn over(self, problem: Option<String>) -> Result<()> {
        let ledger = &self.service.ledger;
        let Carried { task, key, n, .. } = &self.carried;
        if let Some(task) = ledger.read(task).await? {
            let event = Event::DeliveryEnded { key: key.clone(), n: *n, over: true, problem };
            ledger.apply(task, event, Lease::Keep).await?;
        }
        Ok(())
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        // As above: without the reconciler, the claim on the question runs out by itself.
        let _ = self.service.outbox.afterwards.send(Afterwards::NoLongerCarried(self.carried.clone()));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let session = std::mem::take(&mut self.session);
        let told = std::mem::take(&mut self.told);
        let note = Afterwards::NoLongerListens { session, n: self.n, told, forget_after: self.forget_after };
        // As above: without the reconciler, it counts as gone after a while.
        let _ = self.service.outbox.afterwards.send(note);
    }
}

impl Afterwards {
    /// Notes it.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub(in crate::tasks) async fn note(&self, ledger: &Ledger) -> Result<()> {
        match self {
            Afterwards::Abandoned { id, until, cancel } => abandoned(ledger, id, *until, *cancel).await,
            Afterwards::NoLongerCarried(Carried { task, key, n, .. }) => {
                if let Some(row) = ledger.read(task).await? {
                    let event = Event::DeliveryEnded { key: key.clone(), n: *n, over: false, problem: None };
                    ledger.apply(row, event, Lease::Keep).await?;
                }
                Ok(())
            }
            Afterwards::NoLongerListens { session, n, told, forget_after } => {
                // First, since an older stream speaks as soon as it sees that this one has closed.
                if !told.is_empty() {
                    let setting = Setting::Streams(StreamNote::Told(told.clone()));
                    ledger.store.set(session, setting, *forget_after).await?;
                }
                let setting = Setting::Streams(StreamNote::Closed(*n));
                ledger.store.set(session, setting, *forget_after).await.map(drop)
            }
        }
    }
}

/// Notes that a plain call went away, for as long as the task is still that call's: somebody else may have been told
/// of it meanwhile, or wait for it.
async fn abandoned(ledger: &Ledger, id: &TaskId, until: Timestamp, cancel: bool) -> Result<()> {
    let is_its = |task: &Task| task.undelivered.as_ref().is_some_and(|u| u.waiting_until == until);
    // Cancelled first: once the task counts as abandoned, an equal call can have it.
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
