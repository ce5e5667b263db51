//! The faults of the connection from one process to the store: requests fail, or replies are lost or late.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use taskbridge_core::tasks::store::{Result, StoreError};

use super::node::LEASE;
use super::rng::Rng;

/// The state of one process's connection to the store.
#[derive(Default)]
pub(super) struct StoreFaults {
    reads_fail: AtomicBool,
    writes_fail: AtomicBool,
    /// Number of refused writes.
    refused_writes: AtomicU64,
    /// Number of upcoming writes that are committed but whose replies are lost.
    replies_to_lose: AtomicU64,
    /// Delay of the reply to the next write, in milliseconds.
    reply_delay_ms: AtomicU64,
}

impl StoreFaults {
    /// Makes reads, writes or both fail from now on.
    pub(super) fn cut(&self, rng: &Rng) {
        let (reads, writes) =
            [(true, true), (true, true), (false, true), (true, false)][rng.below(4) as usize];
        self.reads_fail.store(reads, Ordering::Relaxed);
        self.writes_fail.store(writes, Ordering::Relaxed);
    }

    /// Makes writes fail from now on.
    pub(super) fn refuse_writes(&self) {
        self.writes_fail.store(true, Ordering::Relaxed);
    }

    /// Returns the number of writes refused so far.
    pub(super) fn refused_writes(&self) -> u64 {
        self.refused_writes.load(Ordering::Relaxed)
    }

    /// Makes the store reachable again.
    pub(super) fn clear(&self) {
        self.reads_fail.store(false, Ordering::Relaxed);
        self.writes_fail.store(false, Ordering::Relaxed);
    }

    /// Ends all faults, including lost and late replies.
    pub(super) fn clear_all(&self) {
        self.clear();
        self.replies_to_lose.store(0, Ordering::Relaxed);
        self.reply_delay_ms.store(0, Ordering::Relaxed);
    }

    /// Makes the next writes lose their replies.
    pub(super) fn lose_replies(&self, rng: &Rng) {
        self.replies_to_lose.store(1 + rng.below(3), Ordering::Relaxed);
    }

    /// Delays the reply to the next write by up to two leases.
    pub(super) fn delay_reply(&self, rng: &Rng) {
        self.reply_delay_ms.store(rng.below(2_000 * LEASE.as_secs()), Ordering::Relaxed);
    }

    /// Passes a read to the store, or fails it.
    pub(super) fn read(&self) -> Result<()> {
        if self.reads_fail.load(Ordering::Relaxed) { Err(unavailable()) } else { Ok(()) }
    }

    /// Passes a write to the store, or fails it.
    pub(super) fn write(&self) -> Result<()> {
        if self.writes_fail.load(Ordering::Relaxed) {
            self.refused_writes.fetch_add(1, Ordering::Relaxed);
            return Err(unavailable());
        }
        Ok(())
    }

    /// Passes the reply to a write back.
    pub(super) async fn pass_reply<T>(&self, reply: Result<T>) -> Result<T> {
        let delay_ms = self.reply_delay_ms.swap(0, Ordering::Relaxed);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        let remaining = self.replies_to_lose.load(Ordering::Relaxed);
        if remaining > 0 && reply.is_ok() {
            self.replies_to_lose.store(remaining - 1, Ordering::Relaxed);
            return Err(StoreError::Unavailable("the connection broke after the commit was sent".to_owned()));
        }
        reply
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("the store is away".to_owned())
}
