//! Precedence among replicas. A replica whose call for a row failed claims due rows of that backend a little
//! later than the others. So the next attempt is made by a replica that may be able to make the call: it has a
//! connection to the engine, or the secret that an answer needs. Otherwise the fastest replica would claim the
//! row again and again. This module must not know rows. Pure.

use std::time::Duration;

/// Added to the delay each time the age of the last failure is halved. Attempts come at intervals that double,
/// and later at equal ones. So of two replicas, the one that failed last comes last, by about this time. It is
/// long compared with the time in which a replica claims a due row.
const STEP: Duration = Duration::from_millis(100);
/// The age from which a failure causes no delay: about twice the longest interval between attempts.
const MEMORY: Duration = Duration::from_secs(160);
/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Returns how much later than others a replica claims rows, given the age of its last failure.
pub(super) fn claim_delay(age: Duration) -> Duration {
    let halvings = (MEMORY.as_secs_f64() / age.as_secs_f64().max(0.001)).log2();
    STEP.mul_f64(halvings.max(0.0)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replica that failed last comes last, by enough time for another one to claim the row.
    #[test]
    fn last_to_fail_comes_last() {
        let delay = |age| claim_delay(Duration::from_millis(age)).as_millis();
        assert_eq!([0, 160, 10_000, 80_000, 160_000, 3_600_000].map(delay), [1000, 996, 400, 100, 0, 0]);
        for age in [250, 500, 1000, 2000, 4000, 8000, 10_000, 75_000] {
            assert!(delay(age) >= delay(2 * age) + 99, "{age}");
        }
    }
}
