//! Orders the writes to one row: they run in the order in which this process started them, on any
//! connection. A call that was dropped during its write completes before the next write to that row begins.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// Number of queues. Rows can share a queue by chance, and then wait for each other. There are many more
/// queues than connections.
const SHARDS: usize = 1024;

/// The queues of writes; each row belongs to one queue.
pub(super) struct RowLocks {
    shards: Vec<Arc<Mutex<()>>>,
    hasher: RandomState,
}

/// The right to write a row. The write keeps it until it is done.
pub(super) type RowLockGuard = OwnedMutexGuard<()>;

impl RowLocks {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Arc::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }

    /// Waits until no write to this row is in progress, in FIFO order.
    pub(super) async fn lock(&self, row: &str) -> RowLockGuard {
        let shard = (self.hasher.hash_one(row) % self.shards.len() as u64) as usize;
        Arc::clone(&self.shards[shard]).lock_owned().await
    }
}
