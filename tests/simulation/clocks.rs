//! The clocks of a simulation. The world's clock is never set. The store's clock equals it until a step sets
//! it. Each machine has its own clock, which is wrong and is set at run time. All follow the runtime's
//! paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use taskbridge_core::clock::{Clock, Uptime};
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

/// The uptime of a machine that never reboots, by the world's clock, which is never set.
pub(super) struct WorldUptime(pub(super) Arc<dyn Clock>);

impl Uptime for WorldUptime {
    fn uptime(&self) -> Duration {
        self.0.now().since(Timestamp::from_millis(0))
    }

    fn boot_id(&self) -> String {
        "world".to_owned()
    }
}

/// A clock that can be set: a machine's, or the store's.
pub(super) struct SettableClock {
    world_clock: Arc<dyn Clock>,
    offset_ms: AtomicI64,
}

impl SettableClock {
    /// Creates a clock that shows the right time.
    pub(super) fn new(world_clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { world_clock, offset_ms: AtomicI64::new(0) })
    }

    /// Sets the clock to this offset from the world's clock.
    pub(super) fn set(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    /// Sets the clock to a random offset: of seconds, minutes or hours, in either direction.
    pub(super) fn set_randomly(&self, rng: &Rng) {
        let max_ms = [0, 20_000, 300_000, 7_200_000][rng.below(4) as usize];
        self.set(rng.below(2 * max_ms + 1) as i64 - max_ms as i64);
    }
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.world_clock.now().as_millis() + self.offset_ms.load(Ordering::Relaxed))
    }
}
