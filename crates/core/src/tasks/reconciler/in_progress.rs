//! The rows on which an action of this process is in progress; polls of groups are not counted. A lease
//! excludes other processes; this set excludes a second action of the same process. Without it, a process
//! could claim a row again while the result of its earlier action is still being written. The end of that
//! action would then release the newer lease. In memory only: no action outlives its process.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::tasks::task::TaskId;

/// The rows that are in progress.
#[derive(Default)]
pub(super) struct InProgressRows {
    rows: Mutex<HashSet<TaskId>>,
    released: Notify,
}

/// A guard for a row that is in progress; the row is free after the drop.
pub(super) struct RowGuard<'a> {
    rows: &'a InProgressRows,
    id: TaskId,
}

impl InProgressRows {
    /// Marks a row as in progress until the guard is dropped; `None` if it already is.
    pub(super) fn take(&self, id: &TaskId) -> Option<RowGuard<'_>> {
        let is_new = self.rows.lock().insert(id.clone());
        is_new.then(|| RowGuard { rows: self, id: id.clone() })
    }

    /// Waits until a row is not in progress, and marks it.
    pub(super) async fn wait_for(&self, id: &TaskId) -> RowGuard<'_> {
        loop {
            let released = self.released.notified();
            if let Some(guard) = self.take(id) {
                return guard;
            }
            released.await;
        }
    }
}

impl Drop for RowGuard<'_> {
    fn drop(&mut self) {
        self.rows.rows.lock().remove(&self.id);
        self.rows.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that is in progress is not taken a second time.
    #[test]
    fn row_has_one_worker() {
        let rows = InProgressRows::default();
        let [one, two] = ["one", "two"].map(TaskId::from_wire);
        let guard = rows.take(&one);
        assert!(guard.is_some() && rows.take(&two).is_some());
        assert!(rows.take(&one).is_none());
        drop(guard);
        assert!(rows.take(&one).is_some());
    }

    /// A waiter gets the row when it is released.
    #[tokio::test]
    async fn row_waiter_gets_released_row() {
        let (rows, id) = (InProgressRows::default(), TaskId::from_wire("one"));
        let guard = rows.take(&id);
        let release = async {
            assert!(rows.take(&id).is_none());
            drop(guard);
        };
        let (_next, ()) = tokio::join!(rows.wait_for(&id), release);
        assert!(rows.take(&id).is_none());
    }
}
