//! Rate limit over longer windows, without delay: calls per minute, and sessions per day that end or begin to
//! store settings. Each process counts on its own. It must not know what it counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits::caller_key::CallerKey;

/// A rate limit per caller.
#[derive(Debug)]
pub(crate) struct WindowRateLimit {
    window: Duration,
    /// For each caller, the time until which its past events use up its rate (GCRA).
    used_until: Mutex<HashMap<CallerKey, Instant>>,
}

impl WindowRateLimit {
    /// Creates a limit with a window of this length.
    pub(crate) fn within(window: Duration) -> Self {
        Self { window, used_until: Mutex::default() }
    }

    /// Counts one more event of a caller. A caller may have `most` events at once, and after that one event
    /// for each `most`-th part of the window. The first window can thus have almost twice `most` events.
    ///
    /// # Errors
    /// The time until the next event is allowed. The refused event is not counted.
    pub(crate) fn take(&self, caller: CallerKey, limit: u32, now: Instant) -> Result<(), Duration> {
        let mut used_until = self.used_until.lock();
        if !used_until.contains_key(&caller) {
            // Inactive callers are removed only here, when a new caller arrives.
            used_until.retain(|_, until| *until > now);
        }
        let until = used_until.get(&caller).copied().unwrap_or(now).max(now) + self.window / limit.max(1);
        match until.checked_duration_since(now + self.window) {
            Some(retry_after) if !retry_after.is_zero() => Err(retry_after),
            _ => {
                used_until.insert(caller, until);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst is allowed, then one request per interval. Refused requests do not count.
    #[test]
    fn rate_limit_allows_burst_per_caller() {
        let rates = WindowRateLimit::within(Duration::from_secs(60));
        let start = Instant::now();
        let take = |caller, at| rates.take(CallerKey::named(caller), 6, start + Duration::from_secs(at));
        for _ in 0..6 {
            assert_eq!(take("ann", 0), Ok(()));
        }
        assert_eq!(take("ann", 0), Err(Duration::from_secs(10)));
        assert_eq!(take("ann", 4), Err(Duration::from_secs(6)), "a refusal counts for nothing");
        assert_eq!(take("bob", 4), Ok(()), "each by themselves");
        assert_eq!(take("ann", 10), Ok(()));
        assert_eq!(take("ann", 11), Err(Duration::from_secs(9)));
        for _ in 0..6 {
            assert_eq!(take("ann", 200), Ok(()));
        }
        assert_eq!(take("cid", 400), Ok(()));
        assert_eq!(rates.used_until.lock().len(), 1, "silent callers are forgotten");
    }
}
