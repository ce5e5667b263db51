//! Housekeeping: queued rows are let into free slots in the order of their line, one owner after the other, expired rows are deleted, and what
//! dropped guards left is noted. Leases of dead processes end.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::places::PlaceRequests;
use crate::tasks::ledger::Commit;
use crate::tasks::machine::Event;
use crate::tasks::service::{Afterwards, Fresh};
use crate::tasks::store::{Lease, Purged, Result, StoreError};
use crate::tasks::task::{Owner, Task};

/// Rows that are deleted in one transaction.
const PURGE_BATCH: usize = 500;

/// Jobs of deleted rows that wait to be forgotten. Further ones are left to their backends' own limits.
const MOST_FORGOTTEN: usize = 10_000;

/// How often history is looked at for what is too old.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The pause between two batches, so that other writes come between them.
const BETWEEN_BATCHES: Duration = Duration::from_millis(10);

/// Whose turn it is where rows of several owners wait: those who had none for longest, so that nobody waits behind all
/// that another one has lined up. Only this process's own turns count; what it forgets costs somebody a turn.
#[derive(Default)]
struct Turns {
    had: HashMap<Owner, u64>,
    count: u64,
}

impl Turns {
    /// These rows, in turn by owner. Those of one owner stay as they are.
    fn in_turn(&mut self, mut heads: Vec<Task>) -> Vec<Task> {
        self.had.retain(|owner, _| heads.iter().any(|head| head.owner == *owner));
        heads.sort_by_key(|head| self.had.get(&head.owner).copied());
        heads
    }

    /// A row of this owner was let in.
    fn had(&mut self, owner: &Owner) {
        self.count += 1;
        self.had.insert(owner.clone(), self.count);
    }
}

impl Core {
    /// Keeps house until `stop`.
    pub(super) async fn housekeeping(
        &self,
        afterwards: &mut mpsc::UnboundedReceiver<Afterwards>,
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
        let mut turns = Turns::default();
        let mut requests = PlaceRequests::new(self.engines.clone());
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

    /// Starts the first rows of every queue, until `stop` or until the slots of every queue or the places at its backend are
    /// taken.
    async fn admit(
        &self,
        turns: &mut Turns,
        requests: &mut PlaceRequests,
        stop: &CancellationToken,
    ) -> Result<()> {
        loop {
            let mut admitted = false;
            let heads = turns.in_turn(self.ledger.store.heads(&self.engines.served()).await?);
            // A slot that becomes free while this goes on is for those whose turn it was: they are asked first the next time.
            let mut full = BTreeSet::new();
            for head in heads {
                if head.slots.iter().any(|slot| full.contains(slot)) {
                    continue;
                }
                let Some(place) = requests.take(&head.backend) else { continue };
                // The row becomes ours with the same write that takes its slots, as if it were born now.
                // After `stop` nothing receives from the channel, and a full one would block the shutdown.
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
                        permit.send(Fresh {
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

    /// Ends the leases of dead processes, and takes up what they held.
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
            // While the store's clock has lately leapt, nothing is deleted.
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
                            // Deletion waits for no engine.
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

    async fn note_loop(
        &self,
        afterwards: &mut mpsc::UnboundedReceiver<Afterwards>,
        stop: &CancellationToken,
    ) {
        // What could not be written yet, in its order.
        let mut kept: VecDeque<Afterwards> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                Some(note) = afterwards.recv() => kept.push_back(note),
                // Whoever was served is gone by now: what is there is all that comes.
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
