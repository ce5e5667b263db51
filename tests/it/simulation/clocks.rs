//! The clocks of a simulation: one for the world, which is the store's and the engine's, and one for each machine, which
//! may show something else and is set while it runs. All go by the runtime's paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use taskbridge::clock::Clock;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::rng::Rng;

/// The world's clock.
pub(super) struct WorldClock(Instant);

impl WorldClock {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000) + self.0.elapsed()
    }
}

/// The clock of one machine.
pub(super) struct OwnClock {
    world: Arc<dyn Clock>,
    ahead_ms: AtomicI64,
}

impl OwnClock {
    /// One that shows the right time.
    pub(super) fn right(world: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { world, ahead_ms: AtomicI64::new(0) })
    }

    /// Sets it to some time: by seconds, by minutes or by hours before or after what it is.
    pub(super) fn set(&self, rng: &Rng) {
        let most = [0, 20_000, 300_000, 7_200_000][rng.below(4) as usize];
        let ahead = rng.below(2 * most + 1) as i64 - most as i64;
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }
}

impl Clock for OwnClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.world.now().as_millis() + self.ahead_ms.load(Ordering::Relaxed))
    }
}
