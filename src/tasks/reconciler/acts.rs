//! Acts: start, find, cancel, answer, settle. Claim due rows, perform the one impure line that each calls for, write
//! what came of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, StreamExt};
use taskbridge_sdk::{Answer, Backend, Error, JobSpec, Result, Started, Taken};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::Core;
use crate::tasks::audit::Event as Told;
use crate::tasks::history::{CallTo, Happened};
use crate::tasks::ledger::{Commit, Look};
use crate::tasks::machine::{self, Action, Event, Failure};
use crate::tasks::service::{Afterwards, Fresh, Orphan};
use crate::tasks::store::Lease;
use crate::tasks::task::{Asked, AskedStatus, Job, Spec, Task};

/// For so long a row is known that this process wrote: short beside any lease.
const MOMENT: Duration = Duration::from_millis(20);

/// A row that this process has leased.
pub(super) struct Leased {
    task: Task,
    /// When the lease began, or a moment before.
    since: Instant,
    /// True if the row says "may have been sent" because we wrote so and have not sent yet.
    unsent: bool,
    /// Set while it is not known whether the row was written at all.
    orphan: Option<Orphan>,
}

impl Core {
    /// Acts on rows until `stop`, then finishes what is under way.
    pub(super) async fn acts(&self, fresh: &mut mpsc::Receiver<Fresh>, stop: &CancellationToken) {
        let mut running = FuturesUnordered::new();
        // A stream keeps its place between polls, so a claim that is under way is never dropped with its rows.
        let claims = stream::unfold((), |()| async { Some((self.claim_due().await, ())) });
        let mut claims = std::pin::pin!(claims);
        loop {
            let room = running.len() < self.settings.max_acts;
            // In this order always, so that a simulation can replay it. A flood of due rows goes before fresh ones,
            // which are claimed like any other if that takes longer than their lease.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(()) = running.next(), if !running.is_empty() => {}
                Some((rows, since)) = claims.next(), if room => {
                    running.extend(rows.into_iter().map(|task| self.act(Leased::claimed(task, since), stop)));
                }
                Some(fresh) = fresh.recv(), if room => running.push(self.act(Leased::fresh(fresh), stop)),
            }
        }
        // What was handed over was promised a start; the promise is in the row, but it is quicker kept here.
        while let Ok(fresh) = fresh.try_recv() {
            running.push(self.act(Leased::fresh(fresh), stop));
        }
        while running.next().await.is_some() {}
    }

    /// Waits until rows are due, and claims them. The moment is one before their leases began.
    async fn claim_due(&self) -> (Vec<Task>, Instant) {
        let batch = self.settings.max_acts.clamp(1, 64);
        loop {
            let store = &self.ledger.store;
            let (since, elsewhere) = (Instant::now(), self.ledger.tools.elsewhere());
            let due = match store.claim(&self.holder, self.settings.lease, batch, &elsewhere).await {
                Ok(rows) if !rows.is_empty() => return (rows, since),
                Ok(_) => store.next_due(&elsewhere).await,
                Err(error) => Err(error),
            };
            let now = self.ledger.now();
            let tick = now + self.settings.tick;
            let wake = match due {
                Ok(due) => due.map_or(tick, |due| due.min(tick)),
                Err(error) => {
                    tracing::warn!(%error, "due rows cannot be claimed");
                    tick
                }
            };
            self.ledger.nudge.sleeps_until(wake);
            tokio::select! {
                biased;
                () = tokio::time::sleep(wake.since(now).max(Duration::from_millis(1))) => {}
                () = self.ledger.nudge.due.notified() => {}
            }
        }
    }

    /// Does what is owed for one row now, and gives it back.
    async fn act(&self, mut leased: Leased, stop: &CancellationToken) {
        let Some(_hand) = self.in_hand.take(&leased.task.id) else {
            // Another act of ours on it is at work or still being written, and its end gives the row back. Its lease may be a
            // later one than this, which waited for its turn until it had run out, and must not be ended under it.
            if leased.unsent {
                self.say_unsent(&leased).await;
            }
            return;
        };
        if let Some(orphan) = leased.orphan.take()
            && !self.adopt(&mut leased, orphan).await
        {
            return;
        }
        match self.owed(&leased) {
            // Time was set right since the start was committed, and it is a moment too early for it: that it was not
            // sent must not be forgotten with the lease.
            Action::Rest if leased.unsent => return self.put_back(&leased).await,
            Action::Rest => return self.release(&leased.task).await,
            Action::Expire => return self.finish(&leased.task, Event::DeadlinePassed).await,
            _ => {}
        }
        let place = tokio::select! {
            biased;
            place = self.engines.place(&leased.task.backend) => place,
            () = tokio::time::sleep(self.settings.lease / 6) => return self.put_back(&leased).await,
            // Whoever has a place calls sooner.
            () = stop.cancelled() => return self.put_back(&leased).await,
        };
        // The place in the backend's line comes first. What is owed is asked again once the row is known as it is now
        // and the lease is known to outlast a call, so that nothing lies between them and the call. What this process
        // wrote a moment ago is known: a client that has cancelled it since is as if it had done so a moment later.
        if !leased.is_new() && !self.hold(&mut leased).await {
            return;
        }
        let owed = self.owed(&leased);
        let pending = matches!(leased.task.job, Job::Pending { .. });
        if matches!(owed, Action::Start { .. }) && pending && !self.intend(&mut leased).await {
            return;
        }
        // A store can be slow to answer a write, and the lease has begun with the write.
        if leased.since.elapsed() > self.settings.lease / 3 {
            return self.put_back(&leased).await;
        }
        let span = span(&leased.task, &owed);
        self.perform(leased, owed, place).instrument(span).await;
    }

    /// Makes the call that is owed, and writes what came of it.
    async fn perform(&self, leased: Leased, owed: Action, place: Option<OwnedSemaphorePermit>) {
        let begun = Instant::now();
        let (to, event) = match owed {
            Action::Rest if leased.unsent => return self.put_back(&leased).await,
            Action::Rest => return self.release(&leased.task).await,
            Action::Expire => return self.finish(&leased.task, Event::DeadlinePassed).await,
            Action::Start { may_exist } => (CallTo::Start, self.start(&leased.task, may_exist).await),
            // Nobody wants it any more, and it was not sent.
            Action::Find if leased.unsent => return self.put_back(&leased).await,
            Action::Find => (CallTo::Find, self.find(&leased.task).await),
            Action::Cancel => (CallTo::Cancel, self.cancel(&leased.task).await),
            Action::Look => (CallTo::Look, self.look(&leased.task).await),
            Action::Answer { key } => (CallTo::Answer, self.answer(&leased.task, &key).await),
        };
        drop(place);
        self.finish(&leased.task, event.after_call(to, begun.elapsed())).await;
    }

    /// Takes care of a row whose call went away while it was being written. False if there is no such row.
    async fn adopt(&self, leased: &mut Leased, orphan: Orphan) -> bool {
        // A write waits for its turn behind the insert, if that is still on its way; a read would not.
        let hold = Lease::Hold(&self.holder, self.settings.lease);
        let since = Instant::now();
        match self.ledger.commit(&leased.task, Event::Nothing, hold).await {
            Ok(Commit::Done(task)) => *leased = Leased::unsent(task, since),
            // There is none, or somebody has written it since: who holds the row looks at it anew anyway.
            Ok(Commit::Conflict | Commit::NoSlot(_)) => match self.ledger.read(&leased.task.id).await {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(error) => {
                    tracing::warn!(%error, task = ?leased.task.id, "a row that nobody waits for cannot be read");
                    return false;
                }
            },
            Err(error) => {
                tracing::warn!(%error, task = ?leased.task.id, "a row that nobody waits for cannot be held");
                return false;
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

    /// Gives back a row that cannot be acted on now.
    pub(super) async fn put_back(&self, leased: &Leased) {
        if !self.say_unsent(leased).await {
            self.give_back(&leased.task).await;
        }
    }

    /// Says that a row was not acted on, and ends its lease. That a start was not sent is said only while nobody else can
    /// have claimed the row: it is written on the very version that was leased. False if there is another by now.
    async fn say_unsent(&self, leased: &Leased) -> bool {
        let event = if leased.unsent { Event::Unsent } else { Event::NoPlace };
        match self.ledger.commit(&leased.task, event, Lease::Release(&self.holder)).await {
            Ok(Commit::Done(_)) => true,
            Ok(Commit::Conflict | Commit::NoSlot(_)) => false,
            Err(error) => {
                tracing::warn!(%error, task = ?leased.task.id, "a row cannot be put back");
                true
            }
        }
    }

    /// Writes what came of an act and gives the row back. What is owed next, if anything, is claimed like any other
    /// row: a lease ends with its act.
    async fn finish(&self, task: &Task, happened: impl Into<Happened>) {
        let happened = happened.into();
        if happened.event.passes() {
            return self.finish_look(task, happened).await;
        }
        // After a look that an operator wanted, whoever watches the group need not wait any longer either.
        let wants_look =
            matches!(happened.event, Event::CancelTaken | Event::AnswerTaken { .. } | Event::Observed(_));
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

    /// Makes sure that the row is as it is now, and that the lease outlives one more call to an engine. False if the row
    /// is somebody else's.
    async fn hold(&self, leased: &mut Leased) -> bool {
        let row = match self.ledger.read(&leased.task.id).await {
            Ok(Some(row)) => row,
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(%error, task = ?leased.task.id, "a leased row cannot be read");
                return false;
            }
        };
        let age = leased.since.elapsed();
        if row.version == leased.task.version && age < self.settings.lease / 6 {
            return true;
        }
        // Somebody wrote the row, or the lease is old: take it anew, unless it is another's by now. Within the lease
        // nobody else can have acted on the row, so what was not sent still was not.
        let unsent = leased.unsent && row.job == leased.task.job && age < self.settings.lease;
        let since = Instant::now();
        let lease = Lease::Hold(&self.holder, self.settings.lease);
        match self.ledger.commit(&row, Event::Nothing, lease).await {
            Ok(Commit::Done(task)) => {
                *leased = Leased { task, since, unsent, orphan: None };
                true
            }
            Ok(Commit::Conflict | Commit::NoSlot(_)) => {
                tracing::debug!(task = ?row.id, "a leased row was changed before it was acted on");
                self.give_back(&row).await;
                false
            }
            Err(error) => {
                tracing::warn!(%error, task = ?row.id, "a lease cannot be prolonged");
                false
            }
        }
    }

    /// Ends our lease, if it still is ours, whatever has become of the row.
    async fn give_back(&self, task: &Task) {
        self.note(task, Event::Nothing, Lease::Release(&self.holder)).await;
        self.ledger.nudge.due.notify_one();
    }

    /// Commits that a start is about to be sent. False if it must not be.
    async fn intend(&self, leased: &mut Leased) -> bool {
        let hold = Lease::Hold(&self.holder, self.settings.lease);
        let since = Instant::now();
        match self.ledger.commit(&leased.task, Event::Intended, hold).await {
            Ok(Commit::Done(task)) => {
                *leased = Leased::unsent(task, since);
                true
            }
            Ok(Commit::NoSlot(_)) => {
                self.note(&leased.task, Event::NoSlot, Lease::Release(&self.holder)).await;
                false
            }
            Ok(Commit::Conflict) => {
                self.give_back(&leased.task).await;
                false
            }
            Err(error) => {
                tracing::warn!(%error, task = ?leased.task.id, "a start cannot be committed, so it is not sent");
                false
            }
        }
    }

    async fn start(&self, task: &Task, may_exist: bool) -> Event {
        let Job::Starting { spec, attempts, .. } = &task.job else { return Event::Nothing };
        let attempt = *attempts;
        let sent = match self.job(task, spec, may_exist) {
            Ok(job) => {
                let late = if may_exist { Error::unavailable } else { Error::uncertain };
                self.call(task, late, |backend| async move { backend.start(&job).await }).await
            }
            // Our own refusal says nothing about a job that an earlier attempt may have started.
            Err(refusal) if may_exist => match self.look_for(task, spec).await {
                Ok(Some(started)) => Ok(started),
                Ok(None) => Err(Error::uncertain(refusal.to_string())),
                Err(error) => Err(error),
            },
            Err(refusal) => Err(refusal),
        };
        match sent {
            Ok(started) => self.started(task, started),
            Err(error) => {
                self.tell_operator(task, &error, "a job could not be started");
                Event::StartFailed { attempt, may_exist, failure: Failure::from(&error) }
            }
        }
    }

    async fn find(&self, task: &Task) -> Event {
        let Job::Starting { spec, .. } = &task.job else { return Event::Nothing };
        match self.look_for(task, spec).await {
            Ok(Some(started)) => self.started(task, started),
            Ok(None) => Event::NotFound,
            Err(error) => {
                self.tell_operator(task, &error, "a job could not be looked for");
                Event::FindFailed(Failure::from(&error))
            }
        }
    }

    /// Looks for the job by its key. What it was to be started with plays no part, so nothing is unsealed for it.
    async fn look_for(&self, task: &Task, spec: &Spec) -> Result<Option<Started>> {
        let job = JobSpec {
            key: task.key.clone(),
            target: spec.target.clone(),
            arguments: spec.arguments.clone(),
            files: Vec::new(),
            may_exist: true,
            trace: None,
            on_behalf_of: task.origin.on_behalf_of.clone(),
        };
        self.call(task, Error::unavailable, |backend| async move { backend.find(&job).await }).await
    }

    async fn look(&self, task: &Task) -> Event {
        let Some(handle) = task.handle() else { return Event::Nothing };
        let seen =
            self.call(task, Error::unavailable, |backend| async move { backend.observe(handle).await });
        match seen.await {
            Ok(seen) => Event::Observed(self.judged(&task.tool, seen)),
            Err(error) => Event::LookFailed(Failure::from(&error)),
        }
    }

    async fn cancel(&self, task: &Task) -> Event {
        let Some(handle) = task.handle() else { return Event::Nothing };
        let other = task.cancel.as_ref().and_then(|cancel| cancel.on_behalf_of.as_ref());
        let whom = other.or(task.origin.on_behalf_of.as_ref());
        let asked = self
            .call(task, Error::unavailable, |backend| async move { backend.cancel_for(handle, whom).await });
        match asked.await {
            Ok(()) => Event::CancelTaken,
            Err(error) => {
                self.tell_operator(task, &error, "a job could not be cancelled");
                Event::CancelFailed(Failure::from(&error))
            }
        }
    }

    async fn answer(&self, task: &Task, key: &str) -> Event {
        let asked = task.questions.iter().find(|asked| asked.key == key);
        let (Some(handle), Some(asked)) = (task.handle(), asked) else { return Event::Nothing };
        let AskedStatus::Answered { answer, .. } = &asked.status else { return Event::Nothing };
        let key = key.to_owned();
        match self.hand_over(task, handle, asked, answer).await {
            Ok(Taken::Accepted) => Event::AnswerTaken { key },
            Ok(Taken::TooLate) => Event::AnswerTooLate { key },
            Ok(Taken::NotAllowed) => Event::AnswerNotAllowed { key },
            Err(error) => {
                self.tell_operator(task, &error, "an answer could not be handed over");
                Event::AnswerFailed { key, failure: Failure::from(&error) }
            }
        }
    }

    async fn hand_over(
        &self,
        task: &Task,
        handle: &taskbridge_sdk::JobHandle,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Taken> {
        let by = asked.answered_as.as_ref().or(task.origin.on_behalf_of.as_ref());
        let question = &asked.question.id;
        self.call(task, Error::unavailable, |backend| async move {
            match backend.questions() {
                Some(questions) => questions.answer_for(handle, question, answer, by).await,
                // The backend was replaced by one whose jobs cannot be answered.
                None => Ok(Taken::TooLate),
            }
        })
        .await
    }

    /// One call to the task's engine, shorter than what is left of the lease. The caller holds a place in its line.
    async fn call<T, F>(
        &self,
        task: &Task,
        late: fn(String) -> Error,
        make: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = self.engines.call(&task.backend, self.settings.lease / 2, late, make).await;
        self.engines.note(&task.backend, answer.as_ref().err());
        answer
    }

    fn job(&self, task: &Task, spec: &Spec, may_exist: bool) -> Result<JobSpec> {
        let opened = self.ledger.tools.open(spec)?;
        Ok(JobSpec {
            key: task.key.clone(),
            target: spec.target.clone(),
            arguments: opened.arguments,
            files: opened.files,
            may_exist,
            trace: task.origin.trace.clone(),
            on_behalf_of: task.origin.on_behalf_of.clone(),
        })
    }

    /// Errors that only the operator can mend go to the operator's log.
    fn tell_operator(&self, task: &Task, error: &Error, what: &str) {
        use taskbridge_sdk::ErrorKind::{Config, Denied};
        if matches!(error.kind(), Denied | Config) {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(task = ?task.id, tool = task.tool, backend = task.backend, kind = %error.kind(), %error, cause, "{what}");
        } else {
            tracing::debug!(task = ?task.id, tool = task.tool, backend = task.backend, kind = %error.kind(), %error, "{what}");
        }
    }
}

/// The span of an act. It goes on with the trace of the call that made the task, whichever process that came to, and however
/// long ago.
fn span(task: &Task, owed: &Action) -> Span {
    let operation = match owed {
        Action::Rest => "rest",
        Action::Expire => "expire",
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
    /// True for a start that this process committed a moment ago.
    fn is_new(&self) -> bool {
        self.unsent && self.orphan.is_none() && self.since.elapsed() < MOMENT
    }

    /// A row that this process wrote as "about to be sent".
    pub(super) fn unsent(task: Task, since: Instant) -> Self {
        Self { task, since, unsent: true, orphan: None }
    }

    /// A row that was handed over to be started.
    pub(super) fn fresh(Fresh { task, since, orphan }: Fresh) -> Self {
        Self { task, since, unsent: true, orphan }
    }

    /// A row that was found due.
    fn claimed(task: Task, since: Instant) -> Self {
        Self { task, since, unsent: false, orphan: None }
    }
}
