//! Actions: start, find, cancel, answer, poll, resolve, expire. For each leased row, performs the pending
//! action and writes its result. All but resolve and expire make one engine call, with the call permit that
//! comes with the row. A row without a permit is put back. The calls themselves are in [`calls`].

mod calls;
mod lease;

use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::Core;
use super::claims::Claims;
use super::engine::CallPermit;
use crate::tasks::audit::AuditEvent;
use crate::tasks::history::{EngineOperation, EventWithCall};
use crate::tasks::machine::{self, Action, Event};
use crate::tasks::service::{CommittedStart, DeferredWrite, StartOrigin};
use crate::tasks::store::{Lease, StoreError};
use crate::tasks::task::{Job, Task};
use crate::tasks::task_writer::{Commit, PollRequest};

/// How long a row that this process wrote is assumed current. Short compared with any lease.
const ASSUMED_CURRENT: Duration = Duration::from_millis(20);

/// A row that this process has leased. An orphan may be leased, or may not exist at all.
pub(super) struct LeasedRow {
    task: Task,
    /// When the lease began, or slightly earlier.
    since: Instant,
    /// Whether its start was committed here, and not sent yet.
    state: RowState,
    /// The call permit of its backend, until the call is made or given up.
    call_permit: Option<CallPermit>,
    /// The identity of its backend, as known when the row was leased.
    identity: Option<String>,
}

/// How this process has a row.
#[derive(Clone, Copy, Debug)]
enum RowState {
    /// It was claimed because it was due.
    Claimed,
    /// This process committed its start and has not sent it, although the row may show one
    /// ([`Job::Starting`]).
    Unsent(StartOrigin),
}

impl Core {
    /// Processes rows until `stop`. Then it finishes the actions in progress, and sends the starts that were
    /// handed over before.
    pub(super) async fn run_actions(
        &self,
        committed_starts: &mut mpsc::Receiver<CommittedStart>,
        stop: &CancellationToken,
    ) {
        let mut running = FuturesUnordered::new();
        // A stream keeps its state between polls, so an unfinished claim is never dropped with its rows.
        let claims = stream::unfold(Claims::new(self.engines.clone()), async |mut claims| {
            let leased = self.claim_due(&mut claims).await;
            Some((leased, claims))
        });
        let mut claims = std::pin::pin!(claims);
        loop {
            // Every claimed action holds one of `capacity` permits until its call ends. `max_actions` more
            // may wait for the store, so that slow writes do not delay the calls of other rows.
            let has_capacity = running.len() < self.settings.max_actions + self.engines.capacity();
            // The branches are always polled in this order, so that a simulation can replay it. Fresh rows
            // never wait for capacity: a lease that expires here would hide that their starts were not sent.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(()) = running.next(), if !running.is_empty() => {}
                Some(rows) = claims.next(), if has_capacity => {
                    running.extend(rows.into_iter().map(|leased| self.act(leased)));
                }
                Some(start) = committed_starts.recv() => running.push(self.act(self.leased_row(start))),
            }
        }
        // The rows of these already record their starts, but it is faster to send them now than to
        // leave them to recovery.
        while let Ok(start) = committed_starts.try_recv() {
            running.push(self.act(self.leased_row(start)));
        }
        while running.next().await.is_some() {}
    }

    /// Converts a row that was handed over with an unsent start.
    pub(super) fn leased_row(
        &self,
        CommittedStart { task, since, origin, call_permit }: CommittedStart,
    ) -> LeasedRow {
        let identity = self.engines.identity(&task.backend);
        LeasedRow { task, since, state: RowState::Unsent(origin), call_permit, identity }
    }

    /// Performs the pending action of one row, and ends its lease.
    async fn act(&self, mut leased: LeasedRow) {
        let _guard = match self.in_progress.take(&leased.task.id) {
            Some(guard) => guard,
            // Another action of this process on the row is running, or its result is still being written.
            // Only this action knows that its start was not sent, so it runs after the other one, unless that
            // one sent the start. If it wrote this now, it would end the lease that the other action uses.
            None if leased.is_unsent() => self.in_progress.wait_for(&leased.task.id).await,
            // The other action releases the row at its end. Its lease may be newer than this one, which may
            // have expired while this action was queued, so this action must not release it.
            None => return,
        };
        if let RowState::Unsent(StartOrigin::Orphaned { cancel }) = leased.state
            && !self.adopt(&mut leased, cancel).await
        {
            return;
        }
        if leased.call_permit.is_none() {
            return self.requeue(leased).await;
        }
        match self.pending_action(&leased) {
            // The clock was corrected after the commit of the start, so the start is not due yet. The row
            // must record that it was not sent before the lease ends.
            Action::Wait if leased.is_unsent() => return self.requeue(leased).await,
            Action::Wait => return self.release(&leased.task).await,
            Action::Expire => return self.finish(&leased.task, Event::DeadlinePassed).await,
            Action::Resolve => return self.resolve(leased).await,
            _ => {}
        }
        // Decide again once the row is current and the lease outlasts a call, so that nothing happens between
        // the decision and the call. A row that this process has just written is assumed current: a
        // cancellation since then is treated as if it had arrived a moment later.
        if !leased.is_new() {
            match self.refresh_lease(leased).await {
                Some(renewed) => leased = renewed,
                None => return,
            }
        }
        let action = self.pending_action(&leased);
        let pending = matches!(leased.task.job, Job::Pending { .. });
        if matches!(action, Action::Start { .. }) && pending {
            match self.commit_start(leased).await {
                Some(committed) => leased = committed,
                None => return,
            }
        }
        // The engine may have reported its identity since the claim, and this row may belong to
        // another engine.
        if self.engines.identity(&leased.task.backend) != leased.identity {
            return self.requeue(leased).await;
        }
        // A write to a slow store takes time, and the lease begins with the write.
        if leased.since.elapsed() > self.settings.lease / 3 {
            return self.requeue(leased).await;
        }
        let span = span(&leased.task, &action);
        self.perform(leased, action).instrument(span).await;
    }

    /// Makes the pending call, and writes its result.
    async fn perform(&self, leased: LeasedRow, action: Action) {
        let started = Instant::now();
        let (to, event) = match action {
            Action::Wait if leased.is_unsent() => return self.requeue(leased).await,
            Action::Wait => return self.release(&leased.task).await,
            Action::Expire => return self.finish(&leased.task, Event::DeadlinePassed).await,
            // The row was written after its claim, and is due at once. It is claimed again.
            Action::Resolve => return self.release(&leased.task).await,
            Action::Start { may_exist } => {
                (EngineOperation::Start, self.start(&leased.task, may_exist).await)
            }
            // The job is no longer wanted, and its start was not sent.
            Action::Find if leased.is_unsent() => return self.requeue(leased).await,
            Action::Find => (EngineOperation::Find, self.find(&leased.task).await),
            Action::Cancel => (EngineOperation::Cancel, self.cancel(&leased.task).await),
            Action::Poll => (EngineOperation::Look, self.poll(&leased.task).await),
            Action::Answer { key } => (EngineOperation::Answer, self.answer(&leased.task, &key).await),
        };
        drop(leased.call_permit);
        let identity_changed = self.engines.identity(&leased.task.backend) != leased.identity;
        // The engine has reported its identity during the call. A find, a cancellation or a poll is repeated,
        // perhaps by the process that serves the other engine.
        if identity_changed
            && matches!(to, EngineOperation::Find | EngineOperation::Cancel | EngineOperation::Look)
        {
            return self.release(&leased.task).await;
        }
        self.finish(&leased.task, event.after_call(to, started.elapsed())).await;
    }

    /// Reads the tasks that the call of a row refers to. Its job starts once each has a handle.
    async fn resolve(&self, leased: LeasedRow) {
        let LeasedRow { task, call_permit, .. } = leased;
        drop(call_permit);
        let Job::Pending { spec, .. } = &task.job else { return self.release(&task).await };
        let mut handles = Vec::new();
        for (parameter, id) in &spec.unresolved {
            let referred = match self.writer.read(id).await {
                Ok(referred) => referred,
                Err(error) => {
                    tracing::warn!(%error, task = ?task.id, "referenced task cannot be read");
                    return self.postpone(&task).await;
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

    /// Leases a row whose insert has an unknown outcome ([`StartOrigin::Orphaned`]), and records that its
    /// call was abandoned. Retries while the store is unavailable. Returns false if there is no such row, or
    /// if the store fails otherwise.
    async fn adopt(&self, leased: &mut LeasedRow, cancel: bool) -> bool {
        // A write queues behind the insert if that is still in progress; a read would not.
        let lease = Lease::Acquire(&self.holder, self.settings.lease);
        loop {
            let since = Instant::now();
            let written = match self.writer.commit(&leased.task, Event::Nothing, lease).await {
                Ok(Commit::Done(task)) => {
                    (leased.task, leased.since) = (task, since);
                    Ok(true)
                }
                // There is no such row, or another writer has changed it. Only its existence matters here.
                Ok(Commit::Conflict | Commit::NoSlot(_)) => {
                    self.writer.read(&leased.task.id).await.map(|row| row.is_some())
                }
                Err(error) => Err(error),
            };
            match written {
                Ok(true) => break,
                Ok(false) => return false,
                Err(error) => {
                    tracing::warn!(%error, task = ?leased.task.id, "orphaned row cannot be leased");
                    if !matches!(error, StoreError::Unavailable(_)) {
                        return false;
                    }
                    tokio::time::sleep(self.settings.tick).await;
                }
            }
        }
        leased.state = RowState::Unsent(StartOrigin::Inserted);
        self.writer.audit.record(AuditEvent::Created(&leased.task));
        if let Some(undelivered) = &leased.task.undelivered {
            let (id, until) = (leased.task.id.clone(), undelivered.waiting_until);
            let abandoned = DeferredWrite::CallAbandoned { id, until, cancel };
            // Without housekeeping the process is ending, and the row's own deadline has the same effect.
            let _ = self.outbox.deferred_writes.send(abandoned);
        }
        true
    }

    /// Returns the pending action of a leased row. A start that this process committed and has not sent
    /// counts as a first attempt, unless the job is no longer wanted.
    fn pending_action(&self, leased: &LeasedRow) -> Action {
        match machine::todo(&leased.task, self.writer.now()) {
            Action::Start { .. } if leased.is_unsent() => Action::Start { may_exist: false },
            action => action,
        }
    }

    /// Writes the result of an action and releases the row. The next pending action, if any, is
    /// claimed like any other: a lease covers one action.
    async fn finish(&self, task: &Task, result: impl Into<EventWithCall>) {
        let result = result.into();
        if result.event.is_transient() {
            return self.finish_poll(task, result).await;
        }
        // If this process watches the group, its schedule polls the job soon after such an action.
        let wants_poll = matches!(
            result.event,
            Event::CancelTaken { .. } | Event::AnswerTaken { .. } | Event::Observed { .. }
        );
        let written = self.write_fact(task, result, Lease::Release(&self.holder)).await;
        if wants_poll {
            self.writer.nudge.polls.put(PollRequest::Task(task.id.clone()));
        }
        if written.is_some_and(|task| machine::todo(&task, self.writer.now()) != Action::Wait) {
            self.writer.nudge.due.notify_one();
        }
    }

    /// Writes a failed poll, or the poll of a job that still runs. If another writer has changed the row,
    /// only the lease ends, and the poll stays due.
    async fn finish_poll(&self, task: &Task, result: EventWithCall) {
        match self.write_poll(task, result, Lease::Release(&self.holder)).await {
            Ok(Some(_)) => self.writer.nudge.polls.put(PollRequest::Task(task.id.clone())),
            Ok(None) => self.release_and_wake(task).await,
            Err(error) => tracing::warn!(%error, task = ?task.id, "poll result cannot be written"),
        }
    }
}

/// Returns the tracing span of an action. It continues the trace of the call that created the task, even if
/// another process received that call long ago.
fn span(task: &Task, action: &Action) -> Span {
    let operation = match action {
        Action::Wait => "rest",
        Action::Expire => "expire",
        Action::Resolve => "resolve",
        Action::Start { .. } => "start",
        Action::Find => "find",
        Action::Cancel => "cancel",
        Action::Poll => "look",
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

impl LeasedRow {
    /// Returns true if this process committed its start and has not sent it.
    fn is_unsent(&self) -> bool {
        matches!(self.state, RowState::Unsent(_))
    }

    /// Returns true if this process inserted the row together with its unsent start, and less than
    /// [`ASSUMED_CURRENT`] ago.
    fn is_new(&self) -> bool {
        matches!(self.state, RowState::Unsent(StartOrigin::Inserted))
            && self.since.elapsed() < ASSUMED_CURRENT
    }

    /// Creates the entry for a row that was claimed because it was due.
    pub(super) fn claimed(
        task: Task,
        since: Instant,
        call_permit: CallPermit,
        identity: Option<String>,
    ) -> Self {
        Self { task, since, state: RowState::Claimed, call_permit: Some(call_permit), identity }
    }
}
