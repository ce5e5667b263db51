//! Rate limit that delays a caller who sends too fast, and then refuses. It is used for polls, for streams
//! and requests that wait, and for messages without a response. Each process counts on its own. It must not
//! know what it counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::caller_key::CallerKey;

const WINDOW: Duration = Duration::from_secs(1);

/// A rate limit per caller and second. Excess requests are delayed up to a maximum, and refused beyond that.
#[derive(Debug)]
pub(super) struct DelayingRateLimit {
    held: Duration,
    /// For each caller, the time until which its past requests use up its rate (GCRA).
    used: Mutex<HashMap<CallerKey, Instant>>,
}

/// The decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DelayDecision {
    /// It is answered now.
    Now,
    /// It is answered after this delay.
    After(Duration),
    /// It is refused.
    Never,
}

impl DelayDecision {
    /// Waits for the delay, if there is one. Returns false at once if the request is refused.
    pub(super) async fn comes(self) -> bool {
        if let Self::After(pause) = self {
            tokio::time::sleep(pause).await;
        }
        self != Self::Never
    }
}

impl DelayingRateLimit {
    /// Refuses requests that would have to wait longer than this.
    pub(super) fn held_for(held: Duration) -> Self {
        Self { held, used: Mutex::default() }
    }

    /// Counts one request of a caller who may make `most` per second, with a burst of the same size. A
    /// refused request is not counted.
    pub(super) fn check_rate(&self, caller: CallerKey, most: u32, now: Instant) -> DelayDecision {
        let mut used = self.used.lock();
        if !used.contains_key(&caller) {
            // Inactive callers are removed only here, when a new caller arrives.
            used.retain(|_, until| *until > now);
        }
        let until = used.get(&caller).copied().unwrap_or(now).max(now) + WINDOW / most.max(1);
        let pause = until.saturating_duration_since(now + WINDOW);
        if pause > self.held {
            return DelayDecision::Never;
        }
        used.insert(caller, until);
        if pause.is_zero() { DelayDecision::Now } else { DelayDecision::After(pause) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each caller gets a number of polls per second, a few more are delayed, and the rest is refused.
    #[test]
    fn poll_rate_delays_then_refuses() {
        let polls = DelayingRateLimit::held_for(Duration::from_secs(2));
        let start = Instant::now();
        let turn =
            |caller, at| polls.check_rate(CallerKey::named(caller), 2, start + Duration::from_millis(at));
        assert_eq!([0, 10].map(|at| turn("ann", at)), [DelayDecision::Now; 2]);
        for (n, at) in [20, 30, 40].into_iter().enumerate() {
            let its = Duration::from_millis(500 * (n as u64 + 1) - at);
            assert_eq!(turn("ann", at), DelayDecision::After(its), "one after the other");
        }
        assert_eq!(turn("ann", 50), DelayDecision::After(Duration::from_millis(1950)));
        assert_eq!(turn("ann", 60), DelayDecision::Never);
        assert_eq!(turn("bob", 60), DelayDecision::Now, "each by themselves");
        assert_eq!(turn("ann", 450), DelayDecision::Never);
        assert_eq!(turn("ann", 500), DelayDecision::After(Duration::from_secs(2)), "one has had its turn");
        assert_eq!(turn("cid", 9_000), DelayDecision::Now);
        assert_eq!(polls.used.lock().len(), 1, "silent callers are forgotten");
    }

    /// Over a minute, a caller that polls all the time stays within the rate.
    #[test]
    fn poll_rate_holds_over_time() {
        let polls = DelayingRateLimit::held_for(Duration::from_secs(4));
        let start = Instant::now();
        let ask = |ms| polls.check_rate(CallerKey::named("ann"), 100, start + Duration::from_millis(ms));
        let answered = (0..60_000).filter(|ms| ask(*ms) != DelayDecision::Never).count();
        assert!((6_000..=6_500).contains(&answered), "{answered} in a minute");
    }
}
