//! Poll intervals: short at first, then based on the job's age and the usual duration of its tool's jobs.
//! Pure.

pub mod usual;

use std::time::Duration;

use taskbridge_sdk::JobHandle;

use usual::UsualDuration;

/// The bounds of the poll interval of a job. The spread by handle may exceed them by a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollIntervals {
    /// The shortest interval.
    pub shortest: Duration,
    /// The longest interval.
    pub longest: Duration,
}

impl PollIntervals {
    /// Returns the time until the next poll of a job.
    ///
    /// By default this is a tenth of the job's age, so that its end is seen with a delay of at most a tenth.
    /// A usual duration of its tool's jobs changes that. From a tenth to 80 % of its median, the interval is
    /// half of the time to the median. Before and after that, until one and a half times the median, it is at
    /// most a tenth of the median. The handle shifts the result by up to a tenth
    /// either way, so that jobs that started together drift apart.
    pub fn next_poll(&self, age: Duration, usual: Option<UsualDuration>, handle: &JobHandle) -> Duration {
        let by_age = age / 10;
        let wait = match usual.map(|usual| usual.median) {
            Some(median) if age < median.mul_f64(0.8) && age > median / 10 => (median - age) / 2,
            Some(median) if age < median.mul_f64(1.5) => by_age.min(median / 10),
            _ => by_age,
        };
        let digest =
            handle.as_str().bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let spread = 0.9 + f64::from(digest % 1000) / 5000.0;
        wait.clamp(self.shortest, self.longest).mul_f64(spread)
    }

    /// Returns the poll interval that clients should use: a quarter of the time until the median of the usual
    /// duration, or else a fifth of the job's age; between 500 ms and 15 s.
    pub fn poll_interval(&self, age: Duration, usual: Option<UsualDuration>) -> Duration {
        let wait = match usual.map(|usual| usual.median) {
            Some(median) if age < median => (median - age) / 4,
            _ => age / 5,
        };
        wait.clamp(Duration::from_millis(500), Duration::from_secs(15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVALS: PollIntervals =
        PollIntervals { shortest: Duration::from_millis(50), longest: Duration::from_secs(30) };

    fn next_poll_ms(age_ms: u64, median_ms: Option<u64>) -> u128 {
        let median = median_ms.map(Duration::from_millis);
        let usual = median.map(|median| UsualDuration { median, p90: median, jobs: 5 });
        INTERVALS.next_poll(Duration::from_millis(age_ms), usual, &JobHandle::new("x")).as_millis()
    }

    /// A new job is polled quickly, and an old one rarely.
    #[test]
    fn poll_interval_grows_with_age() {
        assert!(next_poll_ms(0, None) <= 55);
        assert!((900..=1100).contains(&next_poll_ms(10_000, None)));
        assert!(next_poll_ms(86_400_000, None) <= 33_000);
    }

    /// In the middle of its usual runtime a job is polled less often than near its end.
    #[test]
    fn poll_interval_follows_usual_runtime() {
        assert!(
            next_poll_ms(20_000, Some(60_000)) > 15_000,
            "a third of the way: wait for half of what is left"
        );
        assert!(next_poll_ms(58_000, Some(60_000)) < 6_700, "near its usual end it is polled more often");
    }
}
