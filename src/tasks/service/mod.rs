//! The verbs that every protocol generation speaks: call, get, wait, list, cancel, answer. It must not know a
//! protocol, and a verb that only looks never reaches an engine.

mod actor;
mod answer;
mod call;
mod guard;
mod look;
mod over;

pub use actor::{Actor, Deed};
pub use answer::{AnswerError, Carried};
pub use call::{Call, CallError, Called, Plain, WhenFull};
pub use guard::{Afterwards, Carrying, Listening, Waiting};
pub use look::{RENEW_WATCH, View};
pub use over::Over;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{OnBehalfOf, Output};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::{Event as Told, Wish};
use super::ledger::Ledger;
use super::machine::{Cancel, Event};
use super::pace::Pace;
use super::reconciler::{Engines, Place};
use super::store::{Found, Holder, Lease, Result};
use super::task::{Outcome, Task, TaskId};
use crate::clock::Entropy;

/// The verbs. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    ledger: Ledger,
    entropy: Arc<dyn Entropy>,
    holder: Holder,
    lease: Duration,
    pace: Pace,
    outbox: Outbox,
    typical: Arc<Mutex<Durations>>,
    stop: Arc<OnceLock<CancellationToken>>,
}

/// How long jobs of each tool usually take, and when that was read.
type Durations = HashMap<String, (Instant, Option<Duration>)>;

/// The ways from the verbs to the reconciler.
#[derive(Clone)]
pub struct Outbox {
    /// Rows that are leased to this process, to be acted on at once.
    pub fresh: mpsc::Sender<Fresh>,
    /// What is to be noted although whoever would have noted it is gone.
    pub afterwards: mpsc::UnboundedSender<Afterwards>,
    /// The connected backends: a row is handed over with a place at its own.
    pub engines: Engines,
}

/// A row that this process leased as it wrote that its job is about to be started.
#[derive(Debug)]
pub struct Fresh {
    /// The row.
    pub task: Task,
    /// When the lease began, or a moment before.
    pub since: Instant,
    /// True if the row was born with its lease. One that waited before may have been claimed by this process as well, and the end
    /// of that act gives back the lease.
    pub is_newborn: bool,
    /// Set if whoever had the row written went away before it heard that it is: it may still be on its way to the
    /// store, or never get there.
    pub orphan: Option<Orphan>,
    /// The place at the backend for the call that starts the job. Without one the row is only taken care of as an orphan.
    pub place: Option<Place>,
}

/// A call that went away while its row was being written.
#[derive(Clone, Copy, Debug)]
pub struct Orphan {
    /// Whether the tool wants the job stopped then.
    pub cancel: bool,
}

/// What became of a wish to cancel.
#[derive(Clone, Debug)]
pub enum Cancelled {
    /// The wish is on record (and, with [`Cancel::Settle`], the task is cancelled).
    Done(Task),
    /// The task had ended before.
    AlreadyEnded(Task),
    /// They may look at it, and not do this, in words for them.
    Refused(String),
    /// They have no such task.
    NotFound,
}

impl Service {
    /// The verbs over a ledger, for a process that leases rows as `holder`, for `lease` at a time.
    pub fn new(
        ledger: Ledger,
        entropy: Arc<dyn Entropy>,
        holder: Holder,
        lease: Duration,
        pace: Pace,
        outbox: Outbox,
    ) -> Self {
        Self { ledger, entropy, holder, lease, pace, outbox, typical: Arc::default(), stop: Arc::default() }
    }

    /// Says what ends the serving of clients: once it is cancelled, a call that is dropped was not given up by its
    /// client, and its job goes on. The first to say it is heard.
    pub fn stops_with(&self, stop: CancellationToken) {
        self.stop.get_or_init(|| stop);
    }

    /// Waits until the serving of clients is to end. Without [`Self::stops_with`] it never is.
    pub async fn stopping(&self) {
        match self.stop.get() {
            Some(stop) => stop.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn is_stopping(&self) -> bool {
        self.stop.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// If the store cannot be used.
    #[tracing::instrument(target = "spans", level = "trace", name = "verb", skip_all, fields(verb = "cancel", task = ?id))]
    pub async fn cancel(&self, by: &dyn Actor, id: &TaskId, mode: Cancel) -> Result<Cancelled> {
        let Some(task) = self.find(by, id).await? else {
            return Ok(Cancelled::NotFound);
        };
        let on_behalf_of = match self.permits(by, Deed::Cancel, &task) {
            Ok(on_behalf_of) => on_behalf_of,
            Err(why) => return Ok(Cancelled::Refused(why)),
        };
        if task.has_ended() {
            return Ok(Cancelled::AlreadyEnded(task));
        }
        if !is_wished(&task, mode, on_behalf_of.as_ref()) {
            self.ledger.audit.announce(Wish::Cancel(id)).await?;
            self.ledger.audit.note(Told::CancelAsked(&task));
        }
        match self.ledger.apply(task, Event::CancelRequested { mode, on_behalf_of }, Lease::Keep).await? {
            // The job may have ended between the read and the write.
            Some(after) if after.outcome().is_some_and(|outcome| outcome != Outcome::Cancelled) => {
                Ok(Cancelled::AlreadyEnded(after))
            }
            Some(after) => Ok(Cancelled::Done(after)),
            None => Ok(Cancelled::NotFound),
        }
    }

    /// Says that somebody wants to know, for so long, how much a task's job prints; [`Task::printed`] says it from now on.
    /// `None` if they have no such task.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn follow_log(&self, by: &dyn Actor, id: &TaskId, lease: Duration) -> Result<Option<Task>> {
        let Some(task) = self.find(by, id).await? else { return Ok(None) };
        let until = self.ledger.now() + lease;
        self.ledger.apply(task, Event::LogFollowed { until }, Lease::Keep).await
    }

    /// Tells the streams of a session that it has set something.
    pub fn session_changed(&self, session: &str) {
        self.ledger.watch.session_changed(session);
    }

    /// The sessions that other processes set something for from now on.
    pub fn sessions_elsewhere(&self) -> mpsc::UnboundedReceiver<String> {
        self.ledger.watch.sessions_elsewhere()
    }

    /// The result that a task ended with; `None` if it ended without one.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn output(&self, task: &Task) -> Result<Option<Output>> {
        self.ledger.store.output(&task.id).await
    }

    /// The same, unless it is kept in more bytes than these.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn output_within(&self, task: &Task, most: usize) -> Result<Found> {
        self.ledger.store.output_within(&task.id, most).await
    }
}

/// True if the wish is on record as it is: who wishes the same again and again has nothing more told of it.
fn is_wished(task: &Task, mode: Cancel, on_behalf_of: Option<&OnBehalfOf>) -> bool {
    let before = task.cancel.as_ref();
    mode == Cancel::Request
        && before.is_some_and(|cancel| cancel.taken || cancel.on_behalf_of.as_ref() == on_behalf_of)
}
