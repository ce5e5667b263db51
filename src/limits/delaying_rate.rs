//! Rate limit that delays a caller who sends too fast, and then refuses. It is used for polls, for streams
//! and requests that wait, and for messages without a response. Each process counts on its own. It must not
//! know what it counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits::caller_key::CallerKey;

const WINDOW: Duration = Duration::from_secs(1);

/// A rate limit per caller and second. Excess requests are delayed up to a maximum, and refused beyond that.
#[derive(Debug)]
pub(crate) struct DelayingRateLimit {
    max_delay: Duration,
    /// For each caller, the time until which its past requests use up its rate (GCRA).
    used_until: Mutex<HashMap<CallerKey, Instant>>,
}

/// The decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayDecision {
    /// It is answered now.
    Now,
    /// It is answered after this delay.
    After(Duration),
    /// It is refused.
    Refuse,
}

impl DelayDecision {
    /// Waits for the delay, if there is one. Returns false at once if the request is refused.
    pub(crate) async fn wait(self) -> bool {
        if let Self::After(pause) = self {
            tokio::time::sleep(pause).await;
        }
        self != Self::Refuse
    }
}

impl DelayingRateLimit {
    /// Refuses requests that would have to wait longer than this.
    pub(crate) fn with_max_delay(max_delay: Duration) -> Self {
        Self { max_delay, used_until: Mutex::default() }
    }

    /// Counts one request of a caller who may make `most` per second, with a burst of the same size. A
    /// refused request is not counted.
    pub(crate) fn check_rate(&self, caller: CallerKey, per_second: u32, now: Instant) -> DelayDecision {
        let mut used_until = self.used_until.lock();
        if !used_until.contains_key(&caller) {
            // Inactive callers are removed only here, when a new caller arrives.
            used_until.retain(|_, until| *until > now);
        }
        let until = used_until.get(&caller).copied().unwrap_or(now).max(now) + WINDOW / per_second.max(1);
        let pause = until.saturating_duration_since(now + WINDOW);
        if pause > self.max_delay {
            return DelayDecision::Refuse;
        }
        used_until.insert(caller, until);
        if pause.is_zero() { DelayDecision::Now } else { DelayDecision::After(pause) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each caller gets a number of polls per second, a few more are delayed, and the rest is refused.
    #[test]
    fn poll_rate_delays_then_refuses() {
        let rate_limit = DelayingRateLimit::with_max_delay(Duration::from_secs(2));
        let start = Instant::now();
        let turn = |caller, at| {
            rate_limit.check_rate(CallerKey::named(caller), 2, start + Duration::from_millis(at))
        };
        assert_eq!([0, 10].map(|at| turn("ann", at)), [DelayDecision::Now; 2]);
        for (n, at) in [20, 30, 40].into_iter().enumerate() {
            let delay = Duration::from_millis(500 * (n as u64 + 1) - at);
            assert_eq!(turn("ann", at), DelayDecision::After(delay), "one after the other");
        }
        assert_eq!(turn("ann", 50), DelayDecision::After(Duration::from_millis(1950)));
        assert_eq!(turn("ann", 60), DelayDecision::Refuse);
        assert_eq!(turn("bob", 60), DelayDecision::Now, "each by themselves");
        assert_eq!(turn("ann", 450), DelayDecision::Refuse);
        assert_eq!(turn("ann", 500), DelayDecision::After(Duration::from_secs(2)), "one has had its turn");
        assert_eq!(turn("cid", 9_000), DelayDecision::Now);
        assert_eq!(rate_limit.used_until.lock().len(), 1, "silent callers are forgotten");
    }

    /// Over a minute, a caller that polls all the time stays within the rate.
    #[test]
    fn poll_rate_holds_over_time() {
        let rate_limit = DelayingRateLimit::with_max_delay(Duration::from_secs(4));
        let start = Instant::now();
        let check =
            |ms| rate_limit.check_rate(CallerKey::named("ann"), 100, start + Duration::from_millis(ms));
        let admitted = (0..60_000).filter(|ms| check(*ms) != DelayDecision::Refuse).count();
        assert!((6_000..=6_500).contains(&admitted), "{admitted} in a minute");
    }
}
