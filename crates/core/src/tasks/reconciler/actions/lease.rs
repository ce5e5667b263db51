//! The lease of a row before and after its action: it is renewed for the call, or the row is put back. An
//! unsent start is recorded as such. It must not make calls.

use tokio::time::Instant;

use super::super::Core;
use super::{LeasedRow, RowState};
use crate::tasks::machine::Event;
use crate::tasks::service::StartOrigin;
use crate::tasks::store::{Lease, StoreError};
use crate::tasks::task::{Job, Task};
use crate::tasks::task_writer::Commit;

impl Core {
    /// Ends the lease of a row that cannot be processed now, and releases its permit. An unsent start is
    /// recorded as such.
    pub(in crate::tasks::reconciler) async fn requeue(&self, leased: LeasedRow) {
        if leased.is_unsent() {
            return self.record_unsent(leased).await;
        }
        drop(leased.call_permit);
        self.postpone(&leased.task).await;
    }

    /// Ends the lease of a row, to be claimed again a little later ([`Event::LeaseTooOld`]).
    pub(super) async fn postpone(&self, task: &Task) {
        match self.writer.commit(task, Event::LeaseTooOld, Lease::Release(&self.holder)).await {
            Ok(Commit::Done(_)) => {}
            Ok(Commit::Conflict | Commit::NoSlot(_)) => self.release_and_wake(task).await,
            Err(error) => tracing::warn!(%error, task = ?task.id, "row cannot be postponed"),
        }
    }

    /// Records that a start was not sent, and releases the lease. Another process would have to treat the
    /// start as uncertain, so this retries while the store is unavailable.
    ///
    /// It is recorded only while no other process can have acted on the row. The row is either the leased
    /// version, or one that shows the same attempt and can be leased again before the first lease ends.
    async fn record_unsent(&self, leased: LeasedRow) {
        let LeasedRow { mut task, since, call_permit, .. } = leased;
        drop(call_permit);
        let is_ours = |job: &Job| same_attempt(job, &task.job);
        let id = task.id.clone();
        let mut row = task.clone();
        loop {
            let read = match self.writer.commit(&row, Event::StartNotSent, Lease::Release(&self.holder)).await
            {
                Ok(Commit::Done(_)) => return,
                Ok(Commit::Conflict | Commit::NoSlot(_)) => self.writer.read(&id).await,
                Err(error) => Err(error),
            };
            let renewed = match read {
                Ok(Some(current)) if is_ours(&current.job) && since.elapsed() < self.settings.lease => {
                    // A jump of the store's clock may have ended leases early, and another process
                    // may be acting on the row.
                    let lease = Lease::Acquire(&self.holder, self.settings.lease);
                    self.writer.commit(&current, Event::Nothing, lease).await.map(|commit| (current, commit))
                }
                Ok(Some(current)) => {
                    task = current;
                    break;
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            match renewed {
                Ok((_, Commit::Done(renewed_row))) => row = renewed_row,
                Ok((current, Commit::Conflict | Commit::NoSlot(_))) => {
                    task = current;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, task = ?id, "unsent start cannot be recorded");
                    if !matches!(error, StoreError::Unavailable(_)) {
                        return;
                    }
                    tokio::time::sleep(self.settings.tick).await;
                }
            }
        }
        self.release_and_wake(&task).await;
    }

    /// Ensures that the row is current, and that the lease outlasts one more engine call. Returns `None` if
    /// the row is gone, belongs to another process, changes again meanwhile, or cannot be read or leased.
    pub(super) async fn refresh_lease(&self, leased: LeasedRow) -> Option<LeasedRow> {
        let row = match self.writer.read(&leased.task.id).await {
            Ok(Some(row)) => row,
            Ok(None) => return None,
            Err(error) => {
                tracing::warn!(%error, task = ?leased.task.id, "leased row cannot be read");
                self.give_up(leased).await;
                return None;
            }
        };
        let age = leased.since.elapsed();
        let same = row.version == leased.task.version;
        if same && age < self.settings.lease / 6 {
            return Some(leased);
        }
        // The row has changed, or the lease is old: lease the row again, unless another process has it by
        // now. An unsent start is still unsent if no other process can have acted on the row: it is
        // unchanged, or it shows the same attempt and the lease has not ended.
        let within = age < self.settings.lease && same_attempt(&row.job, &leased.task.job);
        let state = if same || within { leased.state } else { RowState::Claimed };
        let since = Instant::now();
        let lease = Lease::Acquire(&self.holder, self.settings.lease);
        match self.writer.commit(&row, Event::Nothing, lease).await {
            Ok(Commit::Done(task)) => Some(LeasedRow { task, since, state, ..leased }),
            Ok(Commit::Conflict | Commit::NoSlot(_)) => {
                tracing::debug!(task = ?row.id, "leased row changed before its action");
                if let RowState::Unsent(_) = state {
                    self.record_unsent(leased).await;
                } else {
                    self.release_and_wake(&row).await;
                }
                None
            }
            Err(error) => {
                tracing::warn!(%error, task = ?row.id, "lease cannot be renewed");
                self.give_up(leased).await;
                None
            }
        }
    }

    /// Gives up a row that cannot be read or written: its lease expires. If its start is unsent, records that
    /// instead.
    async fn give_up(&self, leased: LeasedRow) {
        if leased.is_unsent() {
            self.record_unsent(leased).await;
        }
    }

    /// Ends the lease if this process still has it, whatever the row shows by now, and wakes the claiming
    /// loop. Retries while the store is unavailable.
    pub(super) async fn release_and_wake(&self, task: &Task) {
        self.write_fact(task, Event::Nothing, Lease::Release(&self.holder)).await;
        self.writer.nudge.due.notify_one();
    }

    /// Commits that a start is about to be sent. Returns `None` if it must not be sent: a slot is full, the
    /// row has changed, or the store failed.
    pub(super) async fn commit_start(&self, leased: LeasedRow) -> Option<LeasedRow> {
        let lease = Lease::Acquire(&self.holder, self.settings.lease);
        let since = Instant::now();
        match self.writer.commit(&leased.task, Event::StartCommitted, lease).await {
            Ok(Commit::Done(task)) => {
                Some(LeasedRow { task, since, state: RowState::Unsent(StartOrigin::Admitted), ..leased })
            }
            Ok(Commit::NoSlot(_)) => {
                self.write_fact(&leased.task, Event::NoSlot, Lease::Release(&self.holder)).await;
                None
            }
            Ok(Commit::Conflict) => {
                self.release_and_wake(&leased.task).await;
                None
            }
            Err(error) => {
                // It is unknown whether the write succeeded, and which process wrote an attempt that the row
                // may show. The lease expires, and the job is searched for after that.
                tracing::warn!(%error, task = ?leased.task.id, "start cannot be committed and is not sent");
                None
            }
        }
    }
}

/// Returns true if both are the same attempt to start a job.
fn same_attempt(one: &Job, other: &Job) -> bool {
    match (one, other) {
        (Job::Starting { attempts: one, .. }, Job::Starting { attempts: other, .. }) => one == other,
        _ => false,
    }
}
