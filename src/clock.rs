//! The sources that make a program unrepeatable: the clocks of the machine and randomness. Everything else is handed a
//! [`Clock`] or an [`Entropy`], so that a simulation can replay a run from its seed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use taskbridge_sdk::Timestamp;

/// Tells the time of day.
pub trait Clock: Send + Sync {
    /// The current moment.
    fn now(&self) -> Timestamp;

    /// Reads the clock that this one follows, if it follows one. An error leaves it as it is.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The current moment as it may be used to delete what has expired; `None` while the clock has lately leapt.
    fn settled(&self) -> Option<Timestamp> {
        Some(self.now())
    }
}

/// Measures time by `CLOCK_BOOTTIME`, which cannot be set.
pub trait Uptime: Send + Sync {
    /// How long the machine has been up, the time in which it was suspended included.
    fn uptime(&self) -> Duration;

    /// Which start of the machine that is counted from.
    fn boot(&self) -> String;
}

/// Gives random bytes that nobody can guess.
pub trait Entropy: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, bytes: &mut [u8]);
}

/// Fixed-size random bytes.
pub fn random<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}

/// The clock and the random numbers of the machine we run on.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl System {
    /// The machine's clock.
    pub fn clock() -> Arc<dyn Clock> {
        Arc::new(System)
    }

    /// How long the machine has been up.
    pub fn uptime() -> Arc<dyn Uptime> {
        Arc::new(System)
    }

    /// The machine's random numbers.
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
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::try_from(up).unwrap_or_default()
    }

    /// Empty where the system does not say.
    fn boot(&self) -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    }
}

/// The machine's clock, by which nothing is deleted while another clock has lately leapt.
pub struct Guarded(pub Arc<dyn Clock>);

impl Clock for Guarded {
    fn now(&self) -> Timestamp {
        System.now()
    }

    fn settled(&self) -> Option<Timestamp> {
        self.0.settled()
    }
}

impl Entropy for System {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that draws randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes)
            .expect("the operating system gives random bytes; without them nothing is safe");
    }
}
