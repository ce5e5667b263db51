//! Rate limits per caller (GCRA): a burst, and after it one event for each part of a window. Excess events
//! are delayed up to a maximum, and refused beyond that. Each process counts on its own. It must not know
//! what it counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::caller_key::CallerKey;

/// A rate limit per caller.
#[derive(Debug)]
pub(crate) struct RateLimit {
    window: Duration,
    max_delay: Duration,
    /// For each caller, the time until which its past events use up its rate.
    used_until: Mutex<HashMap<CallerKey, Instant>>,
}

impl RateLimit {
    /// Creates a limit with a window of this length, which refuses excess events at once.
    pub(crate) fn within(window: Duration) -> Self {
        Self { window, max_delay: Duration::ZERO, used_until: Mutex::default() }
    }

    /// Creates a limit per second. Refuses events that would have to wait longer than `max_delay`.
    pub(crate) fn per_second(max_delay: Duration) -> Self {
        Self { max_delay, ..Self::within(Duration::from_secs(1)) }
    }

    /// Counts one more event of a caller. A caller may have `limit` events at once, and after that one event
    /// for each `limit`-th part of the window. The first window can thus have almost twice `limit` events.
    /// Returns how long the event must wait.
    ///
    /// # Errors
    /// The time until an event does not have to wait. The refused event is not counted.
    pub(crate) fn take(&self, caller: CallerKey, limit: u32, now: Instant) -> Result<Duration, Duration> {
        let mut used_until = self.used_until.lock();
        if !used_until.contains_key(&caller) {
            // Inactive callers are removed only here, when a new caller arrives.
            used_until.retain(|_, until| *until > now);
        }
        let until = used_until.get(&caller).copied().unwrap_or(now).max(now) + self.window / limit.max(1);
        let delay = until.saturating_duration_since(now + self.window);
        if delay > self.max_delay {
            return Err(delay);
        }
        used_until.insert(caller, until);
        Ok(delay)
    }

    /// Counts one more event and waits for its delay. Returns false at once if it is refused.
    pub(crate) async fn wait(&self, caller: CallerKey, limit: u32) -> bool {
        match self.take(caller, limit, Instant::now()) {
            Ok(Duration::ZERO) => true,
            Ok(delay) => {
                tokio::time::sleep(delay).await;
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each caller gets a number of polls per second, a few more are delayed, and the rest is refused.
    #[test]
    fn poll_rate_delays_then_refuses() {
        let rate_limit = RateLimit::per_second(Duration::from_secs(2));
        let start = Instant::now();
        let turn =
            |caller, at| rate_limit.take(CallerKey::named(caller), 2, start + Duration::from_millis(at));
        assert_eq!([0, 10].map(|at| turn("ann", at)), [Ok(Duration::ZERO); 2]);
        for (n, at) in [20, 30, 40].into_iter().enumerate() {
            let delay = Duration::from_millis(500 * (n as u64 + 1) - at);
            assert_eq!(turn("ann", at), Ok(delay), "one after the other");
        }
        assert_eq!(turn("ann", 50), Ok(Duration::from_millis(1950)));
        assert_eq!(turn("ann", 60), Err(Duration::from_millis(2440)));
        assert_eq!(turn("bob", 60), Ok(Duration::ZERO), "each by themselves");
        assert_eq!(turn("ann", 450), Err(Duration::from_millis(2050)));
        assert_eq!(turn("ann", 500), Ok(Duration::from_secs(2)), "one has had its turn");
        assert_eq!(turn("cid", 9_000), Ok(Duration::ZERO));
        assert_eq!(rate_limit.used_until.lock().len(), 1, "silent callers are forgotten");
    }

    /// Over a minute, a caller that polls all the time stays within the rate.
    #[test]
    fn poll_rate_holds_over_time() {
        let rate_limit = RateLimit::per_second(Duration::from_secs(4));
        let start = Instant::now();
        let check = |ms| rate_limit.take(CallerKey::named("ann"), 100, start + Duration::from_millis(ms));
        let admitted = (0..60_000).filter(|ms| check(*ms).is_ok()).count();
        assert!((6_000..=6_500).contains(&admitted), "{admitted} in a minute");
    }

    /// A burst is allowed, then one request per interval. Refused requests do not count.
    #[test]
    fn rate_limit_allows_burst_per_caller() {
        let rates = RateLimit::within(Duration::from_secs(60));
        let start = Instant::now();
        let take = |caller, at| rates.take(CallerKey::named(caller), 6, start + Duration::from_secs(at));
        for _ in 0..6 {
            assert_eq!(take("ann", 0), Ok(Duration::ZERO));
        }
        assert_eq!(take("ann", 0), Err(Duration::from_secs(10)));
        assert_eq!(take("ann", 4), Err(Duration::from_secs(6)), "a refusal counts for nothing");
        assert_eq!(take("bob", 4), Ok(Duration::ZERO), "each by themselves");
        assert_eq!(take("ann", 10), Ok(Duration::ZERO));
        assert_eq!(take("ann", 11), Err(Duration::from_secs(9)));
        for _ in 0..6 {
            assert_eq!(take("ann", 200), Ok(Duration::ZERO));
        }
        assert_eq!(take("cid", 400), Ok(Duration::ZERO));
        assert_eq!(rates.used_until.lock().len(), 1, "silent callers are forgotten");
    }
}
