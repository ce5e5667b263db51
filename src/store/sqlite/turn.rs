//! Fairness between processes. SQLite has no waiting line for its lock: a process that takes it again at once, and
//! again, could keep another from writing for seconds. So one that writes without a rest leaves a gap now and then.

use std::time::{Duration, Instant};

use super::connect::BUSY_LOOK;

/// How long this process has been writing without leaving others a chance.
pub(super) struct Turn {
    since: Instant,
    last: Instant,
}

impl Turn {
    /// How long a process that has much to do keeps at it.
    const LENGTH: Duration = Duration::from_millis(200);

    /// How long it leaves the file alone then: long enough for whoever waits to notice.
    pub(super) const GAP: Duration = BUSY_LOOK.saturating_mul(2);

    /// Others had their chance until now.
    pub(super) fn begin(now: Instant) -> Self {
        Self { since: now, last: now }
    }

    /// Asked before each transaction: true if a gap is to be left first.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let rested = now.duration_since(self.last) >= Self::GAP;
        let over = !rested && now.duration_since(self.since) >= Self::LENGTH;
        if rested || over {
            self.since = now;
        }
        over
    }

    /// Told after each transaction.
    pub(super) fn wrote(&mut self, now: Instant) {
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gaps that are left in a second of transactions of `long` with pauses of `pause` between them.
    fn gaps(long: Duration, pause: Duration) -> usize {
        let begin = Instant::now();
        let mut now = begin;
        let mut turn = Turn::begin(now);
        let mut gaps = 0;
        while now.duration_since(begin) < Duration::from_secs(1) {
            if turn.is_over(now) {
                gaps += 1;
                now += Turn::GAP;
            }
            now += long;
            turn.wrote(now);
            now += pause;
        }
        gaps
    }

    #[test]
    fn whoever_writes_without_a_rest_leaves_gaps() {
        assert_eq!(gaps(Duration::from_micros(300), Duration::from_micros(10)), 4);
        assert_eq!(gaps(Duration::from_millis(40), Duration::ZERO), 4);
        assert_eq!(gaps(Duration::from_millis(300), Duration::ZERO), 3);
    }

    #[test]
    fn whoever_rests_leaves_none() {
        assert_eq!(gaps(Duration::from_micros(300), Turn::GAP), 0);
        assert_eq!(gaps(Duration::from_millis(300), Duration::from_millis(20)), 0);
    }
}
