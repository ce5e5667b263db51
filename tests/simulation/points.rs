//! The points at which a process can be killed or frozen: before and after every access to the store or an
//! engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::rng::Rng;

/// The points of one process.
pub(super) struct Points {
    rng: Arc<Rng>,
    passed: AtomicU64,
    dies_at: AtomicU64,
    dead: AtomicBool,
    has_crashed: AtomicBool,
    frozen: AtomicBool,
    /// Wakes the waiters at a point in their order of arrival: a `watch` channel would pick a random order.
    thawed: Notify,
}

impl Points {
    pub(super) fn new(rng: Arc<Rng>) -> Arc<Self> {
        Arc::new(Self {
            rng,
            passed: AtomicU64::new(0),
            dies_at: AtomicU64::new(u64::MAX),
            dead: AtomicBool::new(false),
            has_crashed: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            thawed: Notify::new(),
        })
    }

    /// Kills the process at the `n`-th point from now.
    pub(super) fn die_in(&self, n: u64) {
        self.dies_at.store(self.passed.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Kills the process as if it had crashed by itself.
    pub(super) fn crash(&self) {
        self.has_crashed.store(true, Ordering::Relaxed);
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Reports whether the process ended itself.
    pub(super) fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::Relaxed)
    }

    /// Freezes the process at its next points, or resumes it.
    pub(super) fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
        if !frozen {
            self.thawed.notify_waiters();
        }
    }

    /// Reports whether the process has died.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Passes a point. A process that dies here never continues; its runner drops it.
    pub(super) async fn pass(&self) {
        let passed = self.passed.fetch_add(1, Ordering::Relaxed) + 1;
        if passed >= self.dies_at.load(Ordering::Relaxed) {
            self.dead.store(true, Ordering::Relaxed);
        }
        if self.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        // Other processes and other futures of this one run at some points.
        if self.rng.one_in(3) {
            tokio::time::sleep(Duration::from_millis(1 + self.rng.below(20))).await;
        }
        while self.frozen.load(Ordering::Relaxed) {
            self.thawed.notified().await;
        }
        if self.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}
