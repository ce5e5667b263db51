//! The two sources that make a program unrepeatable: the time of day and randomness. Everything else is handed a
//! [`Clock`] or an [`Entropy`], so that a simulation can replay a run from its seed.

use std::sync::Arc;

use taskbridge_sdk::Timestamp;

/// Tells the time of day.
pub trait Clock: Send + Sync {
    /// The current moment.
    fn now(&self) -> Timestamp;
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

impl Entropy for System {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that draws randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes)
            .expect("the operating system gives random bytes; without them nothing is safe");
    }
}
