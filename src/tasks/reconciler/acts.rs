//! Acts: start, find, cancel, answer, settle. For each leased row, perform the one impure line that it calls for, and
//! write what came of it. Each row comes with a place at its backend.

mod calls;

use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::Core;
use super::claims::Claims;
use super::engine::Place;
use crate::tasks::audit::Event as Told;
use crate::tasks::history::{CallTo, Happened};
use crate::tasks::ledger::{Commit, Look};
use crate::tasks::machine::{self, Action, Event};
use crate::tasks::service::{Afterwards, Fresh, Orphan};
use crate::tasks::store::{Lease, StoreError};
use crate::tasks::task::{Job, Task};

/// For so long a row is known that this process wrote: short beside any lease.
const MOMENT: Duration = Duration::from_millis(20);

/// A row that this process has leased.
pub(super) struct Leased {
    task: Task,
    /// When the lease began, or a moment before.
    since: Instant,
    /// True if the row says "may have been sent" because we wrote so and have not sent yet.
    unsent: bool,
    /// See [`Fresh::is_newborn`].
    is_newborn: bool,
    /// Set while it is not known whether the row was written at all.
    orphan: Option<Orphan>,
    /// The place at its backend, until the call is made or given up.
    place: Option<Place>,
    /// The identity of its backend, as it was known when the row was leased.
    identity: Option<String>,
}

impl Core {
    /// Acts on rows until `stop`, then finishes what is under way.
    pub(super) async fn acts(&self, fresh: &mut mpsc::Receiver<Fresh>, stop: &CancellationToken) {
        let mut running = FuturesUnordered::new();
        // A stream keeps its place between polls, so a claim that is under way is never dropped with its rows.
        let claims = stream::unfold(Claims::new(self.engines.clone()), async |mut claims| {
            let leased = self.claim_due(&mut claims).await;
            Some((leased, claims))
        });
        let mut claims = std::pin::pin!(claims);
        loop {
            // Acts that hold a place are bounded by the places, and keep no other act waiting.
            let room = running.len() < self.settings.max_acts + self.engines.capacity();
            // In this order always, so that a simulation can replay it. Fresh rows hold places, and never wait for room: a
            // lease that runs out here would hide that their starts were not sent.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(()) = running.next(), if !running.is_empty() => {}
                Some(rows) = claims.next(), if room => {
                    running.extend(rows.into_iter().map(|leased| self.act(leased)));
                }
                Some(fresh) = fresh.recv() => running.push(self.act(self.fresh(fresh))),
            }
        }
        // What was handed over was promised a start; the promise is in the row, but it is quicker kept here.
        while let Ok(fresh) = fresh.try_recv() {
            running.push(self.act(self.fresh(fresh)));
        }
        while running.next().await.is_some() {}
    }

    /// A row that was handed over to be started.
    pub(super) fn fresh(&self, Fresh { task, since, is_newborn, orphan, place }: Fresh) -> Leased {
        let identity = self.engines.identity(&task.backend);
        Leased { task, since, unsent: true, is_newborn, orphan, place, identity }
    }

    /// Does what is owed for one row now, and gives it back.
    async fn act(&self, mut leased: Leased) {
        let _hand = match self.in_hand.take(&leased.task.id) {
            Some(hand) => hand,
            // Another act of ours on it is at work or still being written. Only here is known that this start was not sent, so
            // that it is acted on afterwards, if that one did not: written now, it would end the lease under that one.
            None if leased.unsent => self.in_hand.wait_for(&leased.task.id).await,
            // Its end gives the row back. Its lease may be a later one than this, which waited for its turn until it had run
            // out, and must not be ended under it.
            None => return,
        };
        if let Some(orphan) = leased.orphan.take()
            && !self.adopt(&mut leased, orphan).await
        {
            return;
        }
        if leased.place.is_none() {
            return self.put_back(leased).await;
        }
        match self.owed(&leased) {
            // Time was set right since the start was committed, and it is a moment too early for it: that it was not
            // sent must not be forgotten with the lease.
            Action::Rest if leased.unsent => return self.put_back(leased).await,
            Action::Rest => return self.release(&leased.task).await,
            Action::Expire => return self.finish(&leased.task, Event::DeadlinePassed).await,
            Action::Resolve => return self.resolve(leased).await,
            _ => {}
        }
        // What is owed is asked again once the row is known as it is now and the lease is known to outlast a call, so that
        // nothing lies between them and the call. What this process wrote a moment ago is known: a client that has
        // cancelled it since is as if it had done so a moment later.
        if !leased.is_new() {
            match self.hold(leased).await {
                Some(held) => leased = held,
                None => return,
            }
        }
        let owed = self.owed(&leased);
        let pending = matches!(leased.task.job, Job::Pending { .. });
        if matches!(owed, Action::Start { .. }) && pending {
            match self.intend(leased).await {
                Some(intended) => leased = intended,
                None => return,
            }
        }
        // The engine may have told since then which one it is, and this may be the row of another.
        if self.engines.identity(&leased.task.backend) != leased.identity {
            return self.put_back(leased).await;
        }
        // A store can be slow to answer a write, and the lease has begun with the write.
        if leased.since.elapsed() > self.settings.lease / 3 {
            return self.put_back(leased).await;
        }
        let span = span(&leased.task, &owed);
        self.perform(leased, owed).instrument(span).await;
    }

    /// Makes the call that is owed, and writes what came of it.
    async fn perform(&self, leased: Leased, owed: Action) {
        let begun = Instant::now();
        let (to, event) = match owed {
            Action::Rest if leased.unsent => return self.put_back(leased).await,
            Action::Rest => return self.release(&leased.task).await,
            Action::Expire => return self.finish(&leased.task, Event::DeadlinePassed).await,
            // The row was written since it was claimed, and is due again.
            Action::Resolve => return self.release(&leased.task).await,
            Action::Start { may_exist } => (CallTo::Start, self.start(&leased.task, may_exist).await),
            // Nobody wants it any more, and it was not sent.
            Action::Find if leased.unsent => return self.put_back(leased).await,
            Action::Find => (CallTo::Find, self.find(&leased.task).await),
            Action::Cancel => (CallTo::Cancel, self.cancel(&leased.task).await),
            Action::Look => (CallTo::Look, self.look(&leased.task).await),
            Action::Answer { key } => (CallTo::Answer, self.answer(&leased.task, &key).await),
        };
        drop(leased.place);
        let told_since = self.engines.identity(&leased.task.backend) != leased.identity;
        // What was found or asked for is asked again, perhaps by the process of the other engine.
        if told_since && matches!(to, CallTo::Find | CallTo::Cancel | CallTo::Look) {
            return self.release(&leased.task).await;
        }
        self.finish(&leased.task, event.after_call(to, begun.elapsed())).await;
    }

    /// Looks up the jobs that the call of a row refers to. It starts once each has a handle.
    async fn resolve(&self, leased: Leased) {
        let Leased { task, place, .. } = leased;
        drop(place);
        let Job::Pending { spec, .. } = &task.job else { return self.release(&task).await };
        let mut handles = Vec::new();
        for (parameter, id) in &spec.unresolved {
            let referred = match self.ledger.read(id).await {
                Ok(referred) => referred,
                Err(error) => {
                    tracing::warn!(%error, task = ?task.id, "a task that a call refers to cannot be read");
                    return self.put_off(&task).await;
                }
            };
            match referred.as_ref().map(|referred| (referred.handle(), referred.has_ended())) {
                Some((Some(handle), _)) => handles.push((parameter.clone(), handle.clone())),
                Some((None, false)) => {}
                Some((None, true)) | None => {
                    let parameter = parameter.clone();
                    return self.finish(&task, Event::ReferenceLost { parameter }).await;
                }
            }
        }
        self.finish(&task, Event::Resolved { handles }).await;
    }

    /// Takes care of a row whose call went away while it was being written. False if there is no such row.
    async fn adopt(&self, leased: &mut Leased, orphan: Orphan) -> bool {
        // A write waits for its turn behind the insert, if that is still on its way; a read would not.
        let hold = Lease::Hold(&self.holder, self.settings.lease);
        loop {
            let since = Instant::now();
            let written = match self.ledger.commit(&leased.task, Event::Nothing, hold).await {
                Ok(Commit::Done(task)) => {
                    (leased.task, leased.since) = (task, since);
                    Ok(true)
                }
                // There is none, or somebody has written it since: who holds the row looks at it anew anyway.
                Ok(Commit::Conflict | Commit::NoSlot(_)) => {
                    self.ledger.read(&leased.task.id).await.map(|row| row.is_some())
                }
                Err(error) => Err(error),
            };
            match written {
                Ok(true) => break,
                Ok(false) => return false,
                Err(error) => {
                    tracing::warn!(%error, task = ?leased.task.id, "a row that nobody waits for cannot be held");
                    if !matches!(error, StoreError::Unavailable(_)) {
                        return false;
                    }
                    tokio::time::sleep(self.settings.tick).await;
                }
            }
        }
        self.ledger.audit.note(Told::Created(&leased.task));
        if let Some(undelivered) = &leased.task.undelivered {
            let (id, until) = (leased.task.id.clone(), undelivered.waiting_until);
            let abandoned = Afterwards::Abandoned { id, until, cancel: orphan.cancel };
            // Without housekeeping the process ends, and the row's own deadline says the same.
            let _ = self.outbox.afterwards.send(abandoned);
        }
        true
    }

    /// What is owed for a leased row. A start that this process committed and has not sent is a first one, unless
    /// nobody wants it any more.
    fn owed(&self, leased: &Leased) -> Action {
        match machine::todo(&leased.task, self.ledger.now()) {
            Action::Start { .. } if leased.unsent => Action::Start { may_exist: false },
            action => action,
        }
    }

    /// Gives back a row that cannot be acted on now, and its place.
    pub(super) async fn put_back(&self, leased: Leased) {
        if leased.unsent {
            return self.say_unsent(leased).await;
        }
        drop(leased.place);
        self.put_off(&leased.task).await;
    }

    /// Gives back a row to be acted on a little later.
    async fn put_off(&self, task: &Task) {
        match self.ledger.commit(task, Event::LeaseTooOld, Lease::Release(&self.holder)).await {
            Ok(Commit::Done(_)) => {}
            Ok(Commit::Conflict | Commit::NoSlot(_)) => self.give_back(task).await,
            Err(error) => tracing::warn!(%error, task = ?task.id, "a row cannot be put back"),
        }
    }

    /// Writes that a start was not sent, and ends the lease. Whoever finds the row as one that may have been sent would
    /// have to take it for uncertain, so this is not given up while the store is away.
    ///
    /// It holds only while nobody else can have acted on the row: on the very version that was leased, or on one that shows
    /// the same attempt and could be leased again within the lease.
    async fn say_unsent(&self, leased: Leased) {
        let Leased { mut task, since, place, .. } = leased;
        drop(place);
        let is_ours = |now: &Job| same_attempt(now, &task.job);
        let id = task.id.clone();
        let mut row = task.clone();
        loop {
            let read = match self.ledger.commit(&row, Event::Unsent, Lease::Release(&self.holder)).await {
                Ok(Commit::Done(_)) => return,
                Ok(Commit::Conflict | Commit::NoSlot(_)) => self.ledger.read(&id).await,
                Err(error) => Err(error),
            };
            let held = match read {
                Ok(Some(now)) if is_ours(&now.job) && since.elapsed() < self.settings.lease => {
                    // Leases may have ended early, by a leap of the store's clock, and another may be at work on it.
                    let hold = Lease::Hold(&self.holder, self.settings.lease);
                    self.ledger.commit(&now, Event::Nothing, hold).await.map(|held| (now, held))
                }
                Ok(Some(now)) => {
                    task = now;
                    break;
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            match held {
                Ok((_, Commit::Done(held))) => row = held,
                Ok((now, Commit::Conflict | Commit::NoSlot(_))) => {
                    task = now;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, task = ?id, "it cannot be written yet that a start was not sent");
                    if !matches!(error, StoreError::Unavailable(_)) {
                        return;
                    }
                    tokio::time::sleep(self.settings.tick).await;
                }
            }
        }
        self.give_back(&task).await;
    }

    /// Writes what came of an act and gives the row back. What is owed next, if anything, is claimed like any other
    /// row: a lease ends with its act.
    async fn finish(&self, task: &Task, happened: impl Into<Happened>) {
        let happened = happened.into();
        if happened.event.passes() {
            return self.finish_look(task, happened).await;
        }
        // After a look that an operator wanted, whoever watches the group need not wait any longer either.
        let wants_look = matches!(
            happened.event,
            Event::CancelTaken { .. } | Event::AnswerTaken { .. } | Event::Observed { .. }
        );
        let written = self.note(task, happened, Lease::Release(&self.holder)).await;
        if wants_look {
            self.ledger.nudge.looks.put(Look::Task(task.id.clone()));
        }
        if written.is_some_and(|task| machine::todo(&task, self.ledger.now()) != Action::Rest) {
            self.ledger.nudge.due.notify_one();
        }
    }

    /// The same after a look at a job that runs on. Where somebody has written the row meanwhile, it is due for another.
    async fn finish_look(&self, task: &Task, look: Happened) {
        match self.note_look(task, look, Lease::Release(&self.holder)).await {
            Ok(Some(_)) => self.ledger.nudge.looks.put(Look::Task(task.id.clone())),
            Ok(None) => self.give_back(task).await,
            Err(error) => tracing::warn!(%error, task = ?task.id, "what a look saw cannot be written"),
        }
    }

    /// Makes sure that the row is as it is now, and that the lease outlives one more call to an engine. None if the row
    /// is somebody else's, or cannot be held.
    async fn hold(&self, leased: Leased) -> Option<Leased> {
        let row = match self.ledger.read(&leased.task.id).await {
            Ok(Some(row)) => row,
            Ok(None) => return None,
            Err(error) => {
                tracing::warn!(%error, task = ?leased.task.id, "a leased row cannot be read");
                self.forget(leased).await;
                return None;
            }
        };
        let age = leased.since.elapsed();
        let same = row.version == leased.task.version;
        if same && age < self.settings.lease / 6 {
            return Some(leased);
        }
        // Somebody wrote the row, or the lease is old: take it anew, unless it is another's by now. Within the lease
        // nobody else can have acted on the row, nor if it is as it was, so what was not sent still was not.
        let within = age < self.settings.lease && same_attempt(&row.job, &leased.task.job);
        let unsent = leased.unsent && (same || within);
        let since = Instant::now();
        let lease = Lease::Hold(&self.holder, self.settings.lease);
        match self.ledger.commit(&row, Event::Nothing, lease).await {
            Ok(Commit::Done(task)) => Some(Leased { task, since, unsent, ..leased }),
            Ok(Commit::Conflict | Commit::NoSlot(_)) => {
                tracing::debug!(task = ?row.id, "a leased row was changed before it was acted on");
                if unsent {
                    self.say_unsent(leased).await;
                } else {
                    self.give_back(&row).await;
                }
                None
            }
            Err(error) => {
                tracing::warn!(%error, task = ?row.id, "a lease cannot be prolonged");
                self.forget(leased).await;
                None
            }
        }
    }

    /// Lets the lease of a row run out that cannot be read or written, unless that would hide that nothing was sent.
    async fn forget(&self, leased: Leased) {
        if leased.unsent {
            self.say_unsent(leased).await;
        }
    }

    /// Ends our lease, if it still is ours, whatever has become of the row.
    async fn give_back(&self, task: &Task) {
        self.note(task, Event::Nothing, Lease::Release(&self.holder)).await;
        self.ledger.nudge.due.notify_one();
    }

    /// Commits that a start is about to be sent. None if it must not be.
    async fn intend(&self, leased: Leased) -> Option<Leased> {
        let hold = Lease::Hold(&self.holder, self.settings.lease);
        let since = Instant::now();
        match self.ledger.commit(&leased.task, Event::Intended, hold).await {
            Ok(Commit::Done(task)) => Some(Leased { task, since, unsent: true, ..leased }),
            Ok(Commit::NoSlot(_)) => {
                self.note(&leased.task, Event::NoSlot, Lease::Release(&self.holder)).await;
                None
            }
            Ok(Commit::Conflict) => {
                self.give_back(&leased.task).await;
                None
            }
            Err(error) => {
                // Whether it was written is not known, and neither is whose attempt a row would show that has one: it is
                // left to the lease, and looked for then.
                tracing::warn!(%error, task = ?leased.task.id, "a start cannot be committed, so it is not sent");
                None
            }
        }
    }
}

/// The span of an act. It goes on with the trace of the call that made the task, whichever process that came to, and however
/// long ago.
fn span(task: &Task, owed: &Action) -> Span {
    let operation = match owed {
        Action::Rest => "rest",
        Action::Expire => "expire",
        Action::Resolve => "resolve",
        Action::Start { .. } => "start",
        Action::Find => "find",
        Action::Cancel => "cancel",
        Action::Look => "look",
        Action::Answer { .. } => "answer",
    };
    let Task { id, tool, backend, .. } = task;
    match &task.origin.trace {
        Some(trace) => {
            tracing::info_span!(target: "spans", "act", operation, task = ?id, tool, backend, traceparent = trace.parent)
        }
        None => tracing::trace_span!(target: "spans", "act", operation, task = ?id, tool, backend),
    }
}

impl Leased {
    /// True for a call whose row this process wrote a moment ago.
    fn is_new(&self) -> bool {
        self.is_newborn && self.unsent && self.orphan.is_none() && self.since.elapsed() < MOMENT
    }

    /// A row that was found due.
    pub(super) fn claimed(task: Task, since: Instant, place: Place, identity: Option<String>) -> Self {
        let (unsent, is_newborn, orphan) = (false, false, None);
        Self { task, since, unsent, is_newborn, orphan, place: Some(place), identity }
    }
}

/// True if both are the same attempt to start a job.
fn same_attempt(one: &Job, other: &Job) -> bool {
    match (one, other) {
        (Job::Starting { attempts: one, .. }, Job::Starting { attempts: other, .. }) => one == other,
        _ => false,
    }
}
