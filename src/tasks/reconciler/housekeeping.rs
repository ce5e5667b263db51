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
use crate::tasks::service::{CommittedStart, DeferredWrite};
use crate::tasks::store::{Lease, Purged, Result, StoreError};
use crate::tasks::task::{Owner, Task};
use crate::tasks::task_writer::Commit;

/// Number of rows that are deleted in one transaction.
const PURGE_BATCH: usize = 500;

/// Maximum number of jobs of deleted rows whose backends are still to be notified. Backends clean
/// up further jobs by their own limits.
const MOST_FORGOTTEN: usize = 10_000;

/// How often old history is deleted. A full batch is followed by the next one at once.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Pause between two batches, so that other writes can run between them.
const BETWEEN_BATCHES: Duration = Duration::from_millis(10);

/// Round-robin order of the owners of queued rows: the owner whose row this process admitted least recently
/// comes first, so that no owner waits for another's whole queue. The loss of this state only delays an owner
/// by one round.
#[derive(Default)]
struct RoundRobin {
    had: HashMap<Owner, u64>,
    count: u64,
}

impl RoundRobin {
    /// Returns these rows in round-robin order of owners. The rows of one owner keep their order.
    fn in_turn(&mut self, mut heads: Vec<Task>) -> Vec<Task> {
        self.had.retain(|owner, _| heads.iter().any(|head| head.owner == *owner));
        heads.sort_by_key(|head| self.had.get(&head.owner).copied());
        heads
    }

    /// Records that a row of this owner was admitted.
    fn had(&mut self, owner: &Owner) {
        self.count += 1;
        self.had.insert(owner.clone(), self.count);
    }
}

impl Core {
    /// Runs the housekeeping loops until `stop`.
    pub(super) async fn housekeeping(
        &self,
        afterwards: &mut mpsc::UnboundedReceiver<DeferredWrite>,
        stop: &CancellationToken,
    ) {
        let (gone, mut forgotten) = mpsc::channel(MOST_FORGOTTEN);
        tokio::join!(
            self.admit_loop(stop),
            self.local_loop(stop),
            self.purge_loop(&gone, stop),
            self.forget_loop(&mut forgotten, stop),
            self.note_loop(afterwards, stop)
        );
    }

    async fn admit_loop(&self, stop: &CancellationToken) {
        let mut turns = RoundRobin::default();
        let mut requests = PermitRequests::new(self.engines.clone());
        loop {
            if let Err(error) = self.admit(&mut turns, &mut requests, stop).await {
                tracing::warn!(%error, "queued tasks cannot be let into free slots");
            }
            requests.give_back();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.ledger.nudge.slot.notified() => {}
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
        turns: &mut RoundRobin,
        requests: &mut PermitRequests,
        stop: &CancellationToken,
    ) -> Result<()> {
        loop {
            let mut admitted = false;
            let heads = turns.in_turn(self.ledger.store.heads(&self.engines.served()).await?);
            // A slot that becomes free during this pass stays free for the owners that came first:
            // they are tried first in the next pass.
            let mut full = BTreeSet::new();
            for head in heads {
                if head.slots.iter().any(|slot| full.contains(slot)) {
                    continue;
                }
                let Some(place) = requests.take(&head.backend) else { continue };
                // The write that takes the slots also leases the row to this process, as for a new row. After
                // `stop` nothing receives from the channel, and a full one would block the shutdown.
                let permit = tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    permit = self.outbox.fresh.reserve() => permit,
                };
                let Ok(permit) = permit else { return Ok(()) };
                let since = Instant::now();
                let hold = Lease::Hold(&self.holder, self.settings.lease);
                match self.ledger.commit(&head, Event::Intended, hold).await {
                    Ok(Commit::Done(task)) => {
                        turns.had(&task.owner);
                        permit.send(CommittedStart {
                            task,
                            since,
                            is_newborn: false,
                            orphan: None,
                            place: Some(place),
                        });
                        admitted = true;
                    }
                    Ok(Commit::NoSlot(slot)) => {
                        full.insert(slot);
                    }
                    Ok(Commit::Conflict) => {}
                    Err(error) => {
                        drop((permit, place));
                        tracing::warn!(%error, task = ?head.id, "a queued task cannot be let into its slots");
                    }
                }
            }
            if !admitted {
                return Ok(());
            }
        }
    }

    /// Ends the leases of dead processes, and wakes the loops to take over their work.
    async fn free_dead(&self) {
        match self.ledger.store.free_dead().await {
            Ok(true) => self.ledger.nudge.all(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "leases of dead processes are not ended yet"),
        }
    }

    async fn purge_loop(&self, gone: &mpsc::Sender<Purged>, stop: &CancellationToken) {
        let mut forget_again = Instant::now();
        loop {
            let mut pause = self.settings.tick;
            self.free_dead().await;
            // Nothing is deleted for a while after a jump of the store's clock.
            let now = self.ledger.clock.settled();
            if let Some(now) = now.filter(|_| forget_again <= Instant::now()) {
                match self.ledger.store.forget(now - self.settings.history, PURGE_BATCH).await {
                    Ok(PURGE_BATCH..) => pause = BETWEEN_BATCHES,
                    Ok(_) => forget_again = Instant::now() + FORGET_EVERY,
                    Err(error) => tracing::warn!(%error, "old history cannot be deleted"),
                }
            }
            if let Some(now) = now {
                match self.ledger.store.purge(now, PURGE_BATCH).await {
                    Ok(purged) => {
                        if purged.len() >= PURGE_BATCH {
                            pause = BETWEEN_BATCHES;
                        }
                        for job in purged.into_iter().filter(|row| row.handle.is_some()) {
                            // Deletion does not wait for an engine.
                            let _ = gone.try_send(job);
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
    async fn forget_loop(&self, gone: &mut mpsc::Receiver<Purged>, stop: &CancellationToken) {
        let forget = async {
            while let Some(job) = gone.recv().await {
                self.engines.forget(&job, self.settings.lease / 2).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = forget => {}
        }
    }

    /// Executes the deferred writes of dropped guards. While the store is unavailable it retries every tick.
    async fn note_loop(
        &self,
        afterwards: &mut mpsc::UnboundedReceiver<DeferredWrite>,
        stop: &CancellationToken,
    ) {
        // Writes that could not be made yet, in order.
        let mut kept: VecDeque<DeferredWrite> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                Some(note) = afterwards.recv() => kept.push_back(note),
                // All clients are disconnected by now, so no further ones arrive. The deadlines in the store
                // replace what is left.
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.tick), if !kept.is_empty() => {}
            }
            while let Some(note) = kept.front() {
                match note.note(&self.ledger).await {
                    Ok(()) => {}
                    Err(error @ StoreError::Unavailable(_)) => {
                        tracing::warn!(%error, "what a closed connection left cannot be noted yet");
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "what a closed connection left cannot be noted; it runs out by itself");
                    }
                }
                kept.pop_front();
            }
        }
    }
}
