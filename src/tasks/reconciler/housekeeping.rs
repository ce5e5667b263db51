//! Housekeeping: queued rows are let into free slots in the order of their line, one owner after the other, expired rows are deleted, and what
//! dropped guards left is noted.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::tasks::ledger::Commit;
use crate::tasks::machine::Event;
use crate::tasks::service::{Afterwards, Fresh};
use crate::tasks::store::{Lease, Result};
use crate::tasks::task::{Owner, Task};

/// Rows that are deleted in one transaction.
const PURGE_BATCH: usize = 500;

/// How often history is looked at for what is too old.
const FORGET_EVERY: Duration = Duration::from_secs(60);

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
        tokio::join!(self.admit_loop(stop), self.purge_loop(stop), self.note_loop(afterwards, stop));
    }

    async fn admit_loop(&self, stop: &CancellationToken) {
        let mut turns = Turns::default();
        loop {
            if let Err(error) = self.admit(&mut turns).await {
                tracing::warn!(%error, "queued tasks cannot be let into free slots");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.ledger.nudge.slot.notified() => {}
                () = tokio::time::sleep(self.settings.tick) => {}
            }
        }
    }

    /// Lets the first rows of every line start, until every line's slots are taken up.
    async fn admit(&self, turns: &mut Turns) -> Result<()> {
        loop {
            let mut admitted = false;
            let elsewhere = self.ledger.tools.elsewhere();
            let heads = turns.in_turn(self.ledger.store.heads().await?);
            // A slot that becomes free while this goes on is for those whose turn it was: they are asked first the next time.
            let mut full = BTreeSet::new();
            for head in heads.into_iter().filter(|head| !elsewhere.contains(&head.backend)) {
                if head.slots.iter().any(|slot| full.contains(slot)) {
                    continue;
                }
                // The row becomes ours with the same write that takes its slots, as if it were born now.
                let Ok(place) = self.outbox.fresh.reserve().await else { return Ok(()) };
                let since = Instant::now();
                let hold = Lease::Hold(&self.holder, self.settings.lease);
                match self.ledger.commit(&head, Event::Intended, hold).await? {
                    Commit::Done(task) => {
                        turns.had(&task.owner);
                        place.send(Fresh { task, since, orphan: None });
                        admitted = true;
                    }
                    Commit::NoSlot(slot) => {
                        full.insert(slot);
                    }
                    Commit::Conflict => {}
                }
            }
            if !admitted {
                return Ok(());
            }
        }
    }

    async fn purge_loop(&self, stop: &CancellationToken) {
        let mut forget_again = Instant::now();
        loop {
            if forget_again <= Instant::now() {
                match self.ledger.store.forget(self.settings.history, PURGE_BATCH).await {
                    Ok(PURGE_BATCH..) => {}
                    Ok(_) => forget_again = Instant::now() + FORGET_EVERY,
                    Err(error) => tracing::warn!(%error, "old history cannot be deleted"),
                }
            }
            match self.ledger.store.purge(PURGE_BATCH).await {
                Ok(PURGE_BATCH..) => continue,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "expired tasks cannot be deleted"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.tick) => {}
            }
        }
    }

    async fn note_loop(
        &self,
        afterwards: &mut mpsc::UnboundedReceiver<Afterwards>,
        stop: &CancellationToken,
    ) {
        loop {
            let note = tokio::select! {
                biased;
                Some(note) = afterwards.recv() => note,
                // Whoever was served is gone by now: what is there is all that comes.
                () = stop.cancelled() => return,
            };
            if let Err(error) = note.note(&self.ledger).await {
                tracing::warn!(%error, "what a closed connection left cannot be noted; it runs out by itself");
            }
        }
    }
}
