//! Housekeeping: admits queued rows to free slots, in queue order and round-robin by owner, and executes the
//! deferred writes of dropped guards. It ends the leases of dead processes, deletes expired rows and old
//! history, and notifies backends of the jobs of deleted rows. It must not start or poll a job: an admitted
//! row goes to the actions.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::permit_requests::PermitRequests;
use crate::tasks::machine::Event;
use crate::tasks::service::{CommittedStart, DeferredWrite, StartOrigin};
use crate::tasks::store::{DeletedRow, Lease, Result, StoreError};
use crate::tasks::task::{Owner, Task};
use crate::tasks::task_writer::Commit;

/// Number of rows that are deleted in one transaction.
const PURGE_BATCH: usize = 500;

/// Maximum number of jobs of deleted rows whose backends are still to be notified. Backends clean
/// up further jobs by their own limits.
const MAX_PENDING_FORGETS: usize = 10_000;

/// How often old history is deleted. A full batch is followed by the next one at once.
const HISTORY_DELETE_INTERVAL: Duration = Duration::from_secs(60);

/// Pause between two batches, so that other writes can run between them.
const BATCH_PAUSE: Duration = Duration::from_millis(10);

/// Round-robin order of the owners of queued rows: the owner whose row this process admitted least recently
/// comes first, so that no owner waits for another's whole queue. The loss of this state only delays an owner
/// by one round.
#[derive(Default)]
struct RoundRobin {
    last_admitted: HashMap<Owner, u64>,
    count: u64,
}

impl RoundRobin {
    /// Returns these rows in round-robin order of owners. The rows of one owner keep their order.
    fn in_order(&mut self, mut heads: Vec<Task>) -> Vec<Task> {
        self.last_admitted.retain(|owner, _| heads.iter().any(|head| head.owner == *owner));
        heads.sort_by_key(|head| self.last_admitted.get(&head.owner).copied());
        heads
    }

    /// Records that a row of this owner was admitted.
    fn record_admitted(&mut self, owner: &Owner) {
        self.count += 1;
        self.last_admitted.insert(owner.clone(), self.count);
    }
}

impl Core {
    /// Runs the housekeeping loops until `stop`.
    pub(super) async fn housekeeping(
        &self,
        deferred_writes: &mut mpsc::UnboundedReceiver<DeferredWrite>,
        stop: &CancellationToken,
    ) {
        let (deleted_tx, mut deleted_rx) = mpsc::channel(MAX_PENDING_FORGETS);
        tokio::join!(
            self.admit_loop(stop),
            self.deadline_loop(stop),
            self.purge_loop(&deleted_tx, stop),
            self.forget_loop(&mut deleted_rx, stop),
            self.deferred_write_loop(deferred_writes, stop)
        );
    }

    async fn admit_loop(&self, stop: &CancellationToken) {
        let mut round_robin = RoundRobin::default();
        let mut requests = PermitRequests::new(self.engines.clone());
        loop {
            if let Err(error) = self.admit(&mut round_robin, &mut requests, stop).await {
                tracing::warn!(%error, "queued tasks cannot be admitted to free slots");
            }
            requests.release_granted();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.writer.nudge.slot.notified() => {}
                () = requests.granted() => {}
                () = tokio::time::sleep(self.settings.tick) => {}
            }
        }
    }

    /// Admits the first rows of every queue, until `stop`, or until a pass admits none: no queue has both a
    /// free slot and a free permit of its backend, or the writes failed. To admit a row, its start is
    /// committed, and the row is handed to the actions.
    async fn admit(
        &self,
        round_robin: &mut RoundRobin,
        requests: &mut PermitRequests,
        stop: &CancellationToken,
    ) -> Result<()> {
        loop {
            let mut admitted = false;
            let heads = round_robin.in_order(self.writer.store.queue_heads(&self.engines.served()).await?);
            // A slot that becomes free during this pass stays free for the owners that came first:
            // they are tried first in the next pass.
            let mut full = BTreeSet::new();
            for head in heads {
                if head.slots.iter().any(|slot| full.contains(slot)) {
                    continue;
                }
                let Some(call_permit) = requests.take(&head.backend) else { continue };
                // The write that takes the slots also leases the row to this process, as for a new row. After
                // `stop` nothing receives from the channel, and a full one would block the shutdown.
                let permit = tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    permit = self.outbox.committed_starts.reserve() => permit,
                };
                let Ok(permit) = permit else { return Ok(()) };
                let since = Instant::now();
                let lease = Lease::Acquire(&self.holder, self.settings.lease);
                match self.writer.commit(&head, Event::StartCommitted, lease).await {
                    Ok(Commit::Done(task)) => {
                        round_robin.record_admitted(&task.owner);
                        permit.send(CommittedStart {
                            task,
                            since,
                            origin: StartOrigin::Admitted,
                            call_permit: Some(call_permit),
                        });
                        admitted = true;
                    }
                    Ok(Commit::NoSlot(slot)) => {
                        full.insert(slot);
                    }
                    Ok(Commit::Conflict) => {}
                    Err(error) => {
                        drop((permit, call_permit));
                        tracing::warn!(%error, task = ?head.id, "queued task cannot be admitted to its slots");
                    }
                }
            }
            if !admitted {
                return Ok(());
            }
        }
    }

    /// Ends the leases of dead processes, and wakes the loops to take over their work.
    async fn release_dead(&self) {
        match self.writer.store.release_dead_holders().await {
            Ok(true) => self.writer.nudge.wake_all(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "leases of dead processes are not ended yet"),
        }
    }

    async fn purge_loop(&self, deleted_tx: &mpsc::Sender<DeletedRow>, stop: &CancellationToken) {
        let mut next_history_delete = Instant::now();
        loop {
            let mut pause = self.settings.tick;
            self.release_dead().await;
            // Nothing is deleted for a while after a jump of the store's clock.
            let now = self.writer.clock.stable_now();
            if let Some(now) = now.filter(|_| next_history_delete <= Instant::now()) {
                match self.writer.store.delete_entries(now - self.settings.history, PURGE_BATCH).await {
                    Ok(PURGE_BATCH..) => pause = BATCH_PAUSE,
                    Ok(_) => next_history_delete = Instant::now() + HISTORY_DELETE_INTERVAL,
                    Err(error) => tracing::warn!(%error, "old history cannot be deleted"),
                }
            }
            if let Some(now) = now {
                match self.writer.store.purge(now, PURGE_BATCH).await {
                    Ok(purged) => {
                        if purged.len() >= PURGE_BATCH {
                            pause = BATCH_PAUSE;
                        }
                        for job in purged.into_iter().filter(|row| row.handle.is_some()) {
                            // Deletion does not wait for an engine.
                            let _ = deleted_tx.try_send(job);
                        }
                    }
                    Err(error) => tracing::warn!(%error, "expired tasks cannot be deleted"),
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Notifies backends of the jobs of deleted rows.
    async fn forget_loop(&self, deleted_rx: &mut mpsc::Receiver<DeletedRow>, stop: &CancellationToken) {
        let notify = async {
            while let Some(job) = deleted_rx.recv().await {
                self.engines.forget(&job, self.settings.lease / 2).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = notify => {}
        }
    }

    /// Executes the deferred writes of dropped guards. While the store is unavailable it retries every tick.
    async fn deferred_write_loop(
        &self,
        deferred_writes: &mut mpsc::UnboundedReceiver<DeferredWrite>,
        stop: &CancellationToken,
    ) {
        // Writes that could not be made yet, in order.
        let mut pending: VecDeque<DeferredWrite> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                Some(write) = deferred_writes.recv() => pending.push_back(write),
                // All clients are disconnected by now, so no further ones arrive. The deadlines in the store
                // replace what is left.
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.tick), if !pending.is_empty() => {}
            }
            while let Some(write) = pending.front() {
                match write.execute(&self.writer).await {
                    Ok(()) => {}
                    Err(error @ StoreError::Unavailable(_)) => {
                        tracing::warn!(%error, "deferred write failed; it is retried");
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "deferred write failed; its deadline applies");
                    }
                }
                pending.pop_front();
            }
        }
    }
}
