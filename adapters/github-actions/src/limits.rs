//! Rate limits of a credential: once GitHub reports that a limit is reached, no request is sent until it is
//! reset. Each credential has its own. All of it may be lost. It must not wait: a caller gets the remaining
//! time as an error.

use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use taskbridge_sdk::{Budget, Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::failure::retry_after;

/// Fraction of the hourly limit below which a credential sends only essential requests.
const SPARE: f64 = 0.1;

#[derive(Debug, Default)]
pub(crate) struct Limits {
    known: Mutex<LimitState>,
}

#[derive(Debug, Default)]
struct LimitState {
    until: Option<Instant>,
    /// True if little is left of the hourly limit.
    scarce: bool,
    /// Remaining requests of the hourly limit, and the limit.
    hour: Option<(f64, f64)>,
}

impl Limits {
    /// Returns an error while GitHub asks to wait.
    pub(crate) fn check(&self) -> Result<()> {
        let until = self.known.lock().until;
        let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
        if left.is_zero() {
            return Ok(());
        }
        Err(Error::limited(Some(left), "GitHub asked for patience, and nothing is asked of it until then"))
    }

    /// Updates the limits from the headers of a response.
    pub(crate) fn learn(&self, headers: &HeaderMap) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
        let (Some(left), Some(all)) = (number("x-ratelimit-remaining"), number("x-ratelimit-limit")) else {
            return;
        };
        {
            let mut known = self.known.lock();
            (known.scarce, known.hour) = (left < all * SPARE, Some((left, all)));
        }
        if left < 1.0 {
            self.wait(retry_after(headers));
        }
    }

    /// Returns the rest of the hourly limit, as GitHub last reported it.
    pub(crate) fn budget(&self) -> Option<Budget> {
        let (left, limit) = self.known.lock().hour?;
        Some(Budget { name: "hour".to_owned(), left, limit })
    }

    /// Updates the limits from an error response.
    pub(crate) fn refused(&self, error: &Error) {
        if let ErrorKind::Limited { after: Some(after) } = error.kind() {
            self.wait(after);
        }
    }

    /// Returns false if optional requests must not be sent.
    pub(crate) fn are_ample(&self) -> bool {
        let scarce = self.known.lock().scarce;
        !scarce && self.check().is_ok()
    }

    fn wait(&self, after: Duration) {
        let until = Instant::now() + after;
        let mut known = self.known.lock();
        known.until = Some(known.until.map_or(until, |known| known.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(remaining: &str) -> Limits {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", remaining)] {
            headers.insert(name, value.parse().unwrap());
        }
        let limits = Limits::default();
        limits.learn(&headers);
        limits
    }

    /// A spent rate limit blocks requests. Of two retry delays, the longer one holds.
    #[tokio::test]
    async fn exhausted_rate_limit_blocks_requests() {
        assert!(told("5000").are_ample() && told("4000").check().is_ok());
        let scarce = told("499");
        assert!(!scarce.are_ample() && scarce.check().is_ok());
        assert!(told("0").check().is_err());
        let limits = Limits::default();
        limits.refused(&Error::limited(Some(Duration::from_secs(7)), "no"));
        limits.refused(&Error::limited(Some(Duration::from_secs(3)), "no"));
        let Err(error) = limits.check() else { panic!("nothing was learned") };
        let ErrorKind::Limited { after: Some(after) } = error.kind() else { panic!("{error}") };
        assert!(after > Duration::from_secs(6), "the longest holds: {after:?}");
    }
}
