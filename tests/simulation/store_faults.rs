//! The way from one process to the store, and what befalls it: nothing gets through, or no answer comes back, or it comes
//! late.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use taskbridge::tasks::store::{Result, StoreError};

use super::node::LEASE;
use super::rng::Rng;

/// How the store can be reached by one process.
#[derive(Default)]
pub(super) struct StoreFaults {
    reads_fail: AtomicBool,
    writes_fail: AtomicBool,
    /// How many writes were refused.
    refused: AtomicU64,
    /// So many of the next writes are made, and nobody hears of it.
    replies_lost: AtomicU64,
    /// The next write is heard of so many milliseconds after it was made.
    late_ms: AtomicU64,
}

impl StoreFaults {
    /// From now on the store is away for reads, for writes or for both.
    pub(super) fn cut(&self, rng: &Rng) {
        let (reads, writes) =
            [(true, true), (true, true), (false, true), (true, false)][rng.below(4) as usize];
        self.reads_fail.store(reads, Ordering::Relaxed);
        self.writes_fail.store(writes, Ordering::Relaxed);
    }

    /// From now on the store is away for writes.
    pub(super) fn refuse_writes(&self) {
        self.writes_fail.store(true, Ordering::Relaxed);
    }

    /// How many writes were refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The store is there again.
    pub(super) fn clear(&self) {
        self.reads_fail.store(false, Ordering::Relaxed);
        self.writes_fail.store(false, Ordering::Relaxed);
    }

    /// Nothing is lost or late any more either.
    pub(super) fn calm(&self) {
        self.clear();
        self.replies_lost.store(0, Ordering::Relaxed);
        self.late_ms.store(0, Ordering::Relaxed);
    }

    /// The next writes are made, and their answers get lost.
    pub(super) fn lose_replies(&self, rng: &Rng) {
        self.replies_lost.store(1 + rng.below(3), Ordering::Relaxed);
    }

    /// The answer to the next write takes up to two leases.
    pub(super) fn delay_reply(&self, rng: &Rng) {
        self.late_ms.store(rng.below(2_000 * LEASE.as_secs()), Ordering::Relaxed);
    }

    /// A read is on its way.
    pub(super) fn read(&self) -> Result<()> {
        if self.reads_fail.load(Ordering::Relaxed) { Err(away()) } else { Ok(()) }
    }

    /// A write is on its way.
    pub(super) fn write(&self) -> Result<()> {
        if self.writes_fail.load(Ordering::Relaxed) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(away());
        }
        Ok(())
    }

    /// The answer to a write is on its way back.
    pub(super) async fn answered<T>(&self, answer: Result<T>) -> Result<T> {
        let late = self.late_ms.swap(0, Ordering::Relaxed);
        if late > 0 {
            tokio::time::sleep(Duration::from_millis(late)).await;
        }
        let lost = self.replies_lost.load(Ordering::Relaxed);
        if lost > 0 && answer.is_ok() {
            self.replies_lost.store(lost - 1, Ordering::Relaxed);
            return Err(StoreError::Unavailable("the connection broke after the commit was sent".to_owned()));
        }
        answer
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("the store is away".to_owned())
}
