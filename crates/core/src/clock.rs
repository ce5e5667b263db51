//! The nondeterministic inputs of the program: the machine's clocks and randomness. Other code of the server
//! receives a [`Clock`], an [`Uptime`] or an [`Entropy`], so that a simulation can replay a run from its
//! seed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use taskbridge_sdk::Timestamp;

/// A wall clock.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Synchronizes with the underlying clock, if there is one. An error leaves this clock unchanged.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the current time for deleting expired data; `None` if the clock has jumped recently.
    fn stable_now(&self) -> Option<Timestamp> {
        Some(self.now())
    }
}

/// A monotonic clock (`CLOCK_BOOTTIME`), which cannot be set.
pub trait Uptime: Send + Sync {
    /// Returns the time since boot, including suspended time.
    fn uptime(&self) -> Duration;

    /// Returns the id of the boot from which the time counts.
    fn boot_id(&self) -> String;
}

/// A source of cryptographically secure random bytes.
pub trait Entropy: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, bytes: &mut [u8]);
}

/// Returns a fixed number of random bytes.
pub fn random<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}

/// The clocks and the random numbers of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl System {
    /// Returns the machine's wall clock.
    pub fn clock() -> Arc<dyn Clock> {
        Arc::new(System)
    }

    /// Returns the machine's monotonic clock.
    pub fn uptime() -> Arc<dyn Uptime> {
        Arc::new(System)
    }

    /// Returns the machine's random numbers.
    pub fn entropy() -> Arc<dyn Entropy> {
        Arc::new(System)
    }
}

impl Clock for System {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        let elapsed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the machine's clock is set to a time after 1970");
        Timestamp::from_millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Uptime for System {
    fn uptime(&self) -> Duration {
        let boot_time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::try_from(boot_time).unwrap_or_default()
    }

    /// Empty if the system provides no boot id.
    fn boot_id(&self) -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    }
}

/// The machine's clock, except that [`Clock::stable_now`] is that of the wrapped clock: it is `None` after a
/// jump.
pub struct MachineClock(pub Arc<dyn Clock>);

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        System.now()
    }

    fn stable_now(&self) -> Option<Timestamp> {
        self.0.stable_now()
    }
}

impl Entropy for System {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that draws randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system provides random bytes");
    }
}
