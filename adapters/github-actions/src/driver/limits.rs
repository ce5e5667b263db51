//! Rate limits of a credential: once GitHub reports that a limit is reached, no request is sent until it is
//! reset. Each credential has its own. All of it may be lost. It must not wait: a caller gets the remaining
//! time as an error.

use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use taskbridge_sdk::{Budget, Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::driver::error::retry_after;

/// Fraction of the hourly limit below which a credential sends only essential requests.
const SCARCE_FRACTION: f64 = 0.1;

#[derive(Debug, Default)]
pub(crate) struct Limits {
    state: Mutex<LimitState>,
}

#[derive(Debug, Default)]
struct LimitState {
    blocked_until: Option<Instant>,
    /// True if little is left of the hourly limit.
    is_scarce: bool,
    /// Remaining requests of the hourly limit, and the limit.
    hourly_quota: Option<(f64, f64)>,
}

impl Limits {
    /// Returns an error while GitHub asks to wait.
    pub(crate) fn check(&self) -> Result<()> {
        let blocked_until = self.state.lock().blocked_until;
        let remaining = blocked_until
            .map(|blocked_until| blocked_until.saturating_duration_since(Instant::now()))
            .unwrap_or_default();
        if remaining.is_zero() {
            return Ok(());
        }
        Err(Error::limited(
            Some(remaining),
            "GitHub's rate limit is reached, and no request is sent until it resets",
        ))
    }

    /// Updates the limits from the headers of a response.
    pub(crate) fn update_from_headers(&self, headers: &HeaderMap) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
        let (Some(remaining), Some(limit)) = (number("x-ratelimit-remaining"), number("x-ratelimit-limit"))
        else {
            return;
        };
        {
            let mut state = self.state.lock();
            (state.is_scarce, state.hourly_quota) =
                (remaining < limit * SCARCE_FRACTION, Some((remaining, limit)));
        }
        if remaining < 1.0 {
            self.block_for(retry_after(headers));
        }
    }

    /// Returns the rest of the hourly limit, as GitHub last reported it.
    pub(crate) fn budget(&self) -> Option<Budget> {
        let (remaining, limit) = self.state.lock().hourly_quota?;
        Some(Budget { name: "hour".to_owned(), remaining, limit })
    }

    /// Updates the limits from an error response.
    pub(crate) fn update_from_error(&self, error: &Error) {
        if let ErrorKind::Limited { after: Some(after) } = error.kind() {
            self.block_for(after);
        }
    }

    /// Returns false if optional requests must not be sent.
    pub(crate) fn has_spare_quota(&self) -> bool {
        let is_scarce = self.state.lock().is_scarce;
        !is_scarce && self.check().is_ok()
    }

    fn block_for(&self, after: Duration) {
        let blocked_until = Instant::now() + after;
        let mut state = self.state.lock();
        state.blocked_until =
            Some(state.blocked_until.map_or(blocked_until, |current| current.max(blocked_until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_with_remaining(remaining: &str) -> Limits {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", remaining)] {
            headers.insert(name, value.parse().unwrap());
        }
        let limits = Limits::default();
        limits.update_from_headers(&headers);
        limits
    }

    /// A spent rate limit blocks requests. Of two retry delays, the longer one holds.
    #[tokio::test]
    async fn exhausted_rate_limit_blocks_requests() {
        assert!(
            limits_with_remaining("5000").has_spare_quota() && limits_with_remaining("4000").check().is_ok()
        );
        let scarce_limits = limits_with_remaining("499");
        assert!(!scarce_limits.has_spare_quota() && scarce_limits.check().is_ok());
        assert!(limits_with_remaining("0").check().is_err());
        let limits = Limits::default();
        limits.update_from_error(&Error::limited(Some(Duration::from_secs(7)), "no"));
        limits.update_from_error(&Error::limited(Some(Duration::from_secs(3)), "no"));
        let Err(error) = limits.check() else { panic!("no limit is recorded") };
        let ErrorKind::Limited { after: Some(after) } = error.kind() else { panic!("{error}") };
        assert!(after > Duration::from_secs(6), "the longer delay applies: {after:?}");
    }
}
