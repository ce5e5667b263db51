//! Fairness between processes. SQLite has no queue for its lock: a process that retakes it immediately
//! could block another process's writes for seconds. So a process that writes continuously leaves a gap now
//! and then. It must not sleep itself.

use std::time::{Duration, Instant};

use super::connect::BUSY_POLL_INTERVAL;

/// How long this process has been writing without a gap.
pub(super) struct FairYield {
    since: Instant,
    last: Instant,
}

impl FairYield {
    /// Time of continuous writes after which a gap precedes the next transaction.
    const MAX_BURST: Duration = Duration::from_millis(200);

    /// Length of a gap: long enough for a waiting process to notice.
    pub(super) const GAP: Duration = BUSY_POLL_INTERVAL.saturating_mul(2);

    /// Starts the measurement; others could write until now.
    pub(super) fn begin(now: Instant) -> Self {
        Self { since: now, last: now }
    }

    /// Returns true if the caller must sleep for [`Self::GAP`] before its next transaction. Restarts the
    /// measurement then, and after a rest.
    pub(super) fn must_yield(&mut self, now: Instant) -> bool {
        let rested = now.duration_since(self.last) >= Self::GAP;
        let is_due = !rested && now.duration_since(self.since) >= Self::MAX_BURST;
        if rested || is_due {
            self.since = now;
        }
        is_due
    }

    /// Records the end of a transaction.
    pub(super) fn record_write(&mut self, now: Instant) {
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the gaps within one second of transactions that take `long`, with pauses of `pause` between
    /// them.
    fn gaps(long: Duration, pause: Duration) -> usize {
        let begin = Instant::now();
        let mut now = begin;
        let mut fair_yield = FairYield::begin(now);
        let mut gaps = 0;
        while now.duration_since(begin) < Duration::from_secs(1) {
            if fair_yield.must_yield(now) {
                gaps += 1;
                now += FairYield::GAP;
            }
            now += long;
            fair_yield.record_write(now);
            now += pause;
        }
        gaps
    }

    /// A writer without pauses yields to other processes at regular intervals.
    #[test]
    fn continuous_writer_leaves_gaps() {
        assert_eq!(gaps(Duration::from_micros(300), Duration::from_micros(10)), 4);
        assert_eq!(gaps(Duration::from_millis(40), Duration::ZERO), 4);
        assert_eq!(gaps(Duration::from_millis(300), Duration::ZERO), 3);
    }

    #[test]
    fn pausing_writer_leaves_no_gaps() {
        assert_eq!(gaps(Duration::from_micros(300), FairYield::GAP), 0);
        assert_eq!(gaps(Duration::from_millis(300), Duration::from_millis(20)), 0);
    }
}
