//! Which rows this process is acting on. Leases keep others from them; this keeps the process from acting twice at once
//! on a row that it claimed again while an earlier act of its own is still being written: the end of that one would
//! give back the lease of the other. Memory only: no act outlives its process.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::tasks::task::TaskId;

/// The rows that are being acted on.
#[derive(Default)]
pub(super) struct InHand(Mutex<HashSet<TaskId>>);

/// A row that is being acted on, until this is dropped.
pub(super) struct Hand<'a> {
    rows: &'a InHand,
    id: TaskId,
}

impl InHand {
    /// Takes a row, unless it is in hand.
    pub(super) fn take(&self, id: &TaskId) -> Option<Hand<'_>> {
        let is_new = self.0.lock().insert(id.clone());
        is_new.then(|| Hand { rows: self, id: id.clone() })
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.rows.0.lock().remove(&self.id);
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
}
