//! Which rows this process is acting on. Leases keep others from them; this keeps the process from acting twice at once
//! on a row that it claimed again while an earlier act of its own is still being written: the end of that one would
//! give back the lease of the other. Memory only: no act outlives its process.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::tasks::task::TaskId;

/// The rows that are being acted on.
#[derive(Default)]
pub(super) struct InHand {
    rows: Mutex<HashSet<TaskId>>,
    freed: Notify,
}

/// A row that is being acted on, until this is dropped.
pub(super) struct Hand<'a> {
    rows: &'a InHand,
    id: TaskId,
}

impl InHand {
    /// Takes a row, unless it is in hand.
    pub(super) fn take(&self, id: &TaskId) -> Option<Hand<'_>> {
        let is_new = self.rows.lock().insert(id.clone());
        is_new.then(|| Hand { rows: self, id: id.clone() })
    }

    /// Takes a row once it is not in hand any more.
    pub(super) async fn wait_for(&self, id: &TaskId) -> Hand<'_> {
        loop {
            let freed = self.freed.notified();
            if let Some(hand) = self.take(id) {
                return hand;
            }
            freed.await;
        }
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.rows.rows.lock().remove(&self.id);
        self.rows.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_one_hand_at_a_time() {
        let rows = InHand::default();
        let [one, two] = ["one", "two"].map(TaskId::from_wire);
        let hand = rows.take(&one);
        assert!(hand.is_some() && rows.take(&two).is_some());
        assert!(rows.take(&one).is_none());
        drop(hand);
        assert!(rows.take(&one).is_some());
    }

    #[tokio::test]
    async fn who_waits_for_a_row_gets_it_when_it_is_free() {
        let (rows, id) = (InHand::default(), TaskId::from_wire("one"));
        let hand = rows.take(&id);
        let frees = async {
            assert!(rows.take(&id).is_none());
            drop(hand);
        };
        let (_next, ()) = tokio::join!(rows.wait_for(&id), frees);
        assert!(rows.take(&id).is_none());
    }
}
