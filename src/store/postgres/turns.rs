//! Writes to one row are made in the order in which this process began them, whichever connections they take: a call
//! that was dropped while its row was being written is done with before the next write to that row begins.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// Rows share a line by chance, and wait for each other then. There are many more lines than connections.
const LINES: usize = 1024;

/// Waiting lines, one for each row.
pub(super) struct Turns {
    lines: Vec<Arc<Mutex<()>>>,
    hasher: RandomState,
}

/// The right to write a row. Goes with the work that writes it.
pub(super) type Turn = OwnedMutexGuard<()>;

impl Turns {
    pub(super) fn new() -> Self {
        let lines = (0..LINES).map(|_| Arc::default()).collect();
        Self { lines, hasher: RandomState::new() }
    }

    /// Waits until no write to this row is under way. Who asks first is first.
    pub(super) async fn of(&self, row: &str) -> Turn {
        let line = (self.hasher.hash_one(row) % self.lines.len() as u64) as usize;
        Arc::clone(&self.lines[line]).lock_owned().await
    }
}
